"""Laws of whole numbers, found from examples: constants, one or two columns, products of powers, sums of products, and
these by case. What is returned gives every example; None where nothing of this does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.search.conditions import Held, beside, conditioned, of_column, once
from chakrasim.synthesis.search.sums import rounded_sums, spread, sums
from chakrasim.synthesis.search.work import Work

Floats = NDArray[np.float64]
Kind = Callable[["Examples", Work], Iterator[Expression]]
Test = tuple[Held, list[Any]]
"""Which examples it holds for, bool[n], and the test."""

PROBES: Final = 32
"""Examples that candidates are tried on before all are."""
FIRST: Final = 8
"""Of these, those that candidates are tried on before."""
AT_ONCE: Final = 1 << 18
"""Numbers of candidates that are made at a time."""
SPREAD: Final = 12
"""Different numbers that are spread, not chosen from."""
CHOICES: Final = 8
"""Different numbers of a column of which each may be a case where numbers are spread."""
FEW: Final = 6
"""Different numbers without which no sum is searched."""
FEW_SHORT: Final = 4
"""The same of sums of two certain terms."""
STEEP: Final = 0.6
SLIGHT: Final = 0.15
"""Columns whose slope is less steep down may stand above; those that slope down by more than this, below."""
COLUMNS: Final = 12
ABOVE: Final = 8
BELOW: Final = 3
"""Columns that a sum is searched in, at most; those that stand above, below, and as conditions."""
SHORT: Final = (2, 3, 4)
"""After how many something may come round, where no column says it."""
ATTEMPTS: Final = 120
FEW_ATTEMPTS: Final = 8
ONE_CASE: Final = 12
"""Parts of examples for which a law is searched, at most, for one law by case."""
CASES: Final = 6
"""Tests of a law by case, at most, one below the other."""
FEW_TESTS: Final = 2
"""Of conditions, which are then rather the law than what goes round."""
SIMPLER: Final = 20
"""Tests that are tried for two plain laws where another found more cases."""
NEAR_CASES: Final = 4
"""The same of what is near alone."""
NEARLY: Final = 0.01
"""What is in proportion up to rounding is so within this share."""
MOST_PARTS: Final = 1 << 12
"""Into how many parts something is divided that is rounded up for it, at most."""
SMALLEST_CASE: Final = 2
"""Examples without which a case is no law but a copy."""
_ONE: Final[Expression] = ["const", 1, 1]
_ODD: Final = np.random.default_rng(1).integers(1, 2**62, 1 << 12) | 1
EXACT: Final = 1e-6
"""A law gives an example if it is no further from it, relative; numbers below a million are then equal."""


@dataclass(frozen=True, eq=False)
class Examples:
    """``wanted`` int64[n] and the columns it may follow from, int64[n] each."""

    wanted: Ints
    columns: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.wanted)

    def some(self, rows: NDArray[Any]) -> Examples:
        """These rows alone."""
        return Examples(self.wanted[rows], {name: column[rows] for name, column in self.columns.items()})

    def given_by(self, expression: Expression) -> Held:
        """bool[n]: which examples it gives."""
        made = expressions.value(expression, self.columns, len(self))
        error = np.abs(made.astype(np.float64) - self.wanted)
        return error <= np.maximum(np.abs(self.wanted.astype(np.float64)), 1) * EXACT


def simple(examples: Examples) -> Examples:
    """The examples once each, and the columns that differ, once each: those of shorter names stay."""
    kept: dict[bytes, str] = {}
    for name in sorted(examples.columns, key=lambda name: (len(name), name)):
        column = examples.columns[name]
        if len(column) and (column != column[0]).any():
            kept.setdefault(column.tobytes(), name)
    columns = {name: examples.columns[name] for name in kept.values()}
    table = np.stack([examples.wanted, *columns.values()], axis=1)
    with np.errstate(over="ignore"):
        hashed = (table ^ (table >> 17)) @ _ODD[: table.shape[1]]
    first = np.sort(np.unique(hashed, return_index=True)[1])
    return Examples(examples.wanted, columns).some(first)


def law(examples: Examples, cases: int = CASES, work: Work | None = None) -> Expression | None:
    """The simplest law found that gives all examples, of so many ``cases`` at most, or None."""
    few, work = simple(examples), work or Work()
    return one_law(few, work) or law_by_case(few, cases, work)


def one_law(examples: Examples, work: Work | None = None) -> Expression | None:
    """The same without cases: one law for all examples."""
    few, work = simple(examples), work or Work()
    return _plain(few, QUICK, work) or beyond_plain(few, work)


def beyond_plain(few: Examples, work: Work) -> Expression | None:
    """The same for examples as `simple` has them, where `plain_law` finds none."""
    return _by_one_case(few, work) or _plain(few, (_sums, _rounded), work)


def _by_one_case(few: Examples, work: Work) -> Expression | None:
    """A product of powers in each of two cases, of numbers that are spread."""
    if len(np.unique(few.wanted)) <= SPREAD or (few.wanted <= 0).any():
        return None
    return _Cases((_product,), ONE_CASE, work, choices=True).law(few, 1)


def law_by_case(few: Examples, cases: int, work: Work) -> Expression | None:
    """The same for examples as `simple` has them, where no law without cases does."""
    found = _Cases(PARTS, ATTEMPTS, work).law(few, cases) if cases else None
    if found is None and cases:
        found = _Cases((*PARTS, _sums), FEW_ATTEMPTS, work, choices=True).law(few, min(cases, 3))
    return found


def plain_law(
    examples: Examples, cases: int = 0, work: Work | None = None, *, tests: int | None = None
) -> Expression | None:
    """The same without sums: a constant, one or two columns, a product of powers, and of so many ``cases`` these; or
    one of two numbers by conditions, which have so many ``tests`` at most."""
    few, work = simple(examples), work or Work()
    kinds = QUICK if tests is None or tests else PARTS
    return _plain(few, kinds, work, tests) or _Cases(PARTS, ATTEMPTS, work).law(few, cases)


def _plain(few: Examples, kinds: Sequence[Kind], work: Work, tests: int | None = None) -> Expression | None:
    """A law without cases for examples as `simple` has them."""
    if not len(few):
        return ["const", 0, 1]
    if (few.wanted == few.wanted[0]).all():
        return ["const", int(few.wanted[0]), 1]
    for candidates in kinds:
        for candidate in candidates(few, work) if not work.is_spent else ():
            if (tests is None or expressions.cases(candidate) <= tests) and few.given_by(candidate).all():
                return candidate
    return None


# -- one or two columns ------------------------------------------------------------------------------------------------


def _column(few: Examples, work: Work) -> Iterator[Expression]:
    """A column as it is."""
    work.spend(len(few.columns) * len(few))
    yield from (["column", name] for name, column in few.columns.items() if (column == few.wanted).all())


def _pairs(few: Examples, work: Work) -> Iterator[Expression]:
    """A column, or an operation of two, with a constant added; the constant is what the probes say."""
    probes = _probes(few)
    for name, column in probes.columns.items():
        rest = probes.wanted - column
        if (rest == rest[0]).all():
            yield _plus(["column", name], int(rest[0]))
    yield from _of_two(probes, work, _operations, _turned)


def _of_two(probes: Examples, work: Work, *kinds: OfTwo) -> Iterator[Expression]:
    """What these kinds make of two columns, in the order of columns."""
    table, named = _stacked(probes), [*probes.columns]
    work.spend(4 * len(named) ** 2 * len(probes))
    count = max(1, AT_ONCE // (1 + table.size))
    for begin in range(0, len(named), count):
        rows = np.arange(begin, min(begin + count, len(named)))
        found = [each for kind in kinds for each in kind(probes.wanted, table, rows, named)]
        yield from (said for _, said in sorted(found, key=lambda each: each[0]))


def _probes(few: Examples) -> Examples:
    """Some examples that are spread, and the ``FIRST`` of them, too."""
    rows = spread(few.wanted, PROBES)
    first = spread(few.wanted[rows], FIRST)
    return few.some(np.concatenate([rows[first], np.delete(rows, first)]))


def _stacked(few: Examples) -> Ints:
    """int64[columns, n]."""
    return np.stack([*few.columns.values()]) if few.columns else np.zeros((0, len(few)), np.int64)


def _even(rows: Ints) -> Held:
    """Which rows, int64[..., n], are the same all over."""
    same: Held = (rows == rows[..., :1]).all(axis=-1)
    return same


Order = tuple[int, int, int, int]
"""Of candidates: by column, kind, sign and other column."""
OfTwo = Callable[[Ints, Ints, Ints, Sequence[str]], Iterator[tuple[Order, Expression]]]


def _operations(wanted: Ints, table: Ints, rows: Ints, named: Sequence[str]) -> Iterator[tuple[Order, Expression]]:
    """Operations of these rows of a table, int64[columns, n], and another of it that give what is wanted with a
    constant."""
    safe = np.where(table == 0, 1, table)
    small = np.abs(table).max(axis=1, initial=0) < 2**31
    for number, (operation, made) in enumerate(_OPERATIONS.items()):
        other = safe if operation in ("//", "ceil") else table
        with np.errstate(over="ignore"):
            near = _even(wanted[:FIRST] - made(table[rows, None, :FIRST], other[None, :, :FIRST]))
            one, two = np.nonzero(near & small[rows, None] & small if operation == "*" else near)
            one = rows[one]
            results = made(table[one], other[two])
        rest = wanted - results
        for at in np.flatnonzero(_even(rest) & ~_even(results) & (one != two)).tolist():
            i, j = int(one[at]), int(two[at])
            said: Expression = [operation, ["column", named[i]], ["column", named[j]]]
            yield (i, number, 0, j), _plus(said, int(rest[at, 0]))


def _turned(wanted: Ints, table: Ints, rows: Ints, named: Sequence[str]) -> Iterator[tuple[Order, Expression]]:
    """The same of what is left where they come round after another row, or after ``SHORT``; or taken from a constant;
    or of whether they begin anew there. They have to come round among the examples and differ there: what never does
    comes round by chance."""
    around = np.concatenate([np.where(table == 0, 1, table), np.repeat([[n] for n in SHORT], len(wanted), axis=1)])
    ways = [*(["column", name] for name in named), *(["const", n, 1] for n in SHORT)]
    for number, begin in enumerate((None, 0, 1) if np.ptp(wanted) == 1 else (None,)):
        begun = table + (begin or 0)
        first = _left(begun[rows, None, :FIRST], around[None, :, :FIRST], begin)
        one, two = np.nonzero(_even(wanted[:FIRST] - first) | _even(wanted[:FIRST] + first))
        one = rows[one]
        results, round_once = _left(begun[one], around[two], begin), (around[two] > 1) & (begun[one] >= around[two])
        most = np.where(round_once, results, -1).max(axis=1, initial=-1)
        least = np.where(round_once, results, 1 << 62).min(axis=1, initial=1 << 62)
        for sign in (1, -1):
            rest = wanted - sign * results
            for at in np.flatnonzero(_even(rest) & (most > least) & (one != two)).tolist():
                i, j, constant = int(one[at]), int(two[at]), int(rest[at, 0])
                left: Expression = ["%", _plus(["column", named[i]], begin or 0), ways[j]]
                left = left if begin is None else ["-", _ONE, ["min", _ONE, left]]
                said = _plus(left, constant) if sign == 1 else ["-", ["const", constant, 1], left]
                yield (i, len(_OPERATIONS) + number, -sign, j), said


def _left(column: Ints, around: Ints, begin: int | None) -> Ints:
    """What is left of a column where it comes round, or where it ``begin``s anew there whether it does."""
    left = column % around
    return left if begin is None else (left == 0).astype(np.int64)


def _shares(few: Examples, work: Work) -> Iterator[Expression]:
    """What is divided as evenly as whole numbers go: a column and a place, over how many places there are."""
    probes = _probes(few)
    wanted, table = probes.wanted, _stacked(probes)
    names = [["column", name] for name in probes.columns]
    work.spend(len(names) ** 2 * FIRST)
    begin = table[:, :FIRST]
    for at in np.flatnonzero(_may_share(wanted[:FIRST], begin, begin)).tolist():
        count, over = names[at], table[at]
        work.spend(len(names) * len(probes))
        if not _may_share(wanted, table, table[at : at + 1]).any():
            continue
        places = np.flatnonzero(((table >= 0) & (table < over)).all(axis=1)).tolist()
        work.spend(len(names) * len(probes) * len(places))
        for place in places:
            first = (table[:, :FIRST] + table[place, :FIRST]) // over[:FIRST]
            near = np.flatnonzero((first == wanted[:FIRST]).all(axis=1))
            for of in near[((table[near] + table[place]) // over == wanted).all(axis=1)].tolist():
                yield ["//", ["+", names[of], names[place]], count]


def _may_share(wanted: Ints, table: Ints, over: Ints) -> Held:
    """bool[counts]: over which of these, int64[counts, n], a row of the table divides to about what is wanted."""
    low, high = (wanted - 1.0) * over, (wanted + 1.0) * over
    low, high = low - np.abs(low) * EXACT, high + np.abs(high) * EXACT
    near: Held = np.repeat(np.all(over > 0, axis=1, keepdims=True), len(table), axis=1)
    for probe in range(len(wanted)):
        at = table[:, probe]
        near &= (low[:, probe, None] <= at) & (at <= high[:, probe, None])
        if not near.any():
            break
    found: Held = np.any(near, axis=1)
    return found


_OPERATIONS: Final[Mapping[str, Callable[[Ints, Ints], Ints]]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "ceil": lambda one, other: -(-one // other),
    "min": np.minimum,
    "max": np.maximum,
}


def _plus(expression: Expression, constant: int) -> Expression:
    return ["+", expression, ["const", constant, 1]] if constant else expression


def _presence(few: Examples, work: Work) -> Iterator[Expression]:
    """One of two numbers by conditions, where one is 0: two others may go along with a column, of which they are but a
    few. What takes many tests may come every few iterations instead."""
    for law in conditioned(few.wanted, few.columns, work) if not few.wanted.all() else ():
        if expressions.cases(law) > FEW_TESTS:
            yield from _of_two(_probes(few), work, _turned)
        yield law


def _conditions(few: Examples, work: Work) -> Iterator[Expression]:
    """The same where neither is."""
    if few.wanted.all():
        yield from conditioned(few.wanted, few.columns, work)


# -- products ----------------------------------------------------------------------------------------------------------


def _positive(few: Examples) -> dict[str, Floats]:
    return {name: column.astype(np.float64) for name, column in few.columns.items() if (column > 0).all()}


def _product(few: Examples, work: Work) -> Iterator[Expression]:
    """A product of powers: a line in logarithms, of columns that are no products of others."""
    logs = {name: np.log(column) for name, column in _positive(few).items()}
    work.spend(len(logs) ** 2 * len(few))
    if not logs or (few.wanted <= 0).any():
        return
    chosen = independent(logs)
    if len(few) <= len(chosen):
        return
    _, slopes = _line(few, {name: logs[name] for name in chosen})
    powers = {name: 2 * round(slope) for name, slope in slopes.items() if round(slope)}
    if any(abs(power) > 8 for power in powers.values()):
        return
    ratio = few.wanted / np.prod([np.exp(logs[name] * power / 2) for name, power in powers.items()], axis=0)
    factor = _fraction(float(np.median(ratio)))
    if factor:
        yield ["sum", [[factor.numerator, factor.denominator, powers]]]


def _short(few: Examples, work: Work) -> Iterator[Expression]:
    """Sums of two terms that few different numbers tell: so many times a column or a product of two or
    three, and a constant, or so many times a column and its square."""
    if not FEW_SHORT <= len(np.unique(few.wanted)) < FEW:
        return
    columns = {name: column.astype(np.float64) for name, column in few.columns.items() if column.min() > 0}
    names = [*columns][:COLUMNS]
    products = [dict.fromkeys(each, 2) for many in (1, 2, 3) for each in combinations(names, many)]
    terms: list[tuple[Mapping[str, int], Mapping[str, int]]] = [(product, {}) for product in products]
    terms += [({name: 4}, {name: 2}) for name in names]
    work.spend(len(terms) * len(few))
    for one, other in terms:
        factors = _weights(few.wanted, [_product_of(columns, each, len(few)) for each in (one, other)])
        if factors:
            yield ["sum", [[factor.numerator, factor.denominator, dict(each)]
                           for factor, each in zip(factors, (one, other), strict=True)]]  # fmt: skip


def _product_of(columns: Mapping[str, Floats], powers: Mapping[str, int], rows: int) -> Floats:
    with np.errstate(over="ignore"):
        found: Floats = np.prod([np.ones(rows), *(columns[name] ** (power // 2) for name, power in powers.items())], 0)
    return found


def _weights(wanted: Ints, terms: Sequence[Floats]) -> list[Fraction]:
    """How often two terms add up to what is wanted; nothing for terms that do not."""
    at = int(np.abs(wanted - wanted[0]).argmax())
    table = np.stack(terms)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        (a, b), (c, d) = table[:, [0, at]].T
        over = a * d - b * c
        weights = np.array([wanted[0] * d - wanted[at] * b, wanted[at] * a - wanted[0] * c], np.float64) / over
        close = np.abs(weights @ table - wanted) <= EXACT * np.maximum(np.abs(wanted), 1)
    simple = [one for weight in weights.tolist() if (one := _fraction(weight))] if close.all() else []
    return simple if len(simple) == len(terms) else []


def _line(few: Examples, logs: Mapping[str, Floats]) -> tuple[float, dict[str, float]]:
    """Where the line of least squares through the logarithms begins, and its slopes."""
    matrix = np.stack([np.ones(len(few)), *logs.values()], axis=1)
    begin, *slopes = np.linalg.lstsq(matrix, np.log(few.wanted.astype(np.float64)), rcond=None)[0].tolist()
    return begin, dict(zip(logs, slopes, strict=True))


def independent(logs: Mapping[str, Floats]) -> list[str]:
    """Columns of which none is a product of powers of the ones before."""
    count = len(next(iter(logs.values()), ()))
    basis = np.full((1, count), 1 / np.sqrt(max(count, 1)))
    chosen = []
    for name, column in logs.items():
        rest = column
        for _ in range(2):
            rest = rest - (basis @ rest) @ basis
        length = float(np.linalg.norm(rest))
        if length > 1e-8 * max(float(np.linalg.norm(column)), 1e-300):
            basis = np.concatenate([basis, rest[None] / length])
            chosen.append(name)
    return chosen


def _fraction(number: float) -> Fraction | None:
    """A simple fraction next to a number."""
    found = Fraction(number).limit_denominator(1 << 12)
    return found if found and abs(float(found) / number - 1) < 1e-9 else None


def near_law(few: Examples, work: Work | None = None) -> Expression:
    """A product of powers, or by case the commonest value: near the examples, not equal to them."""
    if len(few) and (few.wanted > 0).all() and len(np.unique(few.wanted)) > 8:
        logs = {name: np.log(column) for name, column in _positive(few).items()}
        chosen = [*_stepwise(logs, np.log(few.wanted.astype(np.float64)))][: max(1, len(few) // 3)]
        return ["power", *_line(few, {name: logs[name] for name in chosen})]
    return _commonest(few, NEAR_CASES, work or Work())


def _commonest(few: Examples, cases: int, work: Work) -> Expression:
    values, counts = np.unique(few.wanted, return_counts=True)
    if len(values) < 2 or not cases:
        return ["const", int(values[counts.argmax()]) if len(values) else 0, 1]
    tests = enumerate(tests_of(few, False, work))
    best = min(((_wrong(few.wanted, held), number, held, one) for number, (held, one) in tests),
               default=None, key=lambda each: each[:2])  # fmt: skip
    if best is None or best[0] >= len(few) - counts.max():
        return ["const", int(values[counts.argmax()]), 1]
    parts = [simple(few.some(np.flatnonzero(part))) for part in (best[2], ~best[2])]
    return ["if", best[3], *(_commonest(part, cases - 1, work) for part in parts)]


def _wrong(wanted: Ints, held: Held) -> int:
    return sum(int(part.sum() - np.unique(wanted[part], return_counts=True)[1].max()) for part in (held, ~held))


# -- sums of products --------------------------------------------------------------------------------------------------


def _sums(few: Examples, work: Work) -> Iterator[Expression]:
    """Sums of products of the columns that seem to matter."""
    if len(np.unique(few.wanted)) < FEW or not few.wanted.all():
        return
    chosen = relevant(few)
    if chosen.above:
        yield from sums(few.wanted.astype(np.float64), chosen.above, chosen.below, chosen.zero, work)


def _rounded(few: Examples, work: Work) -> Iterator[Expression]:
    """Sums of products that are divided by a column and rounded up, perhaps times it and others: parts with padding."""
    if len(np.unique(few.wanted)) < FEW or (few.wanted <= 0).any():
        return
    for wanted, factor in _without_factors(few):
        divisors = relevant(Examples(wanted, few.columns)).below
        for name, column in few.columns.items():
            whole = column.min() > 0 and (wanted % column == 0).all()
            if work.is_spent or not 0 < column.min() <= column.max() <= MOST_PARTS or not (whole or name in divisors):
                continue
            most = wanted if whole else wanted * column
            chosen = relevant(Examples(most, few.columns))
            below = {one: own for one, own in chosen.below.items() if one != name}
            for found in rounded_sums(most.astype(np.float64), chosen.above, below, column.astype(np.float64), work):
                part: Expression = ["ceil", found, ["column", name]]
                yield ["*", ["*", part, ["column", name]] if whole else part, factor]


def _without_factors(few: Examples) -> Iterator[tuple[Ints, Expression]]:
    """What is left of the examples without columns that they go along with and a common divisor, and these: all such
    columns, then those of many numbers, which divide nothing by chance, with one of the others or none."""
    logs = {name: np.log(column) for name, column in _positive(few).items()}
    slopes = _stepwise(logs, np.log(few.wanted.astype(np.float64)))
    along = [
        name for name, slope in slopes.items() if round(slope) == 1 and (few.wanted % few.columns[name] == 0).all()
    ]
    many = [name for name in along if len(np.unique(few.columns[name])) > CHOICES]
    others = [name for name in along if name not in many][:BELOW]
    for chosen in dict.fromkeys([tuple(along), *((*many, name) for name in others), tuple(many)]):
        factors = np.prod([few.columns[name] for name in chosen], axis=0, dtype=np.int64)
        if chosen and (few.wanted % factors).any():
            continue
        wanted = few.wanted // factors
        unit = int(np.gcd.reduce(wanted))
        yield wanted // unit, ["sum", [[unit, 1, dict.fromkeys(chosen, 2)]]]


@dataclass(frozen=True, eq=False)
class Relevant:
    """Columns for sums: of products, of what they are divided by, and of what may be 0."""

    above: Mapping[str, Floats]
    below: Mapping[str, Floats]
    zero: Mapping[str, Held]


def relevant(few: Examples) -> Relevant:
    """The columns that a line in logarithms needs, those with most weight first."""
    positive = _positive(few)
    logs = {name: np.log(column) for name, column in positive.items()}
    zero = {name: column == 0 for name, column in few.columns.items() if name not in positive and (column == 0).any()}
    every = logs | {name: held.astype(np.float64) for name, held in zero.items()}
    slope = _stepwise(every, np.log(np.abs(few.wanted.astype(np.float64))))
    if not slope:
        return Relevant({}, {}, {})
    weight = {name: abs(value) * float(every[name].std()) for name, value in slope.items()}
    order = sorted(slope, key=lambda name: (-weight[name], name))
    above = [name for name in order if name in logs and slope[name] > -STEEP][:ABOVE]
    below = [name for name in order if name in logs and slope[name] < -SLIGHT][:BELOW]
    above += _made_of({name: logs[name] for name in above}, {n: log for n, log in logs.items() if n not in slope})
    cases = [name for name in order if name in zero][:BELOW]
    return Relevant({name: positive[name] for name in above}, {name: positive[name] for name in below},
                     {name: zero[name] for name in cases})  # fmt: skip


def _stepwise(columns: Mapping[str, Floats], target: Floats) -> dict[str, float]:
    """Columns taken one by one, each time the one that explains most of what is left, and their slopes."""
    if not columns:
        return {}
    names = list(columns)
    table = np.stack([columns[name] - columns[name].mean() for name in names], axis=1)
    aim = target - target.mean()
    left, rest = table.copy(), aim.copy()
    taken: list[int] = []
    lengths = np.linalg.norm(table, axis=0)
    while len(taken) < min(COLUMNS, len(target) - 2) and np.linalg.norm(rest) > 1e-6 * np.linalg.norm(aim):
        own = np.linalg.norm(left, axis=0)
        free = own > 1e-7 * np.maximum(lengths, 1e-300)
        if not free.any():
            break
        best = int(np.where(free, np.abs(rest @ left) / np.where(free, own, 1), -1).argmax())
        unit = left[:, best] / own[best]
        taken.append(best)
        rest = rest - unit * float(unit @ rest)
        left = left - np.outer(unit, unit @ left)
    slopes = np.linalg.lstsq(table[:, taken], aim, rcond=None)[0].tolist()
    return {names[i]: slope for i, slope in zip(taken, slopes, strict=True)}


def _made_of(logs: Mapping[str, Floats], others: Mapping[str, Floats]) -> list[str]:
    """Of the other columns those that are products of powers of these, two at most."""
    found: list[str] = []
    if logs:
        basis = np.stack([np.ones(len(next(iter(logs.values())))), *logs.values()], axis=1)
        for name, log in others.items():
            rest = log - basis @ np.linalg.lstsq(basis, log, rcond=None)[0]
            if np.linalg.norm(rest) < 1e-8 * max(float(np.linalg.norm(log)), 1.0):
                found.append(name)
    return found[:2]


PARTS: Final = (_pairs, _product, _shares)
QUICK: Final = (_presence, *PARTS, _short, _conditions)


# -- cases -------------------------------------------------------------------------------------------------------------


class _Cases:
    """Laws by case. ``choices``: only columns of two values are tested, and whether a column is 0."""

    def __init__(self, kinds: Sequence[Kind], attempts: int, work: Work, *, choices: bool = False) -> None:
        self.kinds = kinds
        self.work = work
        self.left = attempts
        self.choices = choices
        self.known: dict[bytes, Expression | None] = {}
        """Plain laws of parts of the examples at hand."""

    def law(self, few: Examples, cases: int) -> Expression | None:
        """One of the tests of a column beside a number that leave two plain laws; else of those that leave a part with
        a plain law the first whose other part has a law, too; if that is not plain, one of the tests after it that
        leave two plain ones."""
        if len(few) < 2 * SMALLEST_CASE or not cases:
            return None
        tests = [*tests_of(few, self.choices, self.work)]
        self.known = {}
        beside_numbers = [test for test in tests if not test[1][2]][: 0 if self.choices else SIMPLER]
        if (found := self._two_plain(few, beside_numbers)) is not None:
            return found
        for at, (held, one) in enumerate(tests):
            for part, other in ((held, ~held), (~held, held)):
                if self.left <= 0 or self.work.is_spent:
                    return None
                own = self._plain(few, part)
                if own is None:
                    continue
                rest = self._other(few, own, other)
                if rest is not None:
                    return _if(one, own, rest, turned=part is not held)
                rest = self.law(simple(few.some(np.flatnonzero(other))), cases - 1)
                if rest is not None:
                    self.known = {}
                    many = len(np.unique(few.wanted)) > 2
                    simpler = self._two_plain(few, tests[at + 1 : at + 1 + SIMPLER]) if many else None
                    return simpler or _if(one, own, rest, turned=part is not held)
                self.known = {}
        return None

    def _two_plain(self, few: Examples, tests: Sequence[Test]) -> Expression | None:
        for held, one in tests:
            own = self._plain(few, held)
            rest = None if own is None else self._other(few, own, ~held)
            if own is not None and rest is not None:
                return ["if", one, own, rest]
        return None

    def _other(self, few: Examples, own: Expression, other: Held) -> Expression | None:
        """A plain law of the other part than one with a law of its own."""
        return _in_proportion(few.some(np.flatnonzero(other)), own, self.work) or self._plain(few, other)

    def _plain(self, few: Examples, part: Held) -> Expression | None:
        if part.sum() < SMALLEST_CASE:
            return None
        key = part.tobytes()
        if key not in self.known:
            self.left -= 1
            self.work.spend(10 * len(few) * (1 + len(few.columns)))
            self.known[key] = _plain(simple(few.some(np.flatnonzero(part))), self.kinds, self.work)
        return self.known[key]


def _if(test: list[Any], own: Expression, rest: Expression, *, turned: bool) -> Expression:
    return ["if", test, rest, own] if turned else ["if", test, own, rest]


def _in_proportion(few: Examples, law: Expression, work: Work) -> Expression | None:
    """The law times a number that has a law of its own, or divided by one, rounded up or down."""
    if law[0] == "const" or len(few) < SMALLEST_CASE:
        return None
    made = expressions.value(law, few.columns, len(few))
    if (made <= 0).any() or (few.wanted <= 0).any():
        return None
    for less in (True, False):
        over, under = (made, few.wanted) if less else (few.wanted, made)
        share = np.rint(over / under).astype(np.int64)
        if (share < 1).any() or (np.abs(over - share * under) > over * NEARLY).any():
            continue
        factor = _plain(simple(Examples(share, few.columns)), (_column, _product), work)
        for found in () if factor is None else ([sign, law, factor] for sign in (("ceil", "//") if less else ("*",))):
            if few.given_by(found).all():
                return found
    return None


def tests_of(few: Examples, choices: bool, work: Work) -> Iterator[Test]:
    """Tests that part the examples, each parting once, those first whose parts have few different values, or where
    these are many are most like products of powers."""
    kind = np.unique(few.wanted, return_inverse=True)[1]
    fit = _Fit(few) if (few.wanted > 0).all() and kind.max(initial=0) >= SPREAD else None
    each = 500 + len(few) * (30 if fit else 1)
    work.spend(len(few.columns) * each)
    said: list[list[Any]] = []
    parts: list[Held] = [np.zeros((0, len(few)), np.bool_)]
    for own, where in _choices(few) if choices or fit else _comparisons(few):
        room = max(work.own - 1, 0) // each
        work.spend(min(len(own), room + 1) * each)
        said, parts = said + own[:room], [*parts, where[:room]]
        if room < len(own):
            break
    held = np.concatenate(parts)
    first = once(np.packbits(held ^ held[:, :1], axis=1))
    first = first[held[first].any(axis=1) & ~held[first].all(axis=1)]
    scores = [fit.left(held[at]) for at in first.tolist()] if fit else _mixed(kind, held[first])
    for at in first[np.argsort(scores, kind="stable")[:40]].tolist():
        yield held[at], said[at]


class _Fit:
    """How far examples are from a product of powers of columns, of which the factor and one power go by case."""

    def __init__(self, few: Examples) -> None:
        logs = {name: np.log(column) for name, column in _positive(few).items()}
        aim = np.log(few.wanted.astype(np.float64))
        chosen = _stepwise(logs, aim)
        self.basis = np.linalg.qr(np.stack([np.ones(len(few)), *(logs[name] for name in chosen)], axis=1))[0]
        self.rest = self._beyond(aim)
        self.powers = np.stack([np.ones(len(few)), *logs.values()], axis=1)

    def _beyond(self, columns: Floats) -> Floats:
        return columns - self.basis @ (self.basis.T @ columns)

    def left(self, held: Held) -> float:
        """What is left of squares with these cases."""
        table = self._beyond(self.powers * held[:, None])
        by_case, more = _unit(table[:, 0]), table[:, 1:]
        rest = self.rest - by_case * (by_case @ self.rest)
        more = more - np.outer(by_case, by_case @ more)
        lengths = np.linalg.norm(more, axis=0)
        gain = np.where(lengths > 1e-6, rest @ more / np.maximum(lengths, 1e-6), 0)
        return round(float(rest @ rest - (gain**2).max(initial=0)), 9)


def _unit(column: Floats) -> Floats:
    return column / max(float(np.linalg.norm(column)), 1e-6)


def _mixed(kind: Ints, held: Held) -> Floats:
    """float64[tests]: how many different values, by number, both parts of each have together, by how many examples
    each has."""
    whole, rows = np.bincount(kind), len(kind)
    values = (kind[:, None] == np.arange(len(whole))).astype(np.float32)
    found = [np.zeros(0)]
    for some in np.array_split(held, 1 + held.size // AT_ONCE):
        share, often = some.sum(axis=1), some.astype(np.float32) @ values
        found.append((often > 0).sum(axis=1) * share + (often < whole).sum(axis=1) * (rows - share))
    return np.concatenate(found)


def _choices(few: Examples) -> Iterator[tuple[list[list[Any]], Held]]:
    """Tests of columns of few values, and whether others are 0."""
    for name, column in few.columns.items():
        values = np.unique(column)
        some = values if len(values) <= CHOICES else values[values == 0]
        yield of_column(name, column, some, some[2:-1])


def _comparisons(few: Examples) -> Iterator[tuple[list[list[Any]], Held]]:
    for name, column in few.columns.items():
        values = np.unique(column)[:12]
        yield of_column(name, column, values, values[1:])
    table, named = _stacked(few), [*few.columns]
    yield from (beside(table, named, at, (0, -1, 1)) for at in range(len(named)))
