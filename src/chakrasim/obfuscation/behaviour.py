"""Level behaviour: runs of computation as durations on a declared device, sizes and durations rounded, nothing else.

What stays is what a network sees of a job, and when: communication in its order, the groups, and how long ranks compute
between. Nodes of a line (a stream of the device, a thread of the host) follow one another, so that those between which
nobody else waits, or is waited for, are one computation of their summed time, and the job's time is the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.exchange.times import times_ns
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.obfuscation.names import SOURCE, numbers_of_threads
from chakrasim.trace import work
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.job.groups import EVERYONE, is_number
from chakrasim.trace.job.job import PEER, Job
from chakrasim.trace.kinds import INTEGER_KINDS, PARTS, NodeType

LEAST_RATIO: Final = 1.001
_SIZES: Final = ("comm_size", work.BYTES, work.LAUNCH)
_MESSAGE: Final = ("comm_type", "pg_name", "comm_src", "comm_dst", "comm_tag", PEER, "root_rank", "root",
                   "involved_dim", work.STREAM)  # fmt: skip
"""What stays of a node that communicates or loads, beside its size."""
_LISTS: Final = frozenset(kind + 1 for kind in INTEGER_KINDS)
_NUMBERS: Final = INTEGER_KINDS | _LISTS | {0}
"""Kinds of what stays as it is: whole numbers, truth values, lists of them, and no value."""
_TITLES: Final = {
    NodeType.MEM_LOAD_NODE: "load",
    NodeType.MEM_STORE_NODE: "store",
    NodeType.COMM_SEND_NODE: "send",
    NodeType.COMM_RECV_NODE: "receive",
    NodeType.COMM_COLL_NODE: "collective",
}


class Grid:
    """Whole numbers each ``ratio`` times the one before, up to the next whole one: 1, 2, 3, ... 20, 21, 23, 25, ...

    Of a ratio below 2 those before a power of two, too: libraries send what has 2^n bytes or more another way, and what
    is rounded alike goes one way."""

    def __init__(self, ratio: float) -> None:
        if not LEAST_RATIO <= ratio <= 1000:
            raise InputError("no ratio of a grid", found=f"{ratio:g}", expected=f"{LEAST_RATIO} to 1000, such as 1.05")
        self.ratio = ratio
        self._points = [0, 1]
        self._real = 1.0

    def up(self, value: int) -> int:
        """The smallest point that is not below a value; of 64 bits where the value is."""
        while self._points[-1] < value:
            self._real *= self.ratio
            point = int(self._real)
            before = (1 << point.bit_length() - 1) - 1 if self.ratio < 2 else 0
            self._points += [one for one in (before, point) if one > self._points[-1]]
        return min(self._points[bisect_left(self._points, value)], max(value, 2**63 - 1))

    def middle(self, value: int) -> int:
        """What stands for all whole numbers that go up to the same point as a value: the middle of them by ratio, since
        steps of times and sizes that are all rounded up take longer, and more of these pass what a library goes by."""
        point = self.up(value)
        return isqrt((self._points[bisect_left(self._points, value) - 1] + 1) * point) if point else 0


def only_behaviour(job: Job, grid: Grid, profile: DeviceProfile | None) -> Job:
    """The job's behaviour, with groups by number, in the order in which the job has them.

    Raises InputError for computations whose time is not known, and for nodes that are not known or wait in a circle.
    """
    names = {role: _role(number) for number, role in enumerate(job.process_groups)}
    traces = [_Behaviour(trace, grid, times_ns(trace, profile), names).trace() for trace in job.traces]
    return Job(tuple(traces), job.trace_of_rank, {names[role]: own for role, own in job.process_groups.items()})


def _role(number: int) -> str:
    """A name for a role that has no digits: a digit alone would be a group's number."""
    return "group_" + chr(ord("a") + number % 26) * (1 + number // 26)


@dataclass(eq=False)
class _Run:
    """Nodes that become one: when (position in the order), how long they compute, whom they wait for."""

    first: int
    nodes: list[int]
    waits: tuple[set[int], set[int]]


class _Behaviour:
    """A trace on its way to its behaviour. Positions of nodes are those in the file."""

    def __init__(self, trace: Trace, grid: Grid, times: Ints, roles: dict[str, str]) -> None:
        self._trace, self._grid, self._times, self._roles = trace, grid, times, roles
        place = {number: at for at, number in enumerate(trace.ids.tolist())}
        lists = [[[place[one] for one in waits[at].tolist() if one in place] for at in range(len(trace))]
                 for waits in (trace.ctrl_deps, trace.data_deps)]  # fmt: skip
        self._control, self._data = lists
        self._line = _lines(trace)
        self._waited = trace.attr(work.HOST_WAITS).integers() != 0
        self._columns = {name: trace.attr(name) for name in (*_MESSAGE, *_SIZES, PARTS)}

    def trace(self) -> Trace:
        """The behaviour."""
        runs, run_of = self._runs()
        number = {id(run): at for at, run in enumerate(runs)}
        made = TraceBuilder(source=SOURCE)
        for at, run in enumerate(runs):
            control, data = (sorted({number[id(run_of[one])] for one in own} - {at}) for own in run.waits)
            self._add(made, at, run, control, data)
        return made.build()

    def _runs(self) -> tuple[list[_Run], dict[int, _Run]]:
        """Runs in the order of their first nodes' ids, and the run of each node."""
        alone = self._borders()
        open_: dict[tuple[int, int], _Run] = {}
        runs: list[_Run] = []
        run_of: dict[int, _Run] = {}
        for at in np.argsort(self._trace.ids, kind="stable").tolist():
            line = self._line[at]
            run = open_.get(line) if line is not None else None
            if run is None or at in alone[0]:
                run = _Run(at, [], (set(), set()))
                runs.append(run)
            run.nodes.append(at)
            run.waits[0].update(self._control[at])
            run.waits[1].update(self._data[at])
            run_of[at] = run
            if line is not None:
                if at in alone[1] or self._waited[at]:
                    open_.pop(line, None)
                else:
                    open_[line] = run
        return runs, run_of

    def _borders(self) -> tuple[set[int], set[int]]:
        """Nodes that wait for nodes off their line, and nodes that such nodes wait for."""
        begins, ends = set(), set()
        for at, line in enumerate(self._line):
            for one in (*self._control[at], *self._data[at]):
                if line is None or self._line[one] != line:
                    begins.add(at)
                    ends.add(one)
        return begins, ends

    def _add(self, made: TraceBuilder, at: int, run: _Run, control: Sequence[int], data: Sequence[int]) -> None:
        node, type_ = run.nodes[0], int(self._trace.types[run.nodes[0]])
        line = self._line[node]
        if type_ in (int(NodeType.COMP_NODE), int(NodeType.METADATA_NODE)):
            taken = self._grid.middle(sum(int(self._times[one]) for one in run.nodes))
            attrs: dict[str, object] = {"is_cpu_op": line is not None and line[0] == 1, work.COMPUTE_NS: taken}
            if line is not None:
                attrs["tid" if line[0] else work.STREAM] = line[1]
            if self._columns[work.LAUNCH].present[run.nodes].any():
                attrs[work.LAUNCH] = self._grid.middle(self._launched(run.nodes))
            if self._waited[run.nodes].any():
                attrs[work.HOST_WAITS] = True
            made.add(at, "compute", NodeType.COMP_NODE, data, control, duration_micros=-(-taken // 1000), attrs=attrs)
            return
        if type_ not in _TITLES:
            raise InputError("a node of unknown type has no behaviour", file=self._trace.source,
                             place=self._trace.place(node), found=f"type {type_}")  # fmt: skip
        attrs = {"is_cpu_op": False}
        for name in _MESSAGE:
            if self._columns[name].present[node]:
                attrs[name] = self._kept(name, node)
        for name in _SIZES:
            if self._columns[name].present[node]:
                attrs[name] = self._grid.middle(self._number(name, node, INTEGER_KINDS))
        if self._columns[PARTS].present[node]:
            attrs[PARTS] = [self._grid.middle(one) for one in self._number(PARTS, node, _LISTS)]
        made.add(at, _TITLES[NodeType(type_)], type_, data, control, attrs=attrs)

    def _launched(self, nodes: list[int]) -> int:
        """The launch of a run: as late as its nodes make it, each less what the run computes before it."""
        times = self._times[nodes]
        return max(0, int((self._columns[work.LAUNCH].integers(0)[nodes] - (np.cumsum(times) - times)).max()))

    def _kept(self, name: str, node: int) -> object:
        value = self._columns[name].value(node)
        if (
            name == "pg_name"
            and isinstance(value, str)
            and (value in self._roles or value in EVERYONE or is_number(value))
        ):
            return self._roles.get(value, value)
        return self._number(name, node, _NUMBERS)

    def _number(self, name: str, node: int, kinds: frozenset[int]) -> Any:
        """A value of these kinds. Raises InputError for any other: texts, bytes, fractions."""
        value = self._columns[name].value(node)
        if int(self._columns[name].kind[node]) not in kinds:
            what = "a text" if isinstance(value, (str, bytes)) else "no whole number"
            raise InputError(f"attribute {name!r} is {what}, which would be released", file=self._trace.source,
                             place=self._trace.place(node), found=repr(value)[:60], expected="a number")  # fmt: skip
        return value


def _lines(trace: Trace) -> list[tuple[int, int] | None]:
    """The line of each computation: (0, stream) of the device or (1, number of the thread) of the host; None for nodes
    that do not compute."""
    host = trace.attr("is_cpu_op").integers() != 0
    stream = trace.attr(work.STREAM).integers().copy()
    stream[host] = numbers_of_threads(trace, np.flatnonzero(host))
    computing = (trace.types == NodeType.COMP_NODE).tolist()
    return [
        (int(on), number) if comp else None
        for on, number, comp in zip(host.tolist(), stream.tolist(), computing, strict=True)
    ]
