"""The simulator's speed: every case beside the reference's stored wall times, and the small runs a user waits for.

    python benchmarks/bench_simulate.py [case ...] [--shared FOLDER]

Cases: single, jitter, all-to-all, folded, files, large, million, job, process (default: all but million). Wall times of
the reference come from ``golden/scale.json`` of the shared data; its machine is not this one, so quote ratios with that
in mind.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import chakrasim
from chakrasim import SimulationResult, Trace, TraceBuilder
from synthetic_job import synthetic_job

GIB = 1 << 30
ALL_REDUCE, ALL_TO_ALL = 0, 6
MODES: tuple[Literal["aware", "unaware"], ...] = ("unaware", "aware")
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def system(*algorithms: str, **keys: Any) -> dict[str, Any]:
    """The system of the scale cases; underscores in keys become hyphens."""
    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    base = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        **{f"{name}-implementation": list(algorithms) for name in names},
    }
    return base | {key.replace("_", "-"): value for key, value in keys.items()}


def switch(ranks: int) -> dict[str, Any]:
    return {"topology": ["Switch"], "npus_count": [ranks], "bandwidth": [100.0], "latency": [500.0]}


def trace(kind: int, late_micros: int = 0) -> Trace:
    """One collective of 1 GiB, after some microseconds of computation."""
    builder = TraceBuilder()
    if late_micros:
        builder.add(0, name="work", type=4, duration_micros=late_micros, attrs={"is_cpu_op": False})
    attrs = {"comm_type": kind, "comm_size": GIB, "is_cpu_op": False}
    builder.add(1, name="collective", type=7, data_deps=[0] if late_micros else [], attrs=attrs)
    return builder.build()


def jittered(ranks: int) -> list[Trace]:
    return [trace(ALL_REDUCE, 1 + rank * 7919 % 1000) for rank in range(ranks)]


class Reference:
    """Stored wall times and finish cycles of the reference."""

    def __init__(self, shared: Path) -> None:
        path = shared / "golden" / "scale.json"
        self.rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []

    def find(self, start: str, ranks: int, mode: str) -> dict[str, Any]:
        for row in self.rows:
            if row["case"].startswith(start) and row["npus"] == ranks and isinstance(row[mode], dict):
                found: dict[str, Any] = row[mode]
                return found
        return {}


def timed(work: Callable[[], SimulationResult], repeats: int = 3) -> tuple[float, SimulationResult]:
    """Median seconds and the last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return median(seconds), result


def report(
    name: str, seconds: float, result: SimulationResult | None = None, reference: dict[str, Any] | None = None
) -> None:
    text = f"{name:58s} {seconds:9.4f} s"
    if result is not None and result.events:
        text += f"  {result.events:>10d} events  {seconds / result.events * 1e9:7.1f} ns each"
    if reference and result is not None:
        exact = int(result.finish_ns.max()) == reference["finish"]
        text += f"  {reference['wall_s'] / seconds:8.1f} x the reference{'' if exact else '  FINISH DIFFERS'}"
    print(text, flush=True)


ONE = "all-reduce, ring, 1 GiB, 4 chunks, one Switch"
LATE = "the same one-dimension ring all-reduce"
TWO = "all-to-all, ring, 1 GiB"


def single(reference: Reference) -> None:
    """Every rank by itself."""
    for ranks in (64, 256, 1024):
        for mode in MODES:
            seconds, result = timed(partial(run, trace(ALL_REDUCE), ranks, mode, fold=False))
            report(f"all-reduce {ranks} {mode}, every rank", seconds, result, reference.find(ONE, ranks, mode))


def jitter(reference: Reference) -> None:
    for ranks in (256, 1024):
        for mode in MODES:
            traces = jittered(ranks)
            seconds, result = timed(partial(run, traces, ranks, mode, fold=False), 1 if ranks > 256 else 3)
            report(f"all-reduce {ranks} {mode}, jittered", seconds, result, reference.find(LATE, ranks, mode))


def all_to_all(reference: Reference) -> None:
    for mode in MODES:
        seconds, result = timed(partial(run, trace(ALL_TO_ALL), 256, mode, fold=False), 1)
        report(f"all-to-all 256 {mode}, every rank", seconds, result, reference.find(TWO, 256, mode))
        seconds, result = timed(partial(run, trace(ALL_TO_ALL), 1024, mode))
        report(f"all-to-all 1024 {mode}, folded (bar: 2 s)", seconds, result)


def folded(reference: Reference) -> None:
    for mode in MODES:
        seconds, result = timed(partial(run, trace(ALL_REDUCE), 1024, mode), 9)
        report(f"all-reduce 1024 {mode}, folded, in memory", seconds, result, reference.find(ONE, 1024, mode))
    torus = {"topology": ["Ring"] * 3, "npus_count": [16, 8, 8], "bandwidth": [62.0] * 3, "latency": [500.0] * 3}
    config = system("ring", "ring", "ring", preferred_dataset_splits=64)
    cases = "all-reduce, ring per dimension, 1 GiB, 64 chunks, Ring 16"
    work = partial(chakrasim.simulate, trace(ALL_REDUCE), ranks=1024, system=config, network=torus)
    seconds, result = timed(work)
    report("all-reduce 16 x 8 x 8 unaware, folded", seconds, result, reference.find(cases, 1024, "unaware"))


def files(reference: Reference) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chakrasim.write(Path(folder) / "w", [trace(ALL_REDUCE)] * 1024)
        (Path(folder) / "system.json").write_text(json.dumps(system("ring")))
        (Path(folder) / "network.yml").write_text(json.dumps(switch(1024)))
        for mode in MODES:
            work = partial(
                chakrasim.simulate,
                Path(folder) / "w",
                system=Path(folder) / "system.json",
                network=Path(folder) / "network.yml",
                congestion=mode,
            )
            seconds, result = timed(work, 9)
            report(
                f"all-reduce 1024 {mode}, folded, from 1,024 files", seconds, result, reference.find(ONE, 1024, mode)
            )


def large(reference: Reference) -> None:
    for mode in MODES:
        seconds, result = timed(partial(run, trace(ALL_REDUCE), 65_536, mode))
        report(f"all-reduce 65,536 {mode}, folded (bar: 2 s, 2 GB)", seconds, result)
    print(f"{'peak resident memory so far':58s} {peak_mib():9.0f} MiB")


def million(reference: Reference) -> None:
    seconds, result = timed(partial(run, trace(ALL_REDUCE), 1_000_000, "aware"), 1)
    report("all-reduce 1,000,000 aware, folded", seconds, result)
    print(f"{'peak resident memory so far':58s} {peak_mib():9.0f} MiB")


def job(reference: Reference) -> None:
    """Training steps whose ranks share traces, from files: 1,024 ranks in 8 stages and in 64."""
    for made, machine in (
        (synthetic_job(), "hgx-h100-1024-400g"),
        (synthetic_job(dp=2, pp=64, micro_batches=256, layers=1, kernels=8), "hgx-h100-1024-200g"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            chakrasim.write_job(Path(folder) / "step", made)
            name = f"{made.ranks:,} ranks, {len(made.traces)} traces of {len(made.traces[1]):,} nodes"
            for mode in MODES:
                work = partial(chakrasim.simulate, Path(folder) / "step", machine=machine, congestion=mode)
                report(f"{name}, {mode} (bar: 10 s)", *timed(work))
    print(f"{'peak resident memory so far':58s} {peak_mib():9.0f} MiB")


def process(reference: Reference) -> None:
    """What a user waits for: imports, help, a small run."""
    with tempfile.TemporaryDirectory() as folder:
        chakrasim.write(Path(folder) / "w", [trace(ALL_REDUCE)] * 8)
        small = "import chakrasim; chakrasim.simulate({!r}, machine='hgx-h100-8')".format(str(Path(folder) / "w"))
        bare = seconds_of("pass")
        numpy = seconds_of("import numpy")
        report("import numpy", numpy - bare)
        report("import chakrasim, over numpy (bar: 0.1 s)", seconds_of("import numpy, chakrasim") - numpy)
        report("a small run in a fresh process (bar: 0.8 s)", seconds_of(small))
        report("chakrasim --help (bar: 0.4 s)", seconds_of("from chakrasim.cli.main import main; main(['--help'])"))


def seconds_of(program: str, repeats: int = 7) -> float:
    """Median wall time of a fresh interpreter that runs this."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(workload: Trace | list[Trace], ranks: int, mode: Any, **options: Any) -> SimulationResult:
    count = None if isinstance(workload, list) else ranks
    config, network = system("ring"), switch(ranks)
    return chakrasim.simulate(workload, ranks=count, system=config, network=network, congestion=mode, **options)


CASES: dict[str, Callable[[Reference], None]] = {
    "single": single,
    "jitter": jitter,
    "all-to-all": all_to_all,
    "folded": folded,
    "files": files,
    "large": large,
    "million": million,
    "job": job,
    "process": process,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--shared", type=Path, default=SHARED, help="folder of the reference data")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases if name not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]}")
    reference = Reference(arguments.shared)
    start = time.perf_counter()
    run(trace(ALL_REDUCE), 4, "aware", fold=False)
    run(trace(ALL_REDUCE), 4, "aware")
    report("first run of this process (loading or compiling)", time.perf_counter() - start)
    for name in arguments.cases or [name for name in CASES if name != "million"]:
        CASES[name](reference)


if __name__ == "__main__":
    main()
