"""Jobs that most of several programs make of the same parameters, as far as they agree.

What is asked of the programs is asked over all sets of parameters at once: which groups there are; of each kind of node
(`Role`) how often it comes in each rank's trace, and each of its numbers; and in which order nodes come, and what they
wait for. Kinds of nodes of which most do not agree how often they come, or who talks to whom by them, are left out, and
what waits for them waits for what they wait for. Other numbers that most do not agree on are 0.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.obfuscation.numbers import STRUCTURE
from chakrasim.obfuscation.population.noise import Ballot
from chakrasim.obfuscation.population.parameters import Point
from chakrasim.progress import Progress, told
from chakrasim.synthesis.api import synthesize
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.roles import Nodes, Role, Roles, add_node
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.files import parse_trace
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.groups import check_job
from chakrasim.trace.job.job import Job

GROUPS: Final = ("groups", None)
ORDER: Final = ("order", None)
OFTEN: Final = "how often"
Question = Hashable
"""`GROUPS`, `ORDER`, (`OFTEN`, role), or (the name of a number, role)."""


@dataclass(frozen=True, eq=False)
class Consensus:
    """What most of some programs make.

    Attributes
    ----------
    jobs: of the points that most make a job of, with the parameters that they were made of; none where most agree on
        no order of nodes, or on no groups.
    distance: so many programs have to change before any of the jobs does.
    left_out: kinds of nodes that some program makes and no job has.
    unknown: numbers of kinds of nodes that are 0.
    """

    jobs: list[Job]
    distance: int
    left_out: int
    unknown: int


class _Read:
    """A job that programs made, read: the nodes of each trace, and by role the columns of their numbers."""

    def __init__(self, job: Job, roles: Roles) -> None:
        self.job, self.roles = job, roles
        self.nodes = [roles.nodes(trace) for trace in job.traces]
        self.columns = [_columns(nodes, roles) for nodes in self.nodes]

    @cached_property
    def said(self) -> dict[Question, object]:
        """What it says to each question but that of order."""
        found: dict[Question, object] = {GROUPS: (self.job.ranks, tuple(sorted(self.job.process_groups.items())))}
        for role in {role for own in self.columns for role in own}:
            what = self.roles.known[role]
            for name in (OFTEN, *what.numbers()):
                every = [own[role][name].tobytes() if role in own else b"" for own in self.columns]
                found[name, what] = self._digest(every)
        return found

    def order(self, kept: Set[Role]) -> bytes:
        """How nodes of these roles come, and what they wait for."""
        return self._digest([repr(self.ordered(at, kept)).encode() for at in range(len(self.nodes))])

    def ordered(self, trace: int, kept: Set[Role]) -> list[tuple[int, list[int], list[int]]]:
        """The nodes of a trace whose roles are kept: role, and what each waits for, through those that are not."""
        nodes, place, behind = self.nodes[trace], dict[int, int](), dict[int, set[int]]()
        for at, role in enumerate(nodes.role):
            if self.roles.known[role] in kept:
                place[at] = len(place)
        found = []
        for at, role in enumerate(nodes.role):
            control, data = (
                {one for wait in waits[at] for one in ({place[wait]} if wait in place else behind.get(wait, ()))}
                for waits in nodes.waits
            )
            if at in place:
                found.append((role, sorted(control), sorted(data)))
            else:
                behind[at] = control | data
        return found

    def _digest(self, of_traces: Sequence[bytes]) -> bytes:
        """Of what each rank has."""
        own = [blake2b(one, digest_size=16).digest() for one in of_traces]
        return blake2b(b"".join(own[at] for at in self.job.trace_of_rank.tolist()), digest_size=16).digest()


def _columns(nodes: Nodes, roles: Roles) -> dict[int, dict[str, NDArray[np.int64]]]:
    rows: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for role, numbers in zip(nodes.role, nodes.numbers, strict=True):
        rows[role].append(numbers)
    return {
        role: {
            OFTEN: np.array([len(own)], np.int64),
            **{name: np.array([one[i] for one in own]) for i, name in enumerate(roles.known[role].numbers())},
        }
        for role, own in rows.items()
    }


class _Kept:
    """Jobs that programs made of one point after the other: equal ones once, with how many made them, packed."""

    def __init__(self) -> None:
        self._packed: dict[bytes, bytes] = {}
        self._jobs: list[Counter[tuple[Any, ...]]] = []

    def add(self, programs: Sequence[Learned], point: Point) -> None:
        """What each program makes of a point. One that cannot make a job of it makes none."""
        own: Counter[tuple[Any, ...]] = Counter()
        for program in programs:
            known = {*program.parameters[0]}
            try:
                (made,) = synthesize(program, {k: v for k, v in point.items() if k in known}, notes=Notes())
            except InputError:
                continue
            keys = []
            for trace in made.job.traces:
                data = encode_trace(trace)
                keys.append(blake2b(data, digest_size=16).digest())
                if keys[-1] not in self._packed:
                    self._packed[keys[-1]] = zlib.compress(data, 1)
            groups = tuple(sorted(made.job.process_groups.items()))
            own[tuple(keys), tuple(made.job.trace_of_rank.tolist()), groups] += 1
        self._jobs.append(own)

    def read(self, at: int, roles: Roles) -> list[tuple[_Read, int]]:
        """The jobs of a point, and how many programs made each."""
        found = []
        for (keys, of_rank, groups), count in self._jobs[at].items():
            traces = tuple(parse_trace(zlib.decompress(self._packed[key])) for key in keys)
            found.append((_Read(Job(traces, np.array(of_rank, np.int64), dict(groups)), roles), count))
        return found


def consensus(
    programs: Sequence[Learned], points: Sequence[Point], chunks: int, progress: Progress | None
) -> Consensus:
    """The jobs of most of so many chunks; a chunk without a program says nothing."""
    roles, made, ballot = Roles(), _Kept(), Ballot(chunks)
    whole, answered = [], set[Question]()
    for at, _ in enumerate(told(points, lambda _: "jobs that programs make", progress)):
        made.add(programs, points[at])
        said = [read.said for read, count in made.read(at, roles) for _ in range(count)]
        if ballot.add([{("made", at): True} for _ in said]).get(("made", at)):
            answered |= {question for question, answer in ballot.add(said).items() if answer is not None}
            whole.append(at)
    agreed = ballot.agreed()
    kept = {
        role for role in roles.known
        if (OFTEN, role) in answered and agreed >= {(name, role) for name in (OFTEN, *filter(_ties, role.numbers()))}
    }  # fmt: skip
    orders, jobs = Ballot(chunks), list[Job]()
    for at in whole:
        reads = made.read(at, roles)
        said = [read.said | {ORDER: read.order(kept)} for read, _ in reads]
        every = [own for own, (_, count) in zip(said, reads, strict=True) for _ in range(count)]
        orders.add([{ORDER: own[ORDER]} for own in every])
        job = _job([read for read, _ in reads], Ballot(chunks).add(every), said, agreed | {ORDER}, kept)
        if job is not None:
            jobs.append(Job(job.traces, job.trace_of_rank, job.process_groups, points[at]))
    if GROUPS not in agreed or ORDER not in orders.agreed():
        jobs = []
    unknown = sum((name, role) not in agreed for role in kept for name in role.numbers())
    return Consensus(jobs, min(ballot.distance(), orders.distance()), len(roles.known) - len(kept), unknown)


def _job(
    reads: Sequence[_Read],
    most: Mapping[Any, object],
    said: Sequence[Mapping[Any, object]],
    agreed: Set[Any],
    kept: Set[Role],
) -> Job | None:
    """The job of what most say at a point, of questions with an answer at all points; None where that is no job."""
    behind: dict[Any, _Read] = {
        question: next(read for read, own in zip(reads, said, strict=True) if own.get(question) == answer)
        for question, answer in most.items() if question in agreed and answer is not None
    }  # fmt: skip
    if not {GROUPS, ORDER} <= {*behind}:
        return None
    groups = behind[GROUPS].job
    used = [*{id(read): read for read in behind.values()}.values()]
    known: dict[tuple[int, ...], int] = {}
    traces: dict[bytes, tuple[int, Trace]] = {}
    of_rank = []
    for rank in range(groups.ranks):
        key = tuple(int(read.job.trace_of_rank[rank]) for read in used)
        if key not in known:
            trace = _trace(behind, rank, kept)
            known[key] = traces.setdefault(encode_trace(trace), (len(traces), trace))[0]
        of_rank.append(known[key])
    job = Job(tuple(trace for _, trace in traces.values()), np.array(of_rank, np.int64), groups.process_groups)
    try:
        check_job(job)
    except InputError:
        return None
    return job


def _trace(behind: Mapping[Any, _Read], rank: int, kept: Set[Role]) -> Trace:
    """The trace of a rank: nodes in the order that most agree on, with the numbers that most agree on."""
    order, made, rows = behind[ORDER], TraceBuilder(), Counter[int]()
    for at, (role, control, data) in enumerate(order.ordered(int(order.job.trace_of_rank[rank]), kept)):
        what, row = order.roles.known[role], rows[role]
        rows[role] += 1
        values = []
        for name in what.numbers():
            read = behind.get((name, what))
            values.append(0 if read is None else int(read.columns[read.job.trace_of_rank[rank]][role][name][row]))
        said = tuple((name, kind, _one_zero(value)) for name, kind, value in what.attributes)
        add_node(made, at, replace(what, attributes=said), values, (control, data))
    return made.build()


def _one_zero(value: Any) -> Any:
    """A value without zeros below 0, which equal others: which of them is released would hang on who came first."""
    if isinstance(value, tuple):
        return tuple(map(_one_zero, value))
    return value + 0.0 if isinstance(value, float) else value


def _ties(name: str) -> bool:
    """Whether a number says who talks to whom, or where nodes run."""
    return name in STRUCTURE or name.startswith("pg_name ")
