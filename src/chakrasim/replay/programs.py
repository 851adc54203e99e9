"""From a job to a plan: who takes part in what, checked, and in an order in which nobody waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, MESSAGE, ROOTED
from chakrasim.converter.retarget.job_input import members_of
from chakrasim.errors import InputError
from chakrasim.replay.meetings import Call, CallKey, meet, order_meetings
from chakrasim.replay.operators import topmost
from chakrasim.replay.plan import BARRIER, RECV, SEND, Asked, Coverage, Group, Operation, ReplayPlan
from chakrasim.replay.recorded import Facts, Recorded, Wish, by_device, read_recorded
from chakrasim.replay.writing import DONE, SILENT, TIMED, ProgramWriter
from chakrasim.trace.element_types import element_bytes
from chakrasim.trace.job.groups import EVERYONE
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import NodeType

_NO_GROUP = "its group has fewer than two live ranks"
_NO_PEER = "the other side is no live rank"
_NO_BYTES = "it moves no bytes"
_NOT_ASKED = "not asked for (--only)"
ALL_TO_ALL = "all_to_all"
MESSAGES: Final = "message"
"""What messages are called among kinds of collectives."""
_ALONE = "one trace stands for all ranks: messages have no other side"


@dataclass
class _Account:
    """What becomes of nodes, and what is assumed."""

    fates: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, why: str = "", size_bytes: int = 0, count: int = 1) -> None:
        fate = self.fates.setdefault((what, why), [0, 0])
        fate[0] += count
        fate[1] += size_bytes

    def coverage(self) -> tuple[Coverage, ...]:
        rows = [Coverage(what, count, size, why) for (what, why), (count, size) in self.fates.items() if count]
        return tuple(sorted(rows, key=lambda row: (row.why != "", row.why, row.what)))


class _Planner:
    """Makes the plan of ``ranks`` live ranks; see `make_plan`."""

    def __init__(self, job: Job, ranks: int, asked: Asked) -> None:
        self.job, self.ranks, self.asked, self.compute = job, ranks, asked, asked.compute
        self.alone = job.ranks == 1 and ranks > 1
        self.account = _Account()
        self.cuts: Counter[str] = Counter()
        self.groups: dict[CallKey, int] = {("", tuple(range(ranks))): 0}
        self._read: dict[int, tuple[Recorded, Facts]] = {}

    def recorded(self, rank: int) -> tuple[Recorded, Facts]:
        """The trace that a live rank runs."""
        index = 0 if self.alone else int(self.job.trace_of_rank[rank])
        if index not in self._read:
            trace = self.job.traces[index]
            stand_ins = {"none": None, "operators": topmost}.get(self.compute, by_device)
            self._read[index] = (read_recorded(trace, stand_ins), Facts(trace))
            if self.compute == "operators" and not self._read[index][0].compute:
                raise InputError(
                    "the trace holds no operators to be run",
                    file=trace.source,
                    expected="operators with their schemas, from PyTorch's host traces",
                    remedy="replay the host traces, or say --compute sleep",
                )
        return self._read[index]

    def calls(self, rank: int) -> list[Call]:
        """The communication of one rank that is replayed, in the order of its trace."""
        recorded, facts = self.recorded(rank)
        calls = []
        for number, wish in enumerate(recorded.communication):
            message = wish.type != NodeType.COMM_COLL_NODE
            call = self._message(rank, wish, facts) if message else self._collective(rank, wish, facts)
            if call is not None:
                calls.append(replace(call, number=number))
        for name, count in recorded.others.items():
            self.account.add(f"{name.lower()}s", "only communication and compute are replayed", count=count)
        for why, count in recorded.refused.items():
            self.account.add("communication of the recorded run", why, count=count)
        if self.compute == "none" and recorded.computes:
            self.account.add("compute nodes", "compute is not asked for (--compute)", count=recorded.computes)
        elif recorded.computes > len(recorded.compute):
            rest = recorded.computes - len(recorded.compute)
            why = "what operators call, or no operators: those stand in"
            if self.compute != "operators":
                why = "the host's work: that of the device stands in"
            self.account.add("compute nodes", why, count=rest)
        return calls

    def _members(self, rank: int, wish: Wish, facts: Facts) -> tuple[str, tuple[int, ...]]:
        role = facts.text("pg_name", wish.node)
        if self.alone:
            return role, tuple(range(max(self._size_of(role, facts), self.ranks)))
        members = members_of(self.job, role, rank)
        if not members:
            known = role in self.job.process_groups or role in EVERYONE
            trace = facts.trace
            raise InputError(
                f"rank {rank} is no member of process group {role!r}"
                if known
                else f"the members of process group {role!r} are not known",
                file=trace.source,
                place=trace.place(wish.node),
                found=f"groups {', '.join(list(self.job.process_groups)[:8]) or 'none'}",
                remedy="give the group file of this job with --comm-group",
            )
        return role, members

    def _size_of(self, role: str, facts: Facts) -> int:
        """Members of a group of a trace that stands alone, 0 where nothing says how many."""
        if role in self.job.process_groups:
            return len(self.job.process_groups[role][0])
        stated = facts.trace.metadata.get("world_size", 0) if role in EVERYONE else 0
        return stated if isinstance(stated, int) else 0

    def _collective(self, rank: int, wish: Wish, facts: Facts) -> Call | None:
        node, trace = wish.node, facts.trace
        number = facts.number("comm_type", node)
        if number not in KINDS:
            raise InputError(
                "a collective without a known comm_type", file=trace.source, place=trace.place(node), found=str(number)
            )
        kind = KINDS[number].name
        size = 0 if kind == BARRIER else facts.size(node)
        if self._unasked(kind, kind, size):
            return None
        role, members = self._members(rank, wish, facts)
        live, left_bytes = self._cut(kind, members, size)
        if len(live) < 2:
            self.account.add(kind, _NO_GROUP, size)
            return None
        if not size and kind != BARRIER and not (self.asked.rebalance and kind == ALL_TO_ALL):
            self.account.add(kind, _NO_BYTES, 0)
            return None
        dtype, size = self._elements(kind, facts.dtype(node), left_bytes, len(live))
        root = self._root(members, live, facts, node) if number in ROOTED else -1
        key = ("" if role in EVERYONE else role, live)
        self.account.add(kind, size_bytes=size)
        operation = Operation(kind, size, dtype, self._group(key), root, node=node, name=trace.name(node))
        return Call(key, operation, wish, facts.number("meeting", node))

    def _unasked(self, name: str, kind: str, size: int) -> bool:
        """Whether this kind is left out, which is then told."""
        unasked = self.asked.only is not None and name not in self.asked.only
        if unasked:
            self.account.add(kind, _NOT_ASKED, size)
        return unasked

    def _cut(self, kind: str, members: tuple[int, ...], size_bytes: int) -> tuple[tuple[int, ...], int]:
        """Live members and bytes of a collective. Input that has a part for each member loses the parts of those that
        are gone; all other sizes, which are those of one rank, stay.

        The rule is that of PARAM's ``--auto-shrink`` (trace-analysis.md, 2.4), but groups stay apart.
        """
        live = tuple(member for member in members if member < self.ranks)
        if len(live) < len(members):
            self.cuts["collectives of groups that are cut to the live ranks"] += 1
            if KINDS_BY_NAME[kind].divides_input and live:
                self.cuts["inputs that are cut to the parts of the live ranks"] += 1
                size_bytes = size_bytes * len(live) // len(members)
        return live, size_bytes

    def _root(self, members: tuple[int, ...], live: tuple[int, ...], facts: Facts, node: int) -> int:
        """The root, which a job names by its position; the first live member where it is none of them."""
        position = facts.number("root_rank", node, facts.number("root", node))
        root = members[position] if 0 <= position < len(members) else -1
        if root in live:
            return root
        if root >= 0:
            self.cuts["roots that are not live, so that the first live member takes their place"] += 1
        return live[0]

    def _message(self, rank: int, wish: Wish, facts: Facts) -> Call | None:
        sending = wish.type == NodeType.COMM_SEND_NODE
        kind, node, trace = SEND if sending else RECV, wish.node, facts.trace
        size = facts.size(node)
        if self.alone:
            self.account.add(kind, _ALONE, size)
            return None
        members = members_of(self.job, facts.text("pg_name", node), rank)
        peer = facts.peer(node, sending, members)
        if self._unasked(MESSAGES, kind, size):
            return None
        if not 0 <= peer < self.job.ranks or peer == rank:
            raise InputError(
                f"a {kind} without another rank on the other side",
                file=trace.source,
                place=trace.place(node),
                found=f"{peer}, the rank itself" if peer == rank else str(peer),
                expected=f"another rank from 0 to {self.job.ranks - 1}",
            )
        if peer >= self.ranks:
            self.account.add(kind, _NO_PEER, size)
            return None
        if not size:
            self.account.add(kind, _NO_BYTES, 0)
            return None
        tag = max(facts.number("comm_tag", node, 0), 0) % (1 << 30)
        dtype, size = self._elements(kind, facts.dtype(node), size, 1)
        pair = (rank, peer) if sending else (peer, rank)
        self.account.add(kind, size_bytes=size)
        operation = Operation(kind, size, dtype, -1, peer, tag, node=node, name=trace.name(node))
        return Call((f"message {tag}", pair), operation, wish, -1)

    def _elements(self, kind: str, dtype: str, size: int, members: int) -> tuple[str, int]:
        """The element type, and the size in whole elements and parts. What is not added up may move as bytes."""
        meaning = KINDS_BY_NAME.get(kind, MESSAGE)
        if not dtype:
            dtype = "float32" if meaning.reduces and size % 4 == 0 else "uint8"
            if meaning.reduces:
                self.account.notes[f"element types that are not recorded or not known, taken as {dtype}"] += 1
        if size % element_bytes(dtype):
            dtype = "uint8"
            self.account.notes["sizes that are no multiple of their element type, moved as bytes"] += 1
        # What is rebalanced gets its parts later.
        parts = meaning.divides_input and not (self.asked.rebalance and kind == ALL_TO_ALL)
        unit = element_bytes(dtype) * (members if parts else 1)
        if size % unit:
            self.account.notes["inputs that are padded to equal parts for all members"] += 1
            size += unit - size % unit
        return dtype, size

    def _group(self, key: CallKey) -> int:
        return self.groups.setdefault(key, len(self.groups))

    def program(
        self, rank: int, calls: list[Call], meeting: Mapping[int, int], dtypes: Mapping[int, str]
    ) -> tuple[Operation, ...]:
        """The rank's program; see `ProgramWriter`."""
        recorded, facts = self.recorded(rank)
        writer = ProgramWriter(facts, calls, self.compute)
        last = max((call.wish.place for call in calls), default=-1)
        compute = [wish for wish in recorded.compute if not self.asked.first or wish.place < last]
        program = writer.write(compute, meeting, dtypes)
        fates = writer.fates
        self.account.add("compute nodes", count=fates[DONE])
        self.account.add("compute nodes", "neither a duration nor operations are recorded", count=fates[SILENT])
        self.account.notes["compute nodes without num_ops, which last as long as recorded"] += fates[TIMED]
        return program

    def rebalance(self, calls: list[list[Call]]) -> list[list[Call]]:
        """The calls with all-to-alls of equal sizes: the k-th of a group gets the mean of its members, rounded to whole
        elements for each pair of them (trace-analysis.md, 2.4). Where no member moves anything they are left out."""
        changed: list[list[Call | None]] = [list(own) for own in calls]
        for ((_, members), _), places in meet(calls).items():
            operations = [calls[rank][at].operation for rank, at in places]
            if any(operation.kind != ALL_TO_ALL for operation in operations):
                continue
            unit = max(element_bytes(operation.dtype) for operation in operations) * len(members)
            mean = sum(operation.size_bytes for operation in operations) / len(operations)
            if not mean:
                self.account.add(ALL_TO_ALL, count=-len(places))
                self.account.add(ALL_TO_ALL, _NO_BYTES, count=len(places))
                for rank, at in places:
                    changed[rank][at] = None
                continue
            size = max(round(mean / unit), 1) * unit
            for (rank, at), operation in zip(places, operations, strict=True):
                self.account.add(ALL_TO_ALL, size_bytes=size - operation.size_bytes, count=0)
                changed[rank][at] = replace(calls[rank][at], operation=replace(operation, size_bytes=size))
            if len({operation.size_bytes for operation in operations}) > 1:
                self.account.notes["all-to-alls whose sizes differed, made equal (--rebalance)"] += 1
        return [[call for call in own if call is not None] for own in changed]

    def keep_first(self, calls: list[list[Call]], numbers: list[dict[int, int]]) -> list[list[Call]]:
        """The calls of the first meetings that are asked for; the others are told."""
        kept = []
        for own, number in zip(calls, numbers, strict=True):
            late = [call for call in own if number[call.number] >= self.asked.first]
            for call in late:
                size = call.operation.size_bytes
                self.account.add(call.operation.kind, "", -size, -1)
                self.account.add(call.operation.kind, f"not among the first {self.asked.first:,} (--first)", size)
            kept.append([call for call in own if number[call.number] < self.asked.first])
        return kept


def make_plan(job: Job, ranks: int, source: str, asked: Asked) -> ReplayPlan:
    """The plan for ``ranks`` live ranks, which are the first ones of the job.

    Raises InputError where the job has fewer ranks, where ranks do not agree about what they do together, and where
    they would wait for each other for ever.
    """
    if job.ranks < ranks and job.ranks > 1:
        raise InputError(
            "the trace has fewer ranks than are to run it",
            file=source,
            found=f"{job.ranks} ranks in the trace, {ranks} asked for",
            remedy=f"give --ranks {job.ranks}, or make a larger job of it: "
            f"chakrasim retarget PREFIX --to {job.ranks * -(-ranks // job.ranks)} --output PREFIX2",
        )
    planner = _Planner(job, ranks, asked)
    calls = [planner.calls(rank) for rank in range(ranks)]
    if asked.rebalance:
        calls = planner.rebalance(calls)
    if not any(calls):
        raise InputError(
            "there is nothing to replay",
            file=source,
            found="; ".join(f"{row.count} {row.what}: {row.why}" for row in planner.account.coverage()) or "no nodes",
            expected="collectives or messages between the live ranks",
        )
    numbers = order_meetings(calls, source)
    if asked.first:
        calls = planner.keep_first(calls, numbers)
    dtypes: dict[int, str] = {}
    for own, number in zip(calls, numbers, strict=True):
        for call in own:
            dtypes.setdefault(number[call.number], call.operation.dtype)
    programs = _from_zero(tuple(planner.program(rank, calls[rank], numbers[rank], dtypes) for rank in range(ranks)))
    groups = tuple(Group(name, members) for name, members in planner.groups)
    notes = _notes(job, planner)
    return ReplayPlan(source, job.ranks, ranks, groups, programs, len(dtypes), planner.account.coverage(), notes)


def _from_zero(programs: tuple[tuple[Operation, ...], ...]) -> tuple[tuple[Operation, ...], ...]:
    """The programs, their starts counted from the earliest."""
    first = min(operation.start_ns for program in programs for operation in program)
    return tuple(
        tuple(replace(operation, start_ns=operation.start_ns - first) for operation in program) for program in programs
    )


def _notes(job: Job, planner: _Planner) -> tuple[str, ...]:
    counts = planner.cuts + planner.account.notes
    notes = [f"{what}: {count:,}" for what, count in counts.items()]
    if planner.alone:
        notes.insert(0, f"one trace stands for all {planner.ranks} ranks: all of its groups are all live ranks")
    elif job.ranks > planner.ranks:
        notes.insert(0, f"ranks 0 to {planner.ranks - 1} of {job.ranks} are replayed")
    return tuple(notes)
