"""Numbers of many jobs' nodes, each as ``k`` jobs or more have it.

Of each number of a role, in this order: a value that ``k`` jobs have stays; what a law of a job's parameters, a rank's
places and the numbers in a node's name gives, which is found on a part of the jobs and holds for ``k`` or more, stays,
and where a law holds for nine jobs of ten the others get its value; others get what a law says that is only near, found
on a part of the jobs too, or go up to a grid on which ``k`` of them meet, whichever is finer; what is left gets the
nearest value that stays, or 0 where none does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.obfuscation.behaviour import Grid
from chakrasim.synthesis import expressions
from chakrasim.synthesis.columns import columns_of, missing
from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.laws import EXACT, Examples, near_law, one_law, simple
from chakrasim.synthesis.parameters import parameters_of
from chakrasim.synthesis.read import places_of
from chakrasim.synthesis.roles import Role
from chakrasim.trace import work
from chakrasim.trace.job.job import PEER, Job

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

STRUCTURE: Final = frozenset(("comm_type", "comm_tag", "comm_src", "comm_dst", PEER, "root_rank", "root", work.STREAM,
                              "tid", "device"))  # fmt: skip
"""Numbers that say who talks to whom, and where nodes run: they stay, as numbers in names of groups do."""
RATIOS: Final = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 16.0, 256.0)
CHOICES: Final = 4
"""Values of a parameter, at most, of which each has to be that of many jobs for a law to be found in these."""
MOST: Final = 0.9
"""A law that holds for this share of jobs is also that of the others."""


class Numbers:
    """The nodes of jobs, and their numbers by role and name, so that they can be changed together."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._own: list[list[list[tuple[int, dict[str, int]]]]] = [[[] for _ in job.traces] for job in jobs]
        self.by_name: dict[tuple[int, str], list[tuple[int, int, dict[str, int]]]] = defaultdict(list)
        self.nodes = 0

    def add(self, job: int, trace: int, role: int, what: Role, numbers: dict[str, int]) -> None:
        """A node of a job's trace, with its numbers in the order of the role's."""
        self._own[job][trace].append((role, numbers))
        self.nodes += 1
        for name in numbers:
            if name not in STRUCTURE and not name.startswith("pg_name "):
                self.by_name[role, name].append((job, trace, numbers))

    def of_job(self, job: int) -> list[list[tuple[int, dict[str, int]]]]:
        """Role and numbers of each node of each trace."""
        return self._own[job]

    def columns(self) -> dict[str, Ints]:
        """What laws are of, int64[traces of all jobs], job by job."""
        jobs = columns_of([parameters_of(job) for job in self._jobs])
        rows = [{**own, **place} for own, job in zip(jobs, self._jobs, strict=True) for place in _places(job)]
        names = [*dict.fromkeys(name for row in rows for name in row)]
        return {name: np.array([row.get(name, missing(name)) for row in rows], np.int64) for name in names}

    def rare(self, k: int) -> Mask:
        """bool[jobs]: those that have a parameter of few values alike with fewer than ``k`` jobs."""
        own = columns_of([parameters_of(job) for job in self._jobs])
        found = np.zeros(len(own), np.bool_)
        for name in {name for one in own for name in one}:
            values, which, counts = np.unique([one.get(name, missing(name)) for one in own], return_inverse=True,
                                              return_counts=True)  # fmt: skip
            if len(values) <= CHOICES:
                found |= counts[which.reshape(-1)] < k
        return found

    def first_rows(self) -> list[int]:
        """At which row of the columns each job begins."""
        return [0, *accumulate(len(job.traces) for job in self._jobs)]


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

    def examples(self, columns: Mapping[str, Ints]) -> Examples:
        """As examples of a law."""
        return Examples(self.value, {**{name: column[self.rows] for name, column in columns.items()}, **self.names})

    def key(self, value: Ints) -> bytes:
        """What a law with these values hangs on."""
        return b"".join(one.tobytes() for one in (self.rows, value, *self.names.values()))


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of the columns, each searched for once. ``rare`` jobs are in none of the parts in which laws are found: two
    of them could have a law by themselves."""

    columns: Mapping[str, Ints]
    rare: Mask
    known: dict[bytes, tuple[int, Expression | None]]

    def of(self, few: _Nodes, k: int) -> Iterator[tuple[Ints, Ints, Mask]]:
        """Places among these nodes, what a law says of them, and of which it was found without their jobs: of all;
        where there is none, of those of each stage of some group, its first members, its last, and others, if these
        have laws."""
        every = np.arange(len(few.rows))
        found = self._found(few)
        if found:
            yield from ((every, *made) for made in found)
            return
        for stage in self._stages(few.rows):
            parts = [np.flatnonzero(stage == one) for one in np.unique(stage)]
            made = [(part, self._found(few.some(part))) for part in parts]
            if all(own or len(np.unique(few.job[part])) < k for part, own in made):
                yield from ((part, *one) for part, own in made for one in own)
                return

    def near(self, few: _Nodes, k: int) -> NDArray[np.float64]:
        """float[nodes]: about what laws say that are near, each found without the node's job: the middle one; NaN where
        there is none."""
        examples, said = few.examples(self.columns), []
        for in_half, other in self._halves(few.job):
            row = np.full(len(few.rows), np.nan)
            if len(np.unique(few.job[in_half])) >= k:
                law = near_law(simple(examples.some(np.flatnonzero(in_half))))
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

    def _found(self, few: _Nodes) -> list[tuple[Ints, Mask]]:
        """What laws of halves of the jobs say of all nodes, and which are of the other half. Only of these may a law
        tell: one that has seen a job may have a term for what that job alone has. Jobs are halved until laws give
        all nodes, three times at most, so that a job that spoils laws of its halves leaves one for each other job."""
        unit = max(int(np.gcd.reduce(few.value)), 1)
        examples = few.examples(self.columns)
        key = few.key(few.value // unit)
        found: list[tuple[Ints, Mask]] = []
        told = np.zeros(len(few.rows), np.bool_)
        for number, (in_half, other) in enumerate(self._halves(few.job)):
            if number % 2 == 0 and told.all():
                break
            one = self._law(key + bytes([number]), unit, examples.some(np.flatnonzero(in_half)))
            if one is not None:
                found.append((expressions.value(one, examples.columns, len(few.rows)), other))
                told |= examples.given_by(one) & other
        return found

    def _law(self, key: bytes, unit: int, half: Examples) -> Expression | None:
        """The law of a half. Without cases, as one job may be a case."""
        if key not in self.known:
            self.known[key] = unit, one_law(half) if len(half) else None
        of, one = self.known[key]
        return one if one is None or unit == of else expressions.times(one, Fraction(unit, of))

    def _stages(self, rows: Ints) -> Iterator[Ints]:
        """By role of groups: 1 where a rank is not the first of its group, and 2 more where it is not the last."""
        for name in self.columns:
            role = name.removeprefix("position in ")
            if name != role and f"behind in {role}" in self.columns:
                stage = (self.columns[name][rows] > 0) + 2 * (self.columns[f"behind in {role}"][rows] > 0)
                if (stage != stage[0]).any():
                    yield stage


def _halves(job: Ints) -> Iterator[Mask]:
    """bool[n]: the six halves of three ways to halve the jobs; some way has any two of them in one half."""
    for way in (job, job // 2, job ^ job // 2):
        yield from (way % 2 == half for half in (0, 1))


def shared_numbers(numbers: Numbers, k: int, notes: Notes) -> int:
    """Change the numbers to those of ``k`` jobs or more; how many became other ones."""
    laws, begins, moved, bare = _Laws(numbers.columns(), numbers.rare(k), {}), np.array(numbers.first_rows()), 0, 0
    names: dict[int, dict[str, Ints]] = defaultdict(dict)
    # Numbers in names first, since others follow from them as they are released.
    for (role, name), listed in sorted(numbers.by_name.items(), key=lambda one: (not _in_name(one[0][1]), one[0])):
        job = np.array([one for one, _, _ in listed], np.int64)
        trace = begins[job] + np.array([one for _, one, _ in listed], np.int64)
        value = np.array([own[name] for _, _, own in listed], np.int64)
        found = _shared(_Nodes(trace, job, value, names[role]), k, laws)
        bare += found is None
        new = np.zeros_like(value) if found is None else found
        if _in_name(name):
            for other in [one for one in names[role] if " to " not in one]:
                names[role][f"{other} to {name}"] = np.abs(names[role][other] - new - 1) + 1
            names[role][name] = new + 1
        for (_, _, own), now in zip(listed, new.tolist(), strict=True):
            own[name] = now
        moved += int((new != value).sum())
    if bare:
        notes.warn(f"{bare:,} of {len(numbers.by_name):,} kinds of numbers are 0: no {k} jobs have values "
                   "that are near one another")  # fmt: skip
    return moved


def _in_name(name: str) -> bool:
    return name.startswith("name ")


def _shared(nodes: _Nodes, k: int, laws: _Laws) -> Ints | None:
    """The numbers of a name, as many jobs have them; None where no value is that of many."""
    value = nodes.value
    new, open_ = value.copy(), ~_kept(nodes.job, value, k)
    bare = _Nodes(nodes.rows, nodes.job, value, {})
    if open_.any():
        for rows in _parts(nodes.rows, value):
            _by_law(rows, bare, new, open_, k, laws)
    if open_.any() and nodes.names:
        _by_law(np.arange(len(value)), nodes, new, open_, k, laws)
    if open_.any():
        first, which = nodes.distinct()
        _by_grid(nodes.job, value, laws.near(nodes.some(first), k)[which], new, open_, k)
    if open_.all():
        return None
    if open_.any():
        stays = np.unique(new[~open_])
        at = np.searchsorted(stays, value[open_])
        below, above = stays[np.maximum(at - 1, 0)], stays[np.minimum(at, len(stays) - 1)]
        new[open_] = np.where(np.abs(above - value[open_]) < np.abs(value[open_] - below), above, below)
    return new


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


def _by_law(rows: Ints, nodes: _Nodes, new: Ints, open_: Mask, k: int, laws: _Laws) -> None:
    """Close rows that a law of so many jobs gives."""
    own_nodes = nodes.some(rows)
    first, which = own_nodes.distinct()
    for part, made, other in laws.of(own_nodes.some(first), k):
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
