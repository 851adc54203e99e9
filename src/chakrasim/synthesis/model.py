"""What was learned of jobs: a program, its laws and rules, and how ranks are grouped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chakrasim.synthesis.expressions import Expression
from chakrasim.synthesis.grammar.durations import Scatter
from chakrasim.synthesis.groups import Grid
from chakrasim.synthesis.loops import Loop
from chakrasim.synthesis.reasons import Rule
from chakrasim.synthesis.roles import Role
from chakrasim.synthesis.search.buckets import Bucket
from chakrasim.synthesis.search.meters import Meter
from chakrasim.trace.job.job import Parameter


@dataclass(frozen=True, eq=False)
class Model:
    """A learned program.

    Attributes
    ----------
    roles: by number.
    loop: the order of roles.
    counts: by loop, how often it comes in an iteration of the one around it.
    marks: by loop, what its iterations say of which they are: columns of theirs.
    present: by role, whether it comes in an iteration of its innermost loop: more than 0.
    numbers: by role, each of its numbers; those that speak of others of the role behind these.
    reasons: of control and of data waits, by role the rules that find them.
    counters: names of numbers that go up along loops.
    grid: ranks and groups.
    metadata: of each trace, with the laws of the numbers in it.
    rank_columns: what tells ranks apart.
    meters: what adds up along loops.
    left_out: metadata whose numbers follow no law, which no job that is made has.
    by_few: what has laws that its examples do not say beyond chance.
    scatter: of recorded durations about their laws.
    device: the shipped one whose profile times what is made; "" if durations follow laws.
    """

    roles: tuple[Role, ...]
    loop: Loop
    counts: dict[int, Expression]
    marks: dict[int, list[Expression]]
    present: dict[int, Expression]
    numbers: dict[int, dict[str, Expression]]
    reasons: tuple[dict[int, list[Rule]], dict[int, list[Rule]]]
    counters: frozenset[str]
    grid: Grid
    metadata: list[tuple[tuple[str, int, Any], list[Expression]]]
    rank_columns: tuple[str, ...]
    meters: tuple[Meter | Bucket, ...]
    left_out: tuple[str, ...] = ()
    by_few: tuple[str, ...] = ()
    scatter: Scatter | None = None
    device: str = ""

    def laws(self) -> Iterator[Expression]:
        """Of counts, marks, presence and numbers."""
        for one in (self.counts, self.present):
            yield from one.values()
        for marks in self.marks.values():
            yield from marks
        for own in self.numbers.values():
            yield from own.values()


@dataclass(frozen=True, eq=False)
class Learned:
    """A model and what it was learned from.

    Attributes
    ----------
    model: the program.
    jobs: names of the jobs.
    parameters: of each job; all have the same names.
    lost: what no law was found for, for people, and how far off what stands there was in jobs that it was not made
        from: the sum of what it was off by what it should have been.
    """

    model: Model
    jobs: list[str]
    parameters: list[dict[str, Parameter]]
    lost: dict[str, float]
