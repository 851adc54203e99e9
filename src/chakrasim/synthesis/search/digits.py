"""Numbers that go round along a loop: digits of a column, such as which part of a model a pass is of where passes come
in groups, and sums of two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.search.work import Work

TURNING: Final = ("index of ", "pass of ", "rest of ")
"""Columns that go up or down along loops, by how their names begin."""
BASE: Final = 256
"""Columns whose digits are taken are to bases up to this."""
BASES: Final = 32
PROBES: Final = 48
"""Examples that sums are searched on."""
FOUND: Final = 8
"""Sums that are given back, at most."""
_ODD: Final = np.random.default_rng(2).integers(1, 2**62, PROBES) | 1
Term = tuple[Expression, Ints]


def digit_sums(wanted: Ints, columns: Mapping[str, Ints], work: Work) -> Iterator[Expression]:
    """Sums of a digit and another or a column, each perhaps times a base, and of a number, that give what is wanted at
    the probes, int64[n]; short ones first."""
    rows = np.unique(np.linspace(0, len(wanted) - 1, PROBES).astype(np.int64))
    here = {name: column[rows] for name, column in columns.items()}
    bases = {name: column for name, column in here.items() if column.min() > 0 and 1 < column.max() <= BASE}
    bases = {name: bases[name] for name in [one for one in bases if not one.startswith(TURNING)][:BASES]}
    turning = [name for name in here if name.startswith(TURNING)]
    if not turning or not bases:
        return
    terms: dict[bytes, Term] = {}
    for name in turning:
        for said, values in _digits(["column", name], here[name], bases):
            terms.setdefault(values.tobytes(), (said, values))
    some = _times([*terms.values(), *((["column", name], column) for name, column in here.items())], bases)
    work.spend(len(some) * len(rows) * 4)
    yield from _pairs(wanted[rows], some)


def _digits(of: Expression, values: Ints, bases: Mapping[str, Ints]) -> Iterator[Term]:
    for name, base in bases.items():
        above = values // base
        if not above.any():
            continue
        one: Expression = ["column", name]
        yield ["%", of, one], values % base
        yield ["//", of, one], above
        for other, more in bases.items():
            yield ["%", ["//", of, one], ["column", other]], above % more
            yield ["//", of, ["*", one, ["column", other]]], above // more


def _times(terms: list[Term], bases: Mapping[str, Ints]) -> list[Term]:
    """The terms, and each times each base."""
    return [*terms, *((["*", said, ["column", name]], values * base)
                      for name, base in bases.items() for said, values in terms)]  # fmt: skip


def _pairs(wanted: Ints, terms: list[Term]) -> Iterator[Expression]:
    """Sums of two terms, or one alone, with a number added."""
    zero: Term = (["const", 0, 1], np.zeros(len(wanted), np.int64))
    every = [zero, *terms]
    weights = _ODD[: len(wanted)]
    with np.errstate(over="ignore"):
        table = np.stack([values - values[0] for _, values in every])
        sums = table @ weights
        left = (wanted - wanted[0]) @ weights - sums
    order = np.argsort(sums, kind="stable")
    places = np.minimum(np.searchsorted(sums[order], left), len(order) - 1)
    partner = order[places]
    found = [(i, int(j)) for i, j in enumerate(partner.tolist())
             if sums[j] == left[i] and (table[i] + table[j] == wanted - wanted[0]).all()]  # fmt: skip
    found = [(i, j) for i, j in found if table[i].any()]
    for i, j in sorted(found, key=lambda each: (_size(every[each[0]][0]) + _size(every[each[1]][0]), each))[:FOUND]:
        constant = int(wanted[0] - every[i][1][0] - every[j][1][0])
        made = every[i][0] if not table[j].any() else ["+", every[i][0], every[j][0]]
        constant += int(every[j][1][0]) if not table[j].any() else 0
        yield ["+", made, ["const", constant, 1]] if constant else made


def _size(said: Expression) -> int:
    return 1 + sum(_size(one) for one in said[1:] if isinstance(one, list))


def turns_in(law: Expression) -> Iterator[Expression]:
    """The digits in a law that are above others."""
    if law[0] == "%" and law[1][0] == "//":
        yield law
    if law[0] not in ("const", "column", "sum", "power", "if"):
        for one in law[1:]:
            yield from turns_in(one)
