"""Why a run cannot end: which rank waits in which node for whom, and the cycle if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.errors import StallError
from chakrasim.simulator.arena.engine import slot_table
from chakrasim.simulator.arena.fill import Layout
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.checks.queues import can_stall, cause_of, remedy_of
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.outcome.cuts import last_event_ns, lost_lines, waiting_lines
from chakrasim.trace.work import STREAM

Ints = NDArray[np.int64]

LINES_SHOWN = 24
RANKS_NAMED = 6


@dataclass(frozen=True)
class Wait:
    """A node in flight that nothing will complete, and the ranks that would have to act."""

    rank: int
    text: str
    for_ranks: tuple[int, ...]


def unfinished_ranks(m: Ints, flows: FlowNetwork | None) -> Ints:
    """The ranks (slots, where equal ranks are simulated once) that have not finished, or whose job has lost a rank."""
    slots = slot_table(m)
    stuck = slots[:, at.SLOT_DONE] == 0
    for rank, lost_at_ns in flows.lost_at_ns.items() if flows is not None else ():
        later = (slots[:, at.SLOT_DONE] == 0) | (slots[:, at.SLOT_FINISH] > lost_at_ns)
        if flows is not None and later[rank]:
            stuck |= later & (flows.job_of == flows.job_of[rank]) & (flows.job_of >= 0)
    return np.flatnonzero(stuck)


def stall_error(
    m: Ints,
    layout: Layout,
    context: Context,
    plans: Sequence[Sequence[Plan]],
    flows: FlowNetwork | None,
    ranks: Ints,
) -> StallError:
    """The error for a run of all ranks whose clock has run dry before all had finished: these have not.

    ``plans[g][u]`` is graph g's plan for its u-th collective.
    """
    board = _Board(m, layout, context, ranks.tolist())
    waits = [wait for slot in board.stuck for wait in board.waits_of(slot)]
    causes: list[str] = []
    if flows is not None:
        causes = [*lost_lines(flows, ranks)[:LINES_SHOWN], *waiting_lines(m, flows, ranks, LINES_SHOWN)]
    # Where a link or a rank is down, all that wait for one another wait for it.
    cycle = () if causes else find_cycle({wait.rank: wait.for_ranks for wait in waits})
    waits.sort(key=lambda wait: wait.rank not in cycle)
    lines = [*causes, *(wait.text for wait in waits[:LINES_SHOWN])]
    if len(waits) > LINES_SHOWN:
        lines.append(f"... and {len(waits) - LINES_SHOWN} more waits")
    what = "the run" if context.job_of is None else "the job"
    many = context.ranks if context.job_of is None else int((context.job_of == context.job_of[ranks[0]]).sum())
    stuck_at = int(m[at.NOW]) if flows is None else last_event_ns(m, flows, board.slots, ranks)
    message = f"{what} cannot end: {len(board.stuck)} of {many} ranks are stuck at {stuck_at} ns"
    if cycle:
        message += "; they wait in a cycle: " + " -> ".join(f"rank {rank}" for rank in (*cycle, cycle[0]))
    blocked = board.blocked_by_queues(plans)
    if blocked:
        message += f"; the likely cause: {cause_of(blocked, context)}; {remedy_of(blocked)}"
    return StallError("\n  ".join([message, *lines]), waits=tuple(lines), cycle=cycle)


def find_cycle(waits: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Ranks that wait for each other in a circle, or nothing. Each rank's first way that leads on is followed."""
    sorter = TopologicalSorter[int](dict.fromkeys(waits, ()))
    for rank, others in waits.items():
        for other in others:
            sorter.add(other, rank)
    try:
        sorter.prepare()
    except CycleError as error:
        return tuple(error.args[1][:-1])
    return ()


class _Board:
    """The state in which a run of all ranks (slot number = rank) has stopped."""

    def __init__(self, m: Ints, layout: Layout, context: Context, stuck: list[int]) -> None:
        self.m = m
        self.layout = layout
        self.context = context
        self.slots = slot_table(m)
        self.stuck = stuck

    def blocked_by_queues(self, plans: Sequence[Sequence[Plan]]) -> list[Plan]:
        """The collectives in flight, without repeats, that can stall and that all of their ranks have entered."""
        found: dict[int, Plan] = {}
        for rank in self.stuck:
            graph = self.graph(rank)
            for number in self._collectives_of(rank):
                plan = plans[int(self.layout.graph_of[rank])][int(graph.a[number])]
                if id(plan) not in found and can_stall(plan, self.context) and not self._missing(rank, plan.use.group):
                    found[id(plan)] = plan
        return list(found.values())

    def _missing(self, rank: int, group: int) -> tuple[int, ...]:
        """The ranks of a group that have not entered the collective in which this one is."""
        place = self._sequence(rank, group)
        members = self.context.groups.get(group, range(self.context.ranks))
        return tuple(other for other in members if self._sequence(other, group) < place)

    def graph(self, rank: int) -> Graph:
        return self.layout.graphs[int(self.layout.graph_of[rank])]

    def waits_of(self, rank: int) -> list[Wait]:
        """What a stuck rank has in flight."""
        if not self.slots[rank, at.SLOT_STARTS]:
            return [Wait(rank, f"rank {rank} has {int(self.slots[rank, at.SLOT_ONGOING])} operations in flight", ())]
        return [self._wait(rank, number) for number in self._in_flight(rank)]

    def _in_flight(self, rank: int) -> list[int]:
        """The nodes that have begun and not ended, as far as that is kept."""
        slot = self.slots[rank]
        starts, ends, n = (int(slot[f]) for f in (at.SLOT_STARTS, at.SLOT_ENDS, at.SLOT_NODE_COUNT))
        if not starts:
            return []
        found: list[int] = np.flatnonzero((self.m[starts : starts + n] >= 0) & (self.m[ends : ends + n] < 0)).tolist()
        return found

    def _collectives_of(self, rank: int) -> list[int]:
        """Those of them that are collectives."""
        return [number for number in self._in_flight(rank) if self.graph(rank).kind[number] == at.RUN_COLLECTIVE]

    def _stream(self, graph: Graph, number: int) -> str:
        """The stream of a node, where streams run side by side and it names one."""
        stream = graph.trace.attr(STREAM)
        node = int(graph.order[number])
        if self.context.issue != "streams" or not stream.present[node]:
            return ""
        return f" on stream {stream.value(node)}"

    def _wait(self, rank: int, number: int) -> Wait:
        graph = self.graph(rank)
        where = f"rank {rank} waits in {graph.place(number)}{self._stream(graph, number)}"
        kind = int(graph.kind[number])
        if kind == at.RUN_COLLECTIVE:
            text, others = self._collective(rank, graph, number)
        elif kind == at.RUN_MEETING:
            text, others = self._meeting(rank, int(graph.a[number]))
        elif kind in (at.RUN_SEND, at.RUN_RECV):
            text, others = self._message(graph, number, kind, rank)
        else:
            text, others = "for an event that never comes", ()
        return Wait(rank, f"{where} {text}", others)

    def _meeting(self, rank: int, meeting: int) -> tuple[str, tuple[int, ...]]:
        """Who has not come to a meeting of a replay."""
        missing = []
        present = 0
        for other in range(len(self.slots)):
            graph = self.graph(other)
            numbers = np.flatnonzero((graph.kind == at.RUN_MEETING) & (graph.a == meeting))
            starts = int(self.slots[other, at.SLOT_STARTS])
            if len(numbers) and starts and (self.m[starts + numbers] < 0).all():
                missing.append(other)
            present += len(numbers) > 0
        if missing:
            return f"for {named_ranks(tuple(missing))} to come to it", tuple(missing)
        expected = max(self.context.meetings[meeting], present)
        return f"for ranks that have no such node: {expected} took part where it was recorded, {present} are here", ()

    def _message(self, graph: Graph, number: int, kind: int, rank: int) -> tuple[str, tuple[int, ...]]:
        peer, size, tag = graph.peer(number), int(graph.b[number]), int(graph.c[number])
        what = "from" if kind == at.RUN_RECV else "to be asked for by"
        text = f"for a message {what} rank {peer} (tag {tag}, {size} bytes): "
        other = self._other_sizes(peer, rank, tag, size) if kind == at.RUN_RECV else []
        if other:
            return text + f"what came from there with that tag has {', '.join(map(str, other))} bytes", (peer,)
        if self.slots[peer, at.SLOT_DONE]:
            return text + f"rank {peer} has finished and never posts it", (peer,)
        return text + f"rank {peer} is stuck itself", (peer,)

    def _other_sizes(self, source: int, destination: int, tag: int, size: int) -> list[int]:
        """Sizes of messages between two ranks that arrived with this tag and met no receive."""
        entries = (
            entry
            for entry in waiting_entries(self.m)
            if entry[at.ENTRY_GROUP] == 0
            and entry[at.ENTRY_TAG] == tag
            and entry[at.ENTRY_PAIR] == (source << 32) | destination
            and entry[at.ENTRY_ARRIVED] > 0
            and entry[at.ENTRY_BYTES] != size
        )
        return sorted({int(entry[at.ENTRY_BYTES]) for entry in entries})[:RANKS_NAMED]

    def _collective(self, rank: int, graph: Graph, number: int) -> tuple[str, tuple[int, ...]]:
        use = graph.uses[int(graph.a[number])]
        place = self._sequence(rank, use.group)
        name = self.context.group_text(use.group)
        text = f"for {describe(use)} of {name}, its collective number {place} there: "
        members = self.context.groups.get(use.group, range(self.context.ranks))
        missing = self._missing(rank, use.group)
        if missing:
            finished = [other for other in missing if self.slots[other, at.SLOT_DONE]]
            state = " (finished)" if len(finished) == len(missing) else ""
            return text + f"{named_ranks(missing)} never entered it{state}", missing
        others = []
        for other in members:
            theirs = self._current(other, use.group)
            if other != rank and theirs is not None and (theirs.type, theirs.size_bytes) != (use.type, use.size_bytes):
                others.append((other, theirs))
        if others:
            first, theirs = others[0]
            return text + f"rank {first} runs {describe(theirs)} in its place", tuple(other for other, _ in others)
        return text + "its messages were not all received", tuple(o for o in members if o != rank and o in self.stuck)

    def _sequence(self, rank: int, group: int) -> int:
        """How many collectives of a group a rank has entered."""
        groups = self.graph(rank).groups
        if group not in groups:
            return 0
        return int(self.m[int(self.slots[rank, at.SLOT_SEQUENCES]) + groups.index(group)])

    def _current(self, rank: int, group: int) -> CollectiveUse | None:
        """The collective of a group that a stuck rank has in flight."""
        graph = self.graph(rank)
        uses = (graph.uses[int(graph.a[number])] for number in self._collectives_of(rank))
        return next((use for use in uses if use.group == group), None)


def waiting_entries(m: Ints) -> list[Ints]:
    """The match entries in which a message or a receive is left over."""
    index = int(m[at.INDEX])
    left = []
    for head in m[index : index + int(m[at.INDEX_MASK]) + 1].tolist():
        entry = head
        while entry:
            words = m[entry : entry + at.ENTRY_WORDS]
            if words[at.ENTRY_ARRIVED] or words[at.ENTRY_POSTED]:
                left.append(words)
            entry = int(words[at.ENTRY_NEXT])
    return left


def describe(use: CollectiveUse) -> str:
    """A collective in words."""
    return f"the {COLLECTIVE_KEYS[use.type]} of {use.size_bytes} bytes"


def named_ranks(ranks: tuple[int, ...]) -> str:
    """Ranks in words, the first few by number."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = ", ".join(map(str, ranks[:RANKS_NAMED]))
    return f"ranks {shown}" + (f" and {len(ranks) - RANKS_NAMED} more" if len(ranks) > RANKS_NAMED else "")
