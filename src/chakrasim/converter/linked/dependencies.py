"""Dependencies of the nodes: all edges that delay as data dependencies, callers as control dependencies.

Each is one number to sort by, so that it takes eight bytes; what it means is worked out for some nodes at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.linked.nodes import NodePlan
from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Ints, offsets_of
from chakrasim.trace.linked.columns import EdgeKind, Evidence
from chakrasim.trace.linked.parts import CHUNK, LinkedParts

_EVIDENCES = 8
#: As many words hold a kind and an evidence.
_WORDS = 16 * _EVIDENCES


@dataclass(frozen=True, eq=False)
class NodeDependencies:
    """Dependencies of ``k`` nodes, in order of the node, then of what it waits for.

    Attributes
    ----------
    data_ends, ctrl_ends: int64[k + 1], where each node's dependencies start.
    data, ctrl: int64, nodes.
    kind, evidence: int64 [data], `EdgeKind` and `Evidence` of each data dependency.
    """

    data_ends: Ints
    data: Ints
    kind: Ints
    evidence: Ints
    ctrl_ends: Ints
    ctrl: Ints


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The dependencies of all ``nodes`` nodes.

    Attributes
    ----------
    data, ctrl: int64, ascending, some more than once: target, source, and a word for kind and evidence that is the
        smaller the greater they are.
    from_offset: whether nodes that wait for nothing wait for node 0.
    merged: edges between two nodes that another kind of edge joins too; the kind of the greater number stays.
    """

    nodes: int
    data: Ints
    ctrl: Ints
    from_offset: bool
    merged: int

    def of(self, begin: int, end: int) -> NodeDependencies:
        """The dependencies of nodes ``begin`` to ``end``."""
        keys, ctrl = (self._some(column, begin, end) for column in (self.data, self.ctrl))
        ctrl_target, ctrl_source, _ = _parted(ctrl, self.nodes)
        if self.from_offset:
            waiting = np.zeros(end - begin, np.bool_)
            waiting[keys // (self.nodes * _WORDS) - begin] = True
            waiting[ctrl_target - begin] = True
            roots = np.flatnonzero(~waiting) + begin
            begun = int(EdgeKind.THREAD) * _EVIDENCES + int(Evidence.NESTING)
            keys = np.sort(np.append(keys, _keys(np.zeros(1, np.int64), roots[roots > 0], begun, self.nodes)))
        target, source, word = _parted(keys, self.nodes)
        data_ends, ctrl_ends = (
            offsets_of(np.bincount(column - begin, minlength=end - begin)) for column in (target, ctrl_target)
        )
        return NodeDependencies(data_ends, source, word // _EVIDENCES, word % _EVIDENCES, ctrl_ends, ctrl_source)

    def _some(self, keys: Ints, begin: int, end: int) -> Ints:
        low, high = np.searchsorted(keys, np.array([begin, end], np.int64) * (self.nodes * _WORDS)).tolist()
        return keys[low:high]


def dependencies(parts: LinkedParts, plan: NodePlan) -> Dependencies:
    """The dependencies of the planned nodes. Raises InputError for an edge that does not go forward."""
    delaying = sum(int(np.count_nonzero(kind != EdgeKind.CONTROL)) for (kind,) in parts.edge_parts("kind"))
    found = (_Keys(delaying), _Keys(parts.edges - delaying))
    place = 0
    for source, target, kind, evidence in parts.edge_parts("source", "target", "kind", "evidence"):
        _check(parts, place, source, target)
        place += len(source)
        control = kind == EdgeKind.CONTROL
        words = np.where(control, 0, kind.astype(np.int64) * _EVIDENCES + evidence)
        for keys, which in zip(found, (~control, control), strict=True):
            keys.add(_between_nodes(plan, source[which], target[which], words[which]))
    found[0].add(_within_rows(plan))
    data, ctrl = (keys.sorted() for keys in found)
    merged = 0
    for begin in range(0, len(data), CHUNK):
        pair = data[begin : begin + CHUNK + 1] // _WORDS
        merged += int(np.count_nonzero(pair[1:] == pair[:-1]))
    return Dependencies(len(plan), data, ctrl, plan.shift > 0, merged)


def _check(parts: LinkedParts, place: int, source: NDArray[np.int32], target: NDArray[np.int32]) -> None:
    rows = len(parts)
    wrong = np.flatnonzero((source < 0) | (source >= target) | (target >= rows))
    if len(wrong):
        edge = int(wrong[0])
        raise InputError(
            "the edges of this linked trace do not all go forward",
            file=parts.outline.source,
            place=f"edge {place + edge}",
            found=f"from row {int(source[edge])} to row {int(target[edge])} of {rows}",
            expected="an edge to a later row",
            remedy="link the trace again",
        )


class _Keys:
    """Keys that are added to; there is room for most of them from the start."""

    def __init__(self, room: int) -> None:
        self.keys, self.used = np.empty(room, np.int64), 0

    def add(self, keys: Ints) -> None:
        """Add some."""
        if self.used + len(keys) > len(self.keys):
            self.keys.resize(self.used + len(keys) + CHUNK, refcheck=False)
        self.keys[self.used : self.used + len(keys)] = keys
        self.used += len(keys)

    def sorted(self) -> Ints:
        """All of them, ascending."""
        self.keys.resize(self.used, refcheck=False)
        self.keys.sort()
        return self.keys


def _keys(source: Ints, target: Ints, word: Ints | int, nodes: int) -> Ints:
    """One number for each dependency, to sort by."""
    keys: Ints = (target * nodes + source) * _WORDS + (_WORDS - 1 - word)
    return keys


def _parted(keys: Ints, nodes: int) -> tuple[Ints, Ints, Ints]:
    """Target, source and word of sorted keys, the first of each pair of nodes."""
    pair = keys // _WORDS
    kept = np.ones(len(keys), np.bool_)
    kept[1:] = pair[1:] != pair[:-1]
    pair, word = pair[kept], _WORDS - 1 - keys[kept] % _WORDS
    target = pair // max(nodes, 1)
    return target, pair - target * nodes, word


def _between_nodes(plan: NodePlan, source: NDArray[np.int32], target: NDArray[np.int32], word: Ints) -> Ints:
    """Edges between rows as edges between nodes: every message of a batch waits for what its row waits for."""
    giver, taker = plan.last(source.astype(np.int64)), target.astype(np.int64)
    first = plan.first(taker)
    batch = np.flatnonzero(plan.is_batch(taker))
    keys = _keys(giver, first, word, len(plan))
    if not len(batch):
        return keys
    # Of the messages behind the first.
    copies = plan.last(taker[batch]) - first[batch] - 1
    edge = np.repeat(batch, copies)
    place = np.arange(1, len(edge) + 1) - np.repeat(np.cumsum(copies) - copies, copies)
    return np.append(keys, _keys(giver[edge], first[edge] + place, word[edge], len(plan)))


def _within_rows(plan: NodePlan) -> Ints:
    """The end of a batch waits for its messages; collectives of one row run one after the other."""
    first, last = plan.first(plan.several), plan.last(plan.several)
    counts = last - first
    source = np.repeat(first, counts) + np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    target = np.where(np.repeat(plan.batch, counts), np.repeat(last, counts), source + 1)
    return _keys(source, target, int(EdgeKind.COMMUNICATION) * _EVIDENCES + int(Evidence.NESTING), len(plan))
