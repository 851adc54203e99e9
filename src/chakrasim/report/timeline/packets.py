"""A network of packets over time, for trace viewers: flows and pauses as slices, queues and rates as counters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, Final

import numpy as np

from chakrasim.report.timeline.chrome import micros, named, rows_in_parallel, write_chrome
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
    """Write the timeline to ``path``, compressed if the name ends in ``.gz``. Raises InputError if that fails."""
    write_chrome(path, _events(result))


def _events(result: PacketResult) -> Iterator[str]:
    for pid, name in PROCESSES.items():
        yield from named(pid, 1, name, pid, process=True)
    yield from _flows(result)
    yield from pause_slices(result.pauses, result.port_figures, PAUSES)
    if result.samples is not None:
        yield from queue_counters(result.samples, QUEUES)
        for pid, series in ((RATES, result.samples.rates), (THROUGHPUT, result.samples.throughput)):
            for flow, times, values in series.each():
                for time, value in zip(times.tolist(), values.tolist(), strict=True):
                    yield _counter(pid, f"flow {flow}", time, {"Gbps": round(value / 1e9, 6)})


def network_events(figures: PacketFigures, pid: int) -> Iterator[str]:
    """What switches did under a workload, as two processes beside those of the ranks."""
    yield from named(pid, 1, PROCESSES[PAUSES], pid, process=True)
    yield from pause_slices(figures.paused, figures.ports, pid)
    if figures.samples is not None:
        yield from named(pid + 1, 1, PROCESSES[QUEUES], pid + 1, process=True)
        yield from queue_counters(figures.samples, pid + 1)


def pause_slices(pauses: Mapping[int, Spans], ports: PortFigures, pid: int) -> Iterator[str]:
    """A row for each port that was told to be still, with a slice each time."""
    for thread, (port, spans) in enumerate(pauses.items(), 1):
        yield from named(pid, thread, ports.name(port - 1), thread)
        for start, end in spans:
            yield _slice(pid, thread, "paused", start, end, {})


def queue_counters(samples: Samples, pid: int) -> Iterator[str]:
    """The queues as counters."""
    for port, times, values in samples.queues.each():
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            yield _counter(pid, samples.port_name(port), time, {"bytes": int(value)})


def _flows(result: PacketResult) -> Iterator[str]:
    """A row or more for each host that sends; flows that did not end last until the end of the run."""
    figures = result.flow_figures
    begin = figures.start_ns
    end = np.where(figures.completion_ns >= 0, begin + figures.completion_ns, result.end_ns)
    shown = begin <= result.end_ns
    thread = 0
    for source in np.unique(figures.source[shown]).tolist():
        own = np.flatnonzero(shown & (figures.source == source))
        own = own[np.argsort(begin[own], kind="stable")]
        rows = rows_in_parallel(begin[own].tolist(), end[own].tolist())
        for row in range(max(rows) + 1):
            thread_name = f"host {source}" + (f" {row + 1}" if row else "")
            yield from named(FLOWS, thread + row + 1, thread_name, thread + row + 1)
        for flow, row in zip(own.tolist(), rows, strict=True):
            size, slow = int(figures.size_bytes[flow]), float(figures.slowdown[flow])
            args: dict[str, Any] = {"flow": flow, "bytes": size, "slowdown": None if slow != slow else round(slow, 4)}
            name = f"to {figures.target[flow]}, {size_text(size)}"
            yield _slice(FLOWS, thread + row + 1, name, int(begin[flow]), int(end[flow]), args)
        thread += max(rows) + 1


def _slice(pid: int, tid: int, name: str, start: int, end: int, args: dict[str, Any]) -> str:
    head = f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":{micros(start)},"dur":{micros(end - start)}'
    return f'{head},"name":{json.dumps(name)},"args":{json.dumps(args)}}}'


def _counter(pid: int, name: str, time: int, args: dict[str, Any]) -> str:
    head = f'{{"ph":"C","pid":{pid},"tid":1,"ts":{micros(time)}'
    return f'{head},"name":{json.dumps(name)},"args":{json.dumps(args)}}}'
