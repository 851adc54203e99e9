"""What is one of two numbers, by conditions of columns that all hold where it is one of them: of all that give the
examples those which take least to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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


Test = tuple[list[Any], bool]
"""As `expressions.test` has it, and whether it has to hold or not to."""


@dataclass(frozen=True, eq=False)
class _Conditions:
    """``said``: all tests. By condition, int64[count]: its ``prices``; int64[count, 2]: ``tests`` of which one says so,
    twice the place of each and one more if it must not hold, -1 for none; bool[count, n]: where it is ``held``."""

    said: Sequence[list[Any]]
    prices: Ints
    tests: Ints
    held: Held

    def some(self, rows: Ints) -> _Conditions:
        """These of them."""
        return _Conditions(self.said, self.prices[rows], self.tests[rows], self.held[rows])

    def and_also(self, other: _Conditions) -> _Conditions:
        """These and others of the same tests."""
        prices, tests = np.concatenate([self.prices, other.prices]), np.concatenate([self.tests, other.tests])
        return _Conditions(self.said, prices, tests, np.concatenate([self.held, other.held]))

    def tests_of(self, row: int) -> list[Test]:
        """Those of a condition."""
        return [(self.said[at // 2], at % 2 == 1) for at in self.tests[row].tolist() if at >= 0]


def conditioned(wanted: Ints, columns: Mapping[str, Ints], work: Work) -> Iterator[Expression]:
    """The law of what is wanted, int64[n], if it is one of two numbers and conditions say which."""
    values = np.unique(wanted).tolist()
    if len(values) != 2:
        return
    rarest = int(min((wanted == value).sum() for value in values))
    conditions = _conditions(columns, len(wanted), work)
    for either in (False, True):
        best: tuple[int, Expression] | None = None
        for one, other in (values, values[::-1]):
            target = wanted == one
            every = conditions.and_also(_either(conditions, target, work)) if either else conditions
            found = _cheapest(every, target, work)
            if found is None or (len(found[1]) > 1 and len(found[1]) * SURE > rarest):
                continue
            if best is None or found[0] < best[0]:
                best = found[0], _said(found[1], one, other)
        if best is not None:
            yield best[1]
            return


def _said(conditions: Sequence[Sequence[Test]], one: int, other: int) -> Expression:
    found: Expression = ["const", one, 1]
    rest: Expression = ["const", other, 1]
    for each in reversed(conditions):
        left = rest
        for test, turned in reversed(each):
            left = ["if", test, left, found] if turned else ["if", test, found, left]
        found = left
    return found


def _conditions(columns: Mapping[str, Ints], count: int, work: Work) -> _Conditions:
    """Conditions that hold somewhere and not everywhere, cheap ones first, as far as half of the law's work goes."""
    most = work.own // 2
    every: list[list[Any]] = []
    prices: list[Ints] = [np.zeros(0, np.int64)]
    tests: list[Ints] = [np.zeros(0, np.int64)]
    held = [np.zeros((0, count), np.bool_)]
    for price, said, where in _tests(columns, work):
        work.spend((500 + count) * len(said))
        if work.own < most:
            break
        rows = np.flatnonzero(where.any(axis=1) & ~where.all(axis=1))
        tests.append(2 * len(every) + np.stack([2 * rows, 2 * rows + 1], axis=1).ravel())
        prices.append(np.full_like(tests[-1], price))
        held.append(np.stack([where[rows], ~where[rows]], axis=1).reshape(-1, count))
        every += said
    one = np.concatenate(tests)
    return _Conditions(every, np.concatenate(prices), np.stack([one, np.full_like(one, -1)], axis=1),
                       np.concatenate(held))  # fmt: skip


def _tests(columns: Mapping[str, Ints], work: Work) -> Iterator[tuple[int, list[list[Any]], Held]]:
    """Tests of a column with their price and where they hold, bool[tests, n], cheap ones first."""
    named = list(columns)
    table = np.stack([*columns.values()]) if named else np.zeros((0, 0), np.int64)
    for name, column in columns.items():
        values = np.unique(column).tolist()
        few = values if len(values) <= CHOICES else [*dict.fromkeys((0, 1, values[0], values[-1]))]
        less = few[2:-1] if len(values) <= CHOICES else []
        yield PRICES[0], *of_column(name, column, np.array(few, np.int64), np.array(less, np.int64))
    for price, offsets in ((PRICES[1], (0,)), (PRICES[2], (-1, 1))):
        for i in range(len(named)):
            work.spend(PAIR * (len(named) - 1 - i))
            yield price, *beside(table, named, i, offsets)


def of_column(name: str, column: Ints, equal: Ints, less: Ints) -> tuple[list[list[Any]], Held]:
    """Tests of a column whether it is one of some numbers, and less than some, and where they hold: bool[tests, n]."""
    said = [[name, sign, "", value] for sign, values in (("==", equal), ("<", less)) for value in values.tolist()]
    return said, np.concatenate([column == equal[:, None], column < less[:, None]])


def beside(table: Ints, named: Sequence[str], at: int, offsets: Sequence[int]) -> tuple[list[list[Any]], Held]:
    """Tests of a row of a table, int64[columns, n], beside each later one that comes near it and so much more, and
    where they hold: bool[tests, n]."""
    one, others = table[at], table[at + 1 :]
    least, most = one.min(initial=1 << 62), one.max(initial=-1 << 62)
    near = (least <= others.max(axis=1, initial=-1 << 62) + 1) & (others.min(axis=1, initial=1 << 62) <= most + 1)
    other = others[near]
    held = [compared(one, other + offset) for offset in offsets for compared in (np.equal, np.less)]
    said = [[named[at], sign, named[j], offset] for j in (np.flatnonzero(near) + at + 1).tolist()
            for offset in offsets for sign in ("==", "<")]  # fmt: skip
    return said, np.stack(held, axis=1).reshape(-1, table.shape[1])


def _either(conditions: _Conditions, target: Held, work: Work) -> _Conditions:
    """Pairs of cheap conditions of which one or the other holds all over the target."""
    on = conditions.held[:, target]
    usable = np.flatnonzero((conditions.prices == PRICES[0]) & on.any(axis=1) & ~on.all(axis=1))
    cheap = conditions.some(usable[once(np.packbits(conditions.held[usable], axis=1))[:PAIRED]])
    missed = (~cheap.held[:, target]).astype(np.float32)
    work.spend(len(missed) ** 2 * int(target.sum()) // 10)
    one, two = np.nonzero(np.triu(missed @ missed.T == 0, 1))
    one, two = one[:PAIRS], two[:PAIRS]
    tests = np.stack([cheap.tests[one, 0], cheap.tests[two, 0]], axis=1)
    return replace(cheap, prices=cheap.prices[one] + cheap.prices[two] + 1, tests=tests,
                   held=cheap.held[one] | cheap.held[two])  # fmt: skip


def once(rows: NDArray[Any]) -> Ints:
    """The first of equal rows, in order."""
    text, width = rows.tobytes(), rows[:1].nbytes
    first: dict[bytes, int] = {}
    for at in range(len(rows)):
        first.setdefault(text[at * width : (at + 1) * width], at)
    return np.array([*first.values()], np.int64)


def _cheapest(conditions: _Conditions, target: Held, work: Work) -> tuple[int, list[list[Test]]] | None:
    """Conditions that together hold for the target alone, and what they cost."""
    usable = conditions.some(np.flatnonzero(conditions.held[:, target].all(axis=1) & ~conditions.held.all(axis=1)))
    usable = usable.some(once(np.packbits(usable.held, axis=1)))
    outs = ~usable.held[:, ~target]
    if not outs.any(axis=0).all():
        return None
    each = 1_000 + outs.size // 8
    search = _Cover(outs, usable.prices, min(LOOKS, max(work.own, 0) // (8 * each)))
    search.go(np.ones(outs.shape[1], np.bool_), 0, [])
    work.spend(search.looks * each)
    return None if search.best is None else (search.price, [usable.tests_of(i) for i in search.best])


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
