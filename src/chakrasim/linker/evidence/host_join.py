"""Operators of the host trace matched with the events of the device trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.rows.texts import TextPool
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Ints
from chakrasim.trace.linked.columns import RowKind

Indices = NDArray[np.int32]

#: Nodes that stand for the process and its threads, in host traces of all schemas.
_FRAME = ("[pytorch|profiler|execution_trace|", "[pytorch|profiler|execution_graph|")
#: Ids are trusted if at least this share of the joined pairs bear the same name.
_TRUSTED = 0.5
#: Equally often named operators are matched by their order if that matches this share of all.
_ALMOST_ALL = 0.9
#: To find by how much ids differ: so many nodes are compared with so many events of their name, and so many
#: differences are tried on all; so many different ones are expected.
_SAMPLE, _CANDIDATES, _TRIED, _SHIFTS = 200, 200, 8, 4


@dataclass(frozen=True, eq=False)
class HostJoin:
    """``node`` int32[h]: the host trace's node of each event of the host, -1: none; ``event`` int32[nodes]: the other
    way round; ``name`` int32[nodes]: names in the common table of texts; ``method``: what was equal; ``found`` and
    ``agreeing``: pairs with equal record-function ids, and those among them whose names agree."""

    node: Indices
    event: Indices
    name: Indices
    method: str
    found: int
    agreeing: int


def frame_nodes(host: HostTrace) -> NDArray[np.bool_]:
    """bool[nodes]: nodes for the process and its threads, which are no operators."""
    return host.strings.each(host.name, lambda name: name.startswith(_FRAME))


def names_in(host: HostTrace, texts: TextPool) -> Indices:
    """int32[nodes]: names as indices into ``texts``."""
    index_of = np.zeros(len(host.strings), np.int32)
    for index in np.unique(host.name).tolist():
        index_of[index] = texts.add(host.strings.raw(index))
    return index_of[host.name]


def join_host(work: LaneEvents, host: HostTrace, texts: TextPool) -> HostJoin:
    """Match by record-function id; else (before PyTorch 2.1) the k-th operator of a name with the k-th of that name, in
    order of their starts, for names that both traces have equally often; else by External id, which differs by a
    constant for each thread. Only equal names match."""
    name = names_in(host, texts)
    named = np.unique(work.kineto.name[work.annotations.event])
    nodes = np.flatnonzero(~frame_nodes(host) & ~np.isin(name, named))
    events = np.flatnonzero(work.host.kind != RowKind.RUNTIME)
    rows = work.host.event[events]
    event_name = work.kineto.name[rows]
    a, b = _equal(work.kineto.rf_id[rows], host.rf_id[nodes])
    same = event_name[a] == name[nodes[b]]
    found, agreeing = len(a), int(same.sum())
    method, a, b = "record function id", a[same], b[same]
    if not agreeing or agreeing < _TRUSTED * found:
        method = "name and order"
        a, b = _by_order(event_name, work.host.start_ns[events], name[nodes], host.ids[nodes])
        if len(a) < _ALMOST_ALL * len(nodes):
            ids = work.kineto.external_id[rows]
            c, d = _by_shifted_ids(ids, event_name, host.rf_id[nodes], name[nodes])
            if len(c) > len(a):
                method, a, b = "External id", c, d
    best = (len(a), method if len(a) else "nothing", events[a], nodes[b])
    node, event = np.full(len(work.host), -1, np.int32), np.full(len(host), -1, np.int32)
    node[best[2]], event[best[3]] = best[3], best[2]
    operators = int((work.host.kind == RowKind.OPERATOR).sum())
    inside = _in_window(host, nodes, best[3], work.kineto.rf_id[rows])
    matched = int((event[inside] >= 0).sum())
    work.counts.update(
        host_nodes=len(inside),
        host_nodes_matched=matched,
        host_nodes_unmatched=len(inside) - matched,
        host_nodes_outside_the_window=len(nodes) - len(inside),
        operators_without_host_node=int((node[work.host.kind == RowKind.OPERATOR] < 0).sum()),
        operators=operators,
        rf_ids_in_both=found,
        rf_ids_with_equal_names=agreeing,
    )
    return HostJoin(node, event, name, best[1], found, agreeing)


def _in_window(host: HostTrace, nodes: Ints, matched: Ints, device_ids: Ints) -> Ints:
    """The nodes that ran while the device trace was recorded: an observer may run for longer, around a whole program.

    Record-function ids count upwards in a process: the window is what lies between the first and the last that the
    device trace has, or, where it has none, that a matched node has. Where nothing matches, all nodes.
    """
    ids = device_ids[device_ids > 0]
    if not len(ids):
        ids = host.rf_id[matched]
        ids = ids[ids > 0]
    if not len(ids) or not len(matched):
        return nodes
    of_nodes = host.rf_id[nodes]
    # Nodes without an id may be of any time.
    inside: Ints = nodes[((of_nodes >= ids.min()) & (of_nodes <= ids.max())) | (of_nodes <= 0)]
    return inside


def _by_shifted_ids(
    left: Ints, left_name: Indices, right: Ints, right_name: Indices
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of equal ids after one shift for most, another for most of the rest, and so on."""
    here, there = np.arange(len(left)), np.arange(len(right))
    found: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = [(here[:0], there[:0])]
    for _ in range(_SHIFTS):
        shift = _shift(left[here], left_name[here], right[there], right_name[there])
        a, b = _equal(left[here] - shift, right[there])
        same = left_name[here[a]] == right_name[there[b]]
        a, b = a[same], b[same]
        if len(a) * 20 < len(right):
            break
        found.append((here[a], there[b]))
        here, there = np.delete(here, a), np.delete(there, b)
    return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _shift(left: Ints, left_name: Indices, right: Ints, right_name: Indices) -> int:
    """The constant that makes most ids on the left equal to those on the right that bear the same name."""
    sample = np.flatnonzero(right > 0)
    sample = sample[:: max(len(sample) // _SAMPLE, 1)]
    votes: dict[int, int] = {}
    by_name = np.argsort(left_name, kind="stable")
    low = np.searchsorted(left_name[by_name], right_name[sample], side="left")
    high = np.searchsorted(left_name[by_name], right_name[sample], side="right")
    for node, begin, end in zip(sample.tolist(), low.tolist(), high.tolist(), strict=True):
        for shift in (left[by_name[begin : min(end, begin + _CANDIDATES)]] - right[node]).tolist():
            votes[shift] = votes.get(shift, 0) + 1
    likely = sorted(votes, key=lambda shift: (-votes[shift], abs(shift), shift))[:_TRIED]
    best, most = 0, 0
    for shift in sorted(likely, key=lambda shift: (abs(shift), shift)):
        a, b = _equal(left - shift, right)
        agreeing = int((left_name[a] == right_name[b]).sum())
        if agreeing > most:
            best, most = shift, agreeing
    return best


def _equal(left: Ints, right: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of equal positive ids on both sides; of repeated ones the first on each side."""
    ids_left, at_left = np.unique(left, return_index=True)
    ids_right, at_right = np.unique(right, return_index=True)
    both, a, b = np.intersect1d(ids_left, ids_right, assume_unique=True, return_indices=True)
    positive = both > 0
    return at_left[a[positive]], at_right[b[positive]]


def _by_order(
    left_name: Indices, left_start: Ints, right_name: Indices, right_id: Ints
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The k-th of each name on the left with the k-th on the right, for names that both have equally often."""
    size = int(max(left_name.max(initial=0), right_name.max(initial=0))) + 1
    equal = np.bincount(left_name, minlength=size) == np.bincount(right_name, minlength=size)
    left = np.lexsort((left_start, left_name))
    right = np.lexsort((right_id, right_name))
    return left[equal[left_name[left]]], right[equal[right_name[right]]]
