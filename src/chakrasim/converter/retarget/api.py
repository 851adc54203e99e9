"""`retarget`: the traces of a run on some ranks as those of a run on another number, by data parallelism."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from chakrasim.converter.retarget.groups import REPLICA, Fate, Groups, decide
from chakrasim.converter.retarget.job_input import PathLike, check_groups, find_group_file, load_job
from chakrasim.converter.retarget.traces import Rescaler
from chakrasim.errors import InputError
from chakrasim.machine.groups import GroupSource
from chakrasim.notes import Notes
from chakrasim.trace.job.file import is_job
from chakrasim.trace.job.groups import check_job
from chakrasim.trace.job.job import MAX_RANKS, Job

FORMAT = "chakrasim-retarget-1"


@dataclass(frozen=True)
class Retargeted:
    """A job of another size.

    Attributes
    ----------
    job: its traces, for `write_job` and `simulate`.
    source: what it was made of.
    ranks_before, ranks: how many there were and are.
    fates: what became of the process groups.
    assumptions: sentences, and how many nodes of the traces each concerns.
    warnings: what reading the traces said.
    """

    job: Job
    source: str
    ranks_before: int
    ranks: int
    fates: tuple[Fate, ...]
    assumptions: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format": FORMAT,
            "source": self.source,
            "ranks_before": self.ranks_before,
            "ranks": self.ranks,
            "traces": len(self.job.traces),
            "process_groups": [
                {
                    "name": fate.title,
                    "grows": fate.grows,
                    "why": fate.why,
                    "groups": [len(fate.before), len(fate.after)],
                    "members": list(fate.members),
                }
                for fate in self.fates
            ],
            "assumptions": [{"what": what, "nodes": nodes} for what, nodes in self.assumptions],
            "warnings": list(self.warnings),
        }


def retarget(
    source: PathLike | Job,
    to: int,
    *,
    comm_group: GroupSource | None = None,
    grow: Collection[str] = (),
    keep: Collection[str] = (),
    lenient: bool = False,
) -> Retargeted:
    """The job of ``source`` on ``to`` ranks: more or fewer data-parallel replicas of what it does.

    Replica k has the ranks from R * k on, R being the ranks of the source; rank r of each does what rank r did. Groups
    that are data-parallel grow: they have the members of all replicas. All others every replica has for itself. What
    becomes of sizes is said in `RULES`; fewer ranks is the inverse.

    Raises InputError where that cannot be done, or where the members of groups are not known.

    Parameters
    ----------
    source:
        A prefix of Chakra traces of all ranks, or a job in memory.
    to:
        A multiple or a divisor of the number of ranks.
    comm_group:
        The group file; by default the one beside the traces.
    grow, keep:
        Names of groups that do or do not grow with the number of replicas ("0": all ranks). By default a name tells
        (dp, fsdp, tp, pp, ...), else a group of all ranks grows, one of neighbours or with messages does not, one of
        ranks that lie apart does.
    lenient:
        As in `chakrasim.read`.
    """
    notes = Notes()
    job = source if isinstance(source, Job) else load_job(source, comm_group=comm_group, lenient=lenient, notes=notes)
    name = "<memory>" if isinstance(source, Job) else os.fspath(source)
    check_groups(job, name, None if isinstance(source, Job) else _groups_file(name, comm_group))
    _check_ranks(job, to, name)
    fates = decide(job, to, grow, keep, name)
    rescaler = Rescaler({fate.role: fate for fate in fates}, job.ranks, to, _free_name(job))
    which = np.asarray(job.trace_of_rank)
    lead = min(job.ranks, to)
    kept, trace_of_rank = np.unique(which[:lead], return_inverse=True)
    traces = tuple(
        job.traces[index]
        if job.ranks == to
        else rescaler.rescaled(job.traces[index], int(np.flatnonzero(which == index)[0]))
        for index in kept.tolist()
    )
    made = Job(traces, np.tile(trace_of_rank.astype(np.int64), to // lead), _roles(fates, rescaler, job.ranks, to))
    check_job(made, name)
    return Retargeted(made, name, job.ranks, to, tuple(fates), _assumptions(rescaler, job, to), notes.warnings)


def _free_name(job: Job) -> str:
    """A name for the ranks of one replica that no role has: a job may be retargeted again."""
    names = (f"{REPLICA}{number}" if number else REPLICA for number in count())
    return next(name for name in names if name not in job.process_groups)


def _groups_file(prefix: str, comm_group: GroupSource | None) -> str | None:
    """The file that states the groups, None if that is the job itself or a mapping."""
    given = comm_group if comm_group is not None else find_group_file(prefix)
    return os.fspath(given) if isinstance(given, str | os.PathLike) and not is_job(prefix) else None


def _check_ranks(job: Job, to: int, source: str) -> None:
    ranks = job.ranks
    if not 1 <= to <= MAX_RANKS:
        raise InputError("the number of ranks is out of range", found=to, expected=f"1 to {MAX_RANKS}")
    if to % ranks and ranks % to:
        down, up = to // ranks * ranks, -(-to // ranks) * ranks
        near = f"{down} or {up}" if down else f"{up}, or a divisor of {ranks}"
        raise InputError(
            "the number of ranks is neither a multiple nor a divisor of the trace's",
            file=source,
            found=f"{to} for {ranks} ranks",
            expected="a whole number of data-parallel replicas",
            remedy=f"give --to {near}",
        )


def _roles(fates: list[Fate], rescaler: Rescaler, before: int, after: int) -> dict[str, Groups]:
    """The process groups of the new job; all ranks need no role."""
    roles = {fate.role: fate.after for fate in fates if fate.role and fate.after}
    size = min(before, after)
    if rescaler.replica in rescaler.inside:
        roles[rescaler.replica] = tuple(tuple(range(low, low + size)) for low in range(0, after, size))
    for fate in fates:
        name = rescaler.inside_name(fate.role)
        if fate.role and name in rescaler.inside:
            own = [tuple(rank for rank in members if rank < size) for members in fate.before]
            copies = range(after // size)
            roles[name] = tuple(
                tuple(rank + size * k for rank in members) for k in copies for members in own if members
            )
    return roles


def _assumptions(rescaler: Rescaler, job: Job, to: int) -> tuple[tuple[str, int], ...]:
    found = [(what, nodes) for what, nodes in rescaler.counts.items() if nodes]
    if to < job.ranks:
        found.insert(0, (f"the traces of ranks {to} to {job.ranks - 1} are left out", job.ranks - to))
    return tuple(found)
