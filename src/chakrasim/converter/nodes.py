"""Which nodes a linked trace becomes: one for each row, more where a row carries out several messages.

Nodes are numbered in the order of the rows, so a dependency always has the smaller number. In front of all, a rank
that starts later than the earliest has a node that waits for that long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.across_ranks import RankInRun
from chakrasim.converter.process_groups import UNUSABLE
from chakrasim.trace.graph import Ints
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.linked import COALESCED, RECV, SEND, Communication, LinkedTrace

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
    """``k`` nodes of ``n`` rows.

    Attributes
    ----------
    row: int64[k], the row that a node is (a part of); -1 for the start offset.
    entry: int64[k], its entry in ``LinkedTrace.communication``, or PLAIN, OFFSET, JOIN.
    first, last: int64[n], the nodes that wait for what a row waits for are ``first`` to ``last`` for a batch of
        messages, else ``first`` alone; whoever waits for the row waits for ``last``.
    batch: bool[n], rows of several messages at the same time, with a JOIN behind them.
    part_ns, shift_ns: int64[k], own duration of each node, and how much later than the row's own work it starts
        (a row of several collectives is cut into equal parts, one after the other).
    group: int64[entries], the number of each entry's group; `UNUSABLE` where it is not known or of no use.
    refused: int64[entries], 0 or the reason (`REASONS`) why an entry is no communication node.
    """

    row: Ints
    entry: Ints
    first: Ints
    last: Ints
    batch: NDArray[np.bool_]
    part_ns: Ints
    shift_ns: Ints
    group: Ints
    refused: Ints

    def __len__(self) -> int:
        return len(self.row)


def plan_nodes(linked: LinkedTrace, rank: RankInRun) -> NodePlan:
    """Lay out the nodes of a trace."""
    communication = linked.communication
    rows = len(linked)
    group = _group_of_entries(communication, rank.numbers)
    refused = _refused(linked, group, rank)
    entries, per_row = _by_row(communication, refused, rows)
    operation = communication.operation
    messages = np.bincount(communication.row[entries], _is_message(operation[entries]), minlength=rows)
    batch = (per_row > 1) & (messages == per_row)
    counts = np.maximum(per_row, 1) + batch
    shift = int(linked.start_offset_ns > 0 and rows > 0)
    first = np.cumsum(counts) - counts + shift
    row = np.repeat(np.arange(rows), counts)
    place = np.arange(len(row)) + shift - first[row]
    entry = np.full(len(row), PLAIN, np.int64)
    carries = place < per_row[row]
    starts = np.cumsum(per_row) - per_row
    entry[carries] = entries[starts[row[carries]] + place[carries]]
    entry[batch[row] & ~carries] = JOIN
    part, delay = _parts(linked.duration_ns, row, place, per_row, batch)
    if shift:
        row, entry = np.insert(row, 0, -1), np.insert(entry, 0, OFFSET)
        part, delay = np.insert(part, 0, linked.start_offset_ns), np.insert(delay, 0, 0)
    return NodePlan(row, entry, first, first + counts - 1, batch, part, delay, group, refused)


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
    spoilt = np.zeros(len(linked), np.bool_)
    spoilt[communication.row[why > 0]] = True
    why[(why == 0) & spoilt[communication.row]] = 8
    return why


def _by_row(communication: Communication, refused: Ints, rows: int) -> tuple[Ints, Ints]:
    """The entries that become nodes, in order of their rows, and how many each row has."""
    entries = np.flatnonzero(refused == 0)
    entries = entries[np.argsort(communication.row[entries], kind="stable")]
    return entries, np.bincount(communication.row[entries], minlength=rows)


def _parts(duration_ns: Ints, row: Ints, place: Ints, per_row: Ints, batch: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Own duration of each node and when it starts within its row's."""
    part = duration_ns[row]
    start = np.zeros(len(row), np.int64)
    chained = (per_row[row] > 1) & ~batch[row]
    whole, count, at = part[chained], per_row[row[chained]], place[chained]
    start[chained] = whole * at // count
    part[chained] = whole * (at + 1) // count - start[chained]
    last = batch[row] & (place == per_row[row])
    start[last] = part[last]
    part[last] = 0
    return part, start
