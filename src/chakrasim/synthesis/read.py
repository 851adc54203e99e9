"""Jobs as examples: their parameters, the place of each trace among the ranks, and every trace read by the loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.synthesis.expressions import Ints
from chakrasim.synthesis.loops import Iterations, Looks, Loop, Place, inner_loops, loops_of, places, read_trace
from chakrasim.synthesis.roles import Nodes, Roles, metadata
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


def ranks_of(number: int, job: Job, roles: Roles) -> list[Rank]:
    """The distinct traces of a job, but for those that no rank runs."""
    found = []
    places = places_of(job.process_groups, job.ranks)
    for at, trace in enumerate(job.traces):
        members = np.flatnonzero(job.trace_of_rank == at)
        if not len(members):
            continue
        said, numbers = metadata(trace.meta, trace)
        columns = {name: int(of[members[0]]) for name, of in places.items() if (of[members] == of[members[0]]).all()}
        found.append(Rank(number, columns, roles.nodes(trace), said, numbers))
    return found


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


def read_by_loops(ranks: Sequence[Rank], looks: Looks) -> tuple[Loop, dict[int, Place], list[Reading]]:
    """The loops of all traces, where each role stands, and the traces read by them."""
    loop = loops_of((rank.nodes.role for rank in ranks), looks)
    where = places(loop)
    count = 1 + sum(1 for _ in inner_loops(loop))
    return loop, where, [Reading(rank, *read_trace(rank.nodes.role, where, count)) for rank in ranks]
