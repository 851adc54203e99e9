"""PARAM's collection and replay: gloo ranks of this machine recorded, replayed for real, and simulated."""

from __future__ import annotations

import os
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.errors import InputError
from chakrasim.experiments.live import has_torch, observe
from chakrasim.experiments.result import BYTES, PER_CENT, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.generator.collective import collective_job
from chakrasim.machine import Machine, load_machine
from chakrasim.progress import Progress, told
from chakrasim.replay.api import replay
from chakrasim.replay.result import ReplayResult
from chakrasim.simulator.api import simulate
from chakrasim.text.amounts import time_text
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.validation.scoreboard.baselines import alpha_beta

RANKS, ITERATIONS = 2, 20
SIZES: Final = tuple(1 << power for power in range(15, 21))
"""Of the all-reduces that the link is fitted to, bytes: around the program's, since gloo takes no straight line."""


def run(*, progress: Progress | None = None) -> Experiment:
    """The experiment."""
    if not has_torch():
        raise InputError("gloo ranks need PyTorch", remedy="pip install 'chakrasim[torch]'")
    with TemporaryDirectory() as folder:
        traces, chakra = (os.path.join(folder, name) for name in ("traces", "chakra"))
        ahead = told(("the program is recorded", "the link is measured", "the trace is replayed"), str, progress)
        next(ahead)
        observe(RANKS, traces)
        source = trace_directory(traces, chakra).prefix
        next(ahead)
        link = replay(_ladder(), RANKS, iterations=ITERATIONS)
        next(ahead)
        found = replay(source, RANKS, iterations=ITERATIONS)
        next(ahead, None)
        fitted, rows = _timed(link), _timed(found)
        start_ns, per_byte = _line(*(np.array(column, np.float64) for column in zip(*fitted.values(), strict=True)))
        machine = load_machine(_machine(start_ns, per_byte))
        idle = replace(machine, compute_scale=0.0)
        whole = simulate(source, machine=idle, common_start=True).makespan_ns / 1e9
    columns = (("used", WORD), ("collective", WORD), ("size", BYTES), ("measured", SECONDS), ("simulated", SECONDS),
               ("error", PER_CENT))  # fmt: skip
    alone = tuple(_row("trace", *row, machine) for row in rows.values())
    ladder = tuple(_row("fitted to", *row, machine) for row in fitted.values())
    measured = 0.0 if found.pipelined is None else found.pipelined.p50_ns / 1e9
    return Experiment(
        "gloo-replay",
        f"How long does the communication of a recorded job take on {RANKS} gloo ranks of this machine, and simulated?",
        (("the trace's communication", f"measured {time_text(1e9 * measured)}, simulated {time_text(1e9 * whole)}"),),
        (
            Table("All of the trace, as it orders it", columns[3:], ((measured, whole, 100 * (whole / measured - 1)),)),
            Table("Each collective alone, medians", columns, alone + ladder, against=("measured", "simulated")),
        ),
        (
            f"the machine is fitted to all-reduces of {SIZES[0]:,} to {SIZES[-1]:,} bytes on the same ranks, "
            f"replayed just before: {1 / per_byte:.3g} GB/s and {start_ns / 1e3:.3g} us for a collective",
            "ranks share this machine's processors with whatever else runs: measured times differ from run to run, "
            "everything simulated follows them",
            "what is computed takes no time and ranks start together, measured and simulated",
        ),
        ("PARAM's own replay of the same trace: it is not run here",),
        "facebookresearch/param: collection with ExecutionTraceObserver, replay with commsTraceReplay",
    )  # fmt: skip


def _timed(found: ReplayResult) -> dict[int, tuple[int, float]]:
    """Bytes and median ns of all-reduces, by size; the program has no other collectives."""
    return {
        row.size_bytes: (row.size_bytes, row.latency.p50_ns) for row in found.collectives if row.latency is not None
    }


def _ladder() -> Any:
    """All-reduces one after another, as one trace for all ranks."""
    made = TraceBuilder()
    for at, size in enumerate(SIZES):
        attributes = {"is_cpu_op": False, "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": size}
        made.add(at, "all-reduce", NodeType.COMM_COLL_NODE, data_deps=[at - 1] if at else [], attrs=attributes)
    return made.build()


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


def _row(used: str, size: int, measured_ns: float, machine: Machine) -> tuple[Cell, ...]:
    simulated = simulate(collective_job("all_reduce", size, RANKS), machine=machine).makespan_ns / 1e9
    return used, "all_reduce", size, measured_ns / 1e9, simulated, 100 * (simulated / (measured_ns / 1e9) - 1)
