"""Several jobs on one network: each on ranks of its own, from a time of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.simulator.context import Context
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.trace import Job

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlacedJob:
    """A job, the ranks of the machine that run its ranks 0, 1, ... (int64[job's ranks]), and when it starts."""

    name: str
    job: Job
    ranks: Ints
    start_ns: int = 0
    groups: Mapping[int, tuple[int, ...]] | None = None
    """Process groups of the job's traces, by its own ranks."""


@dataclass(frozen=True)
class SharedLink:
    """A link that several jobs used, and the bytes of each by name, most of all first."""

    name: str
    bytes: dict[str, int]


@dataclass(frozen=True)
class JobFigures:
    """When a job ended, beside others and alone on the same ranks, and what it shared.

    ``slowdown`` is its time beside others over its time alone. ``exposed_comm_ns`` is the time beside others in which a
    rank communicates and computes nothing, mean over its ranks. Times of what cannot end are None; then ``error`` says
    why: a rank or links are down, or ranks wait for what never comes.
    """

    name: str
    ranks: tuple[int, ...]
    start_ns: int
    finish_ns: int | None
    alone_ns: int | None
    slowdown: float | None
    exposed_comm_ns: int
    shared_links: tuple[SharedLink, ...] = ()
    error: str = ""


def check_placement(job: PlacedJob, machine_ranks: int, owner: dict[int, str]) -> None:
    """Raise InputError for a job on ranks that are not there, or that another runs on, or that bears another's name.

    ``owner`` has the jobs so far by rank, and gets this one.
    """
    if len(job.ranks) != job.job.ranks:
        raise InputError(
            f"job {job.name} has {job.job.ranks} ranks, but is placed on {len(job.ranks)}",
            expected="one rank of the machine for each rank of the job",
        )
    if job.name in owner.values():
        raise InputError(f"two jobs are called {job.name}", expected="names of their own")
    for rank in job.ranks.tolist():
        if not 0 <= rank < machine_ranks:
            expected = f"ranks of the machine, 0 to {machine_ranks - 1}"
            raise InputError(f"job {job.name} is placed on rank {rank}", expected=expected)
        if rank in owner:
            whom = f"job {owner[rank]} and to job {job.name}" if owner[rank] != job.name else f"job {job.name} twice"
            raise InputError(f"rank {rank} is given to {whom}", remedy="place each rank on a rank of its own")
        owner[rank] = job.name


@dataclass(frozen=True, eq=False)
class Placed:
    """The graphs of a job as ranks of the machine run them, and its groups by numbers that no other job has."""

    graphs: list[Graph]
    groups: dict[int, tuple[int, ...]]


def place(job: PlacedJob, graphs: Sequence[Graph], context: Context, first_group: int) -> Placed:
    """Put a job's graphs, lowered by its own ranks, on the machine; its groups are numbered from ``first_group``.

    The group of all ranks becomes one of its own, so that collectives of it are those of the job.
    """
    used = sorted({group for graph in graphs for group in graph.groups})
    number = {group: first_group + i for i, group in enumerate(used)}
    everyone = tuple(range(len(job.ranks)))
    groups = {number[group]: tuple(job.ranks[list(context.groups.get(group, everyone))].tolist()) for group in used}
    uses: dict[CollectiveUse, CollectiveUse] = {}
    placed = []
    for graph in graphs:
        for use in graph.uses:
            root = int(job.ranks[use.root]) if use.root >= 0 else use.root
            uses.setdefault(use, replace(use, group=number[use.group], root=root, involved=None))
        placed.append(
            replace(
                graph,
                shared=graph.columns,
                uses=tuple(uses[use] for use in graph.uses),
                groups=tuple(number[group] for group in graph.groups),
                peers=job.ranks[graph.peers],
                own_rank={node: int(job.ranks[rank]) for node, rank in graph.own_rank.items()},
            )
        )
    return Placed(placed, groups)
