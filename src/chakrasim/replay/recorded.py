"""What one trace asks for: its communication and compute in an order in which it could have run."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Ints, Trace, offsets_of
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import STRING, NodeType
from chakrasim.trace.work import DTYPE, FLOPS, SHAPE

_LARGEST = 1 << 46
"""Bytes; more in one operation is damage."""

DTYPES = {
    **dict.fromkeys(("float", "float32"), "float32"),
    **dict.fromkeys(("double", "float64"), "float64"),
    **dict.fromkeys(("half", "float16"), "float16"),
    "bfloat16": "bfloat16",
    **dict.fromkeys(("long", "long int", "int64", "long long"), "int64"),
    **dict.fromkeys(("int", "int32"), "int32"),
    **dict.fromkeys(("char", "int8", "signed char"), "int8"),
    **dict.fromkeys(("byte", "uint8", "bool", "unsigned char"), "uint8"),
}
"""Element types that back ends can add; others move as bytes."""


@dataclass(frozen=True)
class Wish:
    """One node that communicates or computes. ``after`` has bit i set for every communication i of the trace (in its
    order, sends apart) that must have ended before; ``place`` is the position in that order among all nodes."""

    node: int
    place: int
    type: int
    after: int


@dataclass(frozen=True, eq=False)
class Recorded:
    """A trace, read for replaying.

    Attributes
    ----------
    communication: its collectives and messages, in an order that its dependencies allow, in program order else.
    compute: compute nodes of the device, or of the host where the trace has no device; [] if not asked for.
    computes: how many compute nodes there are. others: other nodes by type.
    refused: reasons why the converter made compute nodes of recorded communication, with counts.
    """

    communication: list[Wish]
    compute: list[Wish]
    computes: int
    others: Counter[str]
    refused: dict[str, int]


def read_recorded(trace: Trace, stand_ins: Callable[[Trace], NDArray[np.bool_]] | None) -> Recorded:
    """``stand_ins``: bool[n], compute nodes that are asked for; None: none are. Raises InputError for dependencies that
    do not exist or form a circle."""
    order, parents, ends = _in_order(trace)
    types = trace.types
    is_comm = types >= int(NodeType.COMM_SEND_NODE)
    is_comp = types == NodeType.COMP_NODE
    chosen = is_comp & stand_ins(trace) if stand_ins is not None else np.zeros(len(types), np.bool_)
    sends = types == NodeType.COMM_SEND_NODE
    after = _ancestors(order, parents, ends, (is_comm, sends), is_comm | chosen)
    communication, computing = [], []
    for place, node in enumerate(order.tolist()):
        if is_comm[node]:
            communication.append(Wish(node, place, int(types[node]), after[node]))
        elif chosen[node]:
            computing.append(Wish(node, place, int(types[node]), after[node]))
    rest = types[~is_comm & ~is_comp]
    others = Counter({NodeType(int(kind)).name: int((rest == kind).sum()) for kind in np.unique(rest) if 0 <= kind < 8})
    return Recorded(communication, computing, int(is_comp.sum()), others, _refused(trace))


def by_device(trace: Trace) -> NDArray[np.bool_]:
    """bool[n]: the device's compute nodes, or all where the trace has none of a device."""
    is_comp = trace.types == NodeType.COMP_NODE
    device = ~(trace.attr("is_cpu_op").integers() != 0)
    host = ~(trace.attr("is_start_offset").integers() != 0)
    chosen: NDArray[np.bool_] = device if (is_comp & device).any() else host
    return chosen


def _refused(trace: Trace) -> dict[str, int]:
    from chakrasim.converter.linked.nodes import REASONS

    try:
        counts = json.loads(str(trace.metadata.get("counts", "{}")))
    except ValueError:
        return {}
    return {why: int(counts[why]) for why in REASONS.values() if counts.get(why)} if isinstance(counts, dict) else {}


def _in_order(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Node positions in an order in which dependencies come first, lower ids first; and the dependencies as node
    positions: those of node i are ``parents[ends[i]:ends[i + 1]]``."""
    n = len(trace)
    by_id = np.argsort(trace.ids, kind="stable").astype(np.int64)
    ids = trace.ids[by_id]
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        node = int(by_id[repeated[0] + 1])
        raise InputError(f"two nodes have the id {int(trace.ids[node])}", file=trace.source, place=trace.place(node))
    child = np.concatenate([np.repeat(np.arange(n), np.diff(d.offsets)) for d in (trace.ctrl_deps, trace.data_deps)])
    wanted = np.concatenate((trace.ctrl_deps.targets, trace.data_deps.targets))
    found = np.minimum(np.searchsorted(ids, wanted), max(n - 1, 0))
    missing = np.flatnonzero(ids[found] != wanted) if n else np.zeros(0, np.int64)
    if len(missing):
        node = int(child[missing[0]])
        text = f"depends on node {int(wanted[missing[0]])}, which does not exist"
        raise InputError(text, file=trace.source, place=trace.place(node))
    parent = by_id[found] if n else found.astype(np.int64)
    grouped = np.argsort(child, kind="stable")
    ends = offsets_of(np.bincount(child, minlength=n))
    parents = parent[grouped].astype(np.int64)
    number = np.empty(n, np.int64)
    number[by_id] = np.arange(n)
    if (number[parent] < number[child]).all():
        return by_id, parents, ends
    return _sorted(trace, number, parents, ends), parents, ends


def ordered(left: list[int], followers: Sequence[Iterable[int]], key: Sequence[Any]) -> list[int]:
    """Places so that each comes after those that it follows, of which ``left`` counts the ones not listed yet; of those
    that can come next the one with the smallest key. Those of a circle are missing."""
    ready = [(key[place], place) for place, count in enumerate(left) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, place = heapq.heappop(ready)
        order.append(place)
        for then in followers[place]:
            left[then] -= 1
            if not left[then]:
                heapq.heappush(ready, (key[then], then))
    return order


def _sorted(trace: Trace, number: Ints, parents: Ints, ends: Ints) -> Ints:
    n = len(number)
    left = np.diff(ends).tolist()
    child = np.repeat(np.arange(n), np.diff(ends))
    by_parent = np.argsort(parents, kind="stable")
    begins = np.searchsorted(parents[by_parent], np.arange(n + 1)).tolist()
    children = child[by_parent].tolist()
    followers = [children[begin:end] for begin, end in pairwise(begins)]
    order = ordered(left, followers, number.tolist())
    if len(order) < n:
        stuck = next(node for node in range(n) if left[node])
        raise InputError("dependencies form a circle", file=trace.source, place=trace.place(stuck))
    return np.array(order, np.int64)


def _ancestors(
    order: Ints,
    parents: Ints,
    ends: Ints,
    talks: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    wanted: NDArray[np.bool_],
) -> dict[int, int]:
    """By node that is wanted: its ancestors among communication, a bit for each in their order. ``talks``: which nodes
    communicate, and which of them send."""
    is_comm, is_send = talks
    uses = np.bincount(parents, minlength=len(order)).tolist()
    listed, begins = parents.tolist(), ends.tolist()
    masks: dict[int, int] = {}
    found: dict[int, int] = {}
    number = 0
    for node in order.tolist():
        mask = 0
        for parent in listed[begins[node] : begins[node + 1]]:
            mask |= masks.get(parent, 0)
            uses[parent] -= 1
            if not uses[parent]:
                masks.pop(parent, None)
        if wanted[node]:
            found[node] = mask
        if is_comm[node]:
            # A send is over for its rank once it is begun: nobody waits for its other side.
            mask |= 0 if is_send[node] else 1 << number
            number += 1
        if mask and uses[node]:
            masks[node] = mask
    return found


class Facts:
    """The attributes of a trace's nodes, decoded once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.column = cache(trace.attr)
        self._numbers = cache(lambda name: self.column(name).integers())

    def number(self, name: str, node: int, default: int = -1) -> int:
        """An integer attribute, ``default`` where absent. Raises InputError for what is no integer."""
        numbers = self._numbers(name)
        return int(numbers[node]) if self.column(name).present[node] else default

    def text(self, name: str, node: int) -> str:
        return self.column(name).string(node)

    def size(self, node: int) -> int:
        """``comm_size``, which communication must have."""
        size = self.number("comm_size", node)
        if not 0 <= size < _LARGEST:
            place = self.trace.place(node)
            found = "none" if size == -1 else str(size)
            raise InputError(
                "communication without a usable comm_size", file=self.trace.source, place=place, found=found
            )
        return size

    def dtype(self, node: int) -> str:
        """PyTorch's name of the element type, "" where neither an attribute nor the inputs say one that can be used."""
        column = self.column(DTYPE)
        name = column.string(node) if column.present[node] and column.kind[node] == STRING else ""
        if not name and self.trace.inputs[node, 0] >= 0:
            _, found, rest = self.trace.strings[int(self.trace.inputs[node, 2])].partition("Tensor(")
            name = rest.partition(")")[0] if found else ""
        return DTYPES.get(name.lower().removeprefix("c10::").removeprefix("torch."), "")

    def duration_ns(self, node: int) -> int:
        """The recorded duration, 0 where there is none."""
        exact = self.number("duration_ns", node)
        return exact if exact >= 0 else int(self.trace.duration_micros[node]) * 1000

    def start_ns(self, node: int) -> int:
        """When the node began, by the clock of its trace; 0 where it does not say."""
        exact = self.number("start_ns", node)
        return exact if exact >= 0 else int(self.trace.start_micros[node]) * 1000

    def product(self, node: int) -> tuple[int, int, int, int] | None:
        """Batch, m, n, k of a product of as many operations as the node states; None where it states none."""
        batch, m, n, k = (self.number(name, node, 0) for name in SHAPE)
        if min(m, n, k) > 0:
            return max(batch, 1), m, n, k
        flops = self.number(FLOPS, node, 0)
        if flops <= 0:
            return None
        edge = max(round((flops / 2) ** (1 / 3)), 1)
        return 1, edge, edge, edge

    def peer(self, node: int, sending: bool, members: tuple[int, ...]) -> int:
        """The rank on the other side of a message: by its position in the group, or as it stands."""
        position = self.number(PEER, node)
        if position >= 0:
            return members[position] if position < len(members) else -1
        return self.number("comm_dst" if sending else "comm_src", node)
