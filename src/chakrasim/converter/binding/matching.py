"""Which node of a captured program is which call of a recorded step: in order, by name and size, then by name."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from chakrasim.converter.binding.calls import UNKNOWN, Calls, Size
from chakrasim.converter.binding.sequences import aligned
from chakrasim.trace.chakra.graph import Ints

BY_SIZE, BY_NAME, BY_PLACE, OTHER_SIZE, NO_PLACE, NO_NAME = range(6)
"""How a node or call fares."""
WHY: Final = {
    BY_SIZE: "matched by name and size",
    BY_NAME: "matched by name: sizes not recorded, or of the same operations",
    BY_PLACE: "measured with their neighbours: a device did the same by other operators",
    OTHER_SIZE: "the same operator of another size",
    NO_PLACE: "the other side has nothing at this place",
    NO_NAME: "the other side has no such operator",
}


@dataclass(frozen=True, eq=False)
class Matching:
    """``pairs`` int64[k, 2]: node and call; ``captured`` and ``recorded``, int64: how each node and each call fares."""

    pairs: Ints
    captured: Ints
    recorded: Ints


def matched(captured: Calls, recorded: Calls) -> Matching | None:
    """None where the two are too different to be one program."""
    both = _tokens(captured, recorded, sized=True)
    names = _tokens(captured, recorded, sized=False)
    pairs = aligned(*both)
    if pairs is None:
        return None
    ends = np.array([[-1, -1], *pairs.tolist(), [len(captured), len(recorded)]], np.int64)
    how = [np.where(np.isin(own, other), NO_PLACE, NO_NAME) for own, other in (names, names[::-1])]
    for side in (0, 1):
        how[side][pairs[:, side]] = BY_SIZE
    more: list[tuple[int, int]] = []
    for (low_a, low_b), (high_a, high_b) in pairwise(ends.tolist()):
        if high_a - low_a < 2 or high_b - low_b < 2:
            continue
        between = aligned(names[0][low_a + 1 : high_a], names[1][low_b + 1 : high_b])
        for a, b in between.tolist() if between is not None else ():
            node, call = low_a + 1 + a, low_b + 1 + b
            fits = _may_be_equal(captured.sizes[node], recorded.sizes[call])
            how[0][node] = how[1][call] = BY_NAME if fits else OTHER_SIZE
            if fits:
                more.append((node, call))
    every = np.concatenate((pairs, np.array(more, np.int64).reshape(-1, 2)))
    return Matching(every[np.argsort(every[:, 0], kind="stable")], how[0], how[1])


def _may_be_equal(captured: Size, recorded: Size) -> bool:
    """Sizes that do not contradict each other: unknown, or of equal operations (results of a kernel may differ)."""
    return UNKNOWN in (captured, recorded) or captured[0] == recorded[0] > 0


def _tokens(a: Calls, b: Calls, *, sized: bool) -> tuple[Ints, Ints]:
    numbers: dict[Hashable, int] = {}

    def of(calls: Calls) -> Ints:
        keys: Sequence[Hashable] = [*zip(calls.names, calls.sizes, strict=True)] if sized else calls.names
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    return of(a), of(b)
