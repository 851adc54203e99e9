"""The attributes of nodes, a range of nodes at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import ROOTED
from chakrasim.converter.folder.across_ranks import RankInRun
from chakrasim.converter.folder.group_numbers import UNUSABLE
from chakrasim.converter.linked.nodes import JOIN, OFFSET, NodePart, NodePlan
from chakrasim.converter.linked.work_columns import work_columns
from chakrasim.trace.chakra.assemble import Column, Strings
from chakrasim.trace.chakra.graph import Ints
from chakrasim.trace.kinds import BOOL, INT32, INT64, STRING
from chakrasim.trace.linked.columns import DEVICE_KINDS, RECV, SEND, LinkedTrace, RowKind

TAG_RANGE = 500_000_000
"""The simulator takes tags modulo this (astra-system.md, 12.1)."""
_GROUP_STEP = 1_000_003


@dataclass(frozen=True, eq=False)
class NodeRange:
    """Some nodes of a plan, and the columns of their attributes; ``linked`` has only the rows that they are of."""

    linked: LinkedTrace
    plan: NodePlan
    part: NodePart
    rank: RankInRun
    strings: Strings
    first_ns: int
    """When the whole trace begins."""

    @property
    def row(self) -> Ints:
        """int64: the row of each node in ``linked``, 0 for the start offset (see ``is_row``)."""
        return self.part.row

    @cached_property
    def is_row(self) -> NDArray[np.bool_]:
        """bool: not the start offset."""
        found: NDArray[np.bool_] = self.entry != OFFSET
        return found

    @property
    def entry(self) -> Ints:
        """int64: entry of communication, negative for other nodes."""
        return self.part.entry

    @cached_property
    def is_communication(self) -> NDArray[np.bool_]:
        """bool: collectives and messages."""
        carries: NDArray[np.bool_] = self.entry >= 0
        return carries

    @cached_property
    def begins_row(self) -> NDArray[np.bool_]:
        """bool: nodes that wait for what their row waits for."""
        messages = self.part.batch & self.is_communication
        begins: NDArray[np.bool_] = self.is_row & ((self.part.place == 0) | messages)
        return begins

    @cached_property
    def work_ns(self) -> tuple[Ints, Ints]:
        """int64: start and length of each node's own work, as recorded."""
        linked, row = self.linked, self.row
        length, later = self.part.times(linked.duration_ns, self.plan.offset_ns)
        start = linked.start_ns[row] + linked.wait_ns[row] + later
        offset = ~self.is_row
        start[offset] = self.first_ns - length[offset]
        return start, length

    @cached_property
    def start_ns(self) -> Ints:
        """int64: start of each node's span; it may wait before it works."""
        waiting = np.where(self.begins_row, self.linked.wait_ns[self.row], 0)
        return self.work_ns[0] - waiting

    @cached_property
    def is_device(self) -> NDArray[np.bool_]:
        return np.isin(self.linked.kind[self.row], DEVICE_KINDS) & self.is_row

    @cached_property
    def computing(self) -> tuple[Ints, Ints]:
        """int64 each: nodes of which is known what they compute (or why not), and their entries in the works."""
        works = self.linked.works
        nodes = np.flatnonzero(self._heads & ~self.is_communication)
        rows = self.row[nodes] + self.part.rows.start
        at = np.minimum(np.searchsorted(works.row, rows), max(len(works) - 1, 0))
        found = works.row[at] == rows if len(works) else np.zeros(len(rows), np.bool_)
        return nodes[found], at[found]

    def columns(self) -> Iterator[Column]:
        """The attributes, in the order in which a node has them; without the lists of its dependencies."""
        host = ~self.is_device & ~self.is_communication & (self.entry != JOIN)
        host[self.computing[0]] = False
        yield Column("is_cpu_op", BOOL, None, host)
        yield from self._communication()
        yield from self._times()
        yield from self._places()
        yield from self._references()
        yield from work_columns(self.linked.works, *self.computing, self.is_device, self.strings, self.linked.strings)
        schema = np.where(self._heads, self.linked.op_schema[self.row], 0)
        yield self._some("op_schema", STRING, schema, schema > 0)
        gap = self.is_row & (self.linked.kind[self.row] == RowKind.GAP)
        yield self._some("is_gap", BOOL, gap, gap)
        offset = self.entry == OFFSET
        yield self._some("is_start_offset", BOOL, offset, offset)

    @cached_property
    def _heads(self) -> NDArray[np.bool_]:
        """bool: nodes that stand for an event: its first row, and the first node of that."""
        heads: NDArray[np.bool_] = (self.linked.part[self.row] == 0) & (self.part.place == 0)
        return heads & self.is_row

    def _some(self, name: str, kind: int, values: NDArray[np.generic], where: NDArray[np.bool_]) -> Column:
        owners = np.flatnonzero(where)
        return Column(name, kind, owners, values[owners].astype(np.int64))

    def _communication(self) -> Iterator[Column]:
        communication = self.linked.communication
        owners = np.flatnonzero(self.is_communication)
        if not len(owners):
            return
        entry = self.entry[owners]
        operation = communication.operation[entry].astype(np.int64)
        message, peer = operation >= SEND, communication.peer[entry].astype(np.int64)
        sizes = np.maximum(self.rank.size_bytes[entry], 0)

        def some(name: str, values: Ints, where: NDArray[np.bool_], kind: int = INT64) -> Column:
            return Column(name, kind, owners[where], values[where])

        yield some("comm_type", operation, ~message)
        yield Column("comm_size", INT64, owners, sizes)
        named = (communication.group[entry] >= 0) & (self.plan.group[entry] != UNUSABLE)
        yield some("pg_name", self._group_names(self.plan.group[entry], named), named, STRING)
        yield some("root_rank", peer, np.isin(operation, ROOTED) & (peer >= 0))
        own = np.full(len(entry), self.linked.rank, np.int64)
        sends, known = operation == SEND, message & (own >= 0)
        yield some("comm_src", np.where(sends, own, peer), known | (operation == RECV), INT32)
        yield some("comm_dst", np.where(sends, peer, own), known | sends, INT32)
        ordinal = communication.ordinal[entry].astype(np.int64)
        number = np.where(named, self.plan.group[entry], 0)
        meeting = self.rank.meeting[entry]
        tag = np.where(meeting >= 0, meeting, number * _GROUP_STEP + ordinal) % TAG_RANGE
        yield some("comm_tag", tag, message, INT32)
        yield some("meeting", meeting, meeting >= 0)
        yield some("meeting_ranks", self.rank.attendance[entry], meeting >= 0)
        transfer = self._transfers(owners)
        yield some("transfer_ns", transfer, transfer >= 0)

    def _transfers(self, owners: Ints) -> Ints:
        """int64[owners]: the part of each node's time that was no waiting, -1 where unknown. What comes after the node
        is no part of it: a row may be cut, and of several collectives under one kernel each has its share."""
        communication, entry, row = self.linked.communication, self.entry[owners], self.row[owners]
        transfer = communication.transfer_ns[entry]
        part, whole = self.work_ns[1][owners], self.linked.duration_ns[row]
        end = self.linked.start_ns[row] + self.linked.wait_ns[row] + whole
        share = np.clip(transfer - np.maximum(communication.end_ns[entry] - end, 0), 0, whole)
        chained = np.flatnonzero(part < whole)
        share[chained] = (share[chained] * (part[chained] / whole[chained])).astype(np.int64)
        return np.where(transfer < 0, -1, np.minimum(share, part))

    def _group_names(self, numbers: Ints, where: NDArray[np.bool_]) -> Ints:
        texts = np.zeros(len(numbers), np.int64)
        for number in sorted(set(numbers[where].tolist())):
            texts[numbers == number] = self.strings.add(str(number))
        return texts

    def _times(self) -> Iterator[Column]:
        yield Column("start_ns", INT64, None, self.start_ns)
        yield Column("duration_ns", INT64, None, self.work_ns[1])
        for name, values in (("delay_ns", self.linked.delay_ns), ("wait_ns", self.linked.wait_ns)):
            own = np.where(self.begins_row, values[self.row], 0)
            yield self._some(name, INT64, own, own > 0)

    def _places(self) -> Iterator[Column]:
        lanes = self.linked.lanes
        if not lanes:
            return
        lane = self.linked.lane[self.row]
        for name, numbers in (("device", [one.device for one in lanes]), ("stream", [one.stream for one in lanes])):
            yield self._some(name, INT64, np.array(numbers, np.int64)[lane], self.is_device)
        whole = np.array([_is_whole(one.identity) for one in lanes])
        tids = np.array(
            [int(one.identity) if good else at for at, (one, good) in enumerate(zip(lanes, whole, strict=True))]
        )
        host = self.is_row & ~self.is_device
        yield self._some("tid", INT64, tids[lane], host & whole[lane])
        texts = np.array(
            [0 if good else self.strings.add(one.identity) for one, good in zip(lanes, whole, strict=True)]
        )
        yield self._some("tid", STRING, texts[lane], host & ~whole[lane])

    def _references(self) -> Iterator[Column]:
        """What ties a node to the files it comes from; the number of an event stands at its first part only."""
        linked, row = self.linked, self.row
        for name, values in (
            ("correlation", linked.correlation),
            ("rf_id", linked.rf_id),
            ("host_id", linked.host_id),
        ):
            yield self._some(name, INT64, values[row], self._heads & (values[row] >= 0))
        step, part = linked.step[row], linked.part[row]
        yield self._some("step", INT64, step, self.is_row & (step >= 0))
        yield self._some("part", INT64, part, self.is_row & (part > 0))


def _is_whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) < 19
