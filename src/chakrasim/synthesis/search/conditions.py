"""What is one of two numbers, by conditions of columns that all hold where it is one of them: of all that give the
examples those which take least to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.search.work import Work

Held = NDArray[np.bool_]

CHOICES: Final = 8
"""Different numbers of a column of which each may be a condition."""
MOST: Final = 5
"""Conditions that hold together, at most."""
SURE: Final = 2
"""Examples of the rarer number for each of several conditions, at least: fewer are told apart by chance."""
PRICES: Final = (2, 3, 4)
"""Of a column beside a number, beside another column, and beside that and one more or less."""
PAIRED: Final = 200
"""Conditions of which one or another may hold, at most, and so many pairs of them."""
PAIRS: Final = 2_000
PAIR: Final = 50
"""Work of a look at a pair of columns, whether it has tests."""
LOOKS: Final = 4_000
"""Sets of conditions that are looked at, at most."""


@dataclass(frozen=True, eq=False)
class _Condition:
    """Tests as `expressions.test` has them of which one holds, or where it is ``turned`` does not; ``held`` bool[n]:
    where that is so."""

    price: int
    tests: list[tuple[list[Any], bool]]
    held: Held


def conditioned(wanted: Ints, columns: Mapping[str, Ints], work: Work) -> Iterator[Expression]:
    """The law of what is wanted, int64[n], if it is one of two numbers and conditions say which."""
    values = np.unique(wanted).tolist()
    if len(values) != 2:
        return
    rarest = int(min((wanted == value).sum() for value in values))
    conditions = _conditions(columns, work)
    for either in (False, True):
        best: tuple[int, Expression] | None = None
        for one, other in (values, values[::-1]):
            target = wanted == one
            found = _cheapest([*conditions, *(_either(conditions, target, work) if either else ())], target, work)
            if found is None or (len(found[1]) > 1 and len(found[1]) * SURE > rarest):
                continue
            if best is None or found[0] < best[0]:
                best = found[0], _said(found[1], one, other)
        if best is not None:
            yield best[1]
            return


def _said(conditions: Sequence[_Condition], one: int, other: int) -> Expression:
    found: Expression = ["const", one, 1]
    rest: Expression = ["const", other, 1]
    for each in reversed(conditions):
        left = rest
        for test, turned in reversed(each.tests):
            left = ["if", test, left, found] if turned else ["if", test, found, left]
        found = left
    return found


def _conditions(columns: Mapping[str, Ints], work: Work) -> list[_Condition]:
    """Conditions that hold somewhere and not everywhere, cheap ones first, as far as half of the law's work goes."""
    most = work.own // 2
    found = []
    for price, test in _tests(columns, work):
        work.spend(500 + len(columns[test[0]]))
        if work.own < most:
            break
        held = expressions.test(test, columns)
        if held.any() and not held.all():
            found += [_Condition(price, [(test, turned)], held ^ turned) for turned in (False, True)]
    return found


def _tests(columns: Mapping[str, Ints], work: Work) -> Iterator[tuple[int, list[Any]]]:
    """Tests with their prices, cheap ones first, made as they are asked for."""
    ends: dict[str, tuple[int, int]] = {}
    for name, column in columns.items():
        values = np.unique(column).tolist()
        ends[name] = values[0] - 1, values[-1] + 1
        few = values if len(values) <= CHOICES else [0, 1, values[0], values[-1]]
        yield from ((PRICES[0], [name, "==", "", value]) for value in dict.fromkeys(few))
        yield from ((PRICES[0], [name, "<", "", value]) for value in few[2:-1] if len(values) <= CHOICES)
    for price, offsets in ((PRICES[1], (0,)), (PRICES[2], (-1, 1))):
        for name, other in combinations(columns, 2):
            work.spend(PAIR)
            if ends[name][0] < ends[other][1] and ends[other][0] < ends[name][1]:
                yield from ((price, [name, sign, other, offset]) for offset in offsets for sign in ("==", "<"))


def _either(conditions: Sequence[_Condition], target: Held, work: Work) -> list[_Condition]:
    """Pairs of cheap conditions of which one or the other holds all over the target."""
    usable: dict[bytes, _Condition] = {}
    for one in conditions:
        if one.price == PRICES[0] and one.held[target].any() and not one.held[target].all():
            usable.setdefault(one.held.tobytes(), one)
    cheap = [*usable.values()][:PAIRED]
    if not cheap:
        return []
    missed = np.stack([~one.held[target] for one in cheap]).astype(np.float32)
    work.spend(len(cheap) ** 2 * len(target) // 10)
    both = np.argwhere(np.triu(missed @ missed.T == 0, 1)).tolist()
    return [_Condition(cheap[i].price + cheap[j].price + 1, [*cheap[i].tests, *cheap[j].tests],
                       cheap[i].held | cheap[j].held) for i, j in both[:PAIRS]]  # fmt: skip


def _cheapest(conditions: Sequence[_Condition], target: Held, work: Work) -> tuple[int, list[_Condition]] | None:
    """Conditions that together hold for the target alone, and what they cost."""
    held = np.stack([one.held for one in conditions]) if conditions else np.zeros((0, len(target)), np.bool_)
    outs = ~held[:, ~target]
    rows = np.flatnonzero(held[:, target].all(axis=1) & outs.any(axis=1))
    rows = np.sort(rows[np.unique(np.packbits(outs[rows], axis=1), axis=0, return_index=True)[1]])
    usable, outs = [conditions[i] for i in rows.tolist()], outs[rows]
    if not outs.any(axis=0).all():
        return None
    prices = np.array([one.price for one in usable])
    each = 1_000 + outs.size // 8
    search = _Cover(outs, prices, min(LOOKS, max(work.own, 0) // (8 * each)))
    search.go(np.ones(outs.shape[1], np.bool_), 0, [])
    work.spend(search.looks * each)
    return None if search.best is None else (search.price, [usable[i] for i in search.best])


class _Cover:
    """The cheapest set of rows of a table of bool that together have every column; cheap and full ones first."""

    def __init__(self, outs: Held, prices: Ints, most: int) -> None:
        self.outs, self.prices, self.looks, self.most = outs, prices, 0, most
        self.often, self.cheapest = outs.sum(axis=0), int(prices.min())
        self.best: list[int] | None = None
        self.price = 1 << 30

    def go(self, left: Held, price: int, taken: list[int]) -> None:
        """Take one more of those that have the column which fewest have."""
        self.looks += 1
        if not left.any():
            self.best, self.price = taken, price
            return
        if len(taken) == MOST or self.looks > self.most:
            return
        at = np.flatnonzero(left)
        rare = int(at[self.often[at].argmin()])
        rows = np.flatnonzero(self.outs[:, rare])
        gain = self.outs[np.ix_(rows, at)].sum(axis=1)
        whole = gain == len(at)
        for row in rows[np.lexsort((-gain, self.prices[rows], ~whole))].tolist():
            cost = price + int(self.prices[row])
            rest = left & ~self.outs[row]
            if cost + (self.cheapest if rest.any() else 0) < self.price:
                self.go(rest, cost, [*taken, row])
