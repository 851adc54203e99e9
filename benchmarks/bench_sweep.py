"""Sweeps: configurations a second by arithmetic, of splits and of machine figures; processes and workers of Dask's.

    python benchmarks/bench_sweep.py [case ...]

CPU seconds of all processes stand beside wall time: other work on the machine stretches the latter. Nothing is
simulated.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chakrasim.sweeps import sweep as sweeping
from chakrasim.sweeps.points import MEMORY, OK
from chakrasim.sweeps.sweep import SweepResult, sweep

NVSWITCH, RAILS = "network.graph.parts.nvswitch", "network.graph.parts.rails"
BASE = {"model": "llama-7b", "machine": "h100", "gpus": 32, "batch": 64, "seq": 2048, "tp": 8, "pp": 1}
SPLITS = {
    "tp": [1, 2, 4, 8],
    "pp": [1, 2, 4, 8],
    "vp": list(range(1, 14)),
    "micro_batch": list(range(1, 14)),
    "recompute": ["none", "selective", "full"],
}
SPACES: dict[str, tuple[str, dict[str, Any]]] = {
    "bandwidth x latency": (
        "32 H100, one split",
        {"base": BASE, "vary": {f"{NVSWITCH}.bandwidth": [f"{100 + 10 * at} GB/s" for at in range(64)],
                                f"{NVSWITCH}.latency": [f"{100 + 10 * at} ns" for at in range(64)]}},
    ),
    "bandwidth x bandwidth": (
        "32 H100, one split",
        {"base": BASE, "vary": {f"{NVSWITCH}.bandwidth": [f"{100 + 10 * at} GB/s" for at in range(64)],
                                f"{RAILS}.nic": [f"{50 + 10 * at} Gb/s" for at in range(64)]}},
    ),
    "bandwidth x latency x compile x recompute": (
        "32 H100, 4 programs",
        {"base": BASE, "vary": {f"{NVSWITCH}.bandwidth": [f"{100 + 10 * at} GB/s" for at in range(64)],
                                f"{RAILS}.latency": [f"{100 + 10 * at} ns" for at in range(64)],
                                "compile": [True, False], "recompute": ["none", "full"]}},
    ),
    "splits of 70b": (
        "512 H100",
        {"base": {"model": "llama3-70b", "machine": "h100", "gpus": 512, "batch": 1024},
         "vary": {"tp": [1, 2, 4, 8], "pp": [1, 2, 4, 5, 8, 10, 16, 20], "vp": [1, 2, 4, 5], "micro_batch": [1, 2, 4],
                  "recompute": ["none", "selective", "full"], "zero": [0, 1]}},
    ),
    # Calculon's keys, as many points as it tries; 5,128 is 8 x 641, so that few of them make whole replicas.
    "8,112 of 530b": (
        "5,128 H100",
        {"base": {"model": "megatron-530b", "machine": "h100", "gpus": 5128, "batch": 2564}, "vary": SPLITS},
    ),
    # The same on a number of GPUs, with a memory, by which more than 8,112 points are splits that go or are too large.
    "8,112 valid of 530b": (
        "5,120 B300",
        {"base": {"model": "megatron-530b", "machine": "b300", "gpus": 5120, "batch": 5120},
         "vary": {"dtype": ["bfloat16", "float16", "float8"], "tp": [1, 2, 4, 8],
                  "pp": [4, 5, 8, 10, 16, 20, 32, 40], "vp": [1, 2, 3, 4], "micro_batch": [1, 2, 4, 8],
                  "recompute": ["none", "selective", "full"], "zero": [0, 1]}},
    ),
}  # fmt: skip
WORKERS = SPACES["8,112 valid of 530b"][1]
"""So large jobs are not simulated."""


def used_s() -> float:
    """CPU seconds of this process and of those that have ended."""
    both = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def timed(run: Callable[[], SweepResult]) -> tuple[SweepResult, float, float]:
    begin, used = time.perf_counter(), used_s()
    found = run()
    return found, time.perf_counter() - begin, used_s() - used


def arithmetic(name: str) -> None:
    told, space = SPACES[name]
    large = name.startswith("8,112")
    jobs = 2 if large else 1
    found, wall, cpu = timed(lambda: sweep(space, jobs=jobs))
    counts = Counter(one.reason if one.reason == MEMORY else one.status for one in found.outcomes)
    points = len(found.outcomes)
    print(f"{name:42s} {told:20s} {points:6,} points, {counts[OK]:,} go, {counts[MEMORY]:,} too large: "
          f"{cpu:5.1f} s CPU, {wall:5.1f} s wall in {jobs}; {points / cpu:,.0f} a CPU second")  # fmt: skip


def processes() -> None:
    walls = []
    for jobs in (2, 1):  # processes begin with what this one has reckoned
        found, wall, cpu = timed(lambda jobs=jobs: sweep(WORKERS, jobs=jobs))  # type: ignore[misc]
        walls.append(wall)
        print(f"{jobs} processes here: {wall:.1f} s wall, {cpu:.1f} s CPU, {found.simulated} simulated")
    print(f"2 are {walls[1] / walls[0]:.2f} times as fast")


def dask() -> None:
    from distributed import Client, LocalCluster

    walls, tables = [], []
    with tempfile.TemporaryDirectory() as made:
        for count in (1, 2):
            with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as own:
                address = own.scheduler_address
                with Client(own) as client:
                    client.run(_load)
                    before = client.run(time.process_time)
                    begin = time.perf_counter()
                    sweep(WORKERS, Path(made) / str(count), cluster=address)
                    walls.append(time.perf_counter() - begin)
                    used = [after - before[worker] for worker, after in client.run(time.process_time).items()]
            tables.append((Path(made) / str(count) / "results.csv.gz").read_bytes())
            each = ", ".join(f"{one:.1f}" for one in used)
            print(f"{count} workers of Dask's: {walls[-1]:.1f} s wall, {each} s CPU in them")
    print(f"2 are {walls[0] / walls[1]:.2f} times as fast, {'the same' if len({*tables}) == 1 else 'another'} table")


def _load() -> None:
    """What a worker loads and compiles before its first point."""
    sweep({"base": {**BASE, "gpus": 8, "batch": 8}, "vary": {"micro_batch": [1]}}, jobs=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join([*SPACES, "processes", "dask"]))
    chosen = parser.parse_args().cases or [*SPACES, "processes", "dask"]
    _load()
    simulated, sweeping.MOST_GPUS = sweeping.MOST_GPUS, 0
    for name in (name for name in chosen if name in SPACES):
        arithmetic(name)
    sweeping.MOST_GPUS = simulated
    if "processes" in chosen:
        processes()
    if "dask" in chosen:
        dask()


if __name__ == "__main__":
    main()
