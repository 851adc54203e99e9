"""Dependencies of the nodes: all edges that delay as data dependencies, callers as control dependencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chakrasim.converter.nodes import JOIN, OFFSET, NodePlan
from chakrasim.errors import InputError
from chakrasim.trace.graph import Ints
from chakrasim.trace.linked import EdgeKind, Evidence, LinkedTrace

_KINDS, _EVIDENCES = 16, 8


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Dependencies of ``k`` nodes, in order of the node, then of what it waits for.

    Attributes
    ----------
    data_ends, ctrl_ends: int64[k + 1], where each node's dependencies start.
    data, ctrl: int64, nodes.
    kind, evidence: int64 [data], `EdgeKind` and `Evidence` of each data dependency.
    merged: edges between two nodes that another kind of edge joins too; the kind of the greater number stays.
    """

    data_ends: Ints
    data: Ints
    kind: Ints
    evidence: Ints
    ctrl_ends: Ints
    ctrl: Ints
    merged: int


def dependencies(linked: LinkedTrace, plan: NodePlan) -> Dependencies:
    """The dependencies of the planned nodes. Raises InputError for an edge that does not go forward."""
    rows = len(linked)
    source, target = linked.edge_source.astype(np.int64), linked.edge_target.astype(np.int64)
    wrong = np.flatnonzero((source < 0) | (source >= target) | (target >= rows))
    if len(wrong):
        edge = int(wrong[0])
        raise InputError(
            "the edges of this linked trace do not all go forward",
            file=linked.source,
            place=f"edge {edge}",
            found=f"from row {int(source[edge])} to row {int(target[edge])} of {rows}",
            expected="an edge to a later row",
            remedy="link the trace again",
        )
    control = linked.edge_kind == EdgeKind.CONTROL
    ctrl = _spread(plan, source[control], target[control])
    pairs = np.unique(ctrl[1] * len(plan) + ctrl[0])
    ctrl_ends = _ends(pairs // max(len(plan), 1), len(plan))
    delaying = ~control
    kind, evidence = linked.edge_kind[delaying].astype(np.int64), linked.edge_evidence[delaying].astype(np.int64)
    data, ends, kinds, merged = _data(plan, source[delaying], target[delaying], kind * _EVIDENCES + evidence, ctrl_ends)
    return Dependencies(
        ends, data, kinds // _EVIDENCES, kinds % _EVIDENCES, ctrl_ends, pairs % max(len(plan), 1), merged
    )


def _data(plan: NodePlan, source: Ints, target: Ints, word: Ints, ctrl_ends: Ints) -> tuple[Ints, Ints, Ints, int]:
    """The data dependencies, where each node's end, their kinds and evidence in a word, and how many were merged."""
    nodes = len(plan)
    given = _spread(plan, source, target, word)
    inside = _within_rows(plan)
    sources, targets, words = (np.concatenate(parts) for parts in zip(given, inside, strict=True))
    if nodes and plan.entry[0] == OFFSET:
        waiting = np.bincount(targets, minlength=nodes) + np.diff(ctrl_ends)
        roots = np.flatnonzero(waiting == 0)[1:]
        sources = np.concatenate((sources, np.zeros(len(roots), np.int64)))
        targets = np.concatenate((targets, roots))
        words = np.concatenate((words, np.full(len(roots), _word(EdgeKind.THREAD, Evidence.NESTING))))
    # One word to sort by: the target, the source, then the kind of the greatest number first.
    span = _KINDS * _EVIDENCES
    keys = (targets * nodes + sources) * span + (span - 1 - words)
    keys.sort()
    pair = keys // span
    kept = np.ones(len(keys), np.bool_)
    kept[1:] = pair[1:] != pair[:-1]
    keys, pair = keys[kept], pair[kept]
    target = pair // max(nodes, 1)
    return pair - target * nodes, _ends(target, nodes), span - 1 - (keys - pair * span), int(np.sum(~kept))


def _word(kind: EdgeKind, evidence: Evidence) -> int:
    return int(kind) * _EVIDENCES + int(evidence)


def _spread(plan: NodePlan, source: Ints, target: Ints, word: Ints | None = None) -> tuple[Ints, Ints, Ints]:
    """Edges between rows as edges between nodes: every message of a batch waits for what its row waits for."""
    copies = np.where(plan.batch[target], plan.last[target] - plan.first[target], 1)
    edge = np.repeat(np.arange(len(target)), copies)
    place = np.arange(len(edge)) - np.repeat(np.cumsum(copies) - copies, copies)
    words = np.zeros(len(edge), np.int64) if word is None else word[edge]
    return plan.last[source[edge]], plan.first[target[edge]] + place, words


def _within_rows(plan: NodePlan) -> tuple[Ints, Ints, Ints]:
    """The end of a batch waits for its messages; collectives of one row run one after the other."""
    batches = np.flatnonzero(plan.batch)
    counts = plan.last[batches] - plan.first[batches]
    ends = np.repeat(plan.last[batches], counts)
    messages = ends - (np.repeat(np.cumsum(counts), counts) - np.arange(len(ends)))
    later = np.flatnonzero((plan.row[1:] == plan.row[:-1]) & (plan.row[1:] >= 0)) + 1
    later = later[~plan.batch[plan.row[later]] & (plan.entry[later] != JOIN)]
    sources, targets = np.concatenate((messages, later - 1)), np.concatenate((ends, later))
    return sources, targets, np.full(len(sources), _word(EdgeKind.COMMUNICATION, Evidence.NESTING))


def _ends(target: Ints, nodes: int) -> Ints:
    ends = np.zeros(nodes + 1, np.int64)
    np.cumsum(np.bincount(target, minlength=nodes), out=ends[1:])
    return ends
