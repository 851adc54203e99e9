"""The parameters of a population: which there are, which follow from others, how often each has which value; and sets
of them by chance.

Marginals are noisy counts on a grid that is the same for all populations. Sets are drawn from them one parameter at a
time, as if they were independent but for products and divisors that hold in the jobs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from chakrasim.obfuscation.population.budget import Budget, Share, part
from chakrasim.obfuscation.population.noise import Ballot, Below, holds, laplace, reach
from chakrasim.synthesis.columns import is_whole
from chakrasim.synthesis.parameters import parameters_of
from chakrasim.trace.job.job import Job, Parameter

Point = dict[str, Parameter]
Cell = str | int | float
"""Of the grid of values: a word, a number of those that have fractions, or the first of the whole numbers in it."""

RANKS: Final = "ranks"
FINER: Final = 6
"""So many times as many chunks as learn programs say what parameters there are: nothing has to be learned in these."""
RARELY: Final = 3
"""One number divides another where it does in so many times as many jobs as not, or more."""
FACTORS: Final = 3
EXACT: Final = 8
"""Numbers below this are cells of the grid; those above go by half octaves, up to 2^61."""
HALVES: Final = 122
ALONE: Final = 4
"""Cells between one and the next, at most, where both have few jobs."""
DRAWS: Final = 400
"""So many sets are drawn for each that is wanted, at most."""
LONGEST: Final = 200
"""Characters of a word that may be released."""
WORD, NUMBER, FRACTION = "word", "number", "fraction"


@dataclass(frozen=True, eq=False)
class Population:
    """What is known of the parameters of all jobs, none of it of one job alone.

    Attributes
    ----------
    same: those that have one value.
    kinds: of the others, `WORD`, `NUMBER`, or `FRACTION` of numbers that are not all whole.
    products: by name the names whose product it is.
    divisors: by name those that divide it in all jobs.
    values: by name the cells that many jobs have, with noisy counts; of products those of the number of ranks alone.
    """

    same: Mapping[str, Parameter]
    kinds: Mapping[str, str]
    products: Mapping[str, tuple[str, ...]]
    divisors: Mapping[str, tuple[str, ...]]
    values: Mapping[str, Mapping[Cell, int]]

    def points(self, count: int, random: np.random.Generator) -> list[Point]:
        """So many different sets of parameters, or as many as there are."""
        found: dict[tuple[Parameter, ...], Point] = {}
        order = sorted({*self.kinds} - {*self.products}, key=lambda name: (len(self.divisors.get(name, ())), name))
        for _ in range(count * DRAWS):
            point = self._point(order, random)
            if point is not None:
                found.setdefault(tuple(point.values()), point)
            if len(found) == count:
                break
        return [*found.values()]

    def _point(self, order: Sequence[str], random: np.random.Generator) -> Point | None:
        """A set, or None where it has fewer or more ranks than most jobs."""
        found: Point = {}
        for name in order:
            cells = [*self.values[name]]
            weights = np.array([self.values[name][cell] for cell in cells], np.float64)
            cell = cells[int(random.choice(len(cells), p=weights / weights.sum()))]
            if not isinstance(cell, int):
                found[name] = cell
                continue
            unit = math.lcm(*(int(found[one]) or 1 for one in self.divisors.get(name, ())))
            least = -(-cell // unit)
            found[name] = int(random.integers(least, max(_end(cell) // unit, least) + 1)) * unit
        for name, factors in self.products.items():
            found[name] = math.prod(int(found[one]) for one in factors)
        known = [int(one) for one in self.values.get(RANKS, ())]
        if known and not min(known) <= int(found[RANKS]) <= _end(max(known)):
            return None
        return {**self.same, **{name: found[name] for name in sorted(found)}}


def _begin(half: int) -> int:
    """The first number of a half octave."""
    return math.ceil(math.pow(2, half / 2))


GRID: Final[tuple[int, ...]] = (
    *range(-1, EXACT),
    *(_begin(half) for half in range(2 * (EXACT.bit_length() - 1), HALVES)),
)
"""First numbers of all cells; numbers below the first are in it, too."""


def cell_of(value: Parameter) -> Cell:
    """The cell of a value: itself for words and numbers with fractions."""
    if isinstance(value, str) or not is_whole(value):
        return str(value)
    return GRID[max(bisect_right(GRID, int(value)) - 1, 0)]


def _end(cell: int) -> int:
    """The last number of a cell."""
    at = GRID.index(cell) + 1
    return GRID[at] - 1 if at < len(GRID) else cell


def stated(job: Job) -> Point:
    """The parameters of a job, its ranks with them."""
    return {RANKS: job.ranks, **parameters_of(job)}


def population_of(own: Sequence[Point], chunks: int, budget: Budget, below: Below) -> Population | None:
    """What may be said of these parameters of jobs; None where too few chunks agree on which there are."""
    ballot = Ballot(chunks * FINER)
    found = ballot.add([dict(_said([own[at] for at in part])) for part in partition(len(own), ballot.chunks, below)])
    if not holds(ballot.distance(), budget.names, below):
        return None
    # Sorted, as the order of a set hangs on all that is in it, and that has what one chunk alone asks.
    order: Any = sorted(ballot.agreed())
    agreed: dict[Any, Any] = {one: found[one] for one in order if found[one] is not None}
    same = {name: answer[1] for (what, name), answer in agreed.items() if what == "same"}
    kinds = {name: kind for (what, name), kind in agreed.items() if what == "kind" and name not in same}
    products = {name: factors for (what, name), factors in agreed.items()
                if what == "product" and {name, *factors} <= {*kinds}}  # fmt: skip
    mesh = products.get(RANKS, ())
    columns = {name: [one.get(name, _absent(kind, name in mesh)) for one in own] for name, kind in kinds.items()}
    free = [name for name, kind in kinds.items() if kind == NUMBER and name not in (*products, *mesh)]
    divisors = dividing(columns, [(name, by) for name in free for by in mesh], budget.divisors, below)
    counted = {name: column for name, column in columns.items() if name == RANKS or name not in products}
    return Population(same, kinds, products, divisors, marginals(counted, kinds, budget.values, below))


def partition(count: int, chunks: int, below: Below) -> list[list[int]]:
    """So many chunks of places, each place in one by chance, whatever others are in."""
    found: list[list[int]] = [[] for _ in range(chunks)]
    for at in range(count):
        found[below(chunks)].append(at)
    return found


def _absent(kind: str, on_mesh: bool) -> Parameter:
    """The value of a parameter that a job does not state."""
    return int(on_mesh) if kind == NUMBER else "" if kind == WORD else 0.0


def _said(jobs: Sequence[Point]) -> Iterator[tuple[Hashable, object]]:
    """What a chunk says of its jobs' parameters: of which kind they are, which have one value, which are products."""
    for name in sorted({name for one in jobs for name in one}):
        values = [one[name] for one in jobs if name in one]
        words = any(isinstance(value, str) for value in values)
        yield ("kind", name), WORD if words else NUMBER if all(map(is_whole, values)) else FRACTION
        if len({str(value) for value in values}) == 1 and len(values) == len(jobs):
            # With its text, as True is 1 and 0.0 is -0.0: which of them is released would hang on who came first.
            yield ("same", name), (repr(values[0]), values[0])
    names = [name for name in sorted(jobs[0] if jobs else ()) if all(is_whole(one.get(name, "")) for one in jobs)]
    columns = {name: [int(one[name]) for one in jobs] for name in names}
    varied = {name: column for name, column in columns.items() if len({*column}) > 1}
    yield from ((("product", name), factors) for name, factors in _products(varied))


def _products(columns: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Numbers that are products of others, which are none themselves."""
    left = {name: columns[name] for name in sorted(columns)}
    found: dict[str, tuple[str, ...]] = {}
    for name, own in [*left.items()]:
        factors = _factors(own, {one: column for one, column in left.items() if one != name})
        if factors is not None:
            del left[name]
            found[name] = factors
    for name, factors in reversed([*found.items()]):
        found[name] = tuple(sorted(own for one in factors for own in found.get(one, (one,))))
    yield from found.items()


def _factors(own: Sequence[int], columns: Mapping[str, Sequence[int]]) -> tuple[str, ...] | None:
    """The first of the columns whose product a number that varies is, as few as can be. Only divisors come into
    question, and where the number is not 0, all factors but the last say what the last is."""
    row = next(at for at, value in enumerate(own) if value)
    names = [name for name, column in columns.items()
             if all(value % by == 0 if by else value == 0 for value, by in zip(own, column, strict=True))]  # fmt: skip
    values = [columns[name][row] for name in names]
    places: dict[int, list[int]] = defaultdict(list)
    for at, value in enumerate(values):
        places[value].append(at)
    for count in range(FACTORS):
        for some in combinations(range(len(names)), count):
            rest, over = divmod(own[row], math.prod(values[at] for at in some))
            for last in () if over else places.get(rest, ()):
                factors = tuple(names[at] for at in (*some, last))
                rows = zip(own, *(columns[one] for one in factors), strict=True)
                if last > max(some, default=-1) and all(math.prod(each) == value for value, *each in rows):
                    return factors
    return None


def dividing(
    columns: Mapping[str, Sequence[Parameter]], pairs: Sequence[tuple[str, str]], share: Share, below: Below
) -> dict[str, tuple[str, ...]]:
    """By name which of the numbers it is paired with divide it in nearly all jobs, by noisy counts of those in which
    they do and do not: one job counts once for each pair."""
    epsilon = part(share.epsilon, len(pairs))
    found: dict[str, list[str]] = defaultdict(list)
    for name, by in pairs:
        counts = Counter(bool(one) and is_whole(own) and is_whole(one) and int(own) % int(one) == 0
                         for own, one in zip(columns[name], columns[by], strict=True))  # fmt: skip
        often, rarely = (counts[divides] + laplace(epsilon, below) for divides in (True, False))
        if often > RARELY * max(rarely, 0):
            found[name].append(by)
    return {name: tuple(each) for name, each in found.items()}


def marginals(
    columns: Mapping[str, Sequence[Parameter]], kinds: Mapping[str, str], share: Share, below: Below
) -> dict[str, dict[Cell, int]]:
    """By name the cells that many jobs have, with noisy counts: one job counts once for each name. Numbers have their
    place on the grid, noise on each of its cells, and a cell stays whose count noise alone would hardly reach; of
    words nobody knows which there may be, and one stays whose count is above what the noise of one job reaches but by
    a chance of delta."""
    found: dict[str, dict[Cell, int]] = {}
    epsilon = part(share.epsilon, len(columns))
    for name, values in columns.items():
        words = kinds[name] != NUMBER
        counts = Counter(_named(value, kinds[name]) if words else cell_of(value) for value in values)
        noisy: dict[Cell, int] = {
            cell: counts[cell] + laplace(epsilon, below) for cell in (sorted(counts, key=repr) if words else GRID)
        }
        least = reach(epsilon, share.delta / len(columns) if words else 0.2 / len(GRID))
        kept = {cell: count for cell, count in noisy.items() if count > least}
        if not words:
            kept = _together(kept, 2 * least) or {max(noisy, key=noisy.__getitem__): 1}
        found[name] = kept or {"" if kinds[name] == WORD else 0.0: 1}
    return found


def _named(value: Parameter, kind: str) -> str | float:
    """A value that is a cell itself: equal numbers alike, as which of them is released would hang on who came first."""
    return str(value)[:LONGEST] if kind == WORD or isinstance(value, str) else float(value) + 0.0


def _together(kept: Mapping[Cell, int], many: int) -> dict[Cell, int]:
    """Cells without those that stand alone far off and have not ``many`` jobs: noise made them."""
    place = {cell: at for at, cell in enumerate(GRID)}
    return {cell: count for cell, count in kept.items() if count >= many or any(
        0 < abs(place[int(cell)] - place[int(other)]) <= ALONE for other in kept)}  # fmt: skip
