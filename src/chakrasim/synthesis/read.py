"""Jobs as examples: their parameters, the place of each trace among the ranks, and every trace read by the loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.indices import words_of
from chakrasim.synthesis.loops import Iterations, Looks, Loop, Place, inner_loops, order_of, places, read_trace
from chakrasim.synthesis.roles import Nodes, Role, Roles, metadata
from chakrasim.trace.job.job import Job

ALL: Final = "all"
"""The group of all ranks, as a role."""


@dataclass(frozen=True, eq=False)
class Rank:
    """A distinct trace of a job. ``columns``: what tells it from other traces of the job, by name."""

    job: int
    columns: dict[str, int]
    nodes: Nodes
    said: tuple[tuple[str, int, object], ...]
    numbers: dict[str, int]
    """Of the trace's metadata."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A trace read by the loops: iterations of each loop, and of each node the iteration of its innermost loop."""

    rank: Rank
    iterations: list[Iterations]
    own: Ints


def ranks_of(jobs: Sequence[Job], roles: Roles) -> list[Rank]:
    """The distinct traces of the jobs, but for those that no rank runs; where their places do not tell those of a job
    apart, the first and the last rank of each."""
    found = [[*_ranks(number, job, roles, False)] for number, job in enumerate(jobs)]
    names = rank_names([rank.columns for own in found for rank in own])
    if all(len({tuple(rank.columns.get(name, -2) for name in names) for rank in own}) == len(own) for own in found):
        return [rank for own in found for rank in own]
    return [rank for number, job in enumerate(jobs) for rank in _ranks(number, job, roles, True)]


def rank_names(every: Sequence[Mapping[str, int]]) -> list[str]:
    """Of columns of ranks those that all have but ones of jobs without such groups."""
    here = [{name.split(" in ", 1)[1] for name in columns} for columns in every]
    pairs = list(zip(every, here, strict=True))
    return sorted(
        name for name in {name for columns in every for name in columns}
        if all(name in columns or name.split(" in ", 1)[1] not in own for columns, own in pairs)
    )  # fmt: skip


def _ranks(number: int, job: Job, roles: Roles, apart: bool) -> Iterator[Rank]:
    places = places_of(job.process_groups, job.ranks)
    for at, trace in enumerate(job.traces):
        members = np.flatnonzero(job.trace_of_rank == at)
        if not len(members):
            continue
        said, numbers = metadata(trace.meta, trace)
        nodes = _by_id(roles.nodes(trace), trace.ids)
        for few in np.unique(members[[0, -1]])[:, None] if apart else (members,):
            columns = {name: int(of[few[0]]) for name, of in places.items() if (of[few] == of[few[0]]).all()}
            yield Rank(number, columns, nodes, said, numbers)


def _by_id(nodes: Nodes, ids: NDArray[np.uint64]) -> Nodes:
    """The nodes in the order of their ids, in which they run, whatever that of the file is."""
    order = np.argsort(ids, kind="stable")
    if (np.diff(order) == 1).all():
        return nodes
    place = np.argsort(order).tolist()
    role, numbers = ([each[i] for i in order] for each in (nodes.role, nodes.numbers))
    ctrl, data = ([tuple(place[one] for one in each[i]) for i in order] for each in nodes.waits)
    return replace(nodes, role=role, numbers=numbers, waits=(ctrl, data))


def places_of(groups: Mapping[str, Sequence[Sequence[int]]], ranks: int) -> dict[str, Ints]:
    """int64[ranks] by name: where each rank stands in its group of a role, the same from its end, and the group's size;
    -1 for ranks in none. All ranks are such a group, too."""
    found = {}
    for role, listed in {ALL: (range(ranks),), **groups}.items():
        position, size = np.full(ranks, -1, np.int64), np.full(ranks, -1, np.int64)
        for group in listed:
            position[list(group)] = np.arange(len(group))
            size[list(group)] = len(group)
        found[f"position in {role}"] = position
        found[f"behind in {role}"] = np.where(position < 0, -1, size - 1 - position)
        found[f"size in {role}"] = size
    return found


def read_by_loops(
    ranks: Sequence[Rank], roles: Sequence[Role], looks: Looks
) -> tuple[Loop, dict[int, Place], list[Reading]]:
    """The loops of all traces, where each role stands, and the traces read by them."""
    words = words_of([rank.nodes for rank in ranks], roles)
    loop, begins = order_of([rank.nodes.role for rank in ranks], words, looks)
    where = places(loop)
    count = 1 + sum(1 for _ in inner_loops(loop))
    both = zip(ranks, begins, strict=True)
    return loop, where, [Reading(rank, *read_trace(rank.nodes.role, where, count, own)) for rank, own in both]
