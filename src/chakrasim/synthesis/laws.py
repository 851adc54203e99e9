"""Laws of whole numbers, found from examples: constants, one or two columns, products of powers, sums of products, and
these by case. What is returned gives every example; None where nothing of this does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints

Floats = NDArray[np.float64]
Kind = Callable[["Examples"], Iterator[Expression]]

PROBES: Final = 32
"""Examples that candidates are tried on before all are."""
TERMS: Final = 8
"""Of a sum, at most."""
ATTEMPTS: Final = 400
FEW_ATTEMPTS: Final = 60
"""Parts of examples for which a law is searched, at most, for one law by case."""
CASES: Final = 6
"""Tests of a law by case, at most, one below the other."""
FAR: Final = 0.44
"""How far from a half a slope has to be for its column to count as a factor of all products of a sum."""
SMALLEST_CASE: Final = 2
"""Examples without which a case is no law but a copy."""
EXACT: Final = 1e-6
"""A law gives an example if it is no further from it, relative; numbers below a million are then equal."""
_POWERS: Final = 600
_FEW_POWERS: Final = 160
"""Products that a sum of two, and of three, is made of, at most."""


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

    def given_by(self, expression: Expression) -> NDArray[np.bool_]:
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
    first = np.sort(np.unique(table, axis=0, return_index=True)[1])
    return Examples(examples.wanted, columns).some(first)


def law(examples: Examples) -> Expression | None:
    """The simplest law found that gives all examples, or None."""
    few = simple(examples)
    found = _plain(few, QUICK) or _plain(few, (_sums,))
    if found is None:
        found = _Cases(QUICK, ATTEMPTS).law(few, CASES)
    if found is None:
        found = _Cases((*QUICK, _sums), FEW_ATTEMPTS, choices=True).law(few, 3)
    return found


def _plain(few: Examples, kinds: Sequence[Kind]) -> Expression | None:
    """A law without cases for examples as `simple` has them."""
    if not len(few):
        return ["const", 0, 1]
    if (few.wanted == few.wanted[0]).all():
        return ["const", int(few.wanted[0]), 1]
    for candidates in kinds:
        for candidate in candidates(few):
            if few.given_by(candidate).all():
                return candidate
    return None


# -- one or two columns ------------------------------------------------------------------------------------------------


def _spread(few: Examples, count: int) -> Ints:
    """Some of the examples, spread over what is wanted."""
    order = np.argsort(few.wanted, kind="stable")
    return order[np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).astype(np.int64))]


def _pairs(few: Examples) -> Iterator[Expression]:
    """A column, or an operation of two, with a constant added; the constant is what the probes say."""
    probes = few.some(_spread(few, PROBES))
    named = list(probes.columns.items())
    for name, column in named:
        rest = probes.wanted - column
        if (rest == rest[0]).all():
            yield _plus(["column", name], int(rest[0]))
    table = np.stack([column for _, column in named]) if named else np.zeros((0, len(probes)), np.int64)
    safe = np.where(table == 0, 1, table)
    small = np.abs(table).max(axis=1, initial=0) < 2**31
    for i, (name, column) in enumerate(named):
        with np.errstate(over="ignore"):
            made = {
                "+": column + table,
                "-": column - table,
                "*": np.where(small[:, None] & small[i], column * table, 0),
                "//": column // safe,
                "ceil": -(-column // safe),
                "%": column % safe,
                "min": np.minimum(column, table),
                "max": np.maximum(column, table),
            }
        for operation, results in made.items():
            rest = probes.wanted - results
            for j in np.flatnonzero((rest == rest[:, :1]).all(axis=1)).tolist():
                if i != j and (results[j] != results[j][0]).any():
                    yield _plus([operation, ["column", name], ["column", named[j][0]]], int(rest[j, 0]))


def _plus(expression: Expression, constant: int) -> Expression:
    return ["+", expression, ["const", constant, 1]] if constant else expression


# -- products ----------------------------------------------------------------------------------------------------------


def _positive(few: Examples) -> dict[str, Floats]:
    return {name: column.astype(np.float64) for name, column in few.columns.items() if (column > 0).all()}


def _product(few: Examples) -> Iterator[Expression]:
    """A product of powers: a line in logarithms, of columns that are no products of others."""
    logs = {name: np.log(column) for name, column in _positive(few).items()}
    if not logs or (few.wanted <= 0).any():
        return
    chosen = _independent(logs)
    matrix = np.stack([np.ones(len(few)), *(logs[name] for name in chosen)], axis=1)
    if len(few) < matrix.shape[1]:
        return
    slopes = np.linalg.lstsq(matrix, np.log(few.wanted.astype(np.float64)), rcond=None)[0]
    powers = {name: 2 * round(slope) for name, slope in zip(chosen, slopes[1:], strict=True) if round(slope)}
    if any(abs(power) > 8 for power in powers.values()):
        return
    ratio = few.wanted / np.prod([np.exp(logs[name] * power / 2) for name, power in powers.items()], axis=0)
    factor = _fraction(float(np.median(ratio)))
    if factor:
        yield ["sum", [[factor.numerator, factor.denominator, powers]]]


def _independent(logs: Mapping[str, Floats]) -> list[str]:
    """Columns of which none is a product of powers of the ones before."""
    basis: list[Floats] = [np.ones(len(next(iter(logs.values())))) / np.sqrt(len(next(iter(logs.values()))))]
    chosen = []
    for name, column in logs.items():
        rest = column.copy()
        for _ in range(2):
            for one in basis:
                rest -= one * (one @ rest)
        if np.linalg.norm(rest) > 1e-8 * max(np.linalg.norm(column), 1e-300):
            basis.append(rest / np.linalg.norm(rest))
            chosen.append(name)
    return chosen


def _fraction(number: float) -> Fraction | None:
    """A simple fraction next to a number."""
    found = Fraction(number).limit_denominator(1 << 12)
    return found if found and abs(float(found) / number - 1) < 1e-9 else None


def near_law(few: Examples) -> Expression:
    """A product of powers, or by case the commonest value: near the examples, not equal to them."""
    if len(few) and (few.wanted > 0).all() and len(np.unique(few.wanted)) > 8:
        logs = {name: np.log(column) for name, column in _positive(few).items()}
        chosen = _independent(logs)[: max(1, len(few) // 3)] if logs else []
        matrix = np.stack([np.ones(len(few)), *(logs[name] for name in chosen)], axis=1)
        slopes = np.linalg.lstsq(matrix, np.log(few.wanted.astype(np.float64)), rcond=None)[0]
        powers = {name: 2 * float(slope) for name, slope in zip(chosen, slopes[1:], strict=True)}
        return ["power", float(slopes[0]), {name: power / 2 for name, power in powers.items()}]
    return _commonest(few, CASES)


def _commonest(few: Examples, cases: int) -> Expression:
    values, counts = np.unique(few.wanted, return_counts=True)
    if len(values) < 2 or not cases:
        return ["const", int(values[counts.argmax()]) if len(values) else 0, 1]
    best = min(((_wrong(few.wanted, held), number, held, one) for number, (held, one) in enumerate(_tests(few, False))),
               default=None, key=lambda each: each[:2])  # fmt: skip
    if best is None or best[0] >= len(few) - counts.max():
        return ["const", int(values[counts.argmax()]), 1]
    held = best[2]
    return ["if", best[3], *(_commonest(simple(few.some(np.flatnonzero(part))), cases - 1) for part in (held, ~held))]


def _wrong(wanted: Ints, held: NDArray[np.bool_]) -> int:
    return sum(int(part.sum() - np.unique(wanted[part], return_counts=True)[1].max()) for part in (held, ~held))


# -- sums of products --------------------------------------------------------------------------------------------------


def _sums(few: Examples) -> Iterator[Expression]:
    """Sums of two and three products, all tried, and of more, taken one by one."""
    columns = _relevant(few)
    if not columns or len(few) < 4:
        return
    factor, over, rest = _factor(columns, len(few))
    made = [(_joined(factor, powers), product) for powers, product in _powers(rest, len(few))]
    probes = _spread(few, 96)
    scale = over / few.wanted.astype(np.float64)
    table = np.stack([product[probes] * scale[probes] for _, product in made], axis=1)
    table /= np.linalg.norm(table, axis=0)
    ones = np.ones(len(probes))
    for search, most in ((_best_pairs, _POWERS), (_best_triples, _FEW_POWERS), (_one_by_one, _POWERS)):
        for taken in search(table[:, :most], ones):
            found = _rounded(few, [made[i] for i in taken], scale)
            if found is not None:
                yield found


def _joined(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    both = {name: a.get(name, 0) + b.get(name, 0) for name in (*a, *b)}
    return {name: power for name, power in both.items() if power}


def _best_pairs(table: Floats, target: Floats) -> Iterator[list[int]]:
    """The pairs of columns that together come nearest to the target, if that is near."""
    both = table.T @ table
    along = table.T @ target
    apart = np.maximum(1 - both**2, 1e-9)
    said = (along[:, None] ** 2 + along**2 - 2 * both * np.outer(along, along)) / apart
    said[np.tril_indices(len(said))] = 0
    whole = float(target @ target)
    for place in np.argpartition(said, -6, axis=None)[-6:].tolist() if said.size > 6 else range(said.size):
        i, j = divmod(place, len(said))
        if said[i, j] > whole * (1 - 1e-7) and i < j:
            yield [i, j]


def _best_triples(table: Floats, target: Floats) -> Iterator[list[int]]:
    """Triples: for each column the best pair for what it leaves of the others and of the target."""
    for i in range(table.shape[1]):
        own = table[:, i]
        others = table[:, i + 1 :] - np.outer(own, own @ table[:, i + 1 :])
        lengths = np.linalg.norm(others, axis=0)
        kept = np.flatnonzero(lengths > 1e-6)
        if len(kept) < 2:
            continue
        rest = target - own * (own @ target)
        if not float(rest @ rest):
            continue
        for pair in _best_pairs(others[:, kept] / lengths[kept], rest):
            yield [i, *(i + 1 + int(kept[one]) for one in pair)]


def _one_by_one(table: Floats, target: Floats) -> Iterator[list[int]]:
    """Columns taken one by one, each time the one that explains most of what is left."""
    taken: list[int] = []
    rest = target
    while len(taken) < min(TERMS, len(target) - 2):
        taken.append(int(np.abs(rest @ table).argmax()))
        own = table[:, taken]
        rest = target - own @ np.linalg.lstsq(own, target, rcond=None)[0]
        if np.linalg.norm(rest) < 1e-7 * np.linalg.norm(target):
            yield taken
            return


def _rounded(few: Examples, terms: list[tuple[dict[str, int], Floats]], scale: Floats) -> Expression | None:
    matrix = np.stack([product * scale for _, product in terms], axis=1)
    slopes = np.linalg.lstsq(matrix, np.ones(len(few)), rcond=None)[0]
    said: list[list[Any]] = []
    for (powers, product), slope in zip(terms, slopes, strict=True):
        if abs(slope) * float((product * scale).max()) < 1e-7:
            continue
        factor = Fraction(float(slope)).limit_denominator(1 << 10)
        if not factor or abs(float(factor) / slope - 1) > 1e-4:
            return None
        said.append([factor.numerator, factor.denominator, powers])
    return ["sum", said] if said else None


def _relevant(few: Examples) -> dict[str, tuple[float, Floats]]:
    """The columns that a line in logarithms needs, those with most weight first, and its slopes."""
    positive = _positive(few)
    if not positive or (few.wanted <= 0).any():
        return {}
    logs = {name: np.log(column) for name, column in positive.items()}
    chosen = _independent(logs)
    basis = np.stack([np.ones(len(few)), *(logs[name] for name in chosen)], axis=1)
    slopes = np.linalg.lstsq(basis, np.log(few.wanted.astype(np.float64)), rcond=None)[0][1:]
    spread = np.array([abs(slope) * float(logs[name].std()) for name, slope in zip(chosen, slopes, strict=True)])
    order = [i for i in np.argsort(-spread).tolist() if spread[i] > 0.003 * spread.max()]
    return {chosen[i]: (float(slopes[i]), positive[chosen[i]]) for i in order[:9]}


def _factor(
    columns: Mapping[str, tuple[float, Floats]], count: int
) -> tuple[dict[str, int], Floats, dict[str, Floats]]:
    """Twice the powers of columns that every product of the sum seems to have, their product, and other columns."""
    factor = {n: 2 * round(slope) for n, (slope, _) in columns.items() if round(slope) and abs(slope % 1 - 0.5) > FAR}
    over = np.ones(count)
    for name, power in factor.items():
        over = over * columns[name][1] ** (power / 2)
    rest = {name: column for name, (_, column) in columns.items() if name not in factor}
    return factor, over, dict(list(rest.items())[:6])


def _powers(columns: Mapping[str, Floats], count: int) -> Iterator[tuple[dict[str, int], Floats]]:
    """Products of up to four columns, one of them perhaps as a divisor; simple ones first; twice their powers."""
    named = list(columns)
    seen = set()
    for degree in range(5):
        for above in combinations_with_replacement(named, degree):
            for below in ((), *((name,) for name in named if name not in above)):
                powers: dict[str, int] = {}
                for name in above:
                    powers[name] = powers.get(name, 0) + 2
                for name in below:
                    powers[name] = powers.get(name, 0) - 2
                key = tuple(sorted(powers.items()))
                if key in seen or any(power > 4 for power in powers.values()):
                    continue
                seen.add(key)
                product = np.ones(count)
                for name, power in powers.items():
                    product = product * columns[name] ** (power / 2)
                yield powers, product
                if len(seen) >= _POWERS:
                    return


QUICK: Final = (_pairs, _product)


# -- cases -------------------------------------------------------------------------------------------------------------


class _Cases:
    """Laws by case. ``choices``: only columns of two values are tested, and whether a column is 0."""

    def __init__(self, kinds: Sequence[Kind], attempts: int, *, choices: bool = False) -> None:
        self.kinds = kinds
        self.left = attempts
        self.choices = choices

    def law(self, few: Examples, cases: int) -> Expression | None:
        """Of the tests that leave a part with a plain law the first whose other part has a law, too."""
        if len(few) < 2 * SMALLEST_CASE or not cases:
            return None
        for held, one in _tests(few, self.choices):
            for part, other in ((held, ~held), (~held, held)):
                if self.left <= 0:
                    return None
                own = self._plain(few, part)
                if own is None:
                    continue
                left = simple(few.some(np.flatnonzero(other)))
                rest = self._plain(few, other) or self.law(left, cases - 1)
                if rest is not None:
                    return ["if", one, own, rest] if part is held else ["if", one, rest, own]
        return None

    def _plain(self, few: Examples, part: NDArray[np.bool_]) -> Expression | None:
        if part.sum() < SMALLEST_CASE:
            return None
        self.left -= 1
        return _plain(simple(few.some(np.flatnonzero(part))), self.kinds)


def _tests(few: Examples, choices: bool) -> Iterator[tuple[NDArray[np.bool_], list[Any]]]:
    """Tests that part the examples, each parting once, those first whose parts have few different values."""
    found: dict[bytes, tuple[float, int, NDArray[np.bool_], list[Any]]] = {}
    for number, one in enumerate(_choices(few) if choices else _comparisons(few)):
        held = expressions.test(one, few.columns)
        share = int(held.sum())
        if not 0 < share < len(few):
            continue
        key = min(held.tobytes(), (~held).tobytes())
        if key not in found:
            found[key] = (_mixed(few.wanted, held), number, held, one)
    for _, _, held, one in sorted(found.values(), key=lambda each: each[:2])[:40]:
        yield held, one


def _mixed(wanted: Ints, held: NDArray[np.bool_]) -> float:
    """How many different values both parts have together, by how many examples each has."""
    return sum(len(np.unique(wanted[part])) * float(part.sum()) for part in (held, ~held))


def _choices(few: Examples) -> Iterator[list[Any]]:
    for name, column in few.columns.items():
        values = np.unique(column).tolist()
        if len(values) == 2 or 0 in values:
            yield [name, "==", "", 0 if 0 in values else values[0]]


def _comparisons(few: Examples) -> Iterator[list[Any]]:
    for name, column in few.columns.items():
        values = np.unique(column).tolist()
        for value in values[:12]:
            yield [name, "==", "", value]
        for value in values[1:12]:
            yield [name, "<", "", value]
    named = list(few.columns)
    for i, name in enumerate(named):
        for other in named[i + 1 :]:
            for offset in (0, -1, 1):
                yield [name, "==", other, offset]
                yield [name, "<", other, offset]
