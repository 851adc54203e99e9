"""Many seeds gone through by hand: ``python tests/fuzz/test_fuzz_....py LOW HIGH``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable


def go_through(outcome: Callable[[int], str]) -> None:
    """Go through the seeds of the command line, print what goes wrong; one line at the end."""
    low, high = int(sys.argv[1]), int(sys.argv[2])
    seen, bad = Counter[str](), 0
    for seed in range(low, high):
        try:
            seen[outcome(seed)] += 1
        except (Exception, SystemExit) as fault:
            bad += 1
            print(f"== {seed}: {type(fault).__name__}: {str(fault)[:600]}", flush=True)
    print(f"{low}..{high}: {bad} wrong; {dict(sorted(seen.items()))}")
