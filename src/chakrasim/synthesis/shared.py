"""Jobs of one trace per rank, with groups by number, as jobs whose ranks share traces, with groups by role: groups that
nodes of the same names use have the same role, in all jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.synthesis.groups import shape_of
from chakrasim.synthesis.roles import holes
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.job.groups import is_number, named_groups
from chakrasim.trace.job.job import PEER, Job
from chakrasim.trace.kinds import INT64, STRING, NodeType

Use = tuple[int, int, str]
"""How a node uses a group: type, kind of collective, name without numbers."""
Group = tuple[int, str]
"""A job and the number of one of its groups."""
Talk = tuple[tuple[int, ...], ...]
"""Groups of ranks that send each other messages."""
ENDS: Final = ((NodeType.COMM_SEND_NODE, "comm_dst"), (NodeType.COMM_RECV_NODE, "comm_src"))
"""Messages, and what says with whom."""
Ways = dict[int, dict[str, tuple[int, ...]]]
"""By rank and role the members of its group."""


def shared(jobs: Sequence[Job]) -> list[Job]:
    """The jobs; those with groups by number get roles, and traces that are then equal are one."""
    numbered = [i for i, job in enumerate(jobs) if all(map(is_number, job.process_groups))]
    talks = {i: _talks(jobs[i]) for i in numbered}
    numbered = [i for i in numbered if jobs[i].process_groups or talks[i]]
    uses: dict[Group, set[Use]] = defaultdict(set)
    for i in numbered:
        for trace in jobs[i].traces:
            for role, nodes in named_groups(trace).of_role(jobs[i].process_groups):
                uses[i, role] |= set(_uses(trace, nodes))
    roles: dict[int, dict[str, str]] = defaultdict(dict)
    for (i, number), role in _roles(uses, jobs).items():
        roles[i][number] = role
    found = list(jobs)
    of_talks = _roles_of_talks(talks, [job.ranks for job in jobs], {i: _groups(jobs[i], roles[i]) for i in numbered})
    for i in numbered:
        more = {role: talks[i][what] for what, role in of_talks.items() if what in talks[i]}
        found[i] = _named(jobs[i], roles[i], more, of_talks)
    return found


def _talks(job: Job) -> dict[str, Talk]:
    """By name without numbers of messages that name no group: ranks that send each other such, as groups."""
    near: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for rank, index in enumerate(job.trace_of_rank.tolist()):
        for what, peer in _peers(job.traces[index]):
            near[what][rank].add(peer)
            near[what][peer].add(rank)
    return {what: _together_in(own) for what, own in near.items()}


def _peers(trace: Trace) -> Iterator[tuple[str, int]]:
    named = trace.attr("pg_name").present
    for type_, end in ENDS:
        column = trace.attr(end)
        nodes = np.flatnonzero((trace.types == int(type_)) & column.present & ~named)
        for node, peer in zip(nodes.tolist(), column.integers_or(-1)[nodes].tolist(), strict=True):
            yield holes(trace.name(node))[0], peer


def _together_in(near: Mapping[int, Collection[int]]) -> Talk:
    """The ranks that are connected, as groups in ascending order."""
    found, met = [], set[int]()
    for rank in sorted(near):
        if rank in met:
            continue
        group, more = {rank}, [rank]
        while more:
            fresh = {*near[more.pop()]} - group
            group |= fresh
            more += fresh
        met |= group
        found.append(tuple(sorted(group)))
    return tuple(found)


def _roles_of_talks(
    talks: Mapping[int, Mapping[str, Talk]], ranks: Sequence[int], groups: Mapping[int, Mapping[str, Talk]]
) -> dict[str, str]:
    """By kind of message the role of those who send each other such: one that has the same groups in all jobs, or where
    in all jobs they are every so many ranks one of its own."""
    own: dict[tuple[Talk, ...], str] = {}
    found = {}
    roles = sorted({role for each in groups.values() for role in each})
    for what in sorted({what for each in talks.values() for what in each}):
        here = {i: each.get(what, ()) for i, each in talks.items()}
        listed = tuple(here.values())
        same = [role for role in roles if all(not each or groups[i].get(role) == each for i, each in here.items())]
        if same:
            found[what] = same[0]
        elif all(shape_of(each, ranks[i]) for i, each in here.items()):
            found[what] = own.setdefault(listed, f"peers {len(own) + 1}")
    return found


def _groups(job: Job, role_of: Mapping[str, str]) -> dict[str, Talk]:
    """The groups of each role, in order."""
    groups: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for number, role in role_of.items():
        groups[role] += job.process_groups[number]
    return {role: tuple(sorted(own)) for role, own in sorted(groups.items())}


def _uses(trace: Trace, nodes: Ints) -> Iterator[Use]:
    kinds = trace.attr("comm_type").integers_or(-1)
    for node in nodes.tolist():
        yield int(trace.types[node]), int(kinds[node]), holes(trace.name(node))[0]


def _roles(uses: Mapping[Group, Collection[Use]], jobs: Sequence[Job]) -> dict[Group, str]:
    """The role of each group: groups that share a use are of one family, and a family of which a rank is in several
    groups has a role for each step between their members, the shortest first."""
    family: dict[Group | Use, Group | Use] = {}

    def first(one: Group | Use) -> Group | Use:
        while family.setdefault(one, one) != one:
            one = family[one]
        return one

    for group, own in uses.items():
        for use in own:
            family[first(group)] = first(use)
    members: dict[Group | Use, list[Group]] = defaultdict(list)
    for group in uses:
        members[first(group)].append(group)
    found: dict[Group, str] = {}
    for number, groups in enumerate(sorted(members.values(), key=min)):
        for group, rank in _by_step(groups, jobs).items():
            found[group] = f"group {number + 1}" + (f".{rank}" if rank else "")
    return found


def _by_step(groups: Sequence[Group], jobs: Sequence[Job]) -> dict[Group, int]:
    """By group 0, or where a rank is in several groups of the family which of them it is, by their steps."""
    found = dict.fromkeys(groups, 0)
    for job in {job for job, _ in groups}:
        own = {number: jobs[job].process_groups[number][0] for of, number in groups if of == job}
        steps = {number: (ranks[1] - ranks[0] if len(ranks) > 1 else 0, len(ranks)) for number, ranks in own.items()}
        distinct = sorted(set(steps.values()))
        if sum(map(len, own.values())) > len({rank for ranks in own.values() for rank in ranks}):
            found |= {(job, number): 1 + distinct.index(step) for number, step in steps.items()}
    return found


def _named(job: Job, role_of: Mapping[str, str], more: Mapping[str, Talk], of_talks: Mapping[str, str]) -> Job:
    """The job with roles in place of numbers, and with ``more`` of them; groups that no node uses are left out."""
    roles = {**more, **_groups(job, role_of)}
    ways: Ways = defaultdict(dict)
    for role, listed in roles.items():
        for own in listed:
            for rank in own:
                ways[rank][role] = own
    known: dict[bytes, int] = {}
    traces: list[Trace] = []
    which: list[int] = []
    cache: dict[tuple[int, ...], int] = {}
    own_ranks = [_names_ranks(trace) for trace in job.traces]
    for rank, index in enumerate(job.trace_of_rank.tolist()):
        key = (index, rank) if own_ranks[index] else (index,)
        if key not in cache:
            trace = _with_roles(job.traces[index], rank, role_of, ways[rank], of_talks)
            raw = encode_trace(trace)
            if raw not in known:
                known[raw] = len(traces)
                traces.append(trace)
            cache[key] = known[raw]
        which.append(cache[key])
    return Job(tuple(traces), np.array(which, np.int64), roles, job.parameters)


def _names_ranks(trace: Trace) -> bool:
    return bool(_messages(trace).size) or "rank" in trace.metadata


def _messages(trace: Trace) -> Ints:
    return np.flatnonzero(np.isin(trace.types, [int(NodeType.COMM_SEND_NODE), int(NodeType.COMM_RECV_NODE)]))


def _with_roles(
    trace: Trace,
    rank: int,
    role_of: Mapping[str, str],
    ways: Mapping[str, tuple[int, ...]],
    of_talks: Mapping[str, str],
) -> Trace:
    """The trace of a rank with roles for its groups, and positions for peers that are in a group with it. ``ways``: the
    members of its groups, by role; ``of_talks``: roles of messages."""
    users = [(role_of[number], nodes) for number, nodes in named_groups(trace).of_role(role_of)]
    role_of_node = {node: role for role, nodes in users for node in nodes.tolist()}
    changes = [Change("pg_name", STRING, nodes, role) for role, nodes in users]
    drop: dict[str, Ints] = {}
    messages = _messages(trace)
    for (type_, own), (_, other) in zip(ENDS, ENDS[::-1], strict=True):
        column = trace.attr(own)
        nodes = messages[(trace.types[messages] == int(type_)) & column.present[messages]]
        peers = column.integers_or(-1)[nodes] if len(nodes) else np.zeros(0, np.int64)
        placed: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for node, peer in zip(nodes.tolist(), peers.tolist(), strict=True):
            role = role_of_node.get(node) or of_talks.get(holes(trace.name(node))[0]) or _together(peer, ways)
            if role and peer in ways.get(role, ()):
                placed[role].append((node, ways[role].index(peer)))
        for role, listed in placed.items():
            at = np.array([node for node, _ in listed], np.int64)
            changes += [Change(PEER, INT64, at, np.array([where for _, where in listed], np.int64)),
                        Change("pg_name", STRING, at, role)]  # fmt: skip
        every = np.array(sorted(node for listed in placed.values() for node, _ in listed), np.int64)
        for name in (own, other):
            drop[name] = np.union1d(drop.get(name, np.zeros(0, np.int64)), every)
    said_rank = {"rank": None} if trace.metadata.get("rank") == rank else {}
    return edited(trace, changes, drop_from=drop, said=said_rank)


def _together(peer: int, ways: Mapping[str, tuple[int, ...]]) -> str | None:
    """The smallest of the groups that a peer is in, by its role."""
    both = [(len(own), role) for role, own in ways.items() if peer in own]
    return min(both)[1] if both else None
