"""Which stream a call lets wait, and for which work, where the call says nothing: call by call, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.jit import inner, kernel
from chakrasim.trace.kineto.columns import Ints, Mask

_HABIT: Final = 0.4
"""In so large a share of what times show, waits must be for what was launched last, to be taken for it elsewhere."""
_FOREVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Works:
    """The device's events stream by stream, in the order of their launches: int64 ``stream`` from 0; ``start_ns``,
    ``end_ns``, ``launched_ns``; when each could have begun, ``ready_ns``, and how much later it did, ``late_ns``; bool
    ``run_end``: its thread went on elsewhere; ``talks``: it is a collective."""

    stream: Ints
    start_ns: Ints
    end_ns: Ints
    launched_ns: Ints
    ready_ns: Ints
    late_ns: Ints
    run_end: Mask
    talks: Mask


def match(
    works: Works, before: Ints, after: Ints, following: Ints, limits_ns: tuple[int, int, int]
) -> tuple[Ints, Ints]:
    """int64[c], int64[c]: of each call the work waited for and the work that waits, -1: nothing is known.

    Of each call ``before`` int64[c, s]: what each stream had been given last, ``after`` int64[c, s]: what the call's
    thread gives it next, ``following`` int64[c]: what the thread launches next of all; calls before the same launch
    stand side by side. ``limits_ns``: how soon after the end of what it waited for work begins, how much later than it
    could have, and by how much the clock may err.
    """
    source, target = np.full(len(following), -1, np.int64), np.full(len(following), -1, np.int64)
    streams = before.shape[1]
    own = np.zeros(len(works.stream), np.bool_)
    own[following] = True
    pairs = np.zeros((streams, streams), np.bool_)
    tests, seen = np.zeros(2, np.int64), np.zeros(len(following), np.bool_)
    _match(
        before, after, following, np.searchsorted(works.stream, np.arange(streams)), works.stream, works.start_ns,
        works.end_ns, works.launched_ns, works.ready_ns, works.late_ns, works.run_end, works.talks,
        np.array(limits_ns, np.int64), own, np.full((streams, streams), -1, np.int64), np.empty(streams, np.int64),
        pairs, pairs.copy(), np.full(streams, -1, np.int64), tests, seen, source, target,
    )  # fmt: skip
    # A program that waits for what it launched long ago shows it where waits held work up: then nothing is likely.
    if tests[1] < _HABIT * tests[0]:
        target[~seen] = -1
    return source, target


@inner
def _ended(at: Any, begins: Any, stream: Any, end: Any, by: Any) -> int:
    """The last work of the same stream, at or before ``at``, that had ended by then; -1: none. A stream's work ends in
    its order."""
    if at < 0:
        return -1
    first = begins[stream[at]]
    low = first
    high = at + 1
    while low < high:
        middle = (low + high) // 2
        if end[middle] <= by:
            low = middle + 1
        else:
            high = middle
    return int(low - 1) if low > first else -1


@inner
def _holder(
    before: Any, to: Any, begins: Any, stream: Any, start: Any, end: Any, ready: Any, late: Any, limits: Any
) -> int:
    """The work of another stream that ended just before ``to`` began, which could have begun before; -1: none."""
    best = -1
    if late[to] <= limits[1]:
        return best
    for other in range(len(before)):
        if other == stream[to]:
            continue
        at = _ended(before[other], begins, stream, end, start[to] + limits[2])
        if at < 0 or start[to] - end[at] >= limits[0] or end[at] <= ready[to]:
            continue
        if best < 0 or end[at] > end[best]:
            best = at
    return best


@inner
def _first(at: Any, begins: Any, waited: Any, run_end: Any, stream: Any) -> int:
    """The end of the first run of work up to ``at`` that was not waited for."""
    first = max(begins[stream[at]], waited + 1)
    while first < at and not run_end[first]:
        first += 1
    return int(first)


@inner
def _likely(
    before: Any, to: Any, begins: Any, waited: Any, in_turn: Any, stream: Any, by: Any, end: Any, launched: Any,
    run_end: Any,
) -> int:  # fmt: skip
    """What ``to`` probably waits for: of what its stream has not waited for yet, the latest launched, or, where waits
    came in turn, the first; only what had ended ``by`` then. -1: none."""
    best = -1
    for other in range(len(before)):
        at = before[other]
        if other == stream[to] or at < 0 or at <= waited[stream[to], other]:
            continue
        if in_turn[stream[to], other]:
            at = _first(at, begins, waited[stream[to], other], run_end, stream)
        if end[at] <= by and (best < 0 or launched[at] > launched[best]):
            best = at
    return best


@inner
def _refuted(
    at: Any, before: Any, to: Any, stream: Any, start: Any, end: Any, launched: Any, talks: Any, limits: Any
) -> bool:
    """Whether what is likely cannot be, since ``to`` began before it had ended. Calls right behind a collective tell
    nothing: the library lets streams of its own wait there."""
    if at < 0 or end[at] <= start[to] + limits[2]:
        return False
    own = before[stream[to]]
    return bool(not talks[at] or (own >= 0 and launched[own] > launched[at]))


@inner
def _held_elsewhere(
    before: Any, after: Any, to: Any, own: Any, begins: Any, stream: Any, start: Any, end: Any, ready: Any, late: Any,
    limits: Any,
) -> int:  # fmt: skip
    """The next work of another stream, without calls of its own, that something held up; -1: none."""
    for other in range(len(after)):
        at = after[other]
        if at < 0 or other == stream[to] or own[at]:
            continue
        if _holder(before, at, begins, stream, start, end, ready, late, limits) >= 0:
            return int(at)
    return -1


@inner
def _waits_as_usual(
    before: Any, after: Any, to: Any, own: Any, usual: Any, waited: Any, stream: Any, start: Any, end: Any, limits: Any
) -> int:
    """The next work of another stream, without calls of its own, that can wait for the stream it waited for before;
    -1: none."""
    for other in range(len(after)):
        next_ = after[other]
        if next_ < 0 or other == stream[to] or own[next_] or usual[other] < 0:
            continue
        at = before[usual[other]]
        if at > waited[other, usual[other]] and end[at] <= start[next_] + limits[2]:
            return int(next_)
    return -1


@inner
def _earlier(low: Any, call: Any, source: Any, target: Any, since: Any, stream: Any, talks: Any) -> int:
    """The last collective before all that the calls of a group wait for on the stream of the first; -1: none."""
    own = stream[source[low]]
    at = source[low]
    for one in range(low, call):
        if source[one] >= 0 and target[one] == target[low] and stream[source[one]] == own:
            at = min(at, source[one])
    at -= 1
    while at >= 0 and stream[at] == own and at > since[own]:
        if talks[at]:
            return int(at)
        at -= 1
    return -1


@inner
def _remember(
    low: Any, high: Any, held: Any, before: Any, waited: Any, in_turn: Any, paired: Any, usual: Any, seen: Any,
    stream: Any, source: Any, target: Any,
) -> None:  # fmt: skip
    """What the calls of a group teach: what each stream has waited for by now, itself or through others, and how."""
    for call in range(low, high):
        if source[call] < 0:
            continue
        of, row = stream[source[call]], stream[target[call]]
        if call == low and held >= 0:
            in_turn[row, of] = source[call] < before[call, of]
        usual[row] = of
        paired[row, of] |= seen[call]
        waited[row, of] = max(waited[row, of], source[call])
        for other in range(len(usual)):
            waited[row, other] = max(waited[row, other], waited[of, other])


@kernel
def _match(
    before: Any, after: Any, following: Any, begins: Any, stream: Any, start: Any, end: Any, launched: Any, ready: Any,
    late: Any, run_end: Any, talks: Any, limits: Any, own: Any, waited: Any, since: Any, in_turn: Any, paired: Any,
    usual: Any, tests: Any, seen: Any, source: Any, target: Any,
) -> None:  # fmt: skip
    """Long because what times show goes before what is likely, for a launch and for those after it."""
    low = 0
    while low < len(following):
        to = following[low]
        high = low
        while high < len(following) and following[high] == to:
            high += 1
        for other in range(len(usual)):
            since[other] = waited[stream[to], other]
        by = start[to] + limits[2]
        held = _holder(before[high - 1], to, begins, stream, start, end, ready, late, limits)
        at = _likely(before[low], to, begins, waited, in_turn, stream, _FOREVER, end, launched, run_end)
        turn = held >= 0 and held == _first(
            before[low, stream[held]], begins, waited[stream[to], stream[held]], run_end, stream
        )
        if held >= 0 or _refuted(at, before[low], to, stream, start, end, launched, talks, limits):
            tests[0] += 1
            tests[1] += at == held or turn
        for call in range(low, high):
            if call == low and held >= 0:
                source[call], target[call], seen[call] = held, to, True
                waited[stream[to], stream[held]] = max(waited[stream[to], stream[held]], held)
                continue
            next_ = _held_elsewhere(before[call], after[call], to, own, begins, stream, start, end, ready, late, limits)
            if next_ >= 0:
                at = _holder(before[call], next_, begins, stream, start, end, ready, late, limits)
                source[call], target[call], seen[call], own[next_] = at, next_, True, True
                continue
            at = _likely(before[call], to, begins, waited, in_turn, stream, by, end, launched, run_end)
            if call > low and at >= 0 and not paired[stream[to], stream[at]]:
                # A stream that waits as it did before is likelier than one that never waited for this one.
                next_ = _waits_as_usual(before[call], after[call], to, own, usual, waited, stream, start, end, limits)
                if next_ >= 0:
                    source[call], target[call], own[next_] = before[call, usual[stream[next_]]], next_, True
                    continue
            if at < 0 and source[low] >= 0 and target[low] == to:
                at = _earlier(low, call, source, target, since, stream, talks)
            if at < 0 and call == low and usual[stream[to]] >= 0:
                at = before[call, usual[stream[to]]]
                at = at if at >= 0 and end[at] <= by else -1
            if at >= 0:
                source[call], target[call] = at, to
                waited[stream[to], stream[at]] = max(waited[stream[to], stream[at]], at)
        _remember(low, high, held, before, waited, in_turn, paired, usual, seen, stream, source, target)
        low = high
