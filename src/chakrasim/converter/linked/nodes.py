"""Which nodes a linked trace becomes: one for each row, more where a row carries out several messages.

Nodes are numbered in the order of the rows, so a dependency always has the smaller number. In front of all, a rank
that starts later than the earliest has a node that waits for that long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.folder.across_ranks import RankInRun
from chakrasim.converter.folder.group_numbers import UNUSABLE
from chakrasim.trace.chakra.graph import Ints, offsets_of
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.linked.columns import COALESCED, RECV, SEND, Communication, LinkedTrace

PLAIN, OFFSET, JOIN = -1, -2, -3
"""What stands in `NodePlan.entry` for a node without communication, the start offset, and the end of a batch."""

#: Why an entry of ``LinkedTrace.communication`` is no communication node, by the code in `usable`.
REASONS = {
    1: "collectives and messages of unknown kind became compute nodes of their recorded duration",
    2: "coalesced collectives became compute nodes of their recorded duration",
    3: "collectives and messages of unknown size became compute nodes of their recorded duration",
    4: "collectives of a process group whose members are not known became compute nodes of their recorded duration",
    5: "messages whose other side is not known became compute nodes of their recorded duration",
    6: "messages of a rank to itself became compute nodes of their recorded duration",
    7: "collectives and messages that other ranks did not record became compute nodes of their recorded duration",
    8: "collectives and messages batched with one of these became compute nodes of their recorded duration",
}


@dataclass(frozen=True, eq=False)
class NodePlan:
    """The nodes of ``rows`` rows. Most rows are one node each, so only the others are listed.

    Attributes
    ----------
    rows: how many rows there are.
    offset_ns: what the start offset lasts, which is node 0; 0: there is none.
    several: int64[s], ascending, the rows of more than one node. The nodes that wait for what a row waits for are all
        but the last for a batch of messages, else the first alone; whoever waits for the row waits for its last.
    added: int64[s + 1], by how many nodes more than rows there are before each of ``several``, and in all.
    batch: bool[s], rows of several messages at the same time, with a JOIN behind them.
    entries, entry_rows: int64[e], the entries of ``LinkedTrace.communication`` that become nodes, and their rows, by
        row.
    group: int64[entries], the number of each entry's group; `UNUSABLE` where it is not known or of no use.
    refused: int64[entries], 0 or the reason (`REASONS`) why an entry is no communication node.
    """

    rows: int
    offset_ns: int
    several: Ints
    added: Ints
    batch: NDArray[np.bool_]
    entries: Ints
    entry_rows: Ints
    group: Ints
    refused: Ints

    def __len__(self) -> int:
        return self.rows + self.shift + int(self.added[-1])

    @property
    def shift(self) -> int:
        """1 if the nodes begin with a start offset, else 0."""
        return int(self.offset_ns > 0)

    def first(self, row: Ints) -> Ints:
        """int64: the first node of each row."""
        nodes: Ints = row + self.shift
        return nodes + self.added[np.searchsorted(self.several, row)] if len(self.several) else nodes

    def last(self, row: Ints) -> Ints:
        """int64: the last node of each row."""
        nodes: Ints = row + self.shift
        return nodes + self.added[np.searchsorted(self.several, row, side="right")] if len(self.several) else nodes

    def is_batch(self, row: Ints) -> NDArray[np.bool_]:
        """bool: rows that are batches."""
        if not len(self.several):
            return np.zeros(len(row), np.bool_)
        at = np.minimum(np.searchsorted(self.several, row), len(self.several) - 1)
        found: NDArray[np.bool_] = (self.several[at] == row) & self.batch[at]
        return found

    def row_of(self, node: Ints) -> Ints:
        """int64: the row of each node; -1 for the start offset."""
        row: Ints = node - self.shift
        if not len(self.several):
            return row
        before = np.searchsorted(self.first(self.several), node, side="right")
        owner = self.several[np.maximum(before - 1, 0)]
        return np.where((before > 0) & (node <= self.last(owner)), owner, row - self.added[before])


def plan_nodes(linked: LinkedTrace, rows: int, rank: RankInRun) -> NodePlan:
    """Lay out the nodes of a trace of ``rows`` rows; those of ``linked`` itself are not looked at."""
    communication = linked.communication
    group = _group_of_entries(communication, rank.numbers)
    refused = _refused(linked, group, rank)
    entries = np.flatnonzero(refused == 0)
    entries = entries[np.argsort(communication.row[entries], kind="stable")]
    entry_rows = communication.row[entries].astype(np.int64)
    carrying, which, counts = np.unique(entry_rows, return_inverse=True, return_counts=True)
    messages = np.bincount(which, _is_message(communication.operation[entries]), minlength=len(carrying))
    many = counts > 1
    batch = (messages == counts)[many]
    added = offsets_of(counts[many] - 1 + batch)
    offset = max(linked.start_offset_ns, 0) if rows else 0
    return NodePlan(rows, offset, carrying[many], added, batch, entries, entry_rows, group, refused)


@dataclass(frozen=True, eq=False)
class NodePart:
    """Nodes ``begin`` to ``end`` of a plan.

    Attributes
    ----------
    rows: the rows that they are of, as a range.
    row: int64, the row of each node, counted from the first of ``rows``; 0 for the start offset.
    entry: int64, its entry in ``LinkedTrace.communication``, or PLAIN, OFFSET, JOIN.
    place: int64, its place among the nodes of its row.
    count: int64, entries that the row carries.
    batch: bool, whether its row is a batch.
    """

    rows: range
    row: Ints
    entry: Ints
    place: Ints
    count: Ints
    batch: NDArray[np.bool_]

    def times(self, duration_ns: Ints, offset_ns: int) -> tuple[Ints, Ints]:
        """Own duration of each node, and how much later than the row's own work it starts (a row of several
        collectives is cut into equal parts, one after the other); ``duration_ns``: of ``rows``."""
        own = duration_ns[self.row]
        start = np.zeros(len(self.row), np.int64)
        chained = (self.count > 1) & ~self.batch
        whole, count, at = own[chained], self.count[chained], self.place[chained]
        start[chained] = whole * at // count
        own[chained] = whole * (at + 1) // count - start[chained]
        last = self.entry == JOIN
        start[last] = own[last]
        own[last] = 0
        own[self.entry == OFFSET] = offset_ns
        return own, start


def part_of(plan: NodePlan, begin: int, end: int) -> NodePart:
    """Nodes ``begin`` to ``end``."""
    numbers = np.arange(begin, end)
    row = plan.row_of(numbers)
    entry = np.full(len(row), PLAIN, np.int64)
    low = np.searchsorted(plan.entry_rows, row)
    count = np.searchsorted(plan.entry_rows, row, side="right") - low
    place, batch = numbers - plan.first(row), plan.is_batch(row)
    carries = place < count
    entry[carries] = plan.entries[low[carries] + place[carries]]
    entry[batch & ~carries] = JOIN
    entry[row < 0] = OFFSET
    # The start offset, too, stands beside a row.
    rows = range(max(int(row[0]), 0), max(int(row[-1]), 0) + 1) if len(row) else range(0)
    return NodePart(rows, np.maximum(row - rows.start, 0), entry, place, count, batch)


def _is_message(operation: NDArray[np.int32]) -> NDArray[np.bool_]:
    message: NDArray[np.bool_] = (operation == SEND) | (operation == RECV)
    return message


def _group_of_entries(communication: Communication, numbers: tuple[int, ...]) -> Ints:
    """An entry without a group belongs to the group of all ranks; the caller counts these."""
    table = np.array([*numbers, 0], np.int64)
    known = (communication.group >= 0) & (communication.group < len(numbers))
    return table[np.where(known, communication.group, len(numbers))]


def _refused(linked: LinkedTrace, group: Ints, rank: RankInRun) -> Ints:
    communication = linked.communication
    operation, size, peer = communication.operation, rank.size_bytes, communication.peer
    message = _is_message(operation)
    collective = operation <= int(CollectiveType.BARRIER)
    why = np.zeros(len(operation), np.int64)
    why[rank.lonely] = 7
    why[message & (peer == linked.rank)] = 6
    why[message & (peer < 0)] = 5
    why[collective & (group == UNUSABLE)] = 4
    why[(size < 0) & (operation != int(CollectiveType.BARRIER))] = 3
    why[operation == COALESCED] = 2
    why[~message & ~collective & (operation != COALESCED)] = 1
    why[(why == 0) & np.isin(communication.row, communication.row[why > 0])] = 8
    return why
