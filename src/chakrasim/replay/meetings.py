"""Which operations of different ranks are one, whether the ranks agree about them, and an order for all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chakrasim.errors import InputError
from chakrasim.replay.plan import RECV, SEND, Operation
from chakrasim.replay.recorded import Wish, ordered

CallKey = tuple[str, tuple[int, ...]]
"""Name and live members of a group; of messages the tag, sender and receiver."""


@dataclass(frozen=True)
class Call:
    """One rank's part in a collective or message: ``number`` among the communication of its trace, ``hint`` the number
    that comparing the recorded ranks gave to the meeting, -1: none."""

    key: CallKey
    operation: Operation
    wish: Wish
    hint: int
    number: int = -1


Place = tuple[int, int]
"""A rank, and the position in its list of calls."""


def order_meetings(calls: Sequence[Sequence[Call]], source: str) -> list[dict[int, int]]:
    """By rank: the number of the meeting of each of its calls (`Call.number`), in an order that all ranks can keep.

    The k-th call of a group on one rank meets the k-th of the others. Raises InputError where ranks do not call the
    same, and where they wait for each other in a circle.
    """
    met = meet(calls)
    _check(met, calls, source)
    meetings = [dict(enumerate(own)) for own in ([0] * len(one) for one in calls)]
    for index, places in enumerate(met.values()):
        for rank, at in places:
            meetings[rank][at] = index
    order = _sorted(calls, meetings, list(met.values()), source)
    return [{call.number: order[meetings[rank][at]] for at, call in enumerate(own)} for rank, own in enumerate(calls)]


def meet(calls: Sequence[Sequence[Call]]) -> dict[tuple[CallKey, int], list[Place]]:
    """The places of every meeting, by group and ordinal, in the order of their first place."""
    met: dict[tuple[CallKey, int], list[Place]] = defaultdict(list)
    for rank, own in enumerate(calls):
        for key, places in _by_group(own).items():
            for ordinal, at in enumerate(places):
                met[key, ordinal].append((rank, at))
    return met


def _by_group(own: Sequence[Call]) -> dict[CallKey, list[int]]:
    """The calls of each group, in the order of the meetings' numbers if all have them, else of the trace."""
    found: dict[tuple[str, CallKey], list[int]] = defaultdict(list)
    for at, call in enumerate(own):
        side = call.operation.kind if call.operation.kind in (SEND, RECV) else ""
        found[side, call.key].append(at)
    ordered: dict[CallKey, list[int]] = {}
    for (_, key), places in found.items():
        if all(own[at].hint >= 0 for at in places):
            places.sort(key=lambda at: own[at].hint)
        ordered[key] = places
    return ordered


def _check(met: dict[tuple[CallKey, int], list[Place]], calls: Sequence[Sequence[Call]], source: str) -> None:
    for (key, ordinal), places in met.items():
        name, members = key
        present = {rank for rank, _ in places}
        operations = [calls[rank][at].operation for rank, at in places]
        group = f"group {name or 'of all ranks'}" if operations[0].group >= 0 else "messages"
        missing = [rank for rank in members if rank not in present]
        if missing:
            rank, at = places[0]
            raise InputError(
                f"rank {missing[0]} never comes to what rank {rank} does: the replay would wait for ever",
                file=source,
                place=f"{group}, number {ordinal}",
                found=f"rank {rank}: {_text(calls[rank][at].operation)}; rank {missing[0]}: nothing",
                expected="the same communication on all members",
                remedy="the trace of a rank is incomplete or of another run; look at it with chakrasim doctor or info",
            )
        alike = {(o.kind if o.group >= 0 else "", o.size_bytes, o.peer if o.group >= 0 else -1) for o in operations}
        if len(alike) > 1:
            said = "; ".join(f"rank {rank}: {_text(calls[rank][at].operation)}" for rank, at in places[:4])
            raise InputError(
                "ranks do not agree about what they do together",
                file=source,
                place=f"{group}, number {ordinal}",
                found=said,
                expected="the same operation, bytes and root on all members",
                remedy="the traces are damaged, of different runs, or need another group file (--comm-group)",
            )


def _text(operation: Operation) -> str:
    return f"{operation.kind} of {operation.size_bytes:,} bytes (node {operation.node})"


def _sorted(
    calls: Sequence[Sequence[Call]], meetings: Sequence[dict[int, int]], places: list[list[Place]], source: str
) -> dict[int, int]:
    """The place of each meeting in an order that keeps the dependencies of all ranks, and the order in each group;
    near the order of the traces."""
    followers: list[set[int]] = [set() for _ in places]
    for rank, own in enumerate(calls):
        at_number = {call.number: at for at, call in enumerate(own)}
        replayed = mask_of(at_number)
        for at, call in enumerate(own):
            for number in _direct(call.wish.after & replayed, own, at_number):
                followers[meetings[rank][at_number[number]]].add(meetings[rank][at])
        for inside in _by_group(own).values():
            for first, then in pairwise(inside):
                followers[meetings[rank][first]].add(meetings[rank][then])
    left = Counter(then for one in followers for then in one)
    key = [(max(at for _, at in own), own[0]) for own in places]
    found = ordered([left[index] for index in range(len(places))], followers, key)
    if len(found) < len(places):
        _refuse_circle(calls, places, followers, set(found), source)
    return {index: place for place, index in enumerate(found)}


def mask_of(numbers: Iterable[int]) -> int:
    """The whole number in which these bits are set."""
    given = list(numbers)
    bits = bytearray(max(given, default=0) // 8 + 1)
    for number in given:
        bits[number // 8] |= 1 << number % 8
    return int.from_bytes(bits, "little")


def _direct(after: int, own: Sequence[Call], at_number: dict[int, int]) -> Iterable[int]:
    """The nearest communication that a call waits for: ancestors that are no ancestors of others. ``after`` has only
    what is replayed: an ancestor of what is left out is an ancestor of all that waits for that."""
    while after:
        number = after.bit_length() - 1
        yield number
        after &= ~(own[at_number[number]].wish.after | 1 << number)


def _refuse_circle(
    calls: Sequence[Sequence[Call]],
    places: list[list[Place]],
    followers: list[set[int]],
    found: set[int],
    source: str,
) -> None:
    before = {then: index for index, own in enumerate(followers) if index not in found for then in own}
    at = next(index for index in range(len(places)) if index not in found)
    seen: list[int] = []
    while at not in seen:
        seen.append(at)
        at = before[at]
    circle = seen[seen.index(at) :]
    said = "; ".join(
        f"ranks {', '.join(str(rank) for rank, _ in places[index][:4])}: "
        f"{_text(calls[places[index][0][0]][places[index][0][1]].operation)}"
        for index in circle[:4]
    )
    raise InputError(
        "ranks would wait for each other in a circle",
        file=source,
        found=said,
        expected="an order that all ranks can keep",
        remedy="the traces are damaged, of different runs, or need another group file (--comm-group)",
    )
