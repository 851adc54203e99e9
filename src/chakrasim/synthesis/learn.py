"""Learning a model from jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np

from chakrasim.progress import Progress, told
from chakrasim.synthesis import levels, reasons
from chakrasim.synthesis.columns import Parameters, columns_of, missing, path_columns, run_lengths
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.groups import grid_of
from chakrasim.synthesis.latent import latent_parameters
from chakrasim.synthesis.levels import Known, Table
from chakrasim.synthesis.loops import ROOT, Place, inner_loops
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.read import Reading, ranks_of, read_by_loops
from chakrasim.synthesis.reasons import Asking, Case, Lane, Rules
from chakrasim.synthesis.roles import Roles, number_names
from chakrasim.trace.job.job import Job

COUNTER: Final = 1 << 20
"""Numbers that go up along loops stay below."""


class Tables:
    """Columns of every loop's iterations, over all readings."""

    def __init__(self, readings: Sequence[Reading], jobs: Sequence[Mapping[str, int]]) -> None:
        self.readings = readings
        self.jobs = jobs
        self.made: dict[tuple[int, ...], Table] = {}
        every = [reading.rank.columns for reading in readings]
        names = {name for columns in every for name in columns}
        here = [{name.split(" in ", 1)[1] for name in columns} for columns in every]
        pairs = list(zip(every, here, strict=True))
        self.rank_names = sorted(
            name for name in names
            if all(name in columns or name.split(" in ", 1)[1] not in own for columns, own in pairs)
        )  # fmt: skip

    def job_columns(self) -> dict[str, Ints]:
        """The parameters, by job."""
        return {name: np.array([own[name] for own in self.jobs], np.int64) for name in self.jobs[0]}

    def ranks(self) -> Table:
        """One row a trace."""
        return self.of((ROOT,))

    def of(self, loops: tuple[int, ...]) -> Table:
        """For each iteration of the last of these loops, the others being those around it from the outermost on."""
        if loops not in self.made:
            self.made[loops] = self._make(loops)
        return self.made[loops]

    def _make(self, loops: tuple[int, ...]) -> Table:
        job, rank, rows = [], [], []
        for number, reading in enumerate(self.readings):
            count = len(reading.iterations[loops[-1]])
            job.append(np.full(count, reading.rank.job))
            rank.append(np.full(count, number))
            rows.append(path_columns([reading.iterations[loop] for loop in loops], loops))
        jobs, ranks = np.concatenate(job), np.concatenate(rank)
        first = {name: np.array([own[name] for own in self.jobs], np.int64)[jobs] for name in self.jobs[0]}
        second = {
            name: np.array([reading.rank.columns.get(name, missing(name)) for reading in self.readings], np.int64)[
                ranks
            ]
            for name in self.rank_names
        }
        third = {name: np.concatenate([each[name] for each in rows]) for name in rows[0]}
        return Table(jobs, ranks, (first, second, third))


def learn_program(
    jobs: Sequence[tuple[Parameters, Job]], progress: Progress | None = None, *, stated: bool = True
) -> tuple[Model, list[str], list[dict[str, int]]]:
    """The program of the jobs, and what no law was found for. Where their parameters are not ``stated``, numbers of the
    jobs that others follow from become parameters, which come last, by job."""
    roles = Roles()
    ranks = [rank for number, (_, job) in enumerate(jobs) for rank in ranks_of(number, job, roles)]
    loop, where, readings = read_by_loops(ranks)
    columns = columns_of([parameters for parameters, _ in jobs])
    more: list[dict[str, int]] = [{} for _ in jobs]
    if not stated:
        known_columns = {name: np.array([own[name] for own in columns], np.int64) for name in columns[0]}
        found_in = latent_parameters(readings, loop, roles, known_columns)
        more = [{name: int(own[i]) for name, own in found_in.items()} for i in range(len(jobs))]
    tables = Tables(readings, [{**own, **latent} for own, latent in zip(columns, more, strict=True)])
    known: Known = {}
    lost: list[str] = []
    counts: dict[int, Expression] = {}
    for inner, around in inner_loops(loop):
        wanted = _counts(readings, inner.number, around[-1])
        counts[inner.number] = _law(f"count of loop {inner.number}", wanted, tables.of(around), known, lost)
    present: dict[int, Expression] = {}
    numbers: dict[int, dict[str, Expression]] = {}
    counters: set[str] = set()
    every = sorted(_occurrences(readings).items())
    for role, occurrences in told(every, lambda each: "laws:", progress):
        table = tables.of(where[role].loops)
        title = roles.known[role].title
        here = _presence(occurrences, readings, where[role].loops[-1])
        present[role] = _law(f"{title}: whether it comes", here, table, known, lost)
        names = roles.known[role].numbers()
        rows = [readings[number].rank.nodes.numbers[node] for number, nodes in occurrences for node in nodes.tolist()]
        wanted_of = {name: np.array([row[i] for row in rows], np.int64) for i, name in enumerate(names)}
        part = table.some(np.flatnonzero(here))
        counters |= {name for name, own in wanted_of.items() if levels.level_of(own, part) == 2 and own.max() < COUNTER}
        numbers[role] = _numbers(title, wanted_of, part, known, lost)
    grid, no_grid = grid_of([(job.ranks, job.process_groups) for _, job in jobs], tables.job_columns())
    lost += [f"groups {role}" for role in no_grid]
    found, left = find_reasons(readings, roles, where, counters)
    lost += left
    said = _metadata(readings, tables.ranks(), known)
    model = Model(tuple(roles.known), loop, counts, present, numbers, found, frozenset(counters), grid, said,
                  tuple(tables.rank_names))  # fmt: skip
    return model, lost, more


def _law(what: str, wanted: Ints, table: Table, known: Known, lost: list[str]) -> Expression:
    found = levels.find(wanted, table, known)
    if found is None:
        lost.append(what)
        return levels.guess(wanted, table)
    return found


def _metadata(
    readings: Sequence[Reading], table: Table, known: Known
) -> list[tuple[tuple[str, int, object], list[Expression]]]:
    """What the metadata of all traces say alike but for numbers, and the laws of these; what has none is left out."""
    found = []
    for said in readings[0].rank.said:
        if all(said in reading.rank.said for reading in readings):
            laws = [levels.find(np.array([reading.rank.numbers[name] for reading in readings], np.int64), table, known)
                    for name in number_names(said)]  # fmt: skip
            if None not in laws:
                found.append((said, [law for law in laws if law is not None]))
    return found


def _counts(readings: Sequence[Reading], loop: int, around: int) -> Ints:
    return np.concatenate([
        np.bincount(np.array(reading.iterations[loop].parent, np.int64), minlength=len(reading.iterations[around]))
        for reading in readings
    ]).astype(np.int64)  # fmt: skip


def _occurrences(readings: Sequence[Reading]) -> dict[int, list[tuple[int, Ints]]]:
    """By role: the readings that have it, and its nodes there."""
    found: dict[int, list[tuple[int, Ints]]] = defaultdict(list)
    for number, reading in enumerate(readings):
        own = np.array(reading.rank.nodes.role, np.int64)
        order = np.argsort(own, kind="stable")
        begins = np.flatnonzero(np.diff(own[order], prepend=-1))
        for nodes in np.split(order, begins[1:]) if len(own) else []:
            found[int(own[nodes[0]])].append((number, nodes))
    return found


def _presence(occurrences: list[tuple[int, Ints]], readings: Sequence[Reading], loop: int) -> Ints:
    offsets = np.cumsum([0, *(len(reading.iterations[loop]) for reading in readings)])
    here = np.zeros(int(offsets[-1]), np.int64)
    for number, nodes in occurrences:
        here[offsets[number] + readings[number].own[nodes]] = 1
    return here


def _numbers(
    title: str, wanted: Mapping[str, Ints], table: Table, known: Known, lost: list[str]
) -> dict[str, Expression]:
    """Laws of the numbers of a role: of what stands outside of it, else of those of its numbers that have one."""
    found: dict[str, Expression] = {}
    for name, own in wanted.items():
        law = levels.find(own, table, known)
        if law is not None:
            found[name] = law
    while left := [name for name in wanted if name not in found]:
        inside = Table(table.job, table.rank, ({f"own {name}": wanted[name] for name in found}, {}, {}))
        more = {name: levels.find(wanted[name], inside, known) for name in left}
        solved = {name: law for name, law in more.items() if law is not None}
        if not solved:
            lost += [f"{title}: {name}" for name in left]
            return found | {name: levels.guess(wanted[name], table) for name in left}
        found |= solved
    return found


def find_reasons(
    readings: Sequence[Reading], roles: Roles, where: Mapping[int, Place], counters: Set[str]
) -> tuple[tuple[dict[int, list[Any]], dict[int, list[Any]]], list[str]]:
    """By kind of wait and role the rules that find what its nodes wait for, and what they do not find."""
    rules = Rules(roles.known, counters)
    cases: tuple[dict[int, list[Case]], dict[int, list[Case]]] = (defaultdict(list), defaultdict(list))
    for reading in readings:
        for role, case in _cases(reading, where, rules):
            for kind in (0, 1):
                cases[kind][role].append(Case(case[0], case[1], case[2][kind]))
    found: tuple[dict[int, list[Any]], dict[int, list[Any]]] = ({}, {})
    lost = []
    for kind in (0, 1):
        for role, own in cases[kind].items():
            few = own[:: max(1, len(own) // reasons.TRIED)]
            found[kind][role], left = reasons.find(role, few, rules)
            if left:
                share = left / sum(len(case.waits) for case in few)
                lost.append(
                    f"{roles.known[role].title}: {share:.1%} of what it waits for ({('control', 'data')[kind]})"
                )
    return found, lost


def _cases(
    reading: Reading, where: Mapping[int, Place], rules: Rules
) -> Iterator[tuple[int, tuple[Lane, Asking, tuple[tuple[int, ...], tuple[int, ...]]]]]:
    lane, nodes = Lane(), reading.rank.nodes
    lengths = [run_lengths(np.array(one.index, np.int64)).tolist() for one in reading.iterations]
    last: dict[int, int] = {}
    for at, (role, numbers) in enumerate(zip(nodes.role, nodes.numbers, strict=True)):
        row = int(reading.own[at])
        iteration, begun = {}, []
        for loop in reversed(where[role].loops):
            if last.get(loop) != row:
                last[loop] = row
                begun.append(loop)
            if loop:
                index = reading.iterations[loop].index[row]
                iteration[loop] = index, lengths[loop][row] - 1 - index
            row = reading.iterations[loop].parent[row]
        stream = rules.stream(role, numbers)
        lane.add(role, stream, numbers, begun)
        yield role, (lane, Asking(at, stream, numbers, iteration), (nodes.waits[0][at], nodes.waits[1][at]))
