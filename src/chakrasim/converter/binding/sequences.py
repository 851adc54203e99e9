"""Two sequences aligned in order: the longest common subsequence, by the fewest insertions and deletions.

E. Myers, "An O(ND) difference algorithm and its variations", Algorithmica 1 (1986). All diagonals of an edit distance
go on at once; how far two places agree comes from hashes of prefixes, so that repeated layers cost nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

MOST_EDITS: Final = 6_000
"""More insertions and deletions are no version of the same program; their memory grows with the square."""
_NOWHERE: Final = -(1 << 40)


def aligned(a: Ints, b: Ints) -> Ints | None:
    """int64[pairs, 2]: positions in ``a`` and ``b`` (tokens, int64) that belong together, ascending in both.

    None where more than `MOST_EDITS` tokens that both have would have to be put in or left out.
    """
    in_a, in_b = np.flatnonzero(np.isin(a, b)), np.flatnonzero(np.isin(b, a))
    left, right = a[in_a], b[in_b]
    steps = _distances(left, right)
    if steps is None:
        return None
    pairs = _path(steps, left, right)
    return np.column_stack((in_a[pairs[:, 0]], in_b[pairs[:, 1]]))


def _distances(a: Ints, b: Ints) -> list[tuple[int, Ints]] | None:
    """For each edit distance: the lowest diagonal (x - y) that is reached, and how far (x) every second one is."""
    n, m = len(a), len(b)
    agree = _Agreement(a, b)
    furthest = np.full(n + m + 3, _NOWHERE, np.int64)
    zero = m + 1
    steps: list[tuple[int, Ints]] = []
    for distance in range(min(n + m, MOST_EDITS) + 1):
        low = -distance + 2 * max(0, distance - m)
        high = distance - 2 * max(0, distance - n)
        diagonal = np.arange(low, high + 1, 2)
        if distance:
            x = np.maximum(furthest[zero + diagonal - 1] + 1, furthest[zero + diagonal + 1])
        else:
            x = np.zeros(1, np.int64)
        y = x - diagonal
        inside = (x >= 0) & (x <= n) & (y >= 0) & (y <= m)
        x = np.where(inside, x, _NOWHERE)
        x[inside] += agree.length(x[inside], y[inside])
        furthest[zero + diagonal] = x
        steps.append((low, x))
        if (n - m - low) % 2 == 0 and low <= n - m <= high and x[(n - m - low) // 2] >= n:
            return steps
    return None


def _path(steps: list[tuple[int, Ints]], a: Ints, b: Ints) -> Ints:
    """The pairs on the way to the ends of both."""
    x, y = len(a), len(b)
    pairs: list[Ints] = []
    for distance in range(len(steps) - 1, -1, -1):
        came_x, came_y = 0, 0
        if distance:
            diagonal = x - y
            deleted, inserted = _at(steps[distance - 1], diagonal - 1), _at(steps[distance - 1], diagonal + 1)
            came_x = max(deleted + 1, inserted)
            before = (deleted, diagonal - 1) if deleted + 1 >= inserted else (inserted, diagonal + 1)
            came_y = came_x - diagonal
        length = x - came_x
        pairs.append(np.column_stack((np.arange(came_x, x), np.arange(came_y, came_y + length))))
        if distance:
            x, y = before[0], before[0] - before[1]
    found = np.concatenate(pairs[::-1]) if pairs else np.zeros((0, 2), np.int64)
    # Equal hashes of unequal runs are next to impossible, and harmless.
    kept: Ints = found[a[found[:, 0]] == b[found[:, 1]]]
    return kept


def _at(step: tuple[int, Ints], diagonal: int) -> int:
    place = diagonal - step[0]
    return int(step[1][place // 2]) if place >= 0 and place // 2 < len(step[1]) else _NOWHERE


class _Agreement:
    """How many tokens agree from places of two sequences on."""

    def __init__(self, a: Ints, b: Ints) -> None:
        self._a, self._b = a, b
        longest = max(len(a), len(b)) + 1
        random = np.random.default_rng(17)
        base = np.uint64(random.integers(1 << 62) * 2 + 1)
        self._power = np.concatenate(([np.uint64(1)], np.full(longest, base)))
        np.multiply.accumulate(self._power, out=self._power)
        tokens, number = np.unique(np.concatenate((a, b)), return_inverse=True)
        codes = random.integers(1, np.iinfo(np.int64).max, len(tokens)).astype(np.uint64)[number.reshape(-1)]
        self._sums = (self._summed(codes[: len(a)]), self._summed(codes[len(a) :]))

    def _summed(self, codes: Words) -> Words:
        return np.concatenate((np.zeros(1, np.uint64), np.cumsum(codes * self._power[: len(codes)], dtype=np.uint64)))

    def length(self, x: Ints, y: Ints) -> Ints:
        """int64: tokens that agree from ``a[x]`` and ``b[y]`` on."""
        found = np.zeros(len(x), np.int64)
        room = np.minimum(len(self._a) - x, len(self._b) - y)
        at = np.flatnonzero(room > 0)
        at = at[self._a[x[at]] == self._b[y[at]]]
        if not len(at):
            return found
        x, y, room, reach = x[at], y[at], room[at], np.zeros(len(at), np.int64)
        step = 1 << (int(room.max()).bit_length() - 1)
        while step:
            longer = reach + step
            possible = np.flatnonzero(longer <= room)
            good = possible[self._equal(x[possible], y[possible], longer[possible])]
            reach[good] = longer[good]
            step >>= 1
        found[at] = reach
        return found

    def _equal(self, x: Ints, y: Ints, length: Ints) -> NDArray[np.bool_]:
        (sum_a, sum_b), power = self._sums, self._power
        same: NDArray[np.bool_] = (sum_a[x + length] - sum_a[x]) * power[y] == (sum_b[y + length] - sum_b[y]) * power[x]
        return same
