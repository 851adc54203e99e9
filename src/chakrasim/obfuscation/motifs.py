"""Level motifs: what nodes are, and how large, as many jobs have it.

A motif is what a node is (its role: type, name without numbers, attributes) and what kinds of nodes it waits for; of
communication, its role and the kind of the collective. A motif that fewer than ``k`` jobs use becomes the one of its
kind that most jobs use; where there is none, the job is left out. Numbers: `chakrasim.obfuscation.numbers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.obfuscation.key import Pseudonyms
from chakrasim.obfuscation.names import hide_names
from chakrasim.obfuscation.numbers import Numbers, shared_numbers
from chakrasim.synthesis.roles import HOLE, Nodes, Role, Roles, add_node
from chakrasim.synthesis.shared import shared
from chakrasim.trace import work
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import NodeType

LEAST_JOBS: Final = 2
_COMMUNICATES: Final = int(NodeType.COMM_SEND_NODE)

Motif = tuple[int, object]
"""A role's number, and what kinds of nodes it waits for, or the kind of the collective."""


@dataclass(frozen=True, eq=False)
class Motifs:
    """Jobs that are left, at their places among those given, and what they are now; ``changed`` nodes of ``nodes`` have
    the motif of others, ``numbers`` became other ones."""

    left: tuple[int, ...]
    jobs: tuple[Job, ...]
    nodes: int
    changed: int
    numbers: int


def only_motifs(jobs: Sequence[Job], k: int, pseudonyms: Pseudonyms, notes: Notes) -> Motifs:
    """Jobs in which every motif, and every number but those that say who talks to whom, is that of ``k`` jobs or more,
    under pseudonyms. Raises InputError where fewer than ``k`` jobs can be left."""
    if k < LEAST_JOBS:
        raise InputError("motifs of one job are nobody else's", found=f"k {k}", expected=f"{LEAST_JOBS} or more")
    whole = shared(jobs)
    roles = Roles()
    read = [[roles.nodes(trace) for trace in job.traces] for job in whole]
    missing = sum(nodes.missing for job in read for nodes in job)
    if missing:
        notes.warn(f"{missing:,} waits for nodes that their traces do not have are left out")
    motifs = [[_motifs(trace, own) for trace, own in zip(job.traces, nodes, strict=True)]
              for job, nodes in zip(whole, read, strict=True)]  # fmt: skip
    left, becomes = _common(motifs, roles, k)
    if len(left) < len(jobs):
        notes.warn(f"{len(jobs) - len(left)} of {len(jobs)} jobs are left out: they do what fewer than {k} jobs do")
    if len(left) < k:
        raise InputError("too few jobs have anything in common", found=f"{len(left)} of {len(jobs)} jobs are left",
                         expected=f"{k} or more", remedy="give more jobs, or take a smaller -k")  # fmt: skip
    numbers = Numbers([whole[at] for at in left])
    changed = 0
    for place, at in enumerate(left):
        for number, nodes in enumerate(read[at]):
            for motif, role, own in zip(motifs[at][number], nodes.role, nodes.numbers, strict=True):
                new = becomes.get(motif, role)
                changed += motif in becomes
                numbers.add(place, number, new, _taken(roles.known[role], roles.known[new], own))
    moved = shared_numbers(numbers, k, notes)
    made = [
        _rebuilt(whole[at], [*zip(read[at], numbers.of_job(place), strict=True)], roles, pseudonyms)
        for place, at in enumerate(left)
    ]
    words = Counter(text for job in made for text in {*_words(job)})
    hidden = [hide_names(_without(job, words, k), pseudonyms, titles=False) for job in made]
    return Motifs(tuple(left), tuple(hidden), numbers.nodes, changed, moved)


def _motifs(trace: Trace, nodes: Nodes) -> list[Motif]:
    types = trace.types.tolist()
    kinds = trace.attr("comm_type").integers_or(-1).tolist()
    control, data = nodes.waits
    return [
        (role, ("communicates", kinds[at]) if types[at] >= _COMMUNICATES
         else (frozenset(types[one] for one in control[at]), frozenset(types[one] for one in data[at])))
        for at, role in enumerate(nodes.role)
    ]  # fmt: skip


def _common(motifs: Sequence[Sequence[Sequence[Motif]]], roles: Roles, k: int) -> tuple[list[int], dict[Motif, int]]:
    """The jobs that are left, and the role that nodes of each rare motif get."""
    own = [{motif for trace in job for motif in trace} for job in motifs]
    left = [*range(len(own))]
    while True:
        users = Counter(motif for at in left for motif in own[at])
        common = {motif: count for motif, count in users.items() if count >= k}
        becomes = {motif: _like(motif, common, roles.known) for motif in users if motif not in common}
        kept = [at for at in left if all(becomes.get(motif, 0) is not None for motif in own[at])]
        if kept == left:
            return left, {motif: role for motif, role in becomes.items() if role is not None}
        left = kept


def _like(motif: Motif, common: Mapping[Motif, int], roles: Sequence[Role]) -> int | None:
    """The role that a rare motif's nodes get: of those that state no more than its own does, the one that waits for the
    same kinds, does the same kind of work and is used most; of these the first, whatever the order of ``common``."""
    role = roles[motif[0]]
    communicates = role.type >= _COMMUNICATES
    best: tuple[bool, bool, int, int] | None = None
    for (number, surroundings), count in common.items():
        other = roles[number]
        if other.type != role.type or other.timed != role.timed or not _fits(role, other):
            continue
        same = surroundings == motif[1]
        if communicates and not same:
            continue
        score = (same, _said(role, work.KIND) == _said(other, work.KIND), count, -number)
        best = score if best is None else max(best, score)
    return None if best is None else -best[-1]


def _fits(role: Role, other: Role) -> bool:
    """Whether a node of a role can be one of another: it has its numbers, and runs at the same place."""
    numbers = {name for name in other.numbers() if not name.startswith("name ")}
    places = ("is_cpu_op", "pg_name", work.HOST_WAITS)
    alike = all(_said(role, name) == _said(other, name) for name in places)
    must = {"comm_size", work.FLOPS, work.BYTES, work.STREAM, "comm_peer", "comm_src", "comm_dst"}
    return alike and numbers <= {*role.numbers()} and must & {*role.numbers()} <= numbers


def _said(role: Role, name: str) -> object:
    return next((value for said, _, value in role.attributes if said == name), None)


def _taken(role: Role, other: Role, own: tuple[int, ...]) -> dict[str, int]:
    """The numbers of a node as those of another role."""
    known = dict(zip(role.numbers(), own, strict=True))
    return {name: known.get(name, 0) for name in other.numbers()}


def _rebuilt(
    job: Job, traces: Sequence[tuple[Nodes, list[tuple[int, dict[str, int]]]]], roles: Roles, pseudonyms: Pseudonyms
) -> Job:
    """The job with these roles and numbers; names are pseudonyms of what is left without their numbers, and these."""
    made = tuple(_trace(nodes, new, roles.known, pseudonyms) for nodes, new in traces)
    return Job(made, job.trace_of_rank, job.process_groups, job.parameters)


def _trace(nodes: Nodes, new: list[tuple[int, dict[str, int]]], roles: Sequence[Role], pseudonyms: Pseudonyms) -> Trace:
    built = TraceBuilder()
    for at, (number, known) in enumerate(new):
        role = roles[number]
        title = " ".join([pseudonyms.of("node", role.name), *[HOLE] * role.name.count(HOLE)])
        waits = sorted({*nodes.waits[0][at]}), sorted({*nodes.waits[1][at]})
        add_node(built, at, replace(role, name=title), [*known.values()], waits)
    return built.build()


def _words(job: Job) -> Iterator[tuple[str, object]]:
    yield from (("group", role) for role in job.process_groups)
    yield from ((name, value) for name, value in job.parameters.items() if isinstance(value, str))
    yield from ((name, None) for name, value in job.parameters.items() if not isinstance(value, str))


def _without(job: Job, words: Mapping[tuple[str, object], int], k: int) -> Job:
    """The job without groups and parameters that fewer than ``k`` jobs have; groups that nodes use stay."""
    used = {trace.strings[i] for trace in job.traces for i in range(len(trace.strings))}
    groups = {role: own for role, own in job.process_groups.items() if role in used or words["group", role] >= k}
    parameters = {name: value for name, value in job.parameters.items()
                  if words[name, value if isinstance(value, str) else None] >= k}  # fmt: skip
    return Job(job.traces, job.trace_of_rank, groups, parameters)
