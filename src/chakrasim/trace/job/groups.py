"""Process groups of a job: checked, numbered, and looked up by role and rank.

Where Chakra files and ASTRA-sim know groups by number only, the groups of a job are counted from 1, role by role in
the order of ``Job.process_groups``. Numbers that the traces use for groups of a group file are passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import AttrColumn, Trace
from chakrasim.trace.job.job import PEER, Job
from chakrasim.trace.kinds import STRING, NodeType

Ints = NDArray[np.int64]

EVERYONE: Final = ("", "0")
"""Names of the group of all ranks; no role may be called so."""
ROOTS: Final = ("root_rank", "root")
"""Attributes that name a collective's root: where its group is a role, by the position in it."""


@dataclass(frozen=True, eq=False)
class JobGroups:
    """Numbered process groups.

    Attributes
    ----------
    members: by number, the ranks of the group in the order of its ring.
    of_rank: by role, int64[ranks]: the number of the group to which each rank belongs, 0 where it is in none.
    """

    members: Mapping[int, tuple[int, ...]]
    of_rank: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class NamedGroups:
    """What ``pg_name`` says on communication nodes: ``nodes`` int64[k] that carry it, and of which of ``names``."""

    nodes: Ints
    names: tuple[str, ...]
    which: Ints

    def of_role(self, roles: Collection[str]) -> Iterator[tuple[str, Ints]]:
        """Each name that is a role, and the nodes that use it."""
        for index, name in enumerate(self.names):
            if name in roles:
                yield name, self.nodes[self.which == index]


def named_groups(trace: Trace) -> NamedGroups:
    """The groups that a trace's communication nodes name. Raises InputError where the name is no string."""
    column = trace.attr("pg_name")
    nodes = np.flatnonzero(column.present & (trace.types >= int(NodeType.COMM_SEND_NODE)))
    wrong = nodes[column.kind[nodes] != STRING]
    if len(wrong):
        column.string(int(wrong[0]))
    indices, which = np.unique(column.bits[nodes].astype(np.int64), return_inverse=True)
    return NamedGroups(nodes, tuple(trace.strings[index] for index in indices.tolist()), which.reshape(-1))


def root_column(trace: Trace, nodes: Ints) -> AttrColumn | None:
    """The attribute that names the roots of some collectives, if there is one."""
    for name in ROOTS:
        column = trace.attr(name)
        if column.present[nodes].any():
            return column
    return None


def is_number(name: str) -> bool:
    """Whether a group's name is the number of a group in a group file, which has ten digits at most."""
    return name.strip().isascii() and name.strip().isdigit() and len(name.strip()) < 19


def number_groups(job: Job, taken: Collection[int] = ()) -> JobGroups:
    """Number a job's groups; numbers in ``taken`` and those that its traces use themselves are passed over."""
    passed = set(taken)
    for trace in job.traces:
        passed |= {int(name) for name in named_groups(trace).names if is_number(name)}
    members: dict[int, tuple[int, ...]] = {}
    of_rank: dict[str, Ints] = {}
    number = 0
    for role, groups in job.process_groups.items():
        own = of_rank[role] = np.zeros(job.ranks, np.int64)
        for ranks in groups:
            number += 1
            while number in passed:
                number += 1
            members[number] = tuple(int(rank) for rank in ranks)
            own[list(ranks)] = number
    return JobGroups(members, of_rank)


# -- checks ------------------------------------------------------------------------------------------------------------


def check_job(job: Job, source: str = "<job>") -> None:
    """Raise InputError for a job that makes no sense: the place is that of a ranks file, or a node of a trace."""
    which = np.asarray(job.trace_of_rank)
    if which.ndim != 1 or which.dtype.kind not in "iu" or not len(which):
        raise wrong(
            source, "$.file_of_rank", "not a list of traces by rank", repr(which)[:60], "an index for every rank"
        )
    outside = np.flatnonzero((which < 0) | (which >= len(job.traces)))
    if len(outside):
        rank = int(outside[0])
        expected = f"0 to {len(job.traces) - 1}" if job.traces else "an index of a trace, but there is none"
        raise wrong(source, f"$.file_of_rank[{rank}]", "there is no such trace", int(which[rank]), expected)
    sizes = check_groups(job.process_groups, job.ranks, source)
    for index, trace in enumerate(job.traces):
        _check_trace(trace, np.flatnonzero(which == index), sizes, source)


def check_groups(process_groups: Mapping[str, Sequence[Sequence[int]]], ranks: int, source: str) -> dict[str, Ints]:
    """By role, int64[ranks]: the size of each rank's group, 0 where it is in none.

    Raises InputError unless every rank named exists and is in at most one group of a role, and no group is empty.
    """
    sizes = {}
    for role, groups in process_groups.items():
        place = f"$.process_groups.{role}"
        if role.strip() in EVERYONE:
            raise wrong(source, place, "this name stands for all ranks", repr(role), "another name for the role")
        empty = next((index for index, members in enumerate(groups) if not len(members)), None)
        if empty is not None:
            raise wrong(source, f"{place}[{empty}]", "the group has no members", "[]", "at least one rank")
        flat = list(chain.from_iterable(groups))
        if not all(type(rank) is int or isinstance(rank, np.integer) for rank in flat):
            _locate(groups, ranks, place, source)
        if flat and (min(flat) < 0 or max(flat) >= ranks):
            _locate(groups, ranks, place, source)
        members = np.array(flat, np.int64)
        if len(members) and np.bincount(members).max() > 1:
            _locate(groups, ranks, place, source)
        lengths = np.array([len(group) for group in groups], np.int64)
        sizes[role] = np.zeros(ranks, np.int64)
        sizes[role][members] = np.repeat(lengths, lengths)
    return sizes


def _locate(groups: Sequence[Sequence[object]], ranks: int, place: str, source: str) -> None:
    """Refuse the first member at fault."""
    group_of: dict[int, int] = {}
    for index, members in enumerate(groups):
        for position, rank in enumerate(members):
            here = f"{place}[{index}][{position}]"
            if isinstance(rank, bool) or not isinstance(rank, int | np.integer):
                raise wrong(source, here, "not a rank", repr(rank)[:40], "an integer")
            elif not 0 <= rank < ranks:
                raise wrong(source, here, "no such rank", int(rank), f"0 to {ranks - 1}")
            elif rank in group_of:
                message = f"the rank is in group {group_of[int(rank)]} of this role too"
                raise wrong(source, here, message, int(rank), "every rank once in a role")
            else:
                group_of[int(rank)] = index


def _check_trace(trace: Trace, ranks: Ints, sizes: Mapping[str, Ints], source: str) -> None:
    """Every role of a trace is known, and every rank that runs it is in a group large enough for what is named."""
    named = named_groups(trace)
    for index, name in enumerate(named.names):
        if name not in sizes and name not in EVERYONE and not is_number(name):
            raise InputError(
                f"process group {name!r} is no role of the job",
                file=trace.source,
                place=trace.place(int(named.nodes[named.which == index][0])),
                expected=f"one of the roles ({', '.join(map(repr, sizes)) or 'none'}), or the number of a group",
                remedy=f"add the role to the process groups of {source}",
            )
    _check_messages(trace, named, sizes)
    for role, nodes in named.of_role(sizes):
        own = sizes[role][ranks]
        if len(own) and not own.all():
            message = f"rank {int(ranks[own == 0][0])} runs this trace, but is in no group of role {role!r}"
            raise InputError(message, file=trace.source, place=trace.place(int(nodes[0])), remedy="add it to a group")
        if len(own):
            _check_positions(trace, role, nodes, int(own.min()))


def _check_messages(trace: Trace, named: NamedGroups, sizes: Mapping[str, Ints]) -> None:
    """A peer given by its position belongs to a role or to all ranks, and is not given by its rank too."""
    peer = trace.attr(PEER).present & (trace.types >= int(NodeType.COMM_SEND_NODE))
    both = np.flatnonzero(peer & (trace.attr("comm_src").present | trace.attr("comm_dst").present))
    if len(both):
        raise InputError(
            f"the peer is given twice, by {PEER} and by comm_src or comm_dst",
            file=trace.source,
            place=trace.place(int(both[0])),
            expected=f"{PEER} alone in a shared trace",
        )
    for index, name in enumerate(named.names):
        nodes = named.nodes[(named.which == index) & peer[named.nodes]]
        if len(nodes) and name not in sizes and name not in EVERYONE:
            message = f"{PEER} is a position in the group of a role, and {name!r} is none"
            raise InputError(message, file=trace.source, place=trace.place(int(nodes[0])))


def _check_positions(trace: Trace, role: str, nodes: Ints, size: int) -> None:
    """Peers and roots are positions in the smallest of the groups that are meant."""
    collective = trace.types[nodes] == int(NodeType.COMM_COLL_NODE)
    for column, chosen in ((trace.attr(PEER), ~collective), (root_column(trace, nodes), collective)):
        if column is None:
            continue
        own = nodes[chosen & column.present[nodes]]
        position = column.integers()[own]
        # A root of -1 is none.
        bad = np.flatnonzero((position >= size) | ((position < 0) & (column.name == PEER)))
        if len(bad):
            raise InputError(
                f"attribute {column.name!r} is no position in the group of role {role!r}",
                file=trace.source,
                place=trace.place(int(own[bad[0]])),
                found=int(position[bad[0]]),
                expected=f"0 to {size - 1}",
            )


def wrong(source: str, place: str | None, message: str, found: object, expected: str) -> InputError:
    """The error at a place of a ranks file."""
    return InputError(message, file=source, place=place, found=found, expected=expected)
