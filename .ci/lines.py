"""Lines of Python by package: the main road, the annex, the tests. Above the budget it fails: more is a decision."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
ANNEX = "compat"
#: Lines that the main road may have: 90,000, a network of packets, answers (why, what if, which one, what differs),
#: pages, programs learned from jobs of all kinds (split states, experts, schedules; recorded ones aligned; names,
#: places, paddings, nested loops, buckets at several places and groups of ends of others' programs; sums by what ranks
#: share and of nodes ahead), jobs with measured durations or of other makers, compared, obfuscated, populations shared
#: with differential privacy, sizes released by laws by case; profiles of other makers, iterations of inference servers,
#: published experiments, offloading.
BUDGET = 134_800


def lines_below(folder: Path) -> Counter[str]:
    """Lines by the first folder below ``folder``; files that stand in itself count as "(top)"."""
    counted: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        first, *rest = path.relative_to(folder).parts
        counted[first if rest else "(top)"] += len(path.read_bytes().splitlines())
    return counted


def main() -> int:
    """Print the table; 1 if the main road is larger than its budget."""
    packages = lines_below(ROOT / "src" / "chakrasim")
    road = packages.total() - packages[ANNEX]
    for name, count in sorted(packages.items()):
        print(f"{count:7,}  {name}")
    print(f"{road:7,}  main road, of {BUDGET:,}\n{packages[ANNEX]:7,}  annex")
    print(f"{lines_below(ROOT / 'tests').total():7,}  tests")
    return int(road > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
