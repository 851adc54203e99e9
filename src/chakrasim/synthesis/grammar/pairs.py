"""A sequence as a grammar that makes it and nothing else: of all pairs the commonest becomes a rule, again and again
(Re-Pair, Larsson and Moffat 1999); then rules that are used once go back to where they are used, and runs of one symbol
have a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Body = tuple[tuple[int, int], ...]
"""Symbols, each with how often it comes in a row."""


@dataclass(frozen=True)
class Grammar:
    """``whole``: the sequence, as symbols; those of `rules` stand for their bodies, others for themselves."""

    whole: Body
    rules: dict[int, Body]

    @property
    def symbols(self) -> int:
        """On the right of all rules; a count is one, too."""
        return sum(1 + (count > 1) for body in (self.whole, *self.rules.values()) for _, count in body)

    def sequence(self) -> list[int]:
        """The sequence."""
        made: dict[int, list[int]] = {}

        def of(body: Body) -> list[int]:
            return [one for symbol, count in body for one in made.get(symbol, [symbol]) * count]

        for symbol, body in self.rules.items():
            made[symbol] = of(body)
        return of(self.whole)


def grammar_of(sequence: Sequence[int]) -> Grammar:
    """The grammar of whole numbers from 0 on; rules have the numbers behind the largest, and stand behind those that
    they use."""
    first = max(sequence, default=-1) + 1
    left, pairs = _paired(np.array(sequence, np.int64), first)
    bodies = {first + i: [*map(int, pair)] for i, pair in enumerate(pairs)}
    used = Counter(left.tolist()) + Counter(one for body in bodies.values() for one in body)
    rules: dict[int, list[tuple[int, int]]] = {}
    once: dict[int, list[tuple[int, int]]] = {}

    def runs(symbols: Sequence[int]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for symbol in symbols:
            for one, count in once.get(symbol, [(symbol, 1)]):
                if found and found[-1][0] == one:
                    count += found.pop()[1]
                found.append((one, count))
        return found

    for symbol, body in bodies.items():
        own = runs(body)
        (once if used[symbol] == 1 or len(own) == 1 else rules)[symbol] = own
    return Grammar(tuple(runs(left.tolist())), {symbol: tuple(body) for symbol, body in rules.items()})


def _paired(left: Ints, symbol: int) -> tuple[Ints, list[tuple[int, int]]]:
    """What is left of the sequence when every pair that comes twice has a symbol, and the pairs in order."""
    pairs: list[tuple[int, int]] = []
    while len(left) > 3:
        at = _apart(left)
        both = (left[at] << 32) | left[at + 1]
        different, count = np.unique(both, return_counts=True)
        best = int(count.argmax())
        if count[best] < 2:
            break
        at = at[both == different[best]]
        left = left.copy()
        left[at] = symbol + len(pairs)
        left = np.delete(left, at + 1)
        pairs.append((int(different[best]) >> 32, int(different[best]) & 0xFFFFFFFF))
    return left, pairs


def _apart(left: Ints) -> Ints:
    """Where pairs begin, of a run of one symbol every second, so that equal pairs do not overlap."""
    same = left[1:] == left[:-1]
    at = np.arange(len(same))
    begin = np.maximum.accumulate(np.where(same & ~np.r_[False, same[:-1]], at, 0))
    return np.flatnonzero(~same | ((at - begin) % 2 == 0))
