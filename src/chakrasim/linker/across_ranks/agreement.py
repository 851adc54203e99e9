"""Whether the ranks of a job agree about their collectives: count, order, kind, size, group, and who is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chakrasim.collectives.kinds import KINDS
from chakrasim.linker.across_ranks.meetings import Meetings, meet
from chakrasim.linker.communication.group_table import MOST_RANKS
from chakrasim.text.amounts import first_of
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.kineto.columns import Mask
from chakrasim.trace.linked.columns import OPERATION_NAMES, LinkedTrace, ProcessGroup

#: Collectives of which every rank gives (or of a scatter gets) as many bytes.
_EVEN = frozenset(KINDS) - {CollectiveType.ALL_TO_ALL, CollectiveType.BARRIER}


@dataclass(frozen=True)
class Disagreement:
    """One way in which ranks do not fit together.

    ``what``: "duplicate rank", "unknown rank", "missing rank", "group", "count", "order", "kind", "size" or "message".
    ``ranks``: those that differ from the others, are missing or lack something. ``group``: its name, "" where it does
    not matter. ``number``: sequence number or ordinal of the (first) collective concerned, -1 where it does not
    matter. ``text``: a sentence with what was found and expected. ``times``: collectives concerned.
    """

    what: str
    ranks: tuple[int, ...]
    group: str
    number: int
    text: str
    times: int = 1


def check_agreement(linked: Sequence[LinkedTrace]) -> list[Disagreement]:
    """All disagreements of the traces of a job, none for a single trace; ordered, one for each group and sort."""
    found = check_ranks(linked)
    if len(linked) < 2 or any(finding.what in ("duplicate rank", "unknown rank") for finding in found):
        return found
    found += check_groups(linked)
    meetings = meet(linked)
    return found + check_collectives(meetings) + check_messages(meetings)


def check_ranks(linked: Sequence[LinkedTrace]) -> list[Disagreement]:
    """Ranks given twice, not known, or missing: of the job, or members of groups that collectives used."""
    found = []
    times = Counter(trace.rank for trace in linked)
    for rank, count in sorted(times.items()):
        if rank >= 0 and count > 1:
            found.append(Disagreement("duplicate rank", (rank,), "", -1, f"{count} traces are of rank {rank}", count))
    if times[-1] and len(linked) > 1:
        found.append(
            Disagreement("unknown rank", (), "", -1, f"{times[-1]} of {len(linked)} traces do not say their rank")
        )
    size = max((trace.world_size for trace in linked if trace.world_size <= MOST_RANKS), default=-1)
    used = {
        rank
        for trace in linked
        for index in np.unique(trace.communication.group).tolist()
        if index >= 0
        for rank in trace.groups[index].ranks
    }
    missing = tuple(sorted((set(range(max(size, 0))) | used) - set(times)))
    if missing and len(linked) > 1:
        text = f"{_list(missing)} of {max(size, len(used | set(times)))} ranks {_have(missing)} no trace"
        found.append(Disagreement("missing rank", missing, "", -1, text))
    return found


def check_groups(linked: Sequence[LinkedTrace]) -> list[Disagreement]:
    """Groups that collectives used and that a member does not know, or knows with other members."""
    by_rank = {trace.rank: {group.name: group for group in trace.groups} for trace in linked}
    used: dict[tuple[str, tuple[int, ...]], set[int]] = defaultdict(set)
    for trace in linked:
        for index in np.unique(trace.communication.group).tolist():
            if index >= 0 and trace.groups[index].name:
                group = trace.groups[index]
                used[group.name, group.ranks].add(trace.rank)
    found = []
    for (name, ranks), users in sorted(used.items()):
        other = []
        for rank in ranks:
            known = by_rank.get(rank, {}).get(name)
            if rank in by_rank and rank not in users and known is not None and known.ranks and known.ranks != ranks:
                other.append((rank, known))
        if other:
            text = (
                f"group {name} is {_list(ranks)} to rank {min(users)}, "
                f"but {_list(other[0][1].ranks)} to rank {other[0][0]}"
            )
            found.append(Disagreement("group", tuple(rank for rank, _ in other), name, -1, text, len(other)))
    return found


def check_collectives(meetings: Meetings) -> list[Disagreement]:
    """Collectives of a group that members lack, or about whose order, kind or size they differ."""
    found: list[Disagreement] = []
    order = np.argsort(meetings.group, kind="stable")
    order = order[~meetings.is_message[order]]
    borders = np.searchsorted(meetings.group[order], np.arange(len(meetings.groups) + 1))
    present = {int(rank) for rank in meetings.rank}
    for index, group in enumerate(meetings.groups):
        rows = order[borders[index] : borders[index + 1]]
        if not len(rows):
            continue
        members = tuple(rank for rank in group.ranks if rank in present) or tuple(
            sorted(set(meetings.rank[rows].tolist()))
        )
        found += _counts(meetings, rows, group, members)
        found += _kinds(meetings, rows, group)
        found += _sizes(meetings, rows, group)
    return found


def check_messages(meetings: Meetings) -> list[Disagreement]:
    """Messages between ranks with traces that one side lacks, or whose size differs."""
    rows = np.flatnonzero(meetings.is_message)
    present = {int(rank) for rank in meetings.rank}
    lonely: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    unequal: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    attendance = meetings.attendance[meetings.meeting[rows]]
    odd = (attendance != 2) | _varies(meetings, rows, meetings.size_bytes)
    for at in _meetings_of(meetings, rows[odd]):
        first, last = at[0], at[-1]
        rank, peer = int(meetings.rank[first]), int(meetings.peer[first])
        key = (int(meetings.group[first]), rank, peer)
        if len(at) == 1 and peer in present:
            lonely[key].append(first)
        elif meetings.size_bytes[first] != meetings.size_bytes[last] and min(meetings.size_bytes[at]) >= 0:
            unequal[key].append(first)
    found = []
    for (group, rank, peer), firsts in sorted(lonely.items()):
        verb, other = ("sends", "receive") if _sends(meetings, firsts[0]) else ("receives", "send")
        text = f"rank {rank} {verb} {len(firsts)} message{'s' * (len(firsts) > 1)} that rank {peer} does not {other}"
        number = int(meetings.number[firsts[0]])
        found.append(Disagreement("message", (peer,), meetings.groups[group].name, number, text, len(firsts)))
    for (group, rank, peer), firsts in sorted(unequal.items()):
        text = f"ranks {rank} and {peer} differ about the size of {len(firsts)} of their messages"
        number = int(meetings.number[firsts[0]])
        found.append(Disagreement("size", (rank, peer), meetings.groups[group].name, number, text, len(firsts)))
    return found


def _counts(meetings: Meetings, rows: np.ndarray, group: ProcessGroup, members: tuple[int, ...]) -> list[Disagreement]:
    """Members that lack collectives which others of the group have."""
    numbers = np.unique(meetings.meeting[rows])
    found = []
    for rank in members:
        own = meetings.meeting[rows[meetings.rank[rows] == rank]]
        lacking = np.setdiff1d(numbers, own)
        if not len(lacking):
            continue
        first = rows[meetings.meeting[rows] == lacking[0]][0]
        text = (
            f"rank {rank} recorded {len(np.unique(own))} of the {len(numbers)} collectives of group {group.name}; "
            f"the first that it lacks is number {meetings.number[first]} ({_name(meetings, first)})"
        )
        found.append(Disagreement("count", (rank,), group.name, int(meetings.number[first]), text, len(lacking)))
    return found


def _kinds(meetings: Meetings, rows: np.ndarray, group: ProcessGroup) -> list[Disagreement]:
    """Meetings to which ranks came for different operations; "order" if each rank has as many of each kind."""
    differing = _meetings_of(meetings, rows[_varies(meetings, rows, meetings.operation)])
    if not differing:
        return []
    of_rank: dict[int, Counter[int]] = defaultdict(Counter)
    odd: set[int] = set()
    for at in differing:
        common = Counter(meetings.operation[at].tolist()).most_common(1)[0][0]
        for entry in at:
            of_rank[int(meetings.rank[entry])][int(meetings.operation[entry])] += 1
            if meetings.operation[entry] != common:
                odd.add(int(meetings.rank[entry]))
    kinds = list(of_rank.values())
    what = "order" if len(differing) > 1 and all(kind == kinds[0] for kind in kinds) else "kind"
    first = differing[0]
    said = ", ".join(f"rank {meetings.rank[entry]} {_name(meetings, entry)}" for entry in first[:4])
    number = int(meetings.number[first[0]])
    text = (
        f"ranks of group {group.name} differ about the {what} of {len(differing)} "
        f"collective{'s' * (len(differing) > 1)}, first number {number}: {said}"
    )
    return [Disagreement(what, tuple(sorted(odd)), group.name, number, text, len(differing))]


def _sizes(meetings: Meetings, rows: np.ndarray, group: ProcessGroup) -> list[Disagreement]:
    """Meetings whose ranks give different sizes; of an all-to-all, if more is sent than received or the reverse."""
    differing, odd = [], set()
    exchanged = meetings.operation[rows] == CollectiveType.ALL_TO_ALL
    for at in _meetings_of(meetings, rows[_varies(meetings, rows, meetings.size_bytes) | exchanged]):
        operations = set(meetings.operation[at].tolist())
        if len(operations) > 1:
            continue
        operation = operations.pop()
        sizes = meetings.size_bytes[at]
        if operation in _EVEN and (sizes >= 0).all() and len(set(sizes.tolist())) > 1:
            common = Counter(sizes.tolist()).most_common(1)[0][0]
            odd |= {int(meetings.rank[entry]) for entry in at if meetings.size_bytes[entry] != common}
            differing.append(at)
        elif operation == CollectiveType.ALL_TO_ALL and len(at) == group.size:
            sent, received = meetings.in_bytes[at], meetings.out_bytes[at]
            if (sent >= 0).all() and (received >= 0).all() and sent.sum() != received.sum():
                differing.append(at)
    if not differing:
        return []
    first = differing[0]
    said = ", ".join(f"rank {meetings.rank[entry]} {meetings.size_bytes[entry]} bytes" for entry in first[:4])
    number = int(meetings.number[first[0]])
    text = (
        f"ranks of group {group.name} differ about the size of {len(differing)} "
        f"collective{'s' * (len(differing) > 1)}, first number {number} ({_name(meetings, first[0])}): {said}"
    )
    return [Disagreement("size", tuple(sorted(odd)), group.name, number, text, len(differing))]


def _varies(meetings: Meetings, rows: np.ndarray, values: np.ndarray) -> Mask:
    """bool of the length of ``rows``: whether the values of the entry's meeting differ."""
    low = np.full(meetings.count, np.iinfo(np.int64).max)
    high = np.full(meetings.count, np.iinfo(np.int64).min)
    np.minimum.at(low, meetings.meeting[rows], values[rows])
    np.maximum.at(high, meetings.meeting[rows], values[rows])
    differ: Mask = (low != high)[meetings.meeting[rows]]
    return differ


def _meetings_of(meetings: Meetings, rows: np.ndarray) -> list[np.ndarray]:
    """The entries of each meeting among ``rows``."""
    if not len(rows):
        return []
    order = rows[np.argsort(meetings.meeting[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(meetings.meeting[order])) + 1)


def _sends(meetings: Meetings, entry: int) -> bool:
    return _name(meetings, entry) == "send"


def _name(meetings: Meetings, entry: int) -> str:
    return OPERATION_NAMES.get(int(meetings.operation[entry]), "unknown")


def _list(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {first_of(ranks)}"


def _have(ranks: Sequence[int]) -> str:
    return "have" if len(ranks) > 1 else "has"
