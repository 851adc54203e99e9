"""A recorded rank in short: calls that no other call makes, each with all that it calls as one node, as long as these
together. How a profiler cuts calls into pieces differs from step to step; these do not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.kinds import NodeType

SUMMED: Final = ("num_ops", "bytes_read", "bytes_written")
LEFT_OUT: Final = frozenset({
    "start_ns", "duration_ns", "tid", "rf_id", "host_id", "correlation", "external_id", "part", "data_dep_kinds",
    "data_dep_evidence", "delay_ns", "wait_ns", "op_schema", "is_gap", "meeting", "meeting_ranks"})  # fmt: skip


@dataclass
class _Unit:
    """Nodes in a row on one lane that become one: the first, which names it, and all."""

    head: int
    lane: int
    nodes: list[int] = field(default_factory=list)


def is_recorded(trace: Trace) -> bool:
    """Whether the trace has the pieces of recorded calls."""
    return {"tid", "part", "duration_ns"} <= {*trace.attr_names()}


def in_short(trace: Trace) -> Trace:
    """The recorded trace with a node for each outermost call; its lanes become streams, its times in ns are kept."""
    units, of = _units(trace)
    columns = {name: trace.attr(name).integers_or(0) for name in (*SUMMED, "duration_ns")}
    place = {int(number): at for at, number in enumerate(trace.ids.tolist())}
    kept = {name: value for name, value in trace.metadata.items() if name in ("rank", "world_size")}
    made = TraceBuilder(trace.version, kept, trace.source)
    last: dict[int, int] = {}
    for at, unit in enumerate(units):
        waits = {of[place[one]] for node in unit.nodes for csr in (trace.ctrl_deps, trace.data_deps)
                 for one in csr[node].tolist() if one in place}  # fmt: skip
        if unit.lane in last:
            waits.add(last[unit.lane])
        last[unit.lane] = at
        duration = int(columns["duration_ns"][unit.nodes].sum())
        view = trace.node(unit.head)
        attributes: dict[str, Any] = {name: value for name, value in view.attrs.items() if name not in LEFT_OUT}
        attributes |= {name: total for name in SUMMED if (total := int(columns[name][unit.nodes].sum()))}
        made.add(at, view.name, view.type, data_deps=sorted(waits - {at}), duration_micros=duration // 1000,
                 attrs={**attributes, "stream": unit.lane, "duration_ns": duration})  # fmt: skip
    return made.build()


def _units(trace: Trace) -> tuple[list[_Unit], Ints]:
    """The units in an order in which they wait for earlier ones only, and int64[nodes]: the unit of each node. One
    begins with each call that no other makes, with the time before it, and with what waits for another lane."""
    place = {int(number): at for at, number in enumerate(trace.ids.tolist())}
    lanes: dict[tuple[int, ...], int] = {}
    identity = np.stack([trace.attr(name).integers_or(-1) for name in ("tid", "device", "stream")], axis=1).tolist()
    lane = [lanes.setdefault(tuple(one), len(lanes)) for one in identity]
    gap, part = (trace.attr(name).present for name in ("is_gap", "part"))
    plain = trace.types == int(NodeType.COMP_NODE)
    units: list[_Unit] = []
    of = np.full(len(trace), -1, np.int64)
    last: dict[int, int] = {}
    idle: dict[int, bool] = defaultdict(bool)
    for at in range(len(trace)):
        own = lane[at]
        waits = [place[one] for one in trace.data_deps[at].tolist() if one in place]
        inner = part[at] or any(lane[place[one]] == own for one in trace.ctrl_deps[at].tolist() if one in place)
        apart = (
            any(lane[one] != own for one in waits)
            or not plain[at]
            or own not in last
            or not plain[units[last[own]].head]
        )
        if idle[own] and not apart:  # the time before a call is a part of it
            units[last[own]].head = at
        elif apart or gap[at] or not inner:
            last[own] = len(units)
            units.append(_Unit(at, own))
        idle[own] = bool(gap[at])
        units[last[own]].nodes.append(at)
        of[at] = last[own]
    return units, of
