"""A recorded rank in short: each call that no other call makes is one node, with all that it calls, and all work of a
device that it launches on one stream is another, behind it. How a profiler cuts calls into pieces, how host and device
interleave, and which kernels a library takes for a size differ from recording to recording; these do not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.kinds import NodeType

SUMMED: Final = ("num_ops", "bytes_read", "bytes_written")
KEPT: Final = frozenset({"is_cpu_op", "step"})
"""Attributes of computations that are kept, beside sums. Those of communication are, but for these:"""
LEFT_OUT: Final = frozenset({
    "start_ns", "duration_ns", "tid", "rf_id", "host_id", "correlation", "external_id", "part", "data_dep_kinds",
    "data_dep_evidence", "delay_ns", "wait_ns", "op_schema", "is_gap", "meeting", "meeting_ranks"})  # fmt: skip


@dataclass
class _Unit:
    """Nodes in a row on one lane that become one. ``head``: the one that names it; ``by``: the unit that launched it,
    -1 for a call of the host."""

    head: int
    lane: int
    by: int
    nodes: list[int] = field(default_factory=list)


def is_recorded(trace: Trace) -> bool:
    """Whether the trace has the pieces of recorded calls."""
    return {"tid", "part", "duration_ns"} <= {*trace.attr_names()}


def in_short(trace: Trace) -> Trace:
    """The recorded trace with a node for each outermost call, and one for what it launches; its lanes become streams,
    its times in ns are kept. A node waits for what nothing else that it waits for tells. Raises InputError for a trace
    that is not in an order in which it can run."""
    units, of, waits = _Reading(trace).units()
    columns = {name: trace.attr(name).integers_or(0) for name in (*SUMMED, "duration_ns")}
    order = sorted(range(len(units)), key=lambda one: (one if units[one].by < 0 else units[one].by, one))
    number = {unit: at for at, unit in enumerate(order)}
    kept = {name: value for name, value in trace.metadata.items() if name in ("rank", "world_size")}
    made = TraceBuilder(trace.version, kept, trace.source)
    last: dict[int, int] = {}
    for at, one in enumerate(order):
        unit = units[one]
        earlier = {number[int(of[node])] for each in unit.nodes for node in waits[each]} - {at}
        if unit.by >= 0:
            earlier.add(number[unit.by])
        if unit.lane in last:
            earlier.add(last[unit.lane])
        last[unit.lane] = at
        view = trace.node(unit.head)
        duration = int(columns["duration_ns"][unit.nodes].sum())
        plain = view.type == NodeType.COMP_NODE
        attributes: dict[str, Any] = {
            name: value for name, value in view.attrs.items() if (name in KEPT if plain else name not in LEFT_OUT)
        }
        attributes |= {name: total for name in SUMMED if (total := int(columns[name][unit.nodes].sum()))}
        name = f"work of {trace.node(units[unit.by].head).name}" if plain and unit.by >= 0 else view.name
        made.add(at, name, view.type, data_deps=sorted(earlier), duration_micros=duration // 1000,
                 attrs={**attributes, "stream": unit.lane, "duration_ns": duration})  # fmt: skip
    return made.build()


class _Reading:
    """Goes through a trace. ``clock``: by lane how far each other lane is known to have come, by node there."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        place = {int(number): at for at, number in enumerate(trace.ids.tolist())}
        self.data, self.ctrl = (
            [[place[one] for one in csr[at].tolist() if one in place] for at in range(len(trace))]
            for csr in (trace.data_deps, trace.ctrl_deps)
        )
        late = next((at for at, waits in enumerate(self.data) if any(one >= at for one in waits)), None)
        if late is not None:
            raise InputError("a node of a recorded trace waits for one that comes later in the file", file=trace.source,
                             place=f"node {trace.ids[late]}", expected="nodes in an order in which they can run",
                             remedy="write it again with chakrasim trace, which puts them so")  # fmt: skip
        lanes: dict[tuple[int, ...], int] = {}
        names = ("tid", "device", "stream")
        identity = np.stack([trace.attr(name).integers_or(-1) for name in names], axis=1).tolist()
        self.lane = [lanes.setdefault(tuple(one), len(lanes)) for one in identity]
        self.host = (trace.attr("tid").present).tolist()
        self.plain = (trace.types == int(NodeType.COMP_NODE)).tolist()
        self.gap, self.part = (trace.attr(name).present.tolist() for name in ("is_gap", "part"))
        self.clock: dict[int, dict[int, int]] = defaultdict(dict)
        self.known: list[dict[int, int]] = []

    def news(self, at: int) -> list[int]:
        """Of the nodes of other lanes that a node waits for those that nothing before it waited for, which it then
        knows."""
        own = self.lane[at]
        clock, found = self.clock[own], []
        for one in sorted({one for one in self.data[at] if self.lane[one] != own}, reverse=True):
            if clock.get(self.lane[one], -1) < one:
                found.append(one)
                clock = dict(clock)
                for lane, other in (*self.known[one].items(), (self.lane[one], one)):
                    clock[lane] = max(clock.get(lane, -1), other)
        self.clock[own] = clock
        self.known.append(clock)
        return found

    def units(self) -> tuple[list[_Unit], Ints, list[list[int]]]:
        """The units, int64[nodes]: the unit of each node, and what each node waits for on other lanes. A call of the
        host begins a unit with what it waits for; work of a device does with another call that launched it."""
        units: list[_Unit] = []
        of = np.full(len(self.lane), -1, np.int64)
        last: dict[int, int] = {}
        idle: dict[int, bool] = defaultdict(bool)
        every: list[list[int]] = []
        for at, own in enumerate(self.lane):
            waits, by = self.news(at), -1
            if not self.host[at]:
                by = max((int(of[one]) for one in self.data[at] if self.host[one]), default=-1)
                waits = [one for one in waits if of[one] != by]
            every.append(waits)
            before = units[last[own]] if own in last else None
            apart = before is None or bool(waits) or not (self.plain[at] and self.plain[before.head])
            inner = self.part[at] or any(self.lane[one] == own for one in self.ctrl[at])
            begins = self.gap[at] or not inner if self.host[at] else before is not None and before.by != by
            if before is not None and idle[own] and not apart:  # the time before a call is a part of it
                before.head = at
            elif apart or begins:
                last[own] = len(units)
                units.append(_Unit(at, own, by))
            idle[own] = self.gap[at]
            units[last[own]].nodes.append(at)
            of[at] = last[own]
        return units, of, every
