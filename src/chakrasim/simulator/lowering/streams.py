"""Streams of a rank that run side by side: which nodes follow one another whatever they depend on, and what else the
engine has to know of a node there (`kernels.device`).

Nodes of one stream run in the order of their ids, which is that of the program. The attribute ``stream`` says which
stream a kernel is on; a compute node without it is on stream 0. Collectives of one process group follow one another on
any stream, as a communicator has them. Messages follow one another by peer and direction, so that a receive that is
posted early holds up no send. Operations of the host follow one another by thread. What the host launches after it has
waited for a node (``host_waits``) comes behind that node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.attributes import optional
from chakrasim.trace import NodeType, Trace
from chakrasim.trace import work as names
from chakrasim.trace.chakra.graph import AttrColumn
from chakrasim.trace.chakra.refusal import refuse_where

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Column = Callable[[str], AttrColumn]

LONGEST_NS = 1 << 46
"""Of a compute node: 19 hours. Work is counted in parts of a ns."""
THREAD = "tid"


@dataclass(frozen=True, eq=False)
class Lines:
    """Nodes that follow one another on each of several lines: positions in the trace, int64[n], line by line, in the
    order of their ids, and the number of the line that each is on. ``name`` has a place for that number."""

    name: str
    nodes: Ints
    line: Ints

    def pairs(self) -> tuple[Ints, Ints]:
        """Who comes right before whom."""
        same = self.line[1:] == self.line[:-1]
        return self.nodes[:-1][same], self.nodes[1:][same]

    def first_behind(self, place: Ints, node: int) -> Ints:
        """The first node of each line that comes behind a node, by ``place`` int64[nodes of the trace]."""
        behind = place[self.nodes] > place[node]
        before = np.concatenate([[False], behind[:-1] & (self.line[1:] == self.line[:-1])]) if behind.size else behind
        found: Ints = self.nodes[behind & ~before]
        return found


@dataclass(frozen=True, eq=False)
class Communication:
    """What is known of the nodes of a trace, int64[n] each, -1: not a collective, not a message.

    ``group`` is the group's index, ``peer`` the peer's, of sends and receives.
    """

    group: Ints
    peer: Ints


def lines_of(trace: Trace, column: Column, order: Ints, cpu: Mask, known: Communication) -> list[Lines]:
    """The lines of a rank's trace by kind, those of the host last; ``order`` int64[n] are the nodes by id."""
    types = trace.types
    given, thread = column(names.STREAM), column(THREAD)
    works = ((types == NodeType.COMP_NODE) | (types == NodeType.COMM_COLL_NODE)) & ~cpu
    works |= (types == NodeType.MEM_LOAD_NODE) | (types == NodeType.MEM_STORE_NODE)
    on_stream = works & (given.present | (types == NodeType.COMP_NODE))
    stream = given.integers() if (on_stream & given.present).any() else np.zeros(len(trace), np.int64)
    tids = np.stack([thread.kind.astype(np.int64), thread.bits.view(np.int64)])
    at_thread = np.unique(tids, axis=1, return_inverse=True)[1].reshape(-1)
    sends, receives = types == NodeType.COMM_SEND_NODE, types == NodeType.COMM_RECV_NODE
    return [
        _lines("stream {}", on_stream, stream, order),
        _lines("collectives of group {}", known.group >= 0, known.group, order),
        _lines("sends to peer {}", sends & (known.peer >= 0), known.peer, order),
        _lines("receives from peer {}", receives & (known.peer >= 0), known.peer, order),
        _lines("thread {}", cpu, at_thread, order),
    ]


def _lines(name: str, chosen: Mask, key: Ints, order: Ints) -> Lines:
    nodes = order[chosen[order]]
    nodes = nodes[np.argsort(key[nodes], kind="stable")]
    return Lines(name, nodes, key[nodes])


def followers(trace: Trace, column: Column, order: Ints, lines: Sequence[Lines]) -> tuple[Ints, Ints]:
    """Who comes before whom for the sake of the lines: positions of nodes, int64[edges] each."""
    place = np.empty(len(trace), np.int64)
    place[order] = np.arange(len(trace))
    pairs = [one.pairs() for one in lines]
    for node in np.flatnonzero(column(names.HOST_WAITS).integers() != 0).tolist():
        pairs += [
            (np.full(len(behind), node), behind) for behind in (one.first_behind(place, node) for one in lines[:-1])
        ]
    before, after = zip(*pairs, strict=True)
    return np.concatenate(before), np.concatenate(after)


def line_between(lines: Sequence[Lines], before: int, after: int) -> str:
    """The line on which a node follows another; "" if it is on none."""
    for one in lines:
        first, second = one.pairs()
        if ((first == before) & (second == after)).any():
            return one.name.format(int(one.line[one.nodes == before][0]))
    return ""


def roles_of(trace: Trace, groups: Ints, peer_roles: Ints, context: Context) -> tuple[Ints, tuple[str, ...]]:
    """By node the index of its role, and their names. ``groups`` and ``peer_roles`` int64[n] are the number of the
    group of each collective and message, 0 where there is none."""
    communicates = trace.types >= int(NodeType.COMM_SEND_NODE)
    role = np.zeros(len(trace), np.int64)
    found: dict[str, int] = {}
    numbers = np.where(trace.types == NodeType.COMM_COLL_NODE, groups, peer_roles)
    for collective in (True, False):
        chosen = communicates & ((trace.types == NodeType.COMM_COLL_NODE) == collective)
        for number in np.unique(numbers[chosen]).tolist():
            name = _role_name(number, collective, context)
            role[chosen & (numbers == number)] = found.setdefault(name, len(found))
    return role, tuple(found)


def _role_name(number: int, collective: bool, context: Context) -> str:
    if number < 0:
        return context.roles[-1 - number]
    if number == 0:
        return "all ranks" if collective else "messages"
    return context.role_of.get(number, "groups")


def launches(trace: Trace, column: Column) -> Ints:
    """int64[n], as `layout.NODE_D` has it: when the host has launched each node, and whether it waits for its end."""
    every = np.arange(len(trace))
    given = column(names.LAUNCH)
    launch = optional(given, every)
    message = f"attribute {names.LAUNCH!r} is out of range"
    refuse_where(launch >= LONGEST_NS, trace, message, found=launch.item, expected="less than 2^46 ns")
    waits = column(names.HOST_WAITS).integers() != 0
    packed: Ints = np.where(given.present, 2 * (launch + 1) + waits, 0)
    return packed


def suffering(trace: Trace, column: Column, nodes: Ints) -> Ints:
    """int64[nodes] of `layout.WHOLE`: how much of each compute node is slower while communication holds processors."""
    given = column(names.SLOWED)
    shares = np.full(len(nodes), at.WHOLE, np.int64)
    present = np.flatnonzero(given.present[nodes])
    _, first, which = np.unique(given.bits[nodes[present]], return_index=True, return_inverse=True)
    values = [given.value(int(nodes[present[i]])) for i in first.tolist()]
    wrong = [not isinstance(value, int | float) or not 0 <= value <= 1 for value in values]
    refuse_where(
        np.array(wrong, np.bool_)[which.reshape(-1)] if values else np.zeros(0, np.bool_),
        trace,
        f"attribute {names.SLOWED!r} is no share",
        nodes=nodes[present],
        found=lambda i: values[int(which.reshape(-1)[i])],
        expected="0 to 1",
    )
    if values:
        shares[present] = np.rint(np.array(values, np.float64) * at.WHOLE).astype(np.int64)[which.reshape(-1)]
    return shares
