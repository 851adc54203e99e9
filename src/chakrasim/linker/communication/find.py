"""Collectives and messages of one rank: kernels and host collectives joined with what PyTorch recorded of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kernel_names import is_communication_kernel, operation_of_kernel
from chakrasim.collectives.kinds import KINDS, MESSAGE, Root, Whole
from chakrasim.collectives.spelling import operation_of
from chakrasim.linker.communication.group_table import MOST_RANKS, GroupTable, collect_groups
from chakrasim.linker.communication.groups import resolve_groups
from chakrasim.linker.communication.host import host_alone_messages, host_messages
from chakrasim.linker.communication.join import BY_ORDER, Join, Joiner, launches
from chakrasim.linker.communication.records import LARGEST, NOTHING, Facts, NodeFacts
from chakrasim.linker.communication.sources import Sources, sources
from chakrasim.linker.communication.spans import SpanKind
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.columns import COALESCED, RECV, SEND, UNKNOWN, Communication, ProcessGroup, RowKind


@dataclass(frozen=True)
class Message:
    """One collective or message before the groups are settled: its row, what is known, and when it was launched.
    ``place`` tells apart what may belong to different groups (a stream, a worker thread)."""

    row: int
    start_ns: int
    end_ns: int
    launch_ns: int
    facts: Facts
    operation: int
    evidence: str
    place: tuple[str, int, int] = ("", 0, 0)


def find_communication(
    table: RowTable,
    kineto: KinetoTrace | None,
    host: HostTrace | None,
    counts: dict[str, int] | None = None,
) -> tuple[Communication, tuple[ProcessGroup, ...]]:
    """The collectives and messages of one rank, and the process groups that it knows.

    Kernels: by record_param_comms that encloses their launch; then by External id; then, for batches and coalesced
    groups, the records since the last launch on that thread; then by order. A name comes from the kernel's or record's
    argument "Collective name", the host record's attribute, its inputs by position, the operator around it, the name
    of the kernel, in this order; an unknown one stays UNKNOWN. Several messages under one kernel are entries that share
    ``row``; a record that several kernels carry out has an entry for each, with its bytes divided among them.
    Host collectives (gloo, MPI): what the back end's annotation says it carries out, which may differ from what was
    asked for (gloo's reduce-scatter is an all-reduce of the whole input).

    ``size_bytes`` is what the simulator takes as ``comm_size``: of an all-gather (astra-system.md, 8.6) and of a gather
    the part of one rank, of a scatter all that the root has, of the others the whole input of this rank.

    ``counts`` receives what stayed unknown or was guessed.
    """
    counts = counts if counts is not None else {}
    groups = collect_groups(kineto, host, counts)
    nodes = NodeFacts(host, groups) if host is not None else None
    messages: list[Message] = []
    if kineto is not None:
        found = sources(table, kineto, host, groups, nodes)
        messages += _device_messages(table, found, counts)
        messages += [_message(*message) for message in host_messages(table, found)]
    elif nodes is not None:
        messages += [_message(*message) for message in host_alone_messages(table, nodes)]
    messages = _with_groups(messages, groups, counts)
    _count(messages, groups, counts)
    return _columns(messages, groups, table), tuple(groups.groups)


def _message(
    row: int, start_ns: int, end_ns: int, launch_ns: int, facts: Facts, evidence: str, place: tuple[str, int, int]
) -> Message:
    return Message(row, start_ns, end_ns, launch_ns, facts, operation_of(facts.name), evidence, place)


def _device_messages(table: RowTable, found: Sources, counts: dict[str, int]) -> list[Message]:
    rows = _kernel_rows(table, found.kineto)
    if not len(rows):
        return []
    call_rows = table.launch[rows]
    calls = np.where(call_rows >= 0, table.event[np.maximum(call_rows, 0)], -1)
    records = {at: found.record(at) for at in np.flatnonzero(found.spans.kind == SpanKind.RECORD).tolist()}
    joiner = Joiner(found.kineto, found.spans, {at: facts.name for at, facts in records.items()})
    joins = joiner.join(launches(found.kineto, found.spans, table.event[rows], calls))
    counts["communication_records_without_kernel"] = joiner.unused
    return [
        message
        for row, join in zip(rows.tolist(), joins, strict=True)
        for message in _messages_of(row, join, found, records)
    ]


def _kernel_rows(table: RowTable, kineto: KinetoTrace) -> NDArray[np.intp]:
    """Rows of kernels that communicate: by their name, by arguments of a collective, or launched by a record."""
    rows = np.flatnonzero(table.kind == RowKind.KERNEL)
    rows = rows[table.event[rows] >= 0]
    names = kineto.name[table.event[rows]]
    known = kineto.strings.each(names, is_communication_kernel)
    described = np.isin(table.event[rows], kineto.rare_column("Collective name").rows)
    parent = table.parent[rows]
    recorded = np.where(parent >= 0, table.event[np.maximum(parent, 0)], -1)
    of_record = (recorded >= 0) & (kineto.name[np.maximum(recorded, 0)] == kineto.find("record_param_comms"))
    chosen: NDArray[np.intp] = rows[known | described | of_record]
    return chosen


def _messages_of(row: int, join: Join, found: Sources, records: dict[int, Facts]) -> list[Message]:
    """The messages that a kernel carries out: one for each of its records, one if it has none."""
    kernel, kineto, spans = join.kernel, found.kineto, found.spans
    end = kernel.start_ns + max(int(kineto.dur_ns[kernel.event]), 0)
    place = ("stream", int(kineto.device[kernel.event]), int(kineto.stream[kernel.event]))
    # What a kernel that ends a group says is of one of its messages at most.
    own = found.events.said(kernel.event) if len(join.records) < 2 else NOTHING
    messages = []
    for record in join.records or [-1]:
        around = join.around
        if record >= 0:
            around = [at for at in spans.inside(record) if spans.kind[at] == SpanKind.ANNOTATION] + spans.chain(record)
        facts = own.filled(records.get(record, NOTHING)).filled(found.around(around))
        operation = operation_of(facts.name)
        if operation in (UNKNOWN, COALESCED) and operation_of_kernel(kernel.name) != UNKNOWN:
            operation = operation_of_kernel(kernel.name)
        if join.shared_by > 1:
            facts = _divided(facts, join.share, join.shared_by)
        evidence = "kernel arguments" if own.name else join.evidence
        messages.append(Message(row, kernel.start_ns, end, kernel.launch_ns, facts, operation, evidence, place))
    return messages


def _divided(facts: Facts, share: int, shared_by: int) -> Facts:
    def part(size: int) -> int:
        return size if size < 0 else size // shared_by + (share < size % shared_by)

    return replace(facts, in_bytes=part(facts.in_bytes), out_bytes=part(facts.out_bytes))


def _with_groups(messages: Sequence[Message], groups: GroupTable, counts: dict[str, int]) -> list[Message]:
    settled = resolve_groups(
        [(message.facts, message.operation, message.place) for message in messages], groups, counts
    )
    return [
        replace(message, facts=replace(message.facts, group=group))
        for message, group in zip(messages, settled, strict=True)
    ]


def sizes_of(operation: int, facts: Facts, members: int) -> tuple[int, int, int]:
    """(``size_bytes``, ``in_bytes``, ``out_bytes``) of one collective in a group of ``members`` (0: unknown), where one
    side follows from the other; -1 where it does not."""
    inside, outside = facts.in_bytes, facts.out_bytes
    if operation == SEND:
        size = inside if inside > 0 else outside
        return size, size, 0
    if operation == RECV:
        size = outside if outside > 0 else inside
        return size, 0, size
    kind = KINDS.get(operation)
    if kind is None:
        return max(inside, outside), inside, outside
    if kind.whole is Whole.BOTH:
        inside, outside = (inside if inside >= 0 else outside), (outside if outside >= 0 else inside)
    elif not kind.rooted and members and inside < 0 <= outside:
        inside = outside * members if kind.whole is Whole.INPUT else outside // members
    elif not kind.rooted and members and outside < 0 <= inside:
        outside = inside // members if kind.whole is Whole.INPUT else inside * members
    elif kind.root is Root.GIVES and members and outside >= 0:
        # Only the root has all of it, and all ranks must say the same.
        return outside * members, inside, outside
    return inside, inside, outside


def _count(messages: Sequence[Message], groups: GroupTable, counts: dict[str, int]) -> None:
    counts["communications"] = len(messages)
    counts["communications_of_unknown_kind"] = sum(message.operation == UNKNOWN for message in messages)
    counts["communications_without_group"] = sum(message.facts.group < 0 for message in messages)
    counts["communications_joined_by_order"] = sum(message.evidence == BY_ORDER for message in messages)
    counts["process_group_conflicts"] = groups.conflicts


def _columns(messages: Sequence[Message], groups: GroupTable, table: RowTable) -> Communication:
    order = sorted(range(len(messages)), key=lambda at: (messages[at].start_ns, messages[at].row, at))
    ordered = [messages[at] for at in order]
    sizes = [
        [size if -1 <= size < LARGEST else -1 for size in sizes_of(m.operation, m.facts, groups.size(m.facts.group))]
        for m in ordered
    ]
    peers = [_peer(message, groups) for message in ordered]
    texts = {text: table.texts.add(text) for m in ordered for text in (m.facts.dtype, m.evidence)}

    def narrow(values: list[int]) -> NDArray[np.int32]:
        return np.array(values, np.int32)

    def wide(values: list[int]) -> NDArray[np.int64]:
        return np.array(values, np.int64)

    return Communication(
        row=narrow([m.row for m in ordered]),
        operation=narrow([m.operation for m in ordered]),
        size_bytes=wide([size[0] for size in sizes]),
        in_bytes=wide([size[1] for size in sizes]),
        out_bytes=wide([size[2] for size in sizes]),
        group=narrow([m.facts.group for m in ordered]),
        sequence=wide([m.facts.sequence for m in ordered]),
        ordinal=narrow(_ordinals(ordered, peers)),
        peer=narrow(peers),
        start_ns=wide([m.start_ns for m in ordered]),
        end_ns=wide([m.end_ns for m in ordered]),
        dtype=narrow([texts[m.facts.dtype] for m in ordered]),
        evidence=narrow([texts[m.evidence] for m in ordered]),
        wait_ns=np.full(len(ordered), -1, np.int64),
        transfer_ns=np.full(len(ordered), -1, np.int64),
    )


def _peer(message: Message, groups: GroupTable) -> int:
    facts = message.facts
    if message.operation in (SEND, RECV):
        known = 0 <= facts.peer <= MOST_RANKS
        return facts.peer if known else groups.global_rank(facts.group, facts.root)
    rooted = KINDS.get(message.operation, MESSAGE).rooted
    return groups.global_rank(facts.group, facts.root) if rooted else -1


def _ordinals(messages: Sequence[Message], peers: Sequence[int]) -> list[int]:
    """How many of the same group (messages: and peer and direction) were launched before each."""
    seen: Counter[tuple[int, int, int]] = Counter()
    ordinals = [0] * len(messages)
    for at in sorted(range(len(messages)), key=lambda at: (messages[at].launch_ns, at)):
        message = messages[at]
        is_message = message.operation in (SEND, RECV)
        key = (message.facts.group, peers[at] if is_message else -1, message.operation if is_message else -1)
        ordinals[at] = seen[key]
        seen[key] += 1
    return ordinals
