"""The tutorial from PyTorch over Chakra to a simulator, end to end, with its author's network."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import Final

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.converter.retarget.api import retarget
from chakrasim.experiments.live import has_torch, observe
from chakrasim.experiments.recorded import SHIPPED, STEPS, replay_row
from chakrasim.experiments.result import COUNT, SECONDS, WORD, Cell, Experiment, Table
from chakrasim.progress import Progress, told
from chakrasim.simulator.api import replay_recorded, simulate
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.text.amounts import time_text

NPUS: Final = 64
SWITCH: Final[dict[object, object]] = {
    "format": 1,
    "name": "switch-64",
    "network": [{"topology": "Switch", "npus": NPUS, "bandwidth": "50 GB/s", "latency": "500 ns"}],
    "memory": {"bandwidth": "900 GB/s"},
    "collectives": {"splits": 1, "algorithms": {"all-reduce": "ring"}},
}
"""64 NPUs behind a switch, with the figures of ASTRA-sim's example networks."""
ALONE, TOGETHER = "one process, as in the tutorial", "two processes, data-parallel"


def run(*, progress: Progress | None = None) -> Experiment:
    """The experiment: observed here where PyTorch is installed, else with the traces that ship with the package."""
    torch = has_torch()
    roads: dict[str, int] = {ALONE: 1, TOGETHER: 2} if torch else {"shipped: four processes, data-parallel": 0}
    steps: list[tuple[Cell, ...]] = []
    runs: list[tuple[Cell, ...]] = []
    for road in told(list(roads), str, progress):
        with TemporaryDirectory() as folder:
            traces = os.path.join(folder, "traces") if torch else os.fspath(SHIPPED)
            if torch:
                observe(roads[road], traces)
            of_steps, of_run = _followed(road, traces, os.path.join(folder, "chakra"))
            steps += of_steps
            runs.append(of_run)
    columns = (("job", WORD), ("recorded ranks", COUNT), ("nodes of a rank", COUNT), ("collectives of a rank", COUNT),
               (f"on {NPUS} NPUs", SECONDS), ("in collectives, waiting included", SECONDS))  # fmt: skip
    return Experiment(
        "pytorch-tutorial",
        "What does the tutorial's road from PyTorch over Chakra traces to a simulator give here?",
        tuple((f"{row[0]}, on {NPUS} NPUs", time_text(1e9 * float(row[4] or 0))) for row in runs),
        (
            Table("Simulated", columns, tuple(runs), _LINES),
            Table("Recorded steps, replayed", STEPS, tuple(steps), against=("measured", "simulated")),
        ),
        (
            "the network, batch and optimizer are the author's, on this machine's processors instead of his GPU; "
            "images are random numbers, MNIST is not downloaded" if torch
            else "PyTorch is not installed here: the traces that ship with the package stand in, of another small "
            "convolutional network on four ranks (pip install 'chakrasim[torch]' to observe the author's)",
            f"{NPUS} NPUs behind a switch of 50 GB/s and 500 ns, as in ASTRA-sim's examples; the tutorial does "
            "not print its file",
            "without collectives every NPU runs the one trace; with them replicas are copied, and gradients are summed "
            "over all",
        ),
        ("the tutorial's 6,749,042 cycles: they are its author's GPU, steps and file of the network",),
        "the tutorial 'Trace-Driven Simulation in Astra Sim with the PyTorch Profiler': model, batch, optimizer, tools",
    )  # fmt: skip


_LINES: Final = ("a job without collectives never uses the network: each NPU takes what was recorded",)


def _followed(road: str, traces: str, folder: str) -> tuple[list[tuple[Cell, ...]], tuple[Cell, ...]]:
    """Traces linked, converted, replayed and put on the switch: rows of both tables."""
    report = trace_directory(traces, folder)
    collectives = max(rank.collectives for rank in report.ranks)
    replayed = replay_recorded(report.prefix, "transfer" if collectives else "recorded")
    job = retarget(report.prefix, NPUS, comm_group=report.comm_group).job if collectives else f"{report.prefix}.0.et"
    result = simulate(job, ranks=NPUS, machine=SWITCH)
    exposed = float(result.parts_ns[:, PARTS.index("exposed_comm")].mean()) / 1e9
    nodes = max(rank.nodes for rank in report.ranks)
    row = road, len(report.ranks), nodes, collectives, result.makespan_ns / 1e9, exposed
    return [replay_row(road, step) for step in replayed.steps], row
