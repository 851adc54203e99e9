"""Files that HPCC's configuration names, in the reference's formats (packet-network.md, 13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.observed.monitor import Monitor
from chakrasim.simulator.packet.routes import address_of
from chakrasim.simulator.packet.settings import Settings

QLEN_NS: Final = 100
"""Between two looks of the reference's monitor."""
LEAST_TOLD: Final = 1000
"""Bytes that wait at a port that the monitor writes down."""


def monitor_of(settings: Settings) -> Monitor | None:
    """The monitor that the settings ask for, if they name a file for it."""
    if not settings.qlen_mon_file:
        return None
    return Monitor(QLEN_NS, settings.qlen_mon_start, settings.qlen_mon_end)


def reference_files(result: PacketResult) -> dict[str, str]:
    """By path, the contents of the files that the settings name: completions, pauses, queues."""
    settings = result.network.settings
    files = {
        settings.fct_output_file: completions,
        settings.pfc_output_file: pauses,
        settings.qlen_mon_file: queues,
    }
    return {path: "".join(f"{line}\n" for line in lines(result)) for path, lines in files.items() if path}


def completions(result: PacketResult) -> Iterator[str]:
    """Addresses, ports, bytes, start, time and standalone time of each flow, in order of their ends."""
    for source, target, *rest in result.completions():
        yield f"{address_of(source):08x} {address_of(target):08x} {' '.join(map(str, rest))}"


def pauses(result: PacketResult) -> Iterator[str]:
    """Time, node, 1 for a switch, port, 1 for a pause and 0 for its end, of each frame that was received."""
    for row in result.pause_frames():
        yield " ".join(map(str, row))


def queues(result: PacketResult) -> Iterator[str]:
    """Each look at a switch where a port has `LEAST_TOLD` bytes: ``time T switch``, then ``j port bytes`` of those."""
    assert result.samples is not None and result.monitor is not None
    settings, seen = result.network.settings, result.samples
    order = np.lexsort((seen.queues.which, seen.queues.time_ns))
    columns = (seen.queues.time_ns[order], seen.queues.which[order], seen.queues.value[order])
    changes = list(zip(*(column.astype(np.int64).tolist() for column in columns), strict=True))
    stop = min(settings.qlen_mon_end, seen.end_ns)
    long: dict[int, int] = {}
    done, time = 0, result.monitor.from_ns
    while time <= stop and (done < len(changes) or long):
        while done < len(changes) and changes[done][0] <= time:
            _, port, size = changes[done]
            done += 1
            if size >= LEAST_TOLD:
                long[port] = size
            else:
                long.pop(port, None)
        if time >= settings.qlen_mon_start:
            yield from _look(time, long, seen.port_names)
        time += result.monitor.every_ns
        if not long and done < len(changes):
            missing = changes[done][0] - time
            time += max(-(-missing // result.monitor.every_ns), 0) * result.monitor.every_ns


def _look(time: int, long: dict[int, int], names: dict[int, tuple[int, int]]) -> Iterator[str]:
    by_switch: dict[int, list[str]] = {}
    for port in sorted(long):
        switch, number = names[port]
        by_switch.setdefault(switch, []).append(f"j {number} {long[port]}")
    for switch, texts in sorted(by_switch.items()):
        yield f"time {time} {switch} {' '.join(texts)}"
