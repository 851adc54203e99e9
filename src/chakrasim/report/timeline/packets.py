"""A network of packets over time, for trace viewers: flows and pauses as slices, queues and rates as counters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Final

import numpy as np

from chakrasim.report.timeline.events import SIZE, Counter, Ints, Process, Track, rows_in_parallel
from chakrasim.report.timeline.write import write_processes
from chakrasim.simulator.arena.packet_network import PacketFigures
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.figures.pauses import Spans
from chakrasim.simulator.packet.figures.ports import PortFigures
from chakrasim.simulator.packet.figures.samples import Samples
from chakrasim.text.amounts import size_text

FLOWS, PAUSES, QUEUES, RATES, THROUGHPUT = range(1, 6)
PROCESSES: Final = {
    FLOWS: "flows by source", PAUSES: "ports told to pause", QUEUES: "queues of switches",
    RATES: "rates that the control allows", THROUGHPUT: "throughput of flows",
}  # fmt: skip


def write_packet_timeline(result: PacketResult, path: str | PathLike[str]) -> None:
    """Write the timeline to ``path``, in the format and packed as its ending says. Raises InputError if that fails."""
    write_processes(path, _processes(result))


def _processes(result: PacketResult) -> Iterator[Process]:
    yield _flows(result)
    yield _pauses(result.pauses, result.port_figures, PAUSES)
    samples = result.samples
    yield Process(QUEUES, PROCESSES[QUEUES], QUEUES, counters=() if samples is None else _queues(samples))
    for pid, name in ((RATES, "rates"), (THROUGHPUT, "throughput")):
        counters = [] if samples is None else [
            Counter(f"flow {flow}", "Gbps", times, np.round(values / 1e9, 6))
            for flow, times, values in getattr(samples, name).each()
        ]  # fmt: skip
        yield Process(pid, PROCESSES[pid], pid, counters=counters)


def network_processes(figures: PacketFigures, pid: int) -> Iterator[Process]:
    """What switches did under a workload, as two processes beside those of the ranks."""
    yield _pauses(figures.paused, figures.ports, pid)
    if figures.samples is not None:
        yield Process(pid + 1, PROCESSES[QUEUES], pid + 1, counters=_queues(figures.samples))


def _pauses(pauses: Mapping[int, Spans], ports: PortFigures, pid: int) -> Process:
    """A row for each port that was told to be still, with a slice each time."""
    spans = [span for each in pauses.values() for span in each]
    ends = np.cumsum([0, *(len(list(each)) for each in pauses.values())])
    tracks = [
        Track(thread, ports.name(port - 1), np.arange(ends[thread - 1], ends[thread]), "pause")
        for thread, port in enumerate(pauses, 1)
    ]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    name = PROCESSES[PAUSES]
    return Process(pid, name, pid, tracks, start, end - start, ["paused"] * len(spans), [""] * len(spans))


def _queues(samples: Samples) -> list[Counter]:
    """The queues as counters."""
    return [Counter(samples.port_name(port), SIZE, times, values) for port, times, values in samples.queues.each()]


def _flows(result: PacketResult) -> Process:
    """A row or more for each host that sends; flows that did not end last until the end of the run."""
    figures = result.flow_figures
    begin = figures.start_ns
    end = np.where(figures.completion_ns >= 0, begin + figures.completion_ns, result.end_ns)
    shown = np.flatnonzero(begin <= result.end_ns)
    tracks: list[Track] = []
    for source in np.unique(figures.source[shown]).tolist():
        own = np.flatnonzero(figures.source[shown] == source)
        own = own[np.argsort(begin[shown[own]], kind="stable")]
        rows = np.array(rows_in_parallel(begin[shown[own]].tolist(), end[shown[own]].tolist()))
        for row in range(rows.max() + 1):
            name = f"host {source}" + (f" {row + 1}" if row else "")
            tracks.append(Track(len(tracks) + 1, name, own[rows == row], "flow"))
    names = [f"to {figures.target[flow]}, {size_text(int(figures.size_bytes[flow]))}" for flow in shown.tolist()]
    args = [_members(_of_flow(result, flow)) for flow in shown.tolist()]
    length: Ints = (end - begin)[shown]
    return Process(FLOWS, PROCESSES[FLOWS], FLOWS, tracks, begin[shown], length, names, args)


def _of_flow(result: PacketResult, flow: int) -> dict[str, Any]:
    figures = result.flow_figures
    size, slow = int(figures.size_bytes[flow]), float(figures.slowdown[flow])
    return {"flow": flow, "bytes": size, "slowdown": None if slow != slow else round(slow, 4)}


def _members(said: dict[str, Any]) -> str:
    return "," + json.dumps(said)[1:-1]
