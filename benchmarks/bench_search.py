"""How much of the front a search finds with how few runs, beside all points: ``bench_search.py [--optuna] [NAME ...]``.

Of each space all points are reckoned once (kept in ``--cache DIR``), so that a search looks its runs up. The share of
the hypervolume is that of the box from the front's best figures to a tenth of its extent beyond its worst, counted over
points drawn in it; runs are shares of the points that the conditions leave, those refused among them. The first five
spaces were looked at while the search was made, the others only afterwards.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.sweeps.front import front_of
from chakrasim.sweeps.points import OK, Outcome, by_arithmetic, refused_at_once
from chakrasim.sweeps.search import OPTUNA, OWN, search_of
from chakrasim.sweeps.space import Space, read_space

Floats = NDArray[np.float64]
_DRAWN: Final = 100_000


def _each(unit: str, *values: float) -> list[str]:
    return [f"{value} {unit}" for value in values]


SPACES: Final[dict[str, dict[str, Any]]] = {
    "dense splits": {
        "base": {"model": "llama3-70b", "machine": "h100", "batch": 512, "price_per_gpu_hour": 2.5},
        "vary": {"gpus": [64, 128, 256, 512], "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 5, 8, 10, 16, 20], "vp": [1, 2, 4],
                 "micro_batch": [1, 2, 4, 8], "recompute": ["none", "selective", "full"], "zero": [0, 1, 3]},
        "where": ["dp * tp * pp == gpus", "vp == 1 or pp > 1"],
    },
    "expert splits": {
        "base": {"model": "mixtral-8x7b", "machine": "h100", "batch": 512},
        "vary": {"gpus": [32, 64, 128, 256], "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8, 16], "ep": [1, 2, 4, 8],
                 "vp": [1, 2, 4], "micro_batch": [1, 2, 4, 8], "recompute": ["none", "full"], "zero": [0, 1, 2]},
        "where": ["dp * tp * pp == gpus", "vp == 1 or pp > 1"],
        "front": ["step_s", "gpus", "memory_bytes"],
    },
    "machine figures": {
        "base": {"model": "llama3-8b", "machine": "hgx-h100-1024-400g", "batch": 256, "tp": 4, "price_per_gpu_hour": 2},
        "vary": {"network[1].npus": [2, 4, 8, 16],
                 "network[0].bandwidth": _each("GB/s", 100, 200, 300, 450, 600, 900),
                 "network[1].bandwidth": _each("GB/s", 6.25, 12.5, 25, 50, 75, 100, 200, 400),
                 "network[1].latency": _each("ns", 500, 1000, 2000, 5000, 10000),
                 "device_profile": ["h100", "h200", "a100"],
                 "pp": [1, 2, 4], "micro_batch": [1, 2]},
        "front": ["step_s", "gpus", "memory_bytes", "energy_j"],
    },
    "batches": {
        "base": {"model": "llama-13b", "machine": "a100", "gpus": 64, "seq": 4096},
        "vary": {"batch": [64, 96, 128, 192, 256, 384, 512, 768, 1024], "micro_batch": [1, 2, 3, 4, 6, 8],
                 "recompute": ["none", "selective", "full"], "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 5, 8],
                 "vp": [1, 2, 5], "zero": [0, 1]},
        "where": ["dp * tp * pp == gpus or pp == 5", "vp == 1 or pp > 1"],
        "front": ["step_s", "memory_bytes", "energy_j"],
    },
    "mixed": {
        "base": {"model": "llama-7b", "batch": 256, "price_per_gpu_hour": 2},
        "vary": {"machine": ["a100", "h100", "h200", "b200"], "nic": ["100G", "200G", "400G"],
                 "gpus": [8, 16, 32, 64, 128, 256], "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "micro_batch": [1, 2, 4],
                 "recompute": ["none", "full"], "dtype": ["bf16", "fp16"]},
        "where": ["dp * tp * pp == gpus"],
        "front": ["step_s", "gpus", "memory_bytes", "energy_j"],
    },
    "other: long sequences": {
        "base": {"model": "llama3-8b", "machine": "h200", "price_per_gpu_hour": 3, "batch": 128},
        "vary": {"seq": [8192, 16384, 32768], "gpus": [16, 32, 64, 128], "cp": [1, 2, 4, 8], "tp": [1, 2, 4, 8],
                 "pp": [1, 2, 4, 8], "micro_batch": [1, 2], "recompute": ["none", "selective", "full"],
                 "zero": [0, 1, 3]},
        "where": ["dp * tp * pp * cp == gpus"],
    },
    "other: old machines": {
        "base": {"model": "gpt3-13b", "seq": 2048},
        "vary": {"machine": ["v100", "a100-40gb", "dgx-1v"], "gpus": [16, 32, 64, 96, 128],
                 "batch": [192, 384, 768], "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8, 10], "micro_batch": [1, 2, 4],
                 "recompute": ["none", "full"], "zero": [0, 1]},
        "where": ["dp * tp * pp == gpus"],
        "front": ["step_s", "gpus", "memory_bytes"],
    },
    "other: by replicas": {
        "base": {"model": "llama3-70b", "machine": "b200", "batch": 480},
        "vary": {"dp": [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24], "tp": [1, 2, 4, 8], "pp": [1, 2, 3, 4, 6, 8, 10],
                 "vp": [1, 2, 4], "micro_batch": [1, 2, 3, 4, 5], "recompute": ["none", "full"], "zero": [0, 1]},
        "where": ["dp * tp * pp % 8 == 0", "vp == 1 or pp > 1"],
        "front": ["step_s", "gpus", "energy_j"],
    },
    "other: links and drives": {
        "base": {"model": "mixtral-8x7b", "machine": "hgx-h100-1024-200g", "batch": 256, "network[1].npus": 8},
        "vary": {"network[1].bandwidth": _each("GB/s", *range(10, 150, 10)),
                 "network[0].bandwidth": _each("GB/s", 150, 300, 450, 900), "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8],
                 "ep": [1, 2, 4, 8], "micro_batch": [1, 2, 4], "recompute": ["none", "full"]},
        "where": ["tp * pp <= 32"],
        "front": ["step_s", "memory_bytes", "energy_j"],
    },
}  # fmt: skip


def main() -> None:
    """Print a line a space."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="spaces; default: all")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "chakrasim-bench-search", metavar="DIR"
    )
    parser.add_argument("--optuna", action="store_true", help="with Optuna's search, too")
    options = parser.parse_args()
    print(f"{'space':24} {'method':8}  points  front   runs    runs   volume  99 % at   CPU s")
    for name in options.names or SPACES:
        space = read_space(SPACES[name])
        table = _table(space, options.cache / f"{name.replace(' ', '-').replace(':', '')}.json")
        for method in (OWN, OPTUNA) if options.optuna else (OWN,):
            print(f"{name:24} {method:8} " + _line(space, table, method), flush=True)


def _table(space: Space, file: Path) -> dict[int, Outcome]:
    """All points that the conditions leave, reckoned."""
    if file.exists():
        return {int(row): Outcome.of(one) for row, one in json.loads(file.read_text()).items()}
    points = ((row, point) for row, point in enumerate(space.points()) if not refused_at_once(point, space.where))
    found = {row: by_arithmetic(point, space.where) for row, point in points}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({row: one.to_dict() for row, one in found.items()}))
    return found


def _line(space: Space, table: dict[int, Outcome], method: str) -> str:
    search, tried = search_of(method, space, list(table), None), dict[int, Outcome]()
    whole = _figures(space, table.values())
    front = whole[front_of(whole)]
    low, high = front.min(axis=0), front.max(axis=0)
    far = np.where(high > low, high + 0.1 * (high - low), high + 1e-9 * abs(high) + 1e-9)
    drawn = np.random.default_rng(1).uniform(low, far, (_DRAWN, len(low)))
    drawn = drawn[_beaten(drawn, front)]
    enough, missed, seconds = 0, np.ones(len(drawn), bool), 0.0
    while True:
        start = time.process_time()
        batch = search.next(tried)
        seconds += time.process_time() - start
        if not batch:
            break
        tried |= {row: table[row] for row in batch}
        new = _figures(space, (table[row] for row in batch))
        missed[missed] = ~_beaten(drawn[missed], new)
        enough = enough or (len(tried) if missed.mean() <= 0.01 else 0)
    share = len(tried) / len(table)
    return (f"{len(table):7,} {len(front):6} {len(tried):6,} {100 * share:6.1f}% {100 - 100 * missed.mean():7.2f}% "
            f"{100 * enough / len(table):7.1f}% {seconds:6.1f}")  # fmt: skip


def _figures(space: Space, outcomes: Iterable[Outcome]) -> Floats:
    rows = [[float(getattr(one, axis)) for axis in space.front] for one in outcomes if one.status == OK]
    found: Floats = np.array(rows).reshape(len(rows), len(space.front))
    found = np.where(np.isnan(found).all(axis=0), 0.0, found)
    whole: Floats = found[~np.isnan(found).any(axis=1)]
    return whole


def _beaten(drawn: Floats, front: Floats) -> NDArray[np.bool_]:
    found = np.zeros(len(drawn), bool)
    for own in front:
        found |= (own <= drawn).all(axis=1)
    return found


if __name__ == "__main__":
    main()
