"""Which collectives and messages of different ranks are one: the k-th use of a group, or those of equal number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import RECV, SEND, LinkedTrace, ProcessGroup

_OWN = ("sequence", "ordinal", "operation", "peer", "size_bytes", "in_bytes", "out_bytes", "start_ns", "end_ns")
_COLUMNS = ("trace", "rank", "entry", "group", *_OWN)
_TIMES_AND_SIZES = {"number", "size_bytes", "in_bytes", "out_bytes", "start_ns", "end_ns"}
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Meetings:
    """Collectives and messages of several ranks, ``k`` entries, each of one rank in one meeting, by meeting and rank.

    Attributes
    ----------
    trace: int32[k], position of the rank's trace in the list given; rank: int32[k].
    entry: int32[k], position in that trace's `Communication`.
    meeting: int32[k], number of the meeting; ``count`` meetings, by group and number.
    group: int32[k], index into ``groups``: groups that are the same on all ranks.
    number: int64[k], PyTorch's sequence number where all ranks of the group have them, else the ordinal.
    operation, size_bytes, in_bytes, out_bytes, peer, start_ns, end_ns: as in `Communication`; times by the rank's own
        clock as recorded.
    groups: the groups.
    alone: int, entries whose group or peer is unknown, which are in no meeting.
    """

    trace: Indices
    rank: Indices
    entry: Indices
    meeting: Indices
    group: Indices
    number: Ints
    operation: Indices
    size_bytes: Ints
    in_bytes: Ints
    out_bytes: Ints
    peer: Indices
    start_ns: Ints
    end_ns: Ints
    groups: tuple[ProcessGroup, ...]
    count: int
    alone: int

    def __len__(self) -> int:
        return len(self.meeting)

    @property
    def is_message(self) -> Mask:
        """bool[k]: sends and receives."""
        return np.isin(self.operation, (SEND, RECV))

    @property
    def attendance(self) -> Indices:
        """int32[count]: ranks in each meeting."""
        return np.bincount(self.meeting, minlength=self.count).astype(np.int32)

    @property
    def agrees(self) -> Mask:
        """bool[count]: meetings whose ranks all carry out one operation (of a message: one sends, one receives)."""
        direction = np.where(self.is_message, 0, self.operation)
        lowest = np.full(self.count, np.iinfo(np.int32).max)
        highest = np.full(self.count, -1)
        np.minimum.at(lowest, self.meeting, direction)
        np.maximum.at(highest, self.meeting, direction)
        sends = np.bincount(self.meeting, self.operation == SEND, minlength=self.count)
        receives = np.bincount(self.meeting, self.operation == RECV, minlength=self.count)
        agrees: Mask = (lowest == highest) & (sends <= 1) & (receives <= 1)
        return agrees


def meet(linked: Sequence[LinkedTrace]) -> Meetings:
    """The meetings of some ranks' collectives and messages.

    Groups are the same if name and members are. Their collectives meet by sequence number if every rank that used the
    group has one for each, else by ordinal; ranks that recorded fewer are then lined up with the others at the end if
    that agrees better than at the start (the first kernels of a window are those that profilers lose). Messages meet by
    sender, receiver and ordinal.

    Raises InputError for two traces of one rank, or several of which one does not know its rank.
    """
    _check_ranks(linked)
    groups: dict[tuple[str, tuple[int, ...]], int] = {}
    columns: list[dict[str, NDArray[np.int64]]] = []
    alone = 0
    for position, trace in enumerate(linked):
        part, left = _columns(position, trace, groups)
        columns.append(part)
        alone += left
    flat: dict[str, Any] = {name: np.concatenate([part[name] for part in columns] or [_NOTHING]) for name in _COLUMNS}
    message = np.isin(flat["operation"], (SEND, RECV))
    number = np.where(message, flat["ordinal"], -1)
    repeat = np.zeros(len(number), np.int64)
    for group in range(len(groups)):
        _number(np.flatnonzero((flat["group"] == group) & ~message), flat, number, repeat)
    sender = np.where(flat["operation"] == SEND, flat["rank"], flat["peer"])
    receiver = np.where(flat["operation"] == SEND, flat["peer"], flat["rank"])
    # By group and number, messages last.
    keys = (message, flat["group"], number, repeat, np.where(message, sender, -1), np.where(message, receiver, -1))
    meeting = np.zeros(len(message), np.int64)
    for key in keys:
        distinct, place = np.unique(key, return_inverse=True)
        _, meeting = np.unique(meeting * (len(distinct) + 1) + place, return_inverse=True)
    order = np.lexsort((flat["trace"], meeting))
    known = [
        next(g for trace in linked for g in trace.groups if (g.name, g.ranks) == (name, ranks))
        for name, ranks in groups
    ]
    flat |= {"meeting": meeting, "number": number}
    kept = {name: column[order] for name, column in flat.items() if name not in ("sequence", "ordinal")}
    for name in kept.keys() - _TIMES_AND_SIZES:
        kept[name] = kept[name].astype(np.int32)
    return Meetings(
        **kept,
        groups=tuple(known),
        count=int(meeting.max(initial=-1)) + 1,
        alone=alone,
    )


def _check_ranks(linked: Sequence[LinkedTrace]) -> None:
    if len(linked) < 2:
        return
    seen: dict[int, str] = {}
    for trace in linked:
        if trace.rank < 0:
            raise InputError(
                "the rank of a trace is not known",
                file=trace.source,
                expected="distributedInfo with a rank, for comparing ranks",
                remedy="say which rank each file is of (--map)",
            )
        if trace.rank in seen:
            raise InputError(
                "two traces are of the same rank",
                file=trace.source,
                found=f"rank {trace.rank}, which {seen[trace.rank]} is of too",
                expected="one trace of each rank",
                remedy="leave one of them out",
            )
        seen[trace.rank] = trace.source


def _columns(
    position: int, trace: LinkedTrace, groups: dict[tuple[str, tuple[int, ...]], int]
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The entries of a trace that can meet others, and how many cannot."""
    found = trace.communication
    # A group of unknown members can be compared by its name, one without either cannot.
    index = [
        groups.setdefault((group.name, group.ranks), len(groups)) if group.name or group.ranks else -1
        for group in trace.groups
    ]
    group = np.array([*index, -1], np.int64)[found.group]
    message = np.isin(found.operation, (SEND, RECV))
    chosen = np.flatnonzero((group >= 0) & (~message | (found.peer >= 0)))
    part = {name: getattr(found, name)[chosen].astype(np.int64, copy=False) for name in _OWN}
    part |= {"entry": chosen.astype(np.int64), "group": group[chosen]}
    part |= {"trace": np.full(len(chosen), position), "rank": np.full(len(chosen), trace.rank)}
    return part, len(found) - len(chosen)


def _number(rows: NDArray[np.intp], flat: dict[str, NDArray[np.int64]], number: Ints, repeat: Ints) -> None:
    """Give the collectives of one group their numbers; ``repeat`` counts those of one rank with equal number."""
    if not len(rows):
        return
    if (flat["sequence"][rows] >= 0).all():
        number[rows] = flat["sequence"][rows]
        order = rows[np.lexsort((flat["ordinal"][rows], number[rows], flat["trace"][rows]))]
        same = np.zeros(len(order), np.bool_)
        same[1:] = (number[order][1:] == number[order][:-1]) & (flat["trace"][order][1:] == flat["trace"][order][:-1])
        starts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        repeat[order] = np.arange(len(order)) - starts
        return
    order = rows[np.lexsort((flat["ordinal"][rows], flat["trace"][rows]))]
    _, first, lengths = np.unique(flat["trace"][order], return_index=True, return_counts=True)
    longest = int(np.argmax(lengths))
    kinds = flat["operation"][order] * (1 << 48) + np.minimum(flat["size_bytes"][order], (1 << 48) - 1)
    model = kinds[first[longest] : first[longest] + lengths[longest]]
    for begin, length in zip(first.tolist(), lengths.tolist(), strict=True):
        own = kinds[begin : begin + length]
        behind = len(model) - length
        later = behind > 0 and np.sum(own != model[behind:]) < np.sum(own != model[:length])
        number[order[begin : begin + length]] = np.arange(length) + (behind if later else 0)
