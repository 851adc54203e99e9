"""Numbers of many jobs' nodes, each as ``k`` jobs or more have it.

Of each number of a role, in this order: a value that ``k`` jobs have stays; what a law of a job's parameters, a rank's
places, the numbers in a node's name and those of the node that are released gives, which is found on a part of the jobs
and holds for ``k`` or more, stays, and where a law holds for nine jobs of ten the others get its value; each case of a
law is one by itself; others get what a law says that is only near, found
on a part of the jobs too, or go up to a grid on which ``k`` of them meet, whichever is finer; what is left gets the
nearest value that stays, or 0 where none does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.obfuscation.behaviour import Grid
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import columns_of, missing
from chakrasim.synthesis.laws import CASES, EXACT, Examples, independent, near_law, simple
from chakrasim.synthesis.parameters import parameters_of
from chakrasim.synthesis.read import places_of
from chakrasim.synthesis.search import levels
from chakrasim.synthesis.search.levels import PLAIN, Known, Table
from chakrasim.synthesis.search.sums import spread
from chakrasim.synthesis.search.work import AT_FIRST, LITTLE, TOTAL, Work
from chakrasim.trace import work
from chakrasim.trace.job.job import PEER, Job, Parameter

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

STRUCTURE: Final = frozenset(("comm_type", "comm_tag", "comm_src", "comm_dst", PEER, "root_rank", "root", work.STREAM,
                              "tid", "device"))  # fmt: skip
"""Numbers that say who talks to whom, and where nodes run: they stay, as numbers in names of groups do."""
RATIOS: Final = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0, 256.0)
CHOICES: Final = 4
"""Values of a parameter, at most, of which each has to be that of many jobs for a law to be found in these."""
SEARCHED: Final = TOTAL // 4
"""Numbers that the search for laws looks at in all."""
FEW: Final = 2
OWN: Final = 0
"""No cases: laws of the other numbers of the same node alone."""
FIRST: Final = ((PLAIN, LITTLE), (OWN, LITTLE), (FEW, LITTLE))
"""Laws of how many cases are looked for first, and how much each may take."""
MOST: Final = 0.9
"""A law that holds for this share of jobs is also that of the others."""


class Numbers:
    """The nodes of jobs, and their numbers by role and name, so that they can be changed together."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._columns = columns_of(_stated_alike([parameters_of(job) for job in jobs]))
        self._own: list[list[list[tuple[int, dict[str, int]]]]] = [[[] for _ in job.traces] for job in jobs]
        self.by_name: dict[tuple[int, str], list[tuple[int, int, dict[str, int]]]] = defaultdict(list)
        self.nodes = 0

    def add(self, job: int, trace: int, role: int, numbers: dict[str, int]) -> None:
        """A node of a job's trace, with its numbers in the order of the role's."""
        self._own[job][trace].append((role, numbers))
        self.nodes += 1
        for name in numbers:
            if name not in STRUCTURE and not name.startswith("pg_name "):
                self.by_name[role, name].append((job, trace, numbers))

    def of_job(self, job: int) -> list[list[tuple[int, dict[str, int]]]]:
        """Role and numbers of each node of each trace."""
        return self._own[job]

    def columns(self) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """What laws are of, int64[traces of all jobs], job by job: parameters of jobs, and places of ranks."""
        places = [place for job in self._jobs for place in _places(job)]
        of_jobs = [own for own, job in zip(self._columns, self._jobs, strict=True) for _ in job.traces]
        first, second = ({name: np.array([row.get(name, missing(name)) for row in rows], np.int64)
                          for name in dict.fromkeys(name for row in rows for name in row)}
                         for rows in (of_jobs, places))  # fmt: skip
        return first, second

    def rare(self, k: int) -> Mask:
        """bool[jobs]: those that have a parameter of few values alike with fewer than ``k`` jobs."""
        found = np.zeros(len(self._columns), np.bool_)
        for name in self._columns[0]:
            values, which, counts = np.unique([one[name] for one in self._columns], return_inverse=True,
                                              return_counts=True)  # fmt: skip
            if len(values) <= CHOICES:
                found |= counts[which.reshape(-1)] < k
        return found

    def first_rows(self) -> list[int]:
        """At which row of the columns each job begins."""
        return [0, *accumulate(len(job.traces) for job in self._jobs)]


def _stated_alike(parameters: Sequence[Mapping[str, Parameter]]) -> list[dict[str, Parameter]]:
    """With 0, or no word, for what a job does not state and others do; without what is a word in some jobs alone."""
    kinds: dict[str, set[type[Parameter]]] = defaultdict(set)
    for own in parameters:
        for name, value in own.items():
            kinds[name].add(str if isinstance(value, str) else int)
    nothing = {name: kind() for name, (kind, *others) in kinds.items() if not others}
    return [{name: own.get(name, none) for name, none in nothing.items()} for own in parameters]


def _places(job: Job) -> Iterator[dict[str, int]]:
    """Of each trace, where its ranks stand in their groups, as far as all stand at the same place."""
    places = places_of(job.process_groups, job.ranks)
    for at in range(len(job.traces)):
        ranks = np.flatnonzero(job.trace_of_rank == at)
        yield {
            name: int(of[ranks[0]]) for name, of in places.items() if len(ranks) and (of[ranks] == of[ranks[0]]).all()
        }


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Some nodes: the row of the columns, the job and the value of each, and the numbers in its name, as counts: one
    more each, since what is numbered begins at 0, and how many there are from one to another."""

    rows: Ints
    job: Ints
    value: Ints
    names: Mapping[str, Ints]

    def some(self, at: Ints | Mask) -> _Nodes:
        """These alone."""
        return _Nodes(self.rows[at], self.job[at], self.value[at], {name: own[at] for name, own in self.names.items()})

    def distinct(self) -> tuple[Ints, Ints]:
        """The first nodes of each row with these numbers in their names, and to which of them each node belongs."""
        _, first, which = np.unique(np.stack([self.rows, *self.names.values()]), axis=1, return_index=True,
                                    return_inverse=True)  # fmt: skip
        return first, which.reshape(-1)

    def table(self, columns: Sequence[Mapping[str, Ints]]) -> Table:
        """As examples of a law."""
        first, second = ({name: column[self.rows] for name, column in own.items()} for own in columns)
        every: tuple[dict[str, Ints], ...] = (first, second, {})
        table = Table(self.job, self.rows, (every[0], every[1], every[2]))
        for name, column in self.names.items():
            every[levels.level_of(column, table)][name] = column
        return table

    def alone(self) -> Table:
        """The same of the other numbers alone, but for products of others: with these a law could be put in many ways,
        and none is found."""
        logs = {name: np.log(own) for name, own in self.names.items() if own.min(initial=1) > 0}
        kept = independent(dict(sorted(logs.items(), key=lambda one: len(one[0]))))
        return replace(self, names={name: self.names[name] for name in kept}).table(({}, {}))


Search = Callable[[_Nodes], Iterator[tuple[Ints, Ints, Mask]]]
"""Of some nodes places, what a law or a case of one says of them, and of which it was found without their jobs."""


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of the columns, each searched for once. ``rare`` jobs are in none of the parts in which laws are found: two
    of them could have a law by themselves."""

    columns: Sequence[Mapping[str, Ints]]
    rare: Mask
    known: Known

    def of(self, cases: int, most: int) -> Search:
        """A search for laws of so many cases, which takes so much work at most for each."""
        return lambda few: self._found(few, cases, most)

    def _found(self, few: _Nodes, cases: int, most: int) -> Iterator[tuple[Ints, Ints, Mask]]:
        """Laws of halves of the jobs. Of each case, which is a law by itself: places among these nodes, what it says of
        them, and of which it was found without their jobs. Only of these may it tell: one that has seen a job may have
        a term for what that job alone has. Jobs are halved until laws give all nodes, three times at most, so that a
        job that spoils laws of its halves leaves one for each other job; if the first time finds none, once, but for
        plain laws."""
        table, found = few.alone() if cases == OWN else few.table(self.columns), False
        columns, told = table.columns(2), np.zeros(len(few.rows), np.bool_)
        self.known.work.most = most
        for number, (in_half, other) in enumerate(self._halves(few.job)):
            if number % 2 == 0 and (told.all() or (number and cases != PLAIN and not found)):
                break
            half = np.flatnonzero(in_half)
            one = levels.find(few.value[half], table.some(half), self.known, cases) if len(half) else None
            if one is not None:
                made, case = (of(one, columns, len(few.rows)) for of in (expressions.value, expressions.case_of))
                found, told = True, told | (Examples(few.value, {"made": made}).given_by(["column", "made"]) & other)
                for part in (np.flatnonzero(case == each) for each in np.unique(case)):
                    yield part, made[part], other[part]

    def near(self, few: _Nodes, k: int) -> NDArray[np.float64]:
        """float[nodes]: about what laws say that are near, each found without the node's job: the middle one; NaN where
        there is none."""
        examples, said = Examples(few.value, few.table(self.columns).columns(2)), []
        for in_half, other in self._halves(few.job):
            row = np.full(len(few.rows), np.nan)
            if len(np.unique(few.job[in_half])) >= k:
                half = simple(examples.some(np.flatnonzero(in_half)))
                law = near_law(half.some(spread(half.wanted, levels.MOST)))
                if expressions.names(law):
                    row[other] = expressions.value(law, examples.columns, len(row))[other]
            said.append(row)
        table = np.stack(said)
        table[:, np.isnan(table).all(axis=0)] = -1
        middle = np.nanmedian(table, axis=0)
        return np.where(middle < 0, np.nan, middle)

    def _halves(self, job: Ints) -> Iterator[tuple[Mask, Mask]]:
        for in_half in _halves(job):
            in_law = in_half & ~self.rare[job]
            yield in_law, ~in_law & (~in_half | self.rare[job])


def _halves(job: Ints) -> Iterator[Mask]:
    """bool[n]: the six halves of three ways to halve the jobs; some way has any two of them in one half."""
    for way in (job, job // 2, job ^ job // 2):
        yield from (way % 2 == half for half in (0, 1))


def shared_numbers(numbers: Numbers, k: int, notes: Notes) -> int:
    """Change the numbers to those of ``k`` jobs or more; how many became other ones."""
    laws, begins = _Laws(numbers.columns(), numbers.rare(k), Known(work=Work(SEARCHED))), numbers.first_rows()
    columns = [_Column(role, name, listed, begins, k) for (role, name), listed in numbers.by_name.items()]
    told: dict[int, dict[str, Ints]] = defaultdict(dict)
    # Numbers in names first, then those of few values, since others follow from them as they are released.
    for in_name in (True, False):
        some = sorted((one for one in columns if _in_name(one.name) == in_name), key=_Column.order)
        for tries in ((), FIRST, ((CASES, AT_FIRST),)):
            for one in some:
                one.by_laws(told[one.role], laws, tries)
        for one in some:
            one.by_laws(told[one.role], laws, FIRST)
            one.by_others(told[one.role], laws)
    bare = sum(one.is_bare for one in columns)
    if bare:
        notes.warn(f"{bare:,} of {len(columns):,} kinds of numbers are 0: no {k} jobs have values "
                   "that are near one another")  # fmt: skip
    return sum(map(_Column.release, columns))


def _in_name(name: str) -> bool:
    return name.startswith("name ")


class _Column:
    """A number of the nodes of a role: what is released of each, as far as it is not ``open``."""

    def __init__(
        self, role: int, name: str, listed: Sequence[tuple[int, int, dict[str, int]]], begins: Sequence[int], k: int
    ) -> None:
        self.role, self.name, self.listed, self.k = role, name, listed, k
        self.rows = np.array([begins[job] + trace for job, trace, _ in listed], np.int64)
        self.job = np.array([job for job, _, _ in listed], np.int64)
        self.value = np.array([own[name] for _, _, own in listed], np.int64)
        self.new, self.open = self.value.copy(), ~_kept(self.job, self.value, k)
        self.is_bare = False

    def order(self) -> tuple[int, int, str]:
        """Those of few values first."""
        return len(np.unique(self.value)), self.role, self.name

    def by_laws(self, told: dict[str, Ints], laws: _Laws, tries: Sequence[tuple[int, int]]) -> None:
        """Close nodes by laws of so many cases that take so much work, and tell the others of the role when all are
        closed."""
        bare = _Nodes(self.rows, self.job, self.value, {})
        for cases, most in tries:
            for rows in _parts(self.rows, self.value) if cases == PLAIN and self.open.any() else ():
                _by_law(rows, bare, self.new, self.open, self.k, laws.of(cases, most))
            if self.open.any() and (told or cases not in (PLAIN, OWN)):
                nodes = _Nodes(self.rows, self.job, self.value, told)
                _by_law(np.arange(len(self.value)), nodes, self.new, self.open, self.k, laws.of(cases, most))
        if not self.open.any():
            self._tell(told)

    def by_others(self, told: dict[str, Ints], laws: _Laws) -> None:
        """Close what is left: by what is near, by a grid, by the nearest that is released, or with 0."""
        if self.open.any():
            nodes = _Nodes(self.rows, self.job, self.value, told)
            first, which = nodes.distinct()
            _by_grid(self.job, self.value, laws.near(nodes.some(first), self.k)[which], self.new, self.open, self.k)
        self.is_bare = bool(self.open.all())
        if self.is_bare:
            self.new[:] = 0
        elif self.open.any():
            stays, own = np.unique(self.new[~self.open]), self.value[self.open]
            at = np.searchsorted(stays, own)
            below, above = stays[np.maximum(at - 1, 0)], stays[np.minimum(at, len(stays) - 1)]
            self.new[self.open] = np.where(np.abs(above - own) < np.abs(own - below), above, below)
        self.open[:] = False
        self._tell(told)

    def _tell(self, told: dict[str, Ints]) -> None:
        """As counts, where it is in a name: one more, since what is numbered begins at 0, and how many there are from
        one to another."""
        if not _in_name(self.name):
            told |= {f"own {self.name}": self.new} if (self.new != self.new[0]).any() else {}
        elif self.name not in told:
            for other in [one for one in told if " to " not in one]:
                told[f"{other} to {self.name}"] = np.abs(told[other] - self.new - 1) + 1
            told[self.name] = self.new + 1

    def release(self) -> int:
        """Put what is released into the nodes; how many became other ones."""
        for (_, _, own), now in zip(self.listed, self.new.tolist(), strict=True):
            own[self.name] = now
        return int((self.new != self.value).sum())


def _kept(job: Ints, value: Ints, k: int) -> Mask:
    """bool[n]: values that so many jobs have."""
    pairs = np.unique(np.stack([value, job]), axis=1)
    values, counts = np.unique(pairs[0], return_counts=True)
    return np.isin(value, values[counts >= k])


def _parts(trace: Ints, value: Ints) -> Iterator[Ints]:
    """Rows whose law is one: all, where a trace has one value; else the first of each trace, the last, and others."""
    begins = np.flatnonzero(np.diff(trace, prepend=-1))
    ends = np.append(begins[1:], len(trace)) - 1
    same = np.repeat(value[begins], ends - begins + 1) == value
    if same.all():
        yield np.arange(len(trace))
        return
    middle = np.ones(len(trace), np.bool_)
    middle[begins] = middle[ends] = False
    yield from (rows for rows in (begins, np.setdiff1d(ends, begins), np.flatnonzero(middle)) if len(rows))


def _by_law(rows: Ints, nodes: _Nodes, new: Ints, open_: Mask, k: int, laws: Search) -> None:
    """Close rows that a law of so many jobs gives, or one case of a law."""
    own_nodes = nodes.some(rows)
    first, which = own_nodes.distinct()
    for part, made, other in laws(own_nodes.some(first)):
        place = np.full(len(first), -1, np.int64)
        place[part] = np.arange(len(part))
        here = place[which][place[which] >= 0]
        own, said = rows[place[which] >= 0], made[here]
        job, value = nodes.job[own], nodes.value[own]
        far = np.abs(said.astype(np.float64) - value)
        given = far <= np.maximum(np.abs(value.astype(np.float64)), 1) * EXACT
        holds = np.setdiff1d(job, job[~given])
        if len(holds) < k:
            continue
        if len(holds) >= MOST * len(np.unique(job)):
            given[:] = True
        chosen = given & other[here] & open_[own]
        new[own[chosen]], open_[own[chosen]] = said[chosen], False


def _by_grid(job: Ints, value: Ints, near: NDArray[np.float64], new: Ints, open_: Mask, k: int) -> None:
    """Close rows that laws come so ``near`` to, for so many jobs, or that are so near to others which are open that so
    many jobs have the same point of a grid."""
    off = np.full(len(value), np.inf)
    known = ~np.isnan(near) & (near > 0) & (near < 2.0**63) & (value > 0)
    off[known] = np.exp(np.abs(np.log(near[known] / value[known])))
    for ratio in RATIOS:
        rows = np.flatnonzero(off <= ratio)
        if len(np.unique(job[rows])) >= k:
            rows = rows[open_[rows]]
            new[rows], open_[rows] = np.rint(near[rows]).astype(np.int64), False
        rows = np.flatnonzero(open_ & (value >= 0))
        distinct, which = np.unique(value[rows], return_inverse=True)
        grid = Grid(ratio)
        points = np.array([grid.up(one) for one in distinct.tolist()], np.int64)[which.reshape(-1)]
        kept = _kept(job[rows], points, k) if len(rows) else np.zeros(0, np.bool_)
        new[rows[kept]], open_[rows[kept]] = points[kept], False
