"""Files of a job as one `Job`: traces, and the members of every process group that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import InputError
from chakrasim.files.job_formats import foreign_kind
from chakrasim.machine.groups import GroupSource, load_groups
from chakrasim.notes import Notes
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.foreign.read import read_foreign
from chakrasim.trace.job.file import is_job, ranks_file, read_job
from chakrasim.trace.job.groups import EVERYONE, named_groups, root_column
from chakrasim.trace.job.job import Job
from chakrasim.trace.job.ranks import read
from chakrasim.trace.kinds import INT64, NodeType

PathLike = str | os.PathLike[str]


def load_job(
    prefix: PathLike, *, comm_group: GroupSource | None = None, lenient: bool = False, notes: Notes | None = None
) -> Job:
    """The job of ``PREFIX.ranks.json``, of another maker's format, or of ``PREFIX.0.et``, ... and a group file.

    A group file is ASTRA-sim's; each of its groups becomes a role of its own, called by its number. Without
    ``comm_group`` it is looked for beside the traces: ``PREFIX.comm_group.json``, ``comm_group.json``.

    Raises InputError for files that cannot be used. Whether the groups are known is for `check_groups`.
    """
    said = Notes() if notes is None else notes
    given = os.fspath(prefix)
    if is_job(given):
        job = read_job(given, lenient=lenient, notes=said)
        if comm_group is not None:
            said.warn(f"{ranks_file(given)} states the process groups: the group file has no effect")
        return job
    if foreign_kind(given):
        return read_foreign(given, notes=said)
    traces = read(given, lenient=lenient, notes=said)
    source = comm_group if comm_group is not None else find_group_file(given)
    return job_of(traces, load_groups(source, said).members if source is not None else {})


def find_group_file(prefix: str) -> str | None:
    """The group file beside the traces of ``prefix``, None if there is none."""
    beside = (f"{prefix}.comm_group.json", os.path.join(os.path.dirname(prefix), "comm_group.json"))
    return next((path for path in beside if os.path.isfile(path)), None)


def job_of(traces: Sequence[Trace], groups: Mapping[int, Sequence[int]]) -> Job:
    """A job of one trace per rank (the same object may stand for several) and numbered groups.

    In the traces the roots of collectives are ranks, in a job positions in the group. Raises InputError for a root that
    is no member.
    """
    distinct: dict[int, int] = {}
    which = np.array([distinct.setdefault(id(trace), len(distinct)) for trace in traces], np.int64)
    first = {index: trace for trace, index in zip(reversed(traces), which[::-1].tolist(), strict=True)}
    roles = {str(number): (tuple(members),) for number, members in groups.items()}
    return Job(tuple(_with_positions(first[index], roles) for index in range(len(distinct))), which, roles)


def _with_positions(trace: Trace, roles: Mapping[str, tuple[tuple[int, ...], ...]]) -> Trace:
    """The trace with the roots of collectives as positions in their groups."""
    changes = []
    for role, nodes in named_groups(trace).of_role(roles):
        collectives = nodes[trace.types[nodes] == int(NodeType.COMM_COLL_NODE)]
        column = root_column(trace, collectives)
        if column is None:
            continue
        ranks, members = column.integers(-1), roles[role][0]
        rooted = collectives[ranks[collectives] >= 0]
        outside = rooted[~np.isin(ranks[rooted], members)]
        if len(outside):
            raise InputError(
                f"the root of a collective is not in its group {role}",
                file=trace.source,
                place=trace.place(int(outside[0])),
                found=f"rank {ranks[outside[0]]}",
                expected=f"one of {list(members)[:8]}",
            )
        positions = np.array([members.index(rank) for rank in ranks[rooted].tolist()], np.int64)
        changes.append(Change(column.name, INT64, rooted, positions))
    return edited(trace, changes) if changes else trace


def check_groups(job: Job, source: str, groups_file: str | None = None) -> None:
    """Raise InputError unless the members of every group that a node names are known, and are ranks of the job.
    ``groups_file``: where the groups stand, if not in ``source``."""
    said = [trace.metadata.get("world_size") for trace in job.traces]
    stated = max((size for size in said if isinstance(size, int)), default=1)
    if job.ranks < stated:
        raise InputError(
            "these are not all ranks of the job",
            file=source,
            found=f"traces of {job.ranks} of {stated} ranks",
            expected="one trace for each rank",
            remedy=f"trace all {stated} ranks, or make the job without traces: chakrasim generate, chakrasim capture",
        )
    for role, groups in job.process_groups.items():
        largest = max((max(members) for members in groups if members), default=0)
        if largest >= job.ranks:
            raise InputError(
                f"process group {role} names a rank without a trace",
                file=groups_file or source,
                found=f"rank {largest}",
                expected=f"ranks 0 to {job.ranks - 1}",
                remedy="give the traces of all ranks, or the group file that belongs to them",
            )
    for trace in job.traces:
        for name in named_groups(trace).names:
            if name not in EVERYONE and name not in job.process_groups:
                raise InputError(
                    f"the members of process group {name!r} are not known",
                    file=trace.source,
                    found=f"groups {', '.join(list(job.process_groups)[:8]) or 'none'}",
                    remedy="give the group file with --comm-group",
                )


def members_of(job: Job, role: str, rank: int) -> tuple[int, ...]:
    """The members of the group of ``role`` to which ``rank`` belongs; () if it belongs to none."""
    if role in job.process_groups:
        return next((members for members in job.process_groups[role] if rank in members), ())
    return tuple(range(job.ranks)) if role in EVERYONE else ()
