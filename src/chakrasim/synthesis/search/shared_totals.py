"""Sums of what nodes inside add up to, by case: where ranks share parameters each updates a part of what it has
gradients of, such as that over the size of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, permutations, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints, Limit, value
from chakrasim.synthesis.laws import CHOICES, EXACT, FEW, Examples, tests_of
from chakrasim.synthesis.search.levels import Known, Table, level_of, of_totals, tried
from chakrasim.synthesis.search.sums import ROWS, Floats, Powers, Products, few_terms, spread
from chakrasim.synthesis.search.totals import FIRST, NEXT, TOTAL, summand, turned
from chakrasim.synthesis.search.weights import of_weights
from chakrasim.synthesis.search.work import LITTLE, MOST

Terms = list[list[Any]]
"""As sums have them."""
Summed = Callable[[Ints, Table, Known], Expression | None]
"""A search for sums that give what is wanted, int64[n]."""
PARAMETERS: Final = 3
"""Of which one may tell cases of another's terms apart, at most."""
SURE: Final = 3
"""Different numbers without which nothing is in proportion to others."""
LARGEST_SHARE: Final = 1 << 8
BUT: Final = 3
"""Terms that do not come in another case, or that alone do, at most."""


def totals_by_case(
    wanted: Ints,
    table: Table,
    known: Known,
    *,
    shared: bool,
    limits: Sequence[Limit] = (),
    search: Summed = of_totals,
) -> Expression | None:
    """A law of what is wanted, int64[n], that is a sum of what nodes inside add up to, such as a ``search`` finds,
    where a test of jobs holds, one of these ``limits`` or of a parameter beside a number; else its terms come, too, but
    for a few, or where ranks have ``shared`` them over columns of few values."""
    if table.inside is None or (shared and level_of(wanted, table) > 1):
        return None
    if len(np.unique(wanted)) < FEW or not table.inside.columns():
        return None
    first = table.levels[0]
    tests: list[list[Any]] = [[name, sign, "", number] for name, sign, number in limits if name in first and not shared]
    for name in _parameters(wanted, table, known)[: 1 if shared else PARAMETERS]:
        tests += [[name, "==", "", one] for one in np.unique(first[name]).tolist()]
    for test in tests:
        here = expressions.test(test, first)
        if shared:
            known.work.begin()
        with known.work.at_most(MOST if shared else LITTLE):
            law = search(wanted[here], table.some(here), known)
        if law is None:
            continue
        rest, apart = wanted[~here], table.some(~here)
        other = _whole_or_like(rest, apart, known, law[1], test[0]) if shared else _but_few(rest, apart, law[1])
        if other is not None:
            return law if other == law else ["if", test, law, other]
    return None


def _but_few(wanted: Ints, table: Table, terms: Terms) -> Expression | None:
    """The terms of a sum that give what is wanted, int64[n]: all but a few."""
    made = _each(terms, table.asked(["sum", terms]), len(wanted))
    out = _few_that_give(made.sum(axis=1) - wanted, made, range(min(BUT, len(terms) - 1) + 1))
    return None if out is None else ["sum", [term for at, term in enumerate(terms) if at not in out]]


def _each(terms: Terms, columns: Mapping[str, Ints], rows: int) -> Ints:
    """int64[rows, terms]: what each is."""
    return np.stack([value(["sum", [term]], columns, rows) for term in terms], axis=1)


def _few_that_give(wanted: Ints, made: Ints, counts: range) -> tuple[int, ...] | None:
    """So many of the columns of what was made, int64[n, columns], that add up to what is wanted, int64[n]."""
    few = (chosen for count in counts for chosen in combinations(range(made.shape[1]), count))
    return next((chosen for chosen in few if (made[:, chosen].sum(axis=1) == wanted).all()), None)


def as_ahead(wanted: Ints, table: Table, known: Known, others: Sequence[Expression], size: str) -> Expression | None:
    """That of other laws, of nodes ahead of others, which gives what is wanted, int64[n], too, by the next iteration or
    by the first ones of loops inside; or so many times that over the ``size`` of a group, a column, or of few of its
    terms."""
    whole = wanted * table.levels[1].get(size, np.ones(len(wanted), np.int64))
    of_nodes = [law for law in others if any(summand(name) for name in expressions.names(law))]
    for law in (turned(law, which) for law in of_nodes for which in (FIRST, NEXT)):
        columns = table.asked(law)
        known.work.spend(len(wanted) * len(columns))
        if not {*columns} >= expressions.names(law):
            continue
        made = value(law, columns, len(wanted))
        if Examples(wanted, {"made": made}).given_by(["column", "made"]).all():
            return law
        part = _so_many_times(whole, made, law) or _few_of(whole, columns, _terms(law))
        found = part and ["ceil", part, ["column", size]]
        if found and Examples(wanted, columns).given_by(found).all():
            return found
    return None


def _few_of(wanted: Ints, columns: Mapping[str, Ints], terms: Terms) -> Expression | None:
    """The sum of few of these terms that gives what is wanted, int64[n], if that is not the same all over."""
    if not np.ptp(wanted):
        return None
    found = _few_that_give(wanted, _each(terms, columns, len(wanted)), range(1, BUT + 1))
    return None if found is None else ["sum", [terms[at] for at in found]]


def totals_ahead(
    wanted: Ints, table: Table, known: Known, size: str, limits: Sequence[Limit] = ()
) -> Expression | None:
    """A law of what is wanted, int64[n], that is by case of a parameter a sum of what nodes inside add up to, or those
    of the first iterations of loops inside, or of the next one, or that over the ``size`` of a group, a column: of
    weights that are gathered ahead each rank has its part. ``limits`` part jobs, too."""
    if table.inside is None:
        return None
    one = np.ones(len(wanted), np.int64)
    over = [*((name, own) for name, own in table.levels[1].items() if name == size), ("", one)]
    ways = [(name, count, which) for name, count in over for which in (FIRST, NEXT)]
    by_case = partial(totals_by_case, shared=False, limits=limits)
    weights: list[Summed] = [of_weights, partial(by_case, search=of_weights)]
    others: list[Summed] = [by_case, _of_ahead]
    for search, (name, count, which) in (*product(weights, ways), (by_case, ("", one, TOTAL)), *product(others, ways)):
        there = replace(table, inside=replace(table.inside, which=which))
        found = search(wanted * count, there, known)
        if found is not None:
            return ["ceil", found, ["column", name]] if name else found
    return None


def _of_ahead(wanted: Ints, table: Table, known: Known) -> Expression | None:
    """The same without cases: products of parameters alone are no law of what others add up to."""
    return of_totals(wanted, table, known) if table.inside and table.inside.columns() else None


def like_another(
    wanted: Ints, table: Table, known: Known, law: Expression, limits: Sequence[Limit] = ()
) -> Expression | None:
    """Sums of the terms of another's law that give what is wanted, int64[n], perhaps by case of a parameter: one by
    whose values it is most often so many times the other, that ``limits`` ask for, or by which that goes most."""
    if len(np.unique(wanted)) < FEW:
        return None
    terms = _terms(law)
    found = by_its_cases(wanted, table, known, law) or _of_terms(wanted, table, known, terms)
    if found is not None:
        return found
    share = wanted / np.maximum(value(law, table.asked(law), len(wanted)), 1)
    shares, often = np.unique(share, return_counts=True)
    alike = np.abs(share - shares[often.argmax()]) <= EXACT * share
    whole: dict[str, int] = {}
    for name, own in table.levels[0].items():
        if 1 < len(np.unique(own)) <= CHOICES:
            whole[name] = sum(int(here.sum()) for here in (own == one for one in np.unique(own)) if alike[here].all())
    most = sorted((name for name in whole if whole[name]), key=lambda name: -whole[name])[:1]
    asked = [name for name in dict.fromkeys(name for name, _, _ in limits) if name in whole]
    names = [*most, *asked, *_parameters(wanted, table, known)]
    laws = (_like(wanted, table, known, terms, name) for name in dict.fromkeys(names[: PARAMETERS + len(asked)]))
    return next((law for law in laws if law is not None), None)


def by_its_cases(wanted: Ints, table: Table, known: Known, law: Expression) -> Expression | None:
    """What is wanted, int64[n], in proportion to what another's law says in one of its cases, which one by each value
    of a parameter that it asks for."""
    cases, columns = _cases(law), table.asked(law)
    names = {name for name, _, _ in expressions.limits(law)} & {*table.levels[0]}
    if not names or not expressions.names(law) <= {*columns}:
        return None
    known.work.spend(len(wanted) * len(columns))
    made = [value(one, columns, len(wanted)) for one in cases]
    for name in sorted(names):
        own, found = table.levels[0][name], list[Expression]()
        values = np.unique(own).tolist()
        for here in (own == one for one in values):
            laws = (_so_many_times(wanted[here], said[here], one) for said, one in zip(made, cases, strict=True))
            found += [one for one in laws if one is not None][:1]
        if len(found) == len(values):
            whole = found[-1]
            for one, case in reversed([*zip(values, found, strict=True)][:-1]):
                whole = whole if case == whole else ["if", [name, "<", "", one + 1], case, whole]
            return whole
    return None


def _cases(law: Expression) -> list[Expression]:
    return [*_cases(law[2]), *_cases(law[3])] if law[0] == "if" else [law]


def _so_many_times(wanted: Ints, made: Ints, law: Expression) -> Expression | None:
    """The law, as often as it goes into what is wanted, int64[n], if that is the same all over."""
    if len(np.unique(wanted)) < SURE or (made <= 0).any():
        return None
    share = Fraction(int(wanted[0]), int(made[0])).limit_denominator(LARGEST_SHARE)
    off = np.abs(wanted - made * float(share))
    return expressions.times(law, share) if (off <= EXACT * np.abs(wanted)).all() and share else None


def _parameters(wanted: Ints, table: Table, known: Known) -> list[str]:
    """Those of few values by which what is wanted goes most."""
    every = Examples(wanted, {name: column for name, column in table.columns(1).items() if np.ptp(column)})
    return [*dict.fromkeys(one[0] for _, one in tests_of(every, True, known.work) if one[0] in table.levels[0])]


def _terms(law: Expression) -> Terms:
    """Of the first sum in it."""
    while law[0] != "sum":
        law = law[1] if law[0] == "ceil" else law[2]
    return [*law[1]]


def _like(wanted: Ints, table: Table, known: Known, terms: Terms, name: str) -> Expression | None:
    """Sums of these terms, each as it is or over columns, that give what is wanted, int64[n]: one up to so much of a
    parameter, as far as it goes, and so on."""
    values = table.levels[0][name]
    least, *others = np.unique(values).tolist()
    first = _of_terms(wanted[values == least], table.some(values == least), known, terms) if others else None
    for end in (*reversed(others[:-1]), least) if first is not None else ():
        here = values <= end
        own = first if end == least else _of_terms(wanted[here], table.some(here), known, terms)
        if own is not None:
            left, apart = wanted[~here], table.some(~here)
            rest = _but_few(left, apart, own[1]) or _whole_or_like(left, apart, known, terms, name)
            return None if rest is None else ["if", [name, "<", "", end + 1], own, rest]
    return None


def _whole_or_like(wanted: Ints, table: Table, known: Known, terms: Terms, name: str) -> Expression | None:
    return _of_terms(wanted, table, known, terms) or _like(wanted, table, known, terms, name)


def _of_terms(wanted: Ints, table: Table, known: Known, terms: Terms) -> Expression | None:
    """One of them."""
    known.work.begin()
    columns = table.asked(["sum", terms])
    shares = _shares({name: own for name, own in table.columns(1).items()
                      if own.min() > 0 and 1 < len(np.unique(own)) <= CHOICES}, len(wanted))  # fmt: skip
    powers: list[tuple[Powers, Powers]] = []
    made: list[Floats] = []
    for _, _, own in terms:
        term = value(["sum", [[1, 1, own]]], columns, len(wanted)).astype(np.float64)
        for beside, share in shares if term.any() else ():
            powers.append((own, beside))
            made.append(term * share)
    if not made:
        return None
    every = np.stack(made, axis=1)

    def search(rows: Ints, sure: bool) -> Expression | None:
        rows = rows[wanted[rows] != 0]
        rows = rows[spread(wanted[rows], ROWS)]
        products = every[rows] / wanted[rows, None]
        kept = np.flatnonzero(products.any(axis=0))
        found = Products([powers[at] for at in kept], [""] * len(kept), products[:, kept])
        return next(few_terms(found, known.work), None) if len(kept) else None

    def given_by(law: Expression) -> NDArray[np.bool_]:
        return Examples(wanted, columns).given_by(law)

    return tried(wanted, table.job, search, given_by)


def _shares(columns: Mapping[str, Ints], rows: int) -> list[tuple[dict[str, int], Floats]]:
    """One, one over a column, and one size of groups over another: powers, twice, and what they are."""
    sizes = [name for name in columns if name.startswith("size in ")]
    named: list[dict[str, int]] = [{}, *({name: -2} for name in columns)]
    named += [{over: 2, under: -2} for over, under in permutations(sizes, 2)]
    return [(own, np.prod([np.ones(rows), *(columns[name] ** (power / 2) for name, power in own.items())], axis=0))
            for own in named]  # fmt: skip
