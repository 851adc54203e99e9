"""The first half of the demo: from PyTorch's traces of a real run to a simulation, measured beside simulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chakrasim.analysis import collective_split
from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.demo import NETWORKS, TRACES
from chakrasim.demo.layout import Say, milliseconds, table
from chakrasim.diagnosis.files.discover import discover
from chakrasim.linker.api import link
from chakrasim.simulator.api import replay_recorded, simulate
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.text.amounts import percent_text


def real_run(folder: Path, say: Say, before_simulating: Callable[[], object]) -> None:
    """Doctor, link and convert the shipped traces into ``folder``; replay them, and put them on other networks."""
    say("A real run: data-parallel training of a small convolutional network with PyTorch on 4 ranks (gloo, CPU),")
    say(
        "3 steps, recorded with ExecutionTraceObserver and torch.profiler. chakrasim trace makes Chakra traces of it.\n"
    )
    report = trace_directory(TRACES, folder / "chakra", force=True)
    say(f"The doctor finds it {report.diagnosis.verdict}. Chakra traces: {report.prefix}.RANK.et\n")
    before_simulating()
    heads = ("rank", "step", "measured", "simulated", "error", "delay only", "in collectives", "waited")
    say(table([heads, *_steps(report.prefix)]))
    say("\nSimulated: recorded compute times; a collective begins when its last rank arrives and takes its recorded")
    say("transfer time. Delay only: the share of a step's critical path that no dependency explains; it is replayed as")
    say("recorded, so the error says nothing of it. The same four ranks, each on a host of its own, with collectives")
    say("simulated on a network:\n")
    rows: list[tuple[str, ...]] = []
    for name, machine in NETWORKS.items():
        result = simulate(report.prefix, machine=machine, comm_groups=report.comm_group)
        exposed = 100 * result.parts_ns[:, PARTS.index("exposed_comm")].mean() / result.makespan_ns
        rows.append((name, milliseconds(result.makespan_ns), f"{exposed:.1f} %"))
    say(table([("network", "makespan", "exposed comm"), *rows]))


def _steps(prefix: str) -> list[tuple[str, ...]]:
    replayed = replay_recorded(prefix, "transfer")
    linked = [link(files.host, files.device, rank=files.rank) for files in discover(TRACES)]
    waits = collective_split(linked).ranks
    by_rank = {
        int(rank): (milliseconds(int(inside)), f"{share:.1f} %")
        for rank, inside, share in zip(waits.rank, waits.duration_ns, waits.wait_pct, strict=True)
    }
    rows: list[tuple[str, ...]] = []
    for time in replayed.steps:
        cells = by_rank.pop(time.rank, ("", ""))
        times = milliseconds(time.measured_ns), milliseconds(time.simulated_ns), f"{time.error_pct:+.2f} %"
        rows.append((str(time.rank), str(time.step), *times, percent_text(time.delay_only_share), *cells))
    return rows
