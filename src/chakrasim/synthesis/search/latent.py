"""Parameters that nobody states: numbers of the jobs themselves from which the others follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np

from chakrasim.synthesis.columns import run_lengths
from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.grammar.durations import MEASURED
from chakrasim.synthesis.laws import Examples, law
from chakrasim.synthesis.loops import Loop, inner_loops
from chakrasim.synthesis.read import Reading
from chakrasim.synthesis.roles import DURATION, Roles
from chakrasim.synthesis.search.work import Work

MOST: Final = 16
COMES: Final = "whether it comes"
RANKS: Final = "ranks"


def latent_parameters(
    readings: Sequence[Reading], loop: Loop, roles: Roles, stated: Mapping[str, Ints], follow: Set[tuple[int, str]]
) -> dict[str, Ints]:
    """By name int64[jobs]: numbers that are one in each job and follow neither from what is ``stated`` nor from the
    ones before, small ones first: how often something comes, then sizes. Those of roles that ``follow`` from others
    anyway are none."""
    columns, shared, work = dict(stated), dict(stated), Work()
    tables: dict[str, Mapping[str, Ints]] = {"stated": stated}
    shares = _shares_of(stated)
    found: dict[str, Ints] = {}
    for name, own in sorted(
        _numbers(readings, loop, roles, follow), key=lambda each: (int(np.abs(each[1]).max()), each[0])
    ):
        if len(found) == MOST:
            break
        if any(_has_law(Examples(own, table), work) for table in tables.values()):
            continue
        tables["all"] = columns
        for one, share in shares.items():
            # A share stands in place of the number: a sum of both needs more examples.
            if _has_law(Examples(own, {**shared, one: share}), work):
                shared[one] = columns[f"{one} a rank"] = found[f"{one} a rank"] = shares.pop(one)
                tables["shared"] = shared
                break
        else:
            columns[name] = found[name] = own
    return found


def _shares_of(stated: Mapping[str, Ints]) -> dict[str, Ints]:
    """By name numbers over how many ranks there are, rounded up, where that does not divide them in all jobs: the rows
    of a tensor that ranks share."""
    over = stated.get(RANKS)
    if over is None or (over < 1).any():
        return {}
    return {name: -(-own // over) for name, own in stated.items()
            if name != RANKS and (own > 0).all() and (own % over).any() and np.ptp(own)}  # fmt: skip


def _has_law(examples: Examples, work: Work) -> bool:
    work.begin()
    return law(examples, work=work) is not None


def _numbers(
    readings: Sequence[Reading], loop: Loop, roles: Roles, follow: Set[tuple[int, str]]
) -> Iterator[tuple[str, Ints]]:
    """Numbers that each job has as one, by name; of equal ones the first."""
    jobs = 1 + max(reading.rank.job for reading in readings)
    said: dict[str, dict[int, set[int]]] = {}
    for reading in readings:
        own = np.array(reading.rank.nodes.role, np.int64)
        first = np.unique(own, return_index=True)[1]
        for inner, _ in inner_loops(loop):
            lengths = run_lengths(np.array(reading.iterations[inner.number].index, np.int64))
            title = f"count of {roles.known[_head(inner)].title}"
            said.setdefault(title, {}).setdefault(reading.rank.job, set()).update(lengths.tolist())
        for node in first.tolist():
            role = roles.known[int(own[node])]
            here = np.flatnonzero(own == own[node])
            for i, name in enumerate(role.numbers()):
                if (name in (MEASURED, DURATION) and MEASURED in role.numbers()) or (int(own[node]), name) in follow:
                    continue
                values = {reading.rank.nodes.numbers[at][i] for at in here.tolist()}
                said.setdefault(f"{role.title}: {name}", {}).setdefault(reading.rank.job, set()).update(values)
    for number, role in enumerate(roles.known):
        has = {reading.rank.job for reading in readings if number in reading.rank.nodes.role}
        if (number, COMES) not in follow:
            said[f"{role.title}: {COMES}"] = {job: {int(job in has)} for job in range(jobs)}
    seen = set()
    for name, by_job in said.items():
        if len(by_job) == jobs and all(len(values) == 1 for values in by_job.values()):
            numbers = np.array([next(iter(by_job[job])) for job in range(jobs)], np.int64)
            if numbers.tobytes() not in seen:
                seen.add(numbers.tobytes())
                yield name, numbers


def _head(loop: Loop) -> int:
    first = loop.body[0]
    return _head(first) if isinstance(first, Loop) else first
