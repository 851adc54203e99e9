"""Jobs as GOAL: collectives become messages, by the package's own algorithms (grammar: `trace.foreign.goal`).

An all-to-all is direct, other collectives go round a ring of their group's members; each begins when the rank has
reached it and what it waits for has ended. Operations take processors so that what Chakra lets run side by side does:
computations processor 0 (or that of their stream), work of the host the next one, messages the last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from chakrasim.collectives import Collective, Peer, Program, Request, Schedule, build
from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.errors import InputError
from chakrasim.exchange.times import times_ns
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.notes import Notes
from chakrasim.trace import Job, NodeType, Trace, type_name
from chakrasim.trace.chakra.graph import AttrColumn
from chakrasim.trace.foreign.goal import CPU, FORMAT, NIC, STARTS, TAG_RANGE, Block, block_trace
from chakrasim.trace.job.expand import expanded
from chakrasim.trace.job.groups import EVERYONE, check_job, is_number, number_groups
from chakrasim.trace.kinds import PARTS
from chakrasim.trace.work import COMPUTE_NS, STREAM

MAX_OPERATIONS: Final = 20_000_000
"""Of all ranks: a text of about a gigabyte."""
_LABEL: Final = re.compile("(?!(?:send|recv|calc|rank|num_ranks)$)[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_CALC, _SEND, _RECV = (int(kind) for kind in (NodeType.COMP_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))


def goal_text(traces: Iterator[Trace], ranks: int) -> Iterator[str]:
    """The file of traces that consist of GOAL's operations, as `goal_traces` and `read_goal` make them, in parts."""
    yield f"num_ranks {ranks}\n"
    last: tuple[Trace, str] | None = None
    for rank, trace in enumerate(traces):
        if last is None or last[0] is not trace:
            last = trace, _operations(trace)
        yield f"\nrank {rank} {{\n{last[1]}}}\n"


def _operations(trace: Trace) -> str:
    """The lines of a rank."""
    amounts = np.where(
        trace.types < _SEND, *(trace.attr(name).integers(0) for name in (COMPUTE_NS, "comm_size"))
    ).tolist()
    peers = np.where(
        trace.types == _SEND, *(trace.attr(name).integers(0) for name in ("comm_dst", "comm_src"))
    ).tolist()
    tags, nics = (trace.attr(name).integers(0).tolist() for name in ("comm_tag", NIC))
    cpus = np.where(trace.types == _CALC, *(trace.attr(name).integers(0) for name in (STREAM, CPU))).tolist()
    starts = trace.attr(STARTS)
    labels = [trace.name(node) for node in range(len(trace))]
    if len({*labels}) < len(labels) or not all(map(_LABEL.fullmatch, labels)):
        labels = [f"l{node}" for node in range(len(trace))]
    lines = []
    for node, (kind, amount, peer) in enumerate(zip(trace.types.tolist(), amounts, peers, strict=True)):
        label = labels[node]
        aside = f" cpu {cpus[node]}" if cpus[node] else ""
        if kind < _SEND:
            lines.append(f"{label}: calc {amount}{aside}\n")
        else:
            verb = "send {}b to" if kind == _SEND else "recv {}b from"
            card = f" nic {nics[node]}" if nics[node] else ""
            lines.append(f"{label}: {verb.format(amount)} {peer} tag {tags[node]}{aside}{card}\n")
        begun = starts.list(node) if starts.present[node] else ()
        lines += [f"{label} requires {labels[other]}\n" for other in trace.data_deps[node].tolist()]
        lines += [f"{label} irequires {labels[other]}\n" for other in begun]
    return "".join(lines)


def goal_traces(job: Job, *, profile: DeviceProfile | None = None, notes: Notes | None = None) -> Iterator[Trace]:
    """The trace of every rank with nothing but calc, send and recv; those of a GOAL file as they are.

    ``profile`` times the nodes that say what they compute. ``notes`` is told how many collectives became how many
    messages, and what GOAL does not carry. Raises InputError for what cannot be written.
    """
    check_job(job)
    groups = number_groups(job)
    traces = expanded(job, groups)
    if all(trace.metadata.get("format") == FORMAT for trace in job.traces):
        yield from traces
        return
    everyone = tuple(range(job.ranks))
    members = {0: everyone, **groups.members}
    tags = _Tags(1 + max((int(trace.attr("comm_tag").integers(0).max(initial=-1)) for trace in job.traces), default=-1))
    told: Counter[str] = Counter()
    for rank, trace in enumerate(traces):
        yield _Rank(rank, trace, members, tags, told, times_ns(trace, profile)).trace()
        if told["operations"] > MAX_OPERATIONS:
            raise InputError(
                "the job is too large for GOAL, which has a line for every message of every rank",
                found=f"more than {MAX_OPERATIONS:,} operations",
                remedy="write a smaller job",
            )
    if notes is not None and told["collectives"]:
        notes.warn(f"{told['collectives']:,} collectives became {told['messages']:,} messages, over all ranks")
    for what in sorted(told.keys() - {"collectives", "messages", "operations"}):
        if notes is not None:
            notes.warn(f"{what}: {told[what]:,}")


@dataclass
class _Tags:
    """Tags of collectives, behind those of messages: equal for the n-th collective of a group on all its members."""

    first: int
    known: dict[tuple[int, int], int] = field(default_factory=dict)

    def of(self, group: int, turn: int) -> int:
        tag = self.first + self.known.setdefault((group, turn), len(self.known))
        if tag >= TAG_RANGE:
            raise InputError("the job has more collectives than there are tags", expected=f"below {TAG_RANGE:,}")
        return tag


class _Rank:
    """One rank on its way to operations. ``last[node]`` is the operation with which a node has ended."""

    def __init__(
        self,
        rank: int,
        trace: Trace,
        members: Mapping[int, tuple[int, ...]],
        tags: _Tags,
        told: Counter[str],
        times: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    ) -> None:
        self._rank, self._trace, self._members, self._tags, self._told = rank, trace, members, tags, told
        self._times = times.tolist()
        self._block = Block(rank)
        self._stream = trace.attr(STREAM).integers(0)
        self._host = int(self._stream.max(initial=0)) + 1
        self._turn: Counter[int] = Counter()

    def trace(self) -> Trace:
        """The rank's operations as a trace."""
        trace = self._trace
        host = trace.attr("is_cpu_op").integers(0) != 0
        last: dict[int, int] = {}
        for node in _in_order(trace):
            kind, number = int(trace.types[node]), int(trace.ids[node])
            deps = (*trace.data_deps[node].tolist(), *trace.ctrl_deps[node].tolist())
            waits = list(dict.fromkeys(last[dep] for dep in deps))
            if kind == NodeType.COMM_COLL_NODE:
                last[number] = self._collective(node, waits)
            elif kind in (_SEND, _RECV):
                last[number] = self._message(node, kind == _SEND, waits)
            else:
                if kind in (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE):
                    self._told[f"left out the time of remote memory ({type_name(kind)})"] += 1
                cpu = self._host if host[node] else int(self._stream[node])
                last[number] = self._add(_CALC, (self._times[node], -1, 0, cpu, 0), waits)
        self._told["operations"] += len(self._block.kind)
        return block_trace(self._block, trace.source)

    def _add(self, kind: int, numbers: tuple[int, ...], waits: list[int]) -> int:
        at = self._block.add(kind, f"l{len(self._block.kind)}", numbers)
        self._block.ends += [(at, other) for other in waits]
        return at

    def _message(self, node: int, sends: bool, waits: list[int]) -> int:
        said = (self._trace.attr(name) for name in ("comm_size", "comm_dst" if sends else "comm_src", "comm_tag"))
        size, peer, tag = (_stated(column, node) for column in said)
        return self._add(_SEND if sends else _RECV, (size, peer, tag, self._host + 1, 0), waits)

    def _collective(self, node: int, waits: list[int]) -> int:
        """The messages of a collective; the operation with which it has ended."""
        trace, rank = self._trace, self._rank
        name = trace.attr("pg_name").string(node) if trace.attr("pg_name").present[node] else ""
        group = 0 if name in EVERYONE else int(name) if is_number(name) else -1
        if group not in self._members or rank not in self._members[group]:
            raise InputError(
                "the group is not known, or the rank is not in it",
                file=trace.source,
                place=trace.place(node),
                found=repr(name[:40]),
                remedy="put the group file beside the traces, as PREFIX.comm_group.json",
            )
        members = self._members[group]
        tag = self._tags.of(group, self._turn[group])
        self._turn[group] += 1
        start = self._add(_CALC, (0, -1, 0, self._host + 1, 0), waits)
        if len(members) < 2:
            return start
        self._told["collectives"] += 1
        if trace.attr("involved_dim").present[node] and not all(trace.attr("involved_dim").list(node)):
            self._told["collectives of some dimensions (involved_dim) became collectives of all their group"] += 1
        schedule = _schedule(trace, node, members)
        own = members.index(rank)
        done = self._program(schedule.programs[int(schedule.program_of[own])], members, own, tag, start)
        return self._add(_CALC, (0, -1, 0, self._host + 1, 0), done)

    def _program(self, program: Program, members: tuple[int, ...], own: int, tag: int, start: int) -> list[int]:
        """What a member does, without the delays of its end points; its operations.

        The k-th row acts on the message that let it: the first ``initial_bundles`` rows at once, each other one when a
        further message has come, and those past the gate when as many have come as it asks for (`schedule.py`).
        """
        made: list[int] = []
        received: list[int] = []
        steps = [(-1, program.start_ops)]
        steps += [(at, row.ops) for at, row in enumerate(row for row in program.rows for _ in range(row.repeat))]
        for row, ops in steps:
            waits = [start]
            if row >= program.initial_bundles:
                waits = received[row - program.initial_bundles :][:1] or received[-1:] or waits
            if row >= program.gate_rows:
                waits = list(dict.fromkeys((*waits, *received[: program.gate_receives])))
            for op in ops:
                peer = (own + op.peer) % len(members) if program.peer == Peer.OFFSET else own ^ op.peer
                numbers = (op.size_bytes, members[peer], tag, self._host + 1, 0)
                at = self._add(_SEND if op.send else _RECV, numbers, waits)
                made.append(at)
                if not op.send:
                    received.append(at)
                self._told["messages"] += op.send
        return made


def _schedule(trace: Trace, node: int, members: tuple[int, ...]) -> Schedule:
    """The messages of all members of a collective."""
    kind = _stated(trace.attr("comm_type"), node)
    if trace.attr(PARTS).present[node] and len(set(trace.attr(PARTS).list(node))) > 1:
        message = "an all-to-all whose parts differ is not written"
        raise InputError(message, file=trace.source, place=trace.place(node))
    if kind not in COLLECTIVE_KEYS:
        raise InputError("unknown collective type", file=trace.source, place=trace.place(node), found=kind)
    size = 0 if kind == Collective.BARRIER else _stated(trace.attr("comm_size"), node)
    root = 0
    for name in ("root_rank", "root"):
        column = trace.attr(name)
        if column.present[node] and int(column.integers(-1)[node]) in members:
            root = members.index(int(column.integers(-1)[node]))
            break
    algorithm = "direct" if kind == Collective.ALL_TO_ALL else "ring"
    return build(algorithm, Request(Collective(kind), len(members), size, root=root, shared_bus=False))


def _stated(column: AttrColumn, node: int) -> int:
    """A number that a node must state."""
    if not column.present[node]:
        trace = column.trace
        message = f"the attribute {column.name!r} is missing"
        raise InputError(message, file=trace.source, place=trace.place(node))
    return int(column.integers()[node])


def _in_order(trace: Trace) -> list[int]:
    """Nodes by id, what they wait for before them. Raises InputError for unknown dependencies and circles."""
    place = {number: at for at, number in enumerate(trace.ids.tolist())}
    order: list[int] = []
    state = [0] * len(trace)
    for first in np.argsort(trace.ids, kind="stable").tolist():
        stack = [first]
        while stack:
            node = stack.pop()
            if state[node] == 2:
                continue
            if state[node] == 1:
                state[node] = 2
                order.append(node)
                continue
            state[node] = 1
            stack.append(node)
            for dep in (*trace.data_deps[node].tolist(), *trace.ctrl_deps[node].tolist()):
                if dep not in place or state[place[dep]] == 1:
                    message = "dependencies form a cycle" if dep in place else "a dependency is on no node"
                    raise InputError(message, file=trace.source, place=trace.place(node), found=dep)
                if not state[place[dep]]:
                    stack.append(place[dep])
    return order
