"""Which process groups grow with the number of data-parallel replicas, and which every replica has for itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.groups import EVERYONE
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import NodeType

ALL: Final = "all ranks"
"""How the group of all ranks is called in reports; on the command line it is 0."""
REPLICA: Final = "replica"
"""The role of the ranks of one replica, for messages and collectives of all of them."""

_REPLICA = re.compile(rf"(^|\.){REPLICA}[0-9]*$")
"""Groups that retargeting has made before."""

Groups = tuple[tuple[int, ...], ...]

_GROWS = frozenset(("dp", "ddp", "fsdp", "hsdp", "sdp", "edp", "data", "zero", "replicate", "shard"))
_STAYS = frozenset(
    ("tp", "sp", "pp", "ep", "cp", "mp", "vp", "etp", "tensor", "sequence", "pipe", "pipeline", "expert")
)
_STAYS |= {"context", "model", "embedding", "embd"}
"""Words in names of groups: "expert_dp" and "data_parallel" grow, "tp" and "expert_parallel" do not."""


@dataclass(frozen=True)
class Fate:
    """What becomes of the groups of one role.

    Attributes
    ----------
    role: its name in the traces; "" of all ranks.
    before, after: the groups, by rank.
    grows: whether its groups take in the members of all replicas, else every replica has groups of its own.
    why: what that is taken from.
    """

    role: str
    before: Groups
    after: Groups
    grows: bool
    why: str

    @property
    def title(self) -> str:
        """The name for people."""
        return self.role or ALL

    @property
    def members(self) -> tuple[int, int]:
        """Members of the largest group, before and after."""
        return max(map(len, self.before)), max(map(len, self.after), default=0)


@dataclass(frozen=True)
class Use:
    """How a job's traces use a role: collectives and messages, and whether collectives need it."""

    collectives: int = 0
    messages: int = 0


def role_of(name: str) -> str:
    """The role that a ``pg_name`` means: all names of the group of all ranks are one."""
    return "" if name in EVERYONE else name


def uses_of(job: Job) -> dict[str, Use]:
    """By role: the nodes that use it, over all traces."""
    found: dict[str, Use] = {}
    for trace in job.traces:
        for role, nodes in nodes_by_role(trace).items():
            collective = int((trace.types[nodes] == int(NodeType.COMM_COLL_NODE)).sum())
            known = found.get(role, Use())
            found[role] = Use(known.collectives + collective, known.messages + len(nodes) - collective)
    return found


def nodes_by_role(trace: Trace) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The communication nodes of each role, ascending."""
    talks = np.flatnonzero(trace.types >= int(NodeType.COMM_SEND_NODE))
    column = trace.attr("pg_name")
    texts = np.where(column.present[talks], column.bits[talks].astype(np.int64), 0)
    found: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    for index in np.unique(texts).tolist():
        role = role_of(trace.strings[index])
        nodes = talks[texts == index]
        found[role] = np.union1d(found[role], nodes) if role in found else nodes
    return found


def decide(job: Job, ranks: int, grow: Collection[str], keep: Collection[str], source: str) -> list[Fate]:
    """The fate of every role that is used, and of those that are only listed.

    Raises InputError for names that no group has, where no group with collectives grows, and where groups that stay
    cross the border of a smaller job.
    """
    uses = uses_of(job)
    listed = {role: tuple(map(tuple, groups)) for role, groups in job.process_groups.items()}
    roles: dict[str, Groups] = {role: listed[role] for role in (*uses, *listed) if role in listed}
    if "" in uses and uses[""].collectives:
        roles = {"": (tuple(range(job.ranks)),), **roles}
    wanted = {role_of(name): True for name in grow} | {role_of(name): False for name in keep}
    _check_names(wanted, roles, grow, keep, source)
    single = _single_replica(roles, uses) if job.ranks > 1 else ""
    fates = []
    for role, groups in roles.items():
        if not role and single and role not in wanted:
            grows, why = False, f"groups {single} have one member: all ranks share one replica"
        else:
            grows, why = _decision(role, groups, job.ranks, uses.get(role, Use()), wanted)
        whole = not grows and uses.get(role, Use()).collectives > 0
        after = _after(groups, grows, job.ranks, ranks)
        if ranks < job.ranks and whole:
            _check_whole(role, groups, ranks, source)
        fates.append(Fate(role, groups, after, grows, why))
    if ranks != job.ranks and not any(fate.grows and uses.get(fate.role, Use()).collectives for fate in fates):
        raise InputError(
            "no process group with collectives is data-parallel: the replicas would have nothing to do with each other",
            file=source,
            found=", ".join(f"{fate.title} ({fate.why})" for fate in fates[:8]) or "no collectives",
            remedy=_remedy(job, fates),
        )
    return fates


def _single_replica(roles: Mapping[str, Groups], uses: Mapping[str, Use]) -> str:
    """The name of data-parallel groups, by their name, where all such have one member and nothing to do; "" where that
    is not so."""
    named = [role for role in roles if _words(role) & _GROWS and not _REPLICA.search(role)]
    idle = (len(members) == 1 and not uses.get(role, Use()).collectives for role in named for members in roles[role])
    return next(iter(named), "") if all(idle) else ""


def _words(role: str) -> set[str]:
    return set(re.findall("[a-z]+", role.lower()))


def _remedy(job: Job, fates: Sequence[Fate]) -> str:
    if any(not fate.grows for fate in fates):
        return (
            "say with --grow GROUP which group the gradients are reduced in (0: all ranks); if none is, record more "
            "than one replica"
        )
    what = (
        "more than one data-parallel replica" if job.ranks > 1 else "two ranks, a single one shows no data parallelism"
    )
    return f"record {what}, or use chakrasim generate or capture"


def _check_names(
    wanted: Mapping[str, bool], roles: Mapping[str, Groups], grow: Collection[str], keep: Collection[str], source: str
) -> None:
    for role in wanted:
        if role not in roles:
            known = ", ".join(name or "0 (all ranks)" for name in roles) or "none"
            raise InputError(f"there is no process group {role or '0'!r}", file=source, found=f"groups {known}")
    both = {role_of(name) for name in grow} & {role_of(name) for name in keep}
    if both:
        raise InputError("a process group cannot both grow and stay", file=source, found=", ".join(sorted(both)))


def _decision(role: str, groups: Groups, ranks: int, use: Use, wanted: Mapping[str, bool]) -> tuple[bool, str]:
    """Whether a role grows, and why: what was said, its name, its members, in this order."""
    if role in wanted:
        return wanted[role], "as asked for"
    words = _words(role)
    if _REPLICA.search(role):
        return False, "by its name"
    if words & _GROWS or words & _STAYS:
        return bool(words & _GROWS), "by its name"
    if any(len(members) == ranks for members in groups):
        return True, "it has all ranks: taken as data-parallel"
    if use.messages and not use.collectives:
        return False, "it has messages only: taken as a pipeline"
    if all(len(members) == 1 for members in groups):
        return False, "it has one member"
    steps = {right - left for members in groups for left, right in pairwise(members)}
    if steps == {1}:
        return False, "its members are neighbours: taken as tensor-parallel or the like"
    if use.messages:
        return False, "it has messages: taken as a pipeline"
    return True, "its members are apart: taken as data-parallel"


def _after(groups: Groups, grows: bool, before: int, after: int) -> Groups:
    """The groups of the job of another size: replica k has the ranks from ``before`` * k on."""
    if after >= before:
        copies = range(after // before)
        if grows:
            return tuple(tuple(rank + before * k for k in copies for rank in members) for members in groups)
        return tuple(tuple(rank + before * k for rank in members) for k in copies for members in groups)
    cut = (tuple(rank for rank in members if rank < after) for members in groups)
    return tuple(members for members in cut if members)


def _check_whole(role: str, groups: Groups, ranks: int, source: str) -> None:
    """Raise InputError for groups of collectives that stay, but not all of whose members do."""
    for members in groups:
        if any(rank < ranks for rank in members) and max(members) >= ranks:
            raise InputError(
                f"process group {role or ALL!r} does not fit into {ranks} ranks",
                file=source,
                found=f"members {list(members)[:8]}",
                expected="groups that stay as they are lie within the ranks that stay",
                remedy="choose a larger number of ranks, or say that the group is data-parallel (--grow)",
            )
