"""Collectives that the host carries out (gloo, MPI): what each is, and which operator hands it over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from chakrasim.collectives.spelling import NOT_WORK, host_backend_of, operation_of, plain
from chakrasim.linker.communication.records import NOTHING, Facts, Message, NodeFacts
from chakrasim.linker.communication.sources import Sources
from chakrasim.linker.communication.spans import CommunicationSpans, SpanKind, communication_spans
from chakrasim.linker.evidence.events import LaneEvents
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.kineto.columns import Indices, KinetoTrace
from chakrasim.trace.linked.columns import RECV, SEND, Evidence, RowKind

HandedOver = dict[int, tuple[int, int, Evidence]]

#: What DistributedDataParallel hands over from C++.
_OF_DDP = (CollectiveType.ALL_REDUCE, CollectiveType.BROADCAST)


def host_messages(table: RowTable, found: Sources) -> Iterator[Message]:
    """The collectives of the host in a device trace."""
    rows = np.flatnonzero((table.kind == RowKind.HOST_COLLECTIVE) & (table.part == 0) & (table.event >= 0))
    kineto, spans = found.kineto, found.spans
    ddp_group = found.ddp_group()
    for row, at in zip(rows.tolist(), handing_operators(kineto, spans, table.event[rows]), strict=True):
        event = int(table.event[row])
        facts = found.annotation(event)
        start = int(kineto.ts_ns[event])
        launch, evidence = start, "annotation"
        if at >= 0:
            launch, evidence = int(spans.start_ns[at]), "handing operator"
            facts = facts.filled(_handed_over(facts, at, found))
            if facts.group < 0 and operation_of(facts.name) in _OF_DDP and not _is_functional(at, spans):
                facts = replace(facts, group=ddp_group)
        else:
            facts = facts.filled(_marked_around(int(kineto.pid[event]), int(kineto.tid[event]), start, found))
        place = _place(facts, int(kineto.pid[event]), int(kineto.tid[event]))
        end = start + max(int(kineto.dur_ns[event]), 0)
        yield Message(row, start, end, launch, facts, evidence, place, operation_of(facts.name))


def _marked_around(pid: int, tid: int, time_ns: int, found: Sources) -> Facts:
    """What the recorder's annotation around a moment says: parts of a barrier have no operator that hands them over."""
    spans = found.spans
    around = spans.chain(spans.innermost(spans.threads.get((pid, tid), -1), time_ns))
    near = next((near for near in around if spans.kind[near] == SpanKind.GROUP), -1)
    return found.marked(near) if near >= 0 else NOTHING


def _is_functional(at: int, spans: CommunicationSpans) -> bool:
    return any(spans.kind[near] == SpanKind.FUNCTIONAL for near in spans.chain(at))


def _place(facts: Facts, pid: int, tid: int) -> tuple[str, int, int]:
    """Where it ran: collectives on worker threads of their group, messages on the thread of the program."""
    return ("caller", 0, 0) if operation_of(facts.name) in (SEND, RECV) else ("thread", pid, tid)


def _handed_over(facts: Facts, at: int, found: Sources) -> Facts:
    """What the operator that hands a collective over says, and the records and functional operators about it."""
    said = NOTHING
    for near in (*found.spans.inside(at), *found.spans.chain(at)):
        if found.spans.kind[near] == SpanKind.RECORD:
            said = said.filled(found.record(near))
        elif found.spans.kind[near] == SpanKind.FUNCTIONAL:
            said = said.filled(found.functional(near))
        elif found.spans.kind[near] == SpanKind.GROUP:
            said = said.filled(found.marked(near))
    said = said.filled(found.operator(at))
    asked = operation_of(said.name)
    if asked != operation_of(facts.name):
        # What is carried out differs from what was asked for: sizes are those of the annotation.
        members = said.members
        if asked == CollectiveType.REDUCE_SCATTER and said.out_bytes > 0:
            members = max(said.in_bytes, facts.in_bytes) // said.out_bytes
        said = replace(said, in_bytes=-1, out_bytes=-1, members=members)
    return said


def handing_operators(kineto: KinetoTrace, spans: CommunicationSpans, events: Indices) -> list[int]:
    """The position in ``spans`` of the operator of c10d that hands over each collective of the host, -1: unknown;
    ``events`` are the annotations of the back end. An annotation gets its record function id when the work is made,
    inside the operator: the operator is the last one before it that fits. Without such ids, in order of time."""
    operators = np.flatnonzero(spans.kind == SpanKind.OPERATOR)
    rf_ids = kineto.rf_id[spans.event[operators]]
    numbered = bool(len(operators)) and bool((rf_ids > 0).all())
    keys = rf_ids if numbered else spans.start_ns[operators]
    order = np.argsort(keys, kind="stable")
    operators, keys = operators[order], keys[order]
    used: set[int] = set()
    found = np.full(len(events), -1, np.int64)
    own = kineto.rf_id[events] if numbered else kineto.ts_ns[events]
    for number in np.argsort(own, kind="stable").tolist():
        name = kineto.strings[int(kineto.name[events[number]])]
        last = int(np.searchsorted(keys, own[number])) - 1
        fitting = (at for at in range(last, max(last - 64, -1), -1) if at not in used)
        # Without numbers the earliest that is still open, since work is carried out in order.
        candidates = fitting if numbered else reversed(list(fitting))
        at = next((at for at in candidates if _hands_over(spans.name[operators[at]], name)), -1)
        if at >= 0:
            used.add(at)
            found[number] = operators[at]
    return [int(at) for at in found]


def handed_over(work: LaneEvents) -> HandedOver:
    """(thread of the operator, time, evidence) by collective, an index into ``work.host``. The time is the operator's
    end, or the collective's start where that is earlier. Collectives on the operator's own thread, and those whose
    operator is not known, are left out."""
    host = work.host
    collectives = np.flatnonzero(host.kind == RowKind.HOST_COLLECTIVE)
    if not len(collectives):
        return {}
    spans = communication_spans(work.kineto)
    operators = handing_operators(work.kineto, spans, host.event[collectives].astype(np.int32))
    wanted = {int(spans.event[at]) for at in operators if at >= 0}
    event_of = {int(host.event[at]): int(at) for at in np.flatnonzero(np.isin(host.event, list(wanted)))}
    numbered = bool((work.kineto.rf_id[host.event[collectives]] > 0).all())
    evidence = Evidence.CORRELATION if numbered else Evidence.INFERRED
    found: dict[int, tuple[int, int, Evidence]] = {}
    for collective, at in zip(collectives.tolist(), operators, strict=True):
        giver = event_of.get(int(spans.event[at]), -1) if at >= 0 else -1
        begun = int(host.start_ns[collective])
        if giver < 0 or host.lane[giver] == host.lane[collective] or host.start_ns[giver] >= begun:
            continue
        found[collective] = (int(host.lane[giver]), min(int(host.end_ns[giver]), begun), evidence)
    return found


def _hands_over(operator: str, annotation: str) -> bool:
    asked, done = operation_of(operator.removeprefix("c10d::")), operation_of(annotation)
    # gloo carries a reduce-scatter out as an all-reduce.
    return asked == done or (asked == CollectiveType.REDUCE_SCATTER and done == CollectiveType.ALL_REDUCE)


def host_alone_messages(table: RowTable, nodes: NodeFacts) -> Iterator[Message]:
    """Collectives in a host trace without a device trace: the records of PyTorch, else the back ends' annotations."""
    trace = nodes.trace
    names = {index: trace.strings[index] for index in np.unique(trace.name).tolist()}
    of_node = np.full(len(trace), -1, np.int32)
    rows = np.flatnonzero((table.host_node >= 0) & (table.part == 0))
    of_node[table.host_node[rows]] = rows
    records = [index for index, name in names.items() if name == "record_param_comms"]
    annotations = [index for index, name in names.items() if host_backend_of(name)]
    chosen = np.flatnonzero(np.isin(trace.name, records + annotations) & (of_node >= 0))
    for node in chosen[np.argsort(trace.ids[chosen], kind="stable")].tolist():
        row, name = int(of_node[node]), names[int(trace.name[node])]
        if name == "record_param_comms":
            facts, evidence = nodes.said(node), "record_param_comms"
            if not facts.name or plain(facts.name) in NOT_WORK:
                continue
            place = ("stream", 0, 0)
        else:
            facts, evidence = replace(nodes.annotated(node), name=name), "annotation"
            place = _place(facts, 0, 0)
        start = int(table.start_ns[row])
        yield Message(row, start, int(table.end_ns[row]), start, facts, evidence, place, operation_of(facts.name))
