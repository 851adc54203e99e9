"""The wait/transfer split: who came late to each collective, by how much, and whom it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.result import Result, percentage
from chakrasim.analysis.table.statistics import sums
from chakrasim.collectives.kinds import KINDS, MESSAGE, Whole
from chakrasim.linker.across_ranks.agreement import check_collectives, check_groups, check_messages, check_ranks
from chakrasim.linker.across_ranks.clocks import NOBODY, align, last_arrivals
from chakrasim.linker.across_ranks.meetings import Meetings, meet
from chakrasim.text.amounts import percent_text
from chakrasim.text.layout import Section
from chakrasim.text.shown import Shown
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import OPERATION_NAMES, LinkedTrace

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Collectives(Result):
    """One row a collective or message, by group and number.

    group: name of the process group; number: sequence number, or ordinal where PyTorch wrote none; operation: what it
    is; bytes: the whole buffer, which one rank gives to all or gets from all (of a message, its size); members: ranks
    of the group (0: unknown), ranks: those with a trace that took part. first_arrival_ns: since the first arrival of
    all; last_rank: for whom the others waited;
    late_ns: how much later than the next to last it arrived; cost_ns: what the others waited, together; transfer_ns:
    from the last arrival to the last end; algbw_gbs, busbw_gbs: bytes over that time, and the same times the factor of
    nccl-tests (`chakrasim.collectives.kinds`).
    """

    TITLE: ClassVar[str] = "Collectives"
    group: tuple[str, ...]
    number: Ints
    operation: tuple[str, ...]
    bytes: Ints
    members: Ints
    ranks: Ints
    first_arrival_ns: Ints
    last_rank: Ints
    late_ns: Ints
    cost_ns: Ints
    transfer_ns: Ints
    algbw_gbs: NDArray[np.float64]
    busbw_gbs: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Arrivals(Result):
    """One row a rank of a collective: ``collective`` its row in `Collectives`; arrival_ns: since the first arrival of
    all, clocks corrected; duration_ns = wait_ns + transfer_ns."""

    TITLE: ClassVar[str] = "Ranks of the collectives"
    collective: Ints
    rank: Ints
    arrival_ns: Ints
    duration_ns: Ints
    wait_ns: Ints
    transfer_ns: Ints


@dataclass(frozen=True, eq=False)
class RankWaits(Result):
    """One row a rank: its collectives, the time in them, how much of it was waiting, how often it was the one whom
    others waited for, and what that cost them together; shift_ns: what was added to its clock."""

    TITLE: ClassVar[str] = "Waiting by rank"
    rank: Ints
    collectives: Ints
    duration_ns: Ints
    wait_suffered_ns: Ints
    wait_pct: NDArray[np.float64]
    times_last: Ints
    wait_caused_ns: Ints
    shift_ns: Ints
    residual_ns: Ints


@dataclass(frozen=True, eq=False)
class CollectiveSplit(Shown):
    """The split in three tables. ``wait_share``: waiting as a share of all time in collectives, NaN where there is
    none. ``notes``: what could not be compared."""

    collectives: Collectives
    arrivals: Arrivals
    ranks: RankWaits
    wait_share: float
    notes: tuple[str, ...] = ()

    def _in_short(self) -> dict[str, str]:
        return {
            "collectives": f"{len(self.collectives):,}",
            "ranks": f"{len(self.ranks):,}",
            "waiting for others": "n/a" if np.isnan(self.wait_share) else percent_text(self.wait_share),
        }

    def _tables(self) -> list[Section]:
        return [*super()._tables(), *self.collectives._tables()]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each rank of each collective, with the columns of the collective. Raises InputError where pandas is
        not installed."""
        frame = self.collectives.to_frame().drop(columns=["transfer_ns", "ranks"])
        return self.arrivals.to_frame().join(frame, on="collective")

    def to_mapping(self) -> dict[str, Any]:
        """The split as JSON has it."""
        return {
            "wait_share": None if np.isnan(self.wait_share) else self.wait_share,
            "notes": list(self.notes),
            "collectives": self.collectives.to_mapping(),
            "arrivals": self.arrivals.to_mapping(),
            "ranks": self.ranks.to_mapping(),
        }


def collective_split(linked: Sequence[LinkedTrace]) -> CollectiveSplit:
    """The split of the collectives and messages of some ranks. Traces that are not aligned are aligned first (see
    `align` for who waits for whom). Raises InputError for two traces of one rank."""
    if any(trace.communication.transfer_ns.max(initial=-1) < 0 for trace in linked):
        linked = align(linked)
    meetings = meet(linked)
    shift = np.array([trace.clock_shift_ns for trace in linked], np.int64)
    needed = last_arrivals(meetings, shift)
    wait, transfer = _split_of(linked, meetings)
    kept = np.flatnonzero((needed != NOBODY) & (transfer >= 0))
    numbers, collective = np.unique(meetings.meeting[kept], return_inverse=True)
    arrival = (meetings.start_ns + shift[meetings.trace])[kept]
    origin = int(arrival.min()) if len(arrival) else 0
    late = _last_of(collective, needed[kept], arrival, meetings.rank[kept], len(numbers))
    cost = np.bincount(collective, np.where(meetings.rank[kept] != late[collective], wait[kept], 0), len(numbers))
    cost = cost.astype(np.int64)
    arrivals = Arrivals(
        collective=collective.astype(np.int64),
        rank=meetings.rank[kept].astype(np.int64),
        arrival_ns=arrival - origin,
        duration_ns=wait[kept] + transfer[kept],
        wait_ns=wait[kept],
        transfer_ns=transfer[kept],
    )
    table = _collectives(meetings, kept, collective, arrival - origin, transfer[kept], late, cost, len(numbers))
    total = int(arrivals.duration_ns.sum())
    share = int(arrivals.wait_ns.sum()) / total if total else float("nan")
    return CollectiveSplit(table, arrivals, _of_ranks(linked, arrivals, table), share, _notes(linked, meetings))


def _split_of(linked: Sequence[LinkedTrace], meetings: Meetings) -> tuple[Ints, Ints]:
    """wait and transfer of each entry of the meetings."""
    wait, transfer = (np.full(len(meetings), -1, np.int64) for _ in range(2))
    for position, trace in enumerate(linked):
        own = meetings.trace == position
        wait[own] = trace.communication.wait_ns[meetings.entry[own]]
        transfer[own] = trace.communication.transfer_ns[meetings.entry[own]]
    return wait, transfer


def _last_of(collective: NDArray[np.intp], needed: Ints, arrival: Ints, rank: Indices, count: int) -> Ints:
    """The rank whose arrival the others of each collective waited for."""
    awaited = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(awaited, collective, needed)
    late = np.full(count, -1, np.int64)
    fits = np.flatnonzero(arrival == awaited[collective])[::-1]
    late[collective[fits]] = rank[fits]
    return late


def _collectives(
    meetings: Meetings,
    kept: NDArray[np.intp],
    collective: NDArray[np.intp],
    arrival: Ints,
    transfer: Ints,
    late: Ints,
    cost: Ints,
    count: int,
) -> Collectives:
    first = np.zeros(count, np.intp)
    first[collective[::-1]] = kept[::-1]
    groups = [meetings.groups[index] for index in meetings.group[first].tolist()]
    operation = meetings.operation[first].tolist()
    longest = _largest(collective, transfer, count)
    earliest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(earliest, collective, arrival)
    message = meetings.is_message[first]
    members = np.where(message, 2, np.array([group.size for group in groups], np.int64))
    inside, outside = (_largest(collective, sizes[kept], count) for sizes in (meetings.in_bytes, meetings.out_bytes))
    facts = zip(operation, inside.tolist(), outside.tolist(), members.tolist(), strict=True)
    size = np.array([_whole_bytes(*entry) for entry in facts], np.int64)
    speed = np.full(count, np.nan)
    np.divide(size, longest, out=speed, where=longest > 0)
    kinds = [KINDS.get(number, MESSAGE) for number in operation]
    factor = [kind.bus_factor(many) for kind, many in zip(kinds, members.tolist(), strict=True)]
    return Collectives(
        group=tuple(group.name for group in groups),
        number=meetings.number[first],
        operation=tuple(
            "message" if is_message else OPERATION_NAMES.get(kind, "unknown")
            for kind, is_message in zip(operation, message.tolist(), strict=True)
        ),
        bytes=size,
        members=members,
        ranks=np.bincount(collective, minlength=count).astype(np.int64),
        first_arrival_ns=earliest,
        last_rank=late,
        late_ns=_margins(collective, arrival, meetings.rank[kept] == late[collective], count),
        cost_ns=cost,
        transfer_ns=longest,
        algbw_gbs=speed,
        busbw_gbs=speed * np.array(factor, np.float64),
    )


def _largest(collective: NDArray[np.intp], values: Ints, count: int) -> Ints:
    """The largest of each collective's values, 0 where none is known."""
    largest = np.zeros(count, np.int64)
    np.maximum.at(largest, collective, values)
    return largest


def _whole_bytes(operation: int, inside: int, outside: int, members: int) -> int:
    """The whole buffer, from the most that a rank gives and gets. Where the side that has it is not recorded, as of a
    gather whose root has no trace, it is the other side's part for every member."""
    kind = KINDS.get(operation, MESSAGE)
    if kind.whole is Whole.BOTH:
        return max(inside, outside)
    whole, part = (inside, outside) if kind.whole is Whole.INPUT else (outside, inside)
    return whole if whole > 0 else part * max(members, 1)


def _margins(collective: NDArray[np.intp], arrival: Ints, is_last: Mask, count: int) -> Ints:
    """How much later than the latest of the others each collective's last rank arrived (0 if not later)."""
    last, others = (np.full(count, np.iinfo(np.int64).min) for _ in range(2))
    np.maximum.at(last, collective[is_last], arrival[is_last])
    np.maximum.at(others, collective[~is_last], arrival[~is_last])
    known = (last > np.iinfo(np.int64).min) & (others > np.iinfo(np.int64).min)
    return np.where(known, np.maximum(np.where(known, last, 0) - np.where(known, others, 0), 0), 0)


def _of_ranks(linked: Sequence[LinkedTrace], arrivals: Arrivals, table: Collectives) -> RankWaits:
    ranks = np.array([trace.rank for trace in linked], np.int64)
    place = {rank: at for at, rank in enumerate(ranks.tolist())}
    own = np.array([place[rank] for rank in arrivals.rank.tolist()], np.intp)
    last = np.array([place[rank] for rank in table.last_rank.tolist() if rank in place], np.intp)
    caused = table.cost_ns[[rank in place for rank in table.last_rank.tolist()]]
    many = len(ranks)
    duration, wait = sums(arrivals.duration_ns, own, many), sums(arrivals.wait_ns, own, many)
    return RankWaits(
        rank=ranks,
        collectives=np.bincount(own, minlength=many),
        duration_ns=duration,
        wait_suffered_ns=wait,
        wait_pct=percentage(wait, duration),
        times_last=np.bincount(last[caused > 0], minlength=many),
        wait_caused_ns=sums(caused, last, many),
        shift_ns=np.array([trace.clock_shift_ns for trace in linked], np.int64),
        residual_ns=np.array([trace.counts.get("clock_residual_ns", 0) for trace in linked], np.int64),
    )


def _notes(linked: Sequence[LinkedTrace], meetings: Meetings) -> tuple[str, ...]:
    findings = [*check_ranks(linked), *check_groups(linked), *check_collectives(meetings), *check_messages(meetings)]
    notes = [finding.text for finding in findings] if len(linked) > 1 else []
    if meetings.alone:
        notes.append(f"{meetings.alone} collectives or messages cannot be compared: their group or peer is not known")
    strangers = sum(trace.counts.get("ranks_on_another_clock", 0) > 0 for trace in linked[:1])
    if strangers and len(linked) > 1:
        notes.append("some ranks share no collective with the others: their clocks are taken as they are")
    return tuple(notes)
