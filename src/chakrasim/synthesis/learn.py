"""Learning a model from jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

import numpy as np

from chakrasim.progress import Progress
from chakrasim.synthesis import reasons
from chakrasim.synthesis.columns import Parameters, columns_of, run_lengths
from chakrasim.synthesis.grammar.aligned import aligned
from chakrasim.synthesis.grammar.context import told_apart
from chakrasim.synthesis.grammar.durations import scatter_of
from chakrasim.synthesis.grammar.launches import with_launches
from chakrasim.synthesis.grammar.spelled import spelled
from chakrasim.synthesis.grammar.stations import at_stations
from chakrasim.synthesis.groups import grid_of
from chakrasim.synthesis.loops import Looks, Place
from chakrasim.synthesis.model import Model
from chakrasim.synthesis.peel import peeled
from chakrasim.synthesis.read import Reading, ranks_of, read_by_loops
from chakrasim.synthesis.reasons import Asking, Case, Lane, Rule, Rules
from chakrasim.synthesis.roles import Roles, titles
from chakrasim.synthesis.search.bucket_search import SENT, Tally, tallies_of
from chakrasim.synthesis.search.latent import COMES, latent_parameters
from chakrasim.synthesis.search.program import Search
from chakrasim.synthesis.search.tables import Tables
from chakrasim.synthesis.search.work import TOTAL, Work
from chakrasim.trace.job.job import Job

READ: Final = 120
"""Traces that rules of waiting are looked for in, about."""
AGAIN: Final = 50
"""Nodes with wrong waits that rules are looked for in again, about."""


def learn_program(
    jobs: Sequence[tuple[Parameters, Job]],
    progress: Progress | None = None,
    *,
    stated: bool = True,
    recorded: bool = False,
) -> tuple[Model, dict[str, float], list[dict[str, int]]]:
    """The program of the jobs; what no law was found for, and how far off what stands there is; and by job the numbers
    that became parameters because others follow from them, where parameters are not ``stated``: these come last.
    Durations that are ``recorded`` follow from work, and scatter."""
    roles = Roles()
    ranks = ranks_of([job for _, job in jobs], roles)
    own = [rank.nodes for rank in ranks]
    missed: dict[str, float] = {}
    if recorded:
        own, roles, missed = aligned(own, roles, [{**jobs[rank.job][0], **rank.columns} for rank in ranks])
    else:
        own, roles = at_stations(*told_apart(*spelled(*with_launches(own, roles))))
        own, roles = peeled(own, roles, looks := Looks())
        missed |= {"first turns: loops that were not looked into": 1.0} if looks.left <= 0 else {}
    ranks = [replace(rank, nodes=nodes) for rank, nodes in zip(ranks, own, strict=True)]
    loop, where, readings = read_by_loops(ranks, roles.known, looks := Looks())
    columns = columns_of([parameters for parameters, _ in jobs])
    more: list[dict[str, int]] = [{} for _ in jobs]
    tallies = tallies_of(readings, roles.known, where)
    if not stated:
        known_columns = {name: np.array([own[name] for own in columns], np.int64) for name in columns[0]}
        follow = {(role, name) for tally in tallies for role in tally.sent for name in (SENT, COMES)}
        found_in = latent_parameters(readings, loop, roles, known_columns, follow)
        more = [{name: int(own[i]) for name, own in found_in.items()} for i in range(len(jobs))]
    tables = Tables(readings, [{**own, **latent} for own, latent in zip(columns, more, strict=True)])
    search = Search(tables, loop, where, roles.known, tallies, recorded=recorded)
    search.learn(progress)
    grid, no_grid = grid_of(
        [(job.ranks, job.process_groups) for _, job in jobs], tables.job_columns(), search.known.work
    )
    found, left = find_reasons(readings, roles, where, search.counters, tallies)
    said, left_out = search.metadata()
    model = Model(tuple(roles.known), loop, search.counts, search.marks, search.present, search.numbers, found,
                  frozenset(search.counters), grid, said, tuple(tables.rank_names), tuple(search.meters), left_out,
                  search.by_few(), scatter_of([*search.times.values()]))  # fmt: skip
    missed |= {"the order of kinds: loops that were not looked into": 1.0} if looks.left <= 0 else {}
    return model, search.lost | {f"groups {role}": 1.0 for role in no_grid} | left | missed, more


def find_reasons(
    readings: Sequence[Reading],
    roles: Roles,
    where: Mapping[int, Place],
    counters: Set[str],
    tallies: Sequence[Tally] = (),
) -> tuple[tuple[dict[int, list[Any]], dict[int, list[Any]]], dict[str, float]]:
    """By kind of wait and role the rules that find what its nodes wait for, and what share they do not find."""
    sent = [([*tally.summed], [*tally.sent]) for tally in tallies]
    rules, work = Rules(roles.known, counters, sent), Work(TOTAL // 2)
    cases: tuple[dict[int, list[Case]], dict[int, list[Case]]] = (defaultdict(list), defaultdict(list))
    for reading in _some(readings):
        for role, case in _cases(reading, where, rules):
            for kind in (0, 1):
                cases[kind][role].append(Case(case[0], case[1], case[2][kind]))
    found: tuple[dict[int, list[Any]], dict[int, list[Any]]] = ({}, {})
    lost: dict[str, float] = {}
    names = titles(roles.known)
    for kind in (0, 1):
        for role, own in cases[kind].items():
            found[kind][role], off = _rules_of(role, own, rules, work)
            if off:
                lost[f"{names[role]}: what it waits for ({('control', 'data')[kind]})"] = off
    return found, lost


def _some(readings: Sequence[Reading]) -> list[Reading]:
    """About ``READ`` of them, and those that have kinds of nodes which none of these has."""
    found = [*readings[:: max(1, len(readings) // READ)]]
    met = set().union(*(reading.rank.nodes.role for reading in found))
    for reading in readings:
        if not met.issuperset(reading.rank.nodes.role):
            found.append(reading)
            met.update(reading.rank.nodes.role)
    return found


def _rules_of(role: int, own: Sequence[Case], rules: Rules, work: Work) -> tuple[list[Rule], float]:
    """Rules that are looked for in some of the cases, and again with some of those that they get wrong; and the share
    of waits that are missed or wrong in all of them."""
    few = [*own[:: max(1, len(own) // reasons.TRIED)]]
    for again in (True, True, False):
        found, left = reasons.find(role, few, rules, work)
        answers = [*_answers(found, role, own, rules, work)]
        wrong = [case for case, answer in zip(own, answers, strict=False) if answer != {*case.waits}]
        if left or not wrong or not again:
            break
        few += wrong[:: max(1, len(wrong) // AGAIN)]
    off = sum(len(answer ^ {*case.waits}) for case, answer in zip(own, answers, strict=False))
    return found, off / max(1, sum(len(case.waits) for case in own[: len(answers)]))


def _answers(found: Sequence[Rule], role: int, own: Sequence[Case], rules: Rules, work: Work) -> Iterator[set[int]]:
    """What the rules find for each case, until the role's share of the work is spent."""
    work.begin()
    for case in own:
        looks = rules.looks
        yield set().union(*(rules.answers(rule, role, case.node, case.lane) for rule in found))
        work.spend(reasons.LOOK * (rules.looks - looks))
        if work.is_spent:
            return


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
