"""PARAM's collection and replay: gloo ranks of this machine recorded, replayed for real, and simulated."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.errors import InputError
from chakrasim.experiments.live import has_torch, observe
from chakrasim.experiments.result import BYTES, COUNT, PER_CENT, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.generator.collective import collective_job
from chakrasim.progress import Progress, told
from chakrasim.replay.api import replay
from chakrasim.replay.result import ReplayResult
from chakrasim.simulator.api import simulate
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.validation.scoreboard.baselines import alpha_beta

RANKS: Final = 2
SIZES: Final = tuple(1 << power for power in range(10, 23, 2))
"""Of the all-reduces that the link is fitted to, bytes."""


def run(data: str | os.PathLike[str] | None, *, progress: Progress | None = None) -> Experiment:
    """The experiment; ``data``: traces to replay, not the tutorial's program, as `chakrasim.replay.replay` does."""
    if not has_torch():
        raise InputError("gloo ranks need PyTorch", remedy="pip install 'chakrasim[torch]'")
    with TemporaryDirectory() as folder:
        ahead = told(("the program is recorded", "the link is measured", "the trace is replayed"), str, progress)
        next(ahead)
        source = _recorded(folder) if data is None else os.fspath(data)
        next(ahead)
        link = replay(_ladder(), RANKS)
        next(ahead)
        found = replay(source, RANKS)
        next(ahead, None)
    sizes, times = (np.array(column, np.float64) for column in zip(*_measured(link), strict=True))
    start_ns, per_byte = _line(sizes, times)
    machine = _machine(start_ns, per_byte)
    fitted = tuple(_row("fitted to", row, machine) for row in link.collectives if row.latency)
    rows = tuple(_row("trace", row, machine) for row in found.collectives if row.latency)
    columns = (("used", WORD), ("collective", WORD), ("size", BYTES), ("count", COUNT), ("measured", SECONDS),
               ("simulated", SECONDS), ("error", PER_CENT))  # fmt: skip
    whole = _whole(found, rows)
    return Experiment(
        "gloo-replay",
        f"How long does the communication of a recorded job take on {RANKS} gloo ranks of this machine, and simulated?",
        tuple((str(row[0]), f"measured {float(row[1] or 0) * 1e3:.3g} ms, simulated {float(row[2] or 0) * 1e3:.3g} ms")
              for row in whole.rows),
        (whole, Table("Each collective alone, medians", columns, rows + fitted, against=("measured", "simulated"))),
        (
            f"the machine is fitted to all-reduces of {SIZES[0]:,} to {SIZES[-1]:,} bytes on the same ranks, "
            f"replayed just before: {1 / per_byte:.3g} GB/s and {start_ns / 1e3:.3g} us for a collective",
            "ranks share this machine's processors with whatever else runs: measured times differ from run to run, "
            "everything simulated follows them",
            "compute is left out of both",
        ),
        ("PARAM's own replay of the same trace: it is not run here",),
        "facebookresearch/param: collection with ExecutionTraceObserver, replay with commsTraceReplay",
    )  # fmt: skip


def _recorded(folder: str) -> str:
    """The tutorial's program on gloo ranks, recorded and converted: the traces' prefix."""
    traces = os.path.join(folder, "traces")
    observe(RANKS, traces)
    return trace_directory(traces, os.path.join(folder, "chakra")).prefix


def _ladder() -> Any:
    """All-reduces one after another, as one trace for all ranks."""
    made = TraceBuilder()
    for at, size in enumerate(SIZES):
        attributes = {"is_cpu_op": False, "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": size}
        made.add(
            at, f"all-reduce of {size}", NodeType.COMM_COLL_NODE, data_deps=[at - 1] if at else [], attrs=attributes
        )
    return made.build()


def _measured(found: ReplayResult) -> list[tuple[int, float]]:
    """Bytes and the median ns of each size."""
    return [(row.size_bytes, row.latency.p50_ns) for row in found.collectives if row.latency is not None]


def _line(sizes: Any, times: Any) -> tuple[float, float]:
    """The ns of a collective by itself, and of each byte: what fits best by relative errors."""
    ends = alpha_beta(sizes, times, np.array([0.0, 1e9]))
    return float(ends[0]), max(float(ends[1] - ends[0]) / 1e9, 1e-6)


def _machine(start_ns: float, per_byte: float) -> dict[object, object]:
    """A ring on which an all-reduce takes that: 2 (n - 1) messages of a part of the bytes each, one after the other."""
    steps = 2 * (RANKS - 1)
    return {
        "format": 1,
        "name": "gloo-here",
        "network": [{"topology": "Ring", "npus": RANKS, "bandwidth": f"{steps / RANKS / per_byte:.6g} GB/s",
                     "latency": f"{max(round(start_ns / steps), 1)} ns"}],
        "memory": {"bandwidth": "100 TB/s"},
        "collectives": {"splits": 1, "algorithms": {"all-reduce": "ring"}},
    }  # fmt: skip


def _row(used: str, row: Any, machine: dict[object, object]) -> tuple[Cell, ...]:
    measured = row.latency.p50_ns / 1e9
    simulated = simulate(collective_job(row.collective, row.size_bytes, RANKS), machine=machine).makespan_ns / 1e9
    return used, row.collective, row.size_bytes, row.count, measured, simulated, 100 * (simulated / measured - 1)


def _whole(found: ReplayResult, rows: tuple[tuple[Cell, ...], ...]) -> Table:
    """An iteration: all collectives as the trace orders them, and the sum of each alone."""
    counts, alone, simulated = ([float(row[at] or 0) for row in rows] for at in (3, 4, 5))
    sums = [sum(count * time for count, time in zip(counts, times, strict=True)) for times in (alone, simulated)]
    together = (
        []
        if found.pipelined is None
        else [("an iteration as the trace orders it", found.pipelined.p50_ns / 1e9, sums[1])]
    )
    columns = (("what", WORD), ("measured", SECONDS), ("simulated", SECONDS))
    return Table("All of the trace", columns, (*together, ("the sum of each alone", *sums)))
