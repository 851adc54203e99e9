"""What the monitor saw, as series over time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.network import Network
from chakrasim.simulator.packet.observed.monitor import Monitor
from chakrasim.simulator.packet.state import Longs, Net, Reals
from chakrasim.text.shown import data_frame

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Series:
    """Values over time, of several things: each holds until the next of the same thing.

    Attributes
    ----------
    which, time_ns
        int64[n]: the thing, ascending, and from when it has the value, ascending within a thing
    value
        float64[n]
    """

    which: Longs
    time_ns: Longs
    value: Reals

    def each(self) -> Iterator[tuple[int, Longs, Reals]]:
        """By thing: its times and values."""
        ends = np.flatnonzero(np.diff(self.which)) + 1
        for rows in np.split(np.arange(self.which.size), ends):
            if rows.size:
                yield int(self.which[rows[0]]), self.time_ns[rows], self.value[rows]

    def means(self, begin_ns: int, end_ns: int) -> dict[int, float]:
        """By thing: the mean from one time to another; before its first value it had 0."""
        span = max(end_ns - begin_ns, 1)
        return {
            which: float((value * np.diff(np.append(times, max(end_ns, int(times[-1]))))).sum() / span)
            for which, times, value in self.each()
        }


@dataclass(frozen=True, eq=False)
class Samples:
    """Queues and rates as the monitor saw them.

    Attributes
    ----------
    every_ns, begin_ns, end_ns
        between two looks; the first and the last look
    queues
        bytes that wait at ports of switches, by port of the network, in all priorities
    rates
        bit/s that the control allows, by flow
    throughput
        bit/s acknowledged between one look and the next, by flow
    port_names
        by port: node and number
    """

    every_ns: int
    begin_ns: int
    end_ns: int
    queues: Series
    rates: Series
    throughput: Series
    port_names: dict[int, tuple[int, int]]

    def columns(self) -> dict[str, dict[str, Any]]:
        """The three series as columns by name."""
        names = np.array([self.port_names[port] for port in self.queues.which.tolist()], np.int64).reshape(-1, 2)
        return {
            "queues": {
                "time_ns": self.queues.time_ns, "switch": names[:, 0], "port": names[:, 1],
                "bytes": self.queues.value.astype(np.int64),
            },
            "rates": _by_flow(self.rates),
            "throughput": _by_flow(self.throughput),
        }  # fmt: skip

    def to_frame(self) -> pandas.DataFrame:
        """A row a value: ``time_ns``, ``kind``, ``name``, ``value``. Raises InputError where pandas is missing."""
        return data_frame(list(self.rows()), ["time_ns", "kind", "name", "value"])

    def rows(self) -> Iterator[tuple[int, str, str, int]]:
        """All values: time, kind (``queue_bytes``, ``rate_bps``, ``throughput_bps``), of what, value."""
        for port, times, values in self.queues.each():
            name = self.port_name(port)
            yield from (
                (t, "queue_bytes", name, round(v)) for t, v in zip(times.tolist(), values.tolist(), strict=True)
            )
        for kind, series in (("rate_bps", self.rates), ("throughput_bps", self.throughput)):
            for flow, times, values in series.each():
                name = f"flow {flow}"
                yield from ((t, kind, name, round(v)) for t, v in zip(times.tolist(), values.tolist(), strict=True))

    def port_name(self, port: int) -> str:
        """A switch's port as people call it."""
        return "switch {} port {}".format(*self.port_names[port])


def _by_flow(series: Series) -> dict[str, Any]:
    return {"time_ns": series.time_ns, "flow": series.which, "bps": np.rint(series.value).astype(np.int64)}


def samples_of(net: Net, network: Network, monitor: Monitor) -> Samples:
    """What the monitor saw in a run."""
    rows = net.samples[: net.g[at.SAMPLES]]
    end = min(int(net.g[at.NOW]), int(net.g[at.SAMPLE_UNTIL]))
    is_flow = rows.una >= 0
    queues = _ordered(rows[~is_flow])
    flows = _ordered(rows[is_flow])
    rate = Series(flows.which.astype(np.int64) - 1, flows.time, flows.value.astype(np.float64))
    numbers = network.ports
    node = numbers.node[queues.which]
    pairs = zip(queues.which.tolist(), node.tolist(), (queues.which - numbers.first[node]).tolist(), strict=True)
    return Samples(
        every_ns=monitor.every_ns,
        begin_ns=monitor.from_ns,
        end_ns=max(end, monitor.from_ns),
        queues=Series(queues.which.astype(np.int64), queues.time, queues.value.astype(np.float64)),
        rates=_changes(rate),
        throughput=_throughput(rate.which, flows.time, flows.una, monitor),
        port_names={port: (int(node), int(number)) for port, node, number in pairs},
    )


def _ordered(rows: Any) -> Any:
    """By port or flow, in order of time; of two looks at one instant the later one."""
    rows = rows[np.argsort(rows.which, kind="stable")]
    kept = np.ones(rows.size, np.bool_)
    kept[:-1] = (np.diff(rows.which.astype(np.int64)) != 0) | (np.diff(rows.time) != 0)
    return rows[kept]


def _changes(series: Series) -> Series:
    """Without the values that are as before."""
    new = np.ones(series.which.size, np.bool_)
    new[1:] = (np.diff(series.which) != 0) | (np.diff(series.value) != 0)
    return Series(series.which[new], series.time_ns[new], series.value[new])


def _throughput(flow: Longs, time: Longs, acked: Longs, monitor: Monitor) -> Series:
    """Bytes acknowledged between looks as a rate from the first look on, and 0 from a look behind which none were. The
    last look, at the end of the run, comes early and counts as a whole one."""
    if not flow.size:
        return Series(flow, time, np.zeros(0))
    first = np.ones(flow.size, np.bool_)
    first[1:] = np.diff(flow) != 0
    before = monitor.from_ns + (time - monitor.from_ns - 1) // monitor.every_ns * monitor.every_ns
    before = np.maximum(before, monitor.from_ns)
    more = np.diff(acked, prepend=0)
    more[first] = acked[first]
    value = more * 8e9 / monitor.every_ns
    last = np.append(first[1:], True)
    idle = last | (np.append(before[1:], 0) > time)
    which = np.concatenate([flow, flow[idle]])
    begin = np.concatenate([before, time[idle]])
    values = np.concatenate([value, np.zeros(np.count_nonzero(idle))])
    order = np.lexsort((np.arange(which.size), begin, which))
    return _changes(Series(which[order], begin[order], values[order]))
