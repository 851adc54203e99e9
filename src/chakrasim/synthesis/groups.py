"""How many ranks a job has, and who is with whom: groups are every s-th rank, n of them, by laws of n and s, or the
first and the last of each of other groups, such as the stages that hold the embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.laws import Examples, law
from chakrasim.synthesis.search.work import Work
from chakrasim.trace.job.job import MAX_RANKS

Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Grid:
    """Laws of the job's parameters: its ranks, and by role the members of a group and the step between them; ``ends``:
    in place of that the role of which the first and the last are such a group."""

    ranks: Expression
    size: Mapping[str, Expression]
    step: Mapping[str, Expression]
    ends: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"ranks": self.ranks, "size": dict(self.size), "step": dict(self.step), "ends": dict(self.ends)}

    def made(self, parameters: Mapping[str, int]) -> tuple[int, dict[str, Groups]]:
        """How many ranks, and the groups of each role that has more than one rank in a group. Raises InputError where
        the laws do not fit together."""
        columns = {name: np.array([value], np.int64) for name, value in parameters.items()}

        def one(expression: Expression) -> int:
            return int(expressions.value(expression, columns, 1)[0])

        ranks = one(self.ranks)
        if not 1 <= ranks <= MAX_RANKS:
            raise InputError("these parameters make no job of a size that can be", found=f"{ranks:,} ranks",
                             expected=f"1 to {MAX_RANKS:,}")  # fmt: skip
        found: dict[str, Groups] = {}
        for role, size in self.size.items():
            members = one(size)
            if role in self.ends:
                found |= {role: ends_of(found[self.ends[role]])} if members > 1 else {}
                continue
            step = one(self.step[role])
            if members < 1 or step < 1 or ranks % (members * step):
                raise InputError(
                    f"the groups {role} do not divide the ranks", found=f"{members:,} of {ranks:,}, {step:,} apart"
                )
            found[role] = groups(ranks, members, step)
        return ranks, found


def groups(ranks: int, members: int, step: int) -> Groups:
    """All groups of so many members, so far apart."""
    bases = [base for base in range(ranks) if base // step % members == 0]
    return tuple(tuple(base + step * i for i in range(members)) for base in bases)


def ends_of(listed: Groups) -> Groups:
    """The first and the last of each group."""
    return tuple((one[0], one[-1]) for one in listed if len(one) > 1)


def grid_of(
    jobs: Sequence[tuple[int, Mapping[str, Groups]]], columns: Mapping[str, np.ndarray[Any, Any]], work: Work
) -> tuple[Grid, list[str]]:
    """The laws of jobs, each its ranks and groups, and what none was found for. Raises InputError for jobs whose ranks
    follow no law."""
    every = [*range(len(jobs))]
    ranks = _law([count for count, _ in jobs], every, columns, work)
    if ranks is None:
        raise InputError("how many ranks the jobs have does not follow from their parameters",
                         remedy="state the parameters that the ranks follow from, such as dp, tp and pp")  # fmt: skip
    size: dict[str, Expression] = {}
    step: dict[str, Expression] = {}
    lost = []
    for role in sorted({role for _, own in jobs for role in own}):
        shapes = [shape_of(own.get(role, ()), count) for count, own in jobs]
        known = [i for i, shape in enumerate(shapes) if shape is not None]
        sizes = _law([shapes[i][0] for i in known], known, columns, work) if known == every else None
        wide = [i for i in known if shapes[i][0] > 1]
        steps = _law([shapes[i][1] for i in wide], wide, columns, work)
        if sizes is None or steps is None:
            lost.append(role)
            continue
        size[role], step[role] = sizes, steps
    ends = {}
    for role, other in product(lost, tuple(size)):
        both = [(own.get(role, ()), ends_of(own.get(other, ()))) for _, own in jobs]
        if role not in ends and all(here in ((), of) for here, of in both):
            law = _law([1 + bool(here) for here, _ in both], every, columns, work)
            if law is not None:
                size[role], ends[role] = law, other
    return Grid(ranks, size, step, ends), [role for role in lost if role not in ends]


def _law(
    wanted: list[int], rows: list[int], columns: Mapping[str, np.ndarray[Any, Any]], work: Work
) -> Expression | None:
    work.begin()
    some = {name: column[rows] for name, column in columns.items()}
    return law(Examples(np.array(wanted, np.int64), some), work=work)


def shape_of(listed: Sequence[Sequence[int]], ranks: int) -> Any:
    """Members and step of the groups; (1, 1) for none; None where they are not of this form."""
    if not listed or max(map(len, listed)) == 1:
        return (1, 1)
    members, step = len(listed[0]), listed[0][1] - listed[0][0]
    if step < 1 or ranks % (members * step):
        return None
    return (members, step) if {tuple(one) for one in listed} == {*groups(ranks, members, step)} else None
