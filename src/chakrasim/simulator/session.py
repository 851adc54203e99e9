"""One simulation from checked traces to the result: lower, fold, run, and fold less when a tie breaks the symmetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.errors import InputError, StallError
from chakrasim.simulator.arena import engine
from chakrasim.simulator.arena.fill import Digit, Layout, build, representatives
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.checks.preflight import IDLE, calls_by_use, check_ranks, warn_of_rings, warn_of_slow_memory
from chakrasim.simulator.checks.queues import warn_of_stalls
from chakrasim.simulator.checks.traffic import check_totals, of_member
from chakrasim.simulator.checks.unaware import warn_of_spans
from chakrasim.simulator.checks.wholes import obstacle
from chakrasim.simulator.context import Context
from chakrasim.simulator.fold import Folding, SymmetryFinder
from chakrasim.simulator.jobs import PlacedJob, place
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.communication import CollectiveUse
from chakrasim.simulator.lowering.compute import Tally
from chakrasim.simulator.lowering.graph import Graph, lower_graph
from chakrasim.simulator.lowering.meetings import hold_meetings
from chakrasim.simulator.lowering.metadata import with_groups
from chakrasim.simulator.lowering.parts import put_together, warn_of_parts
from chakrasim.simulator.lowering.plans import Plan, resolve
from chakrasim.simulator.lowering.sharing import Kinds, by_columns, kinds_of, lower_traces
from chakrasim.simulator.network_changes import LinkStates
from chakrasim.simulator.outcome.gather import NOBODY, SKIPPED, gather
from chakrasim.simulator.outcome.order import put_in_order
from chakrasim.simulator.outcome.records import SimulatedJob
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.simulator.outcome.stall import stall_error, unfinished_ranks, waiting_entries
from chakrasim.trace import Job, TraceBuilder
from chakrasim.trace.job.groups import JobGroups, number_groups

if TYPE_CHECKING:
    from chakrasim.simulator.arena.packet_network import PacketNetwork

Ints = NDArray[np.int64]

Lowered = tuple[Context, list[Graph], Ints]
"""Of a job: its setting with its groups, its graphs, and int64[ranks]: which of them each rank runs."""
RECORD_LIMIT = 50_000_000
"""Up to so many nodes over all simulated ranks, the times of every node are kept."""
LEAST_MESSAGES = 200_000
MESSAGES_PER_NODE = 2
"""Rings are reckoned as wholes where their messages are so many, and so many for each node of all ranks."""
ORDER_MESSAGES = 50_000_000
"""From so many on, the order of ranks that finish in one ns is not worth simulating the messages that would tell it."""
MANY = 2.0**53


class Session:
    """Checked input on its way through a simulation. Raises InputError for what cannot be simulated.

    ``graph_of`` is int64[ranks]: which of ``graphs`` each rank runs.
    """

    def __init__(self, context: Context, graphs: list[Graph], graph_of: Ints) -> None:
        self.graphs, self.graph_of = graphs, graph_of
        if context.replay == "transfer":
            self.graphs, self.graph_of, meetings = hold_meetings(self.graphs, self.graph_of, context)
            context = replace(context, meetings=meetings)
        if context.graph is not None:
            self.graphs, matrices = put_together(self.graphs, self.graph_of, context)
            context = replace(context, matrices=matrices)
        else:
            warn_of_parts(self.graphs, context)
        self.context = context
        self.flows: FlowNetwork | None = None
        self.packets: PacketNetwork | None = None
        self.stalls: dict[int, StallError] = {}
        """By number of the job: why it cannot end."""
        known: dict[CollectiveUse, Plan] = {}
        self.plans = [resolve_all(graph, context, known) for graph in self.graphs]
        calls = by_columns(self.graphs, calls_by_use)
        kinds = kinds_of(self.graphs, self.plans)
        check_ranks(context, self.graphs, self.graph_of, self.plans, calls, kinds)
        check_totals(context, self.graphs, self.graph_of, self.plans, calls, kinds)
        distinct = (list({id(plan): plan for own in self.plans for plan in own}.values()),)
        warn_of_stalls(distinct, context)
        warn_of_spans(distinct, context)
        warn_of_rings(context, distinct)
        if context.replay is None:
            warn_of_slow_memory(context, distinct)
        self._count(calls, kinds)
        self._messages = self._messages_of(calls, kinds)
        self.finder = SymmetryFinder(context, self.graphs, self.graph_of, self.plans)

    @classmethod
    def of_job(cls, context: Context, job: Job) -> Session:
        """One job on all ranks."""
        return cls(*lowered(context, job))

    @classmethod
    def of_jobs(cls, context: Context, jobs: Sequence[PlacedJob], known: dict[str, Lowered]) -> Session:
        """Several jobs, each on ranks of its own; other ranks have nothing to do.

        ``known`` has jobs that are lowered already, by name, and gets the others.
        """
        graphs = [lower_graph(TraceBuilder(source=IDLE).build(), context)]
        graph_of = np.zeros(context.ranks, np.int64)
        groups: dict[int, tuple[int, ...]] = {}
        starts: dict[int, int] = {}
        job_of = np.full(context.ranks, -1, np.int64)
        for number, job in enumerate(jobs):
            job_of[job.ranks] = number
            slow = {i: context.slow[rank] for i, rank in enumerate(job.ranks.tolist()) if rank in context.slow}
            own = replace(context, ranks=job.job.ranks, groups=dict(job.groups or {}), slow=slow)
            if job.name not in known:
                known[job.name] = lowered(own, job.job)
            own, of_job, which = known[job.name]
            placed = place(job, of_job, own, len(groups) + 1)
            graph_of[job.ranks] = len(graphs) + which
            graphs += placed.graphs
            groups |= placed.groups
            starts |= dict.fromkeys(job.ranks.tolist(), job.start_ns)
        return cls(replace(context, groups=groups, starts=starts, job_of=job_of), graphs, graph_of)

    def _count(self, calls: Sequence[Ints], kinds: Kinds) -> None:
        """Count, over all ranks, what takes another way than its name says."""
        ranks = np.bincount(self.graph_of, minlength=len(self.graphs)).tolist()
        counts = self.context.counts
        of_kind = np.bincount(kinds.of_graph[self.graph_of], minlength=len(kinds.first)).tolist()
        for g, copies in zip(kinds.first, of_kind, strict=True):
            graph = self.graphs[g]
            at_once = sum(int(n) for plan, n in zip(self.plans[g], calls[g], strict=True) if not plan.chunks)
            counts["collectives completed at once (one member, or nothing to move)"] += at_once * copies
            counts[SKIPPED] += graph.skipped * copies
            counts["broadcasts replayed with their recorded duration"] += graph.replayed * copies
            counts["measured latencies (delay_ns) left out: only replays wait them"] += graph.latencies * copies
        roofline = self.context.system.roofline_enabled and not self.context.system.replay_only
        if self.context.replay is None and (self.context.profile is not None or roofline):
            self._count_compute(ranks)

    def _count_compute(self, ranks: Sequence[int]) -> None:
        tally = Tally()
        copies: Counter[int] = Counter()
        for graph, count in zip(self.graphs, ranks, strict=True):
            copies[id(graph.columns)] += count
        for columns in {id(graph.columns): graph.columns for graph in self.graphs}.values():
            tally.add(columns.trace, copies[id(columns)], self.context)
        model = "the device profile" if self.context.profile is not None else "the roofline"
        self.context.counts[f"compute nodes timed by {model}"] += tally.timed
        self.context.counts["compute nodes that keep their recorded duration"] += tally.kept
        self.context.notes.warn(*tally.warnings(self.context))

    def _messages_of(self, calls: Sequence[Ints], kinds: Kinds) -> Ints:
        """int64[graphs]: the messages of the collectives of a rank."""
        of_kind = [
            sum(of_member(plan).messages * count for plan, count in zip(self.plans[g], calls[g].tolist(), strict=True))
            for g in kinds.first
        ]
        return np.minimum(np.array(of_kind, np.float64), MANY).astype(np.int64)[kinds.of_graph]

    def run(
        self, *, fold: bool, progress: engine.Progress | None = None, watch: engine.Watch | None = None
    ) -> SimulationResult:
        """Simulate, folded as far as it goes; ``watch`` looks on, but not at rings as wholes. Raises StallError when
        some rank cannot finish; of several jobs, ``stalls`` says which cannot."""
        folding = self._folding(fold)
        if fold and (messages := self._spared(folding)):
            reckoned = self._with_wholes(messages, progress)
            if reckoned is not None:
                return reckoned
        broken: list[str] = []
        while True:
            try:
                m, layout = self._attempt(folding, progress, watch=watch)
            except engine.BrokenSymmetry as tie:
                digit = folding.digits[tie.digit]
                broken.append(f"stride {digit.stride} radix {digit.radix}")
                folding = _without(folding, tie.digit)
                continue
            unfinished = unfinished_ranks(m, self.flows)
            if unfinished.size and folding.digits:
                # The wait-for chain names ranks, not classes: stall again with every rank by itself.
                folding = Folding((), "")
                continue
            break
        if unfinished.size and self.context.job_of is None:
            raise stall_error(m, layout, self.context, self.plans, self.flows, unfinished)
        self._note_stalls(m, layout, unfinished)
        return self._result(m, layout, unfinished, folding.digits, _reason(folding, self.context.ranks, broken))

    def _result(
        self, m: Ints, layout: Layout, unfinished: Ints, digits: tuple[Digit, ...], reason: str
    ) -> SimulationResult:
        self._warn_of_lost_messages(m)
        result = gather(m, layout, self.context, self.plans, digits, reason, self.flows, unfinished)
        job = SimulatedJob(self.graphs, self.graph_of, self.plans, self.context)
        return replace(result, job=job, packets=None if self.packets is None else self.packets.figures())

    def _spared(self, folding: Folding) -> int:
        """How many messages a run of the classes would have; 0 unless rings can be reckoned as wholes, and simulating
        every rank so is less work."""
        nodes = int(np.array([len(graph) for graph in self.graphs], np.int64)[self.graph_of].sum())
        simulated = np.unique(representatives(self.context.ranks, folding.digits))
        messages = int(self._messages[self.graph_of[simulated]].astype(np.float64).sum())
        if messages < max(LEAST_MESSAGES, MESSAGES_PER_NODE * nodes) or nodes > RECORD_LIMIT:
            return 0
        shares = self.context.memory.kind not in ("NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION")
        return 0 if obstacle(self.finder.plans, self.context, shares_memory=shares) else messages

    def _with_wholes(self, messages: int, progress: engine.Progress | None) -> SimulationResult | None:
        """A run of every rank with rings as wholes; None where a run of all messages has to tell an order, or what is
        wrong."""
        try:
            m, layout = self._attempt(Folding((), ""), progress, wholes=True)
        except (engine.BrokenSymmetry, InputError):
            return None
        if unfinished_ranks(m, None).size or m[at.MISMATCHES]:
            return None
        tied = put_in_order(m)
        if tied and messages < ORDER_MESSAGES:
            return None
        reason = f"{self.context.ranks} ranks, each by itself, with rings as wholes"
        if tied:
            reason += f"; {tied} of them end in one ns with others, and stand in the order of their numbers"
        return self._result(m, layout, NOBODY, (), reason)

    def _note_stalls(self, m: Ints, layout: Layout, unfinished: Ints) -> None:
        """Say of each job why it cannot end, if it cannot."""
        job_of = self.context.job_of if self.context.job_of is not None else unfinished[:0]
        for job in np.unique(job_of[unfinished]).tolist():
            own = unfinished[job_of[unfinished] == job]
            self.stalls[job] = stall_error(m, layout, self.context, self.plans, self.flows, own)

    def _folding(self, fold: bool) -> Folding:
        if self.context.network_model == "flow":
            return Folding((), "every rank simulated: a graph of links")
        if self.context.network_model == "packet":
            return Folding((), "every rank simulated: a network of packets")
        if not fold:
            return Folding((), "every rank simulated: folding is switched off")
        if self.context.replay is not None:
            # Ranks whose nodes take equally long may still have measured other steps.
            return Folding((), "every rank simulated: measured durations are each rank's own")
        return self.finder.find()

    def _attempt(
        self,
        folding: Folding,
        progress: engine.Progress | None,
        *,
        wholes: bool = False,
        watch: engine.Watch | None = None,
    ) -> tuple[Ints, Layout]:
        ranks = np.unique(representatives(self.context.ranks, folding.digits))
        sizes = np.array([len(graph) for graph in self.graphs], np.int64)
        nodes = int(sizes[self.graph_of[ranks]].sum())
        keys = self.finder.group_keys(folding.digits)
        record = nodes <= RECORD_LIMIT
        if not record:
            self.context.notes.warn(
                f"{nodes} nodes are simulated: their single times are not kept, so there is no timeline"
            )
        self.flows = self._flow_network()
        self.packets = self._packet_network()
        m, layout = build(self.context, self.graphs, self.graph_of, self.plans, folding.digits, keys, record, wholes)
        try:
            return engine.run(m, self.context.limits, nodes, progress, self.flows or self.packets, watch), layout
        except engine.TimeOutOfRange as error:
            raise self._out_of_range(error) from None

    def _packet_network(self) -> PacketNetwork | None:
        """Hosts and switches of a run, without packets yet."""
        if self.context.packets is None:
            return None
        from chakrasim.simulator.arena.packet_network import PacketNetwork

        states = LinkStates(self.context.graph, self.context.changes) if self.context.graph is not None else None
        return PacketNetwork(self.context.packets, self.context.channels, states)

    def _flow_network(self) -> FlowNetwork | None:
        """The links of a run on a graph, without flows yet."""
        graph = self.context.graph
        if self.context.network_model != "flow" or graph is None:
            return None
        activities = self.context.activities
        if activities is None:
            activities = Activities(graph, self.context.routing)
        return FlowNetwork(
            graph,
            self.context.routing,
            activities,
            self.context.changes,
            self._pairs(),
            self.context.job_of,
            self.context.channels,
        )

    def _pairs(self) -> Ints:
        """Who sends messages to whom by itself, beside collectives: source << at.PAIR_BITS | destination, each once."""
        found = [np.zeros(0, np.int64)]
        for g, graph in enumerate(self.graphs):
            peers = graph.peers[np.unique(graph.a[graph.kind == at.RUN_SEND])]
            ranks = np.flatnonzero(self.graph_of == g)
            found.append(((ranks[:, None] << at.PAIR_BITS) | peers).reshape(-1))
        return np.unique(np.concatenate(found))

    def _out_of_range(self, error: engine.TimeOutOfRange) -> InputError:
        graph = self.graphs[int(self.graph_of[error.rank])] if error.rank >= 0 else None
        known = graph is not None and error.number >= 0
        return InputError(
            "a time is beyond the clock's range",
            file=graph.trace.source if graph is not None else None,
            place=graph.place(error.number) if graph is not None and known else None,
            found=f"the end of this node on rank {error.rank}" if known else "the time of a message or collective",
            expected="less than 2^63 ns",
            remedy="look for absurd sizes, durations, bandwidths or latencies",
        )

    def _warn_of_lost_messages(self, m: Ints) -> None:
        lost = [entry for entry in waiting_entries(m) if entry[at.ENTRY_ARRIVED] and not entry[at.ENTRY_GROUP]]
        if lost:
            source, destination = int(lost[0][at.ENTRY_PAIR]) >> 32, int(lost[0][at.ENTRY_PAIR]) & 0xFFFFFFFF
            tag, size = int(lost[0][at.ENTRY_TAG]), int(lost[0][at.ENTRY_BYTES])
            self.context.notes.warn(
                f"{sum(int(entry[at.ENTRY_ARRIVED]) for entry in lost)} messages were never received, the first from "
                f"rank {source} to rank {destination} (tag {tag}, {size} bytes)"
            )


def lowered(context: Context, job: Job) -> Lowered:
    """The distinct graphs of a job and by rank which of them it runs, with the groups that it brings in the context."""
    shared = number_groups(job, context.groups) if job.process_groups else JobGroups({}, {})
    roles = {n: role for role, own in shared.of_rank.items() for n in np.unique(own[own > 0]).tolist()}
    groups = {**context.groups, **shared.members}
    context = replace(context, groups=groups, roles=tuple(shared.of_rank), role_of=roles)
    used, which = np.unique(np.asarray(job.trace_of_rank, np.int64), return_inverse=True)
    traces = [job.traces[index] for index in used.tolist()]
    if context.replay is None:
        context = replace(context, groups=with_groups(traces, context))
    return context, *lower_traces(traces, which.reshape(-1).astype(np.int64), tuple(shared.of_rank.values()), context)


def resolve_all(graph: Graph, context: Context, known: dict[CollectiveUse, Plan]) -> list[Plan]:
    """The plans of a graph's collectives, new ones added to ``known``.

    An error names the first node that asks for what cannot be had.
    """
    plans = []
    for u, use in enumerate(graph.uses):
        try:
            if use not in known:
                replayed = use.type == Collective.BROADCAST and not context.protocol.physics
                known[use] = Plan(use, 0, ()) if replayed else resolve(use, context)
            plans.append(known[use])
        except InputError as error:
            if error.file is not None:
                raise
            place = graph.place(graph.first_call(u))
            place = f"{place}: {error.place}" if error.place else place
            raise InputError(
                error.message,
                file=graph.trace.source,
                place=place,
                found=error.found,
                expected=error.expected,
                remedy=error.remedy,
            ) from None
    return plans


def _without(folding: Folding, number: int) -> Folding:
    """The folding with one digit less."""
    digits = tuple(replace(d, folded=d.folded and i != number) for i, d in enumerate(folding.digits))
    return Folding(digits if any(d.folded for d in digits) else (), folding.reason)


def _reason(folding: Folding, ranks: int, broken: list[str]) -> str:
    ties = f"; ties told apart the ranks along {', '.join(broken)}" if broken else ""
    if not folding.digits:
        return (folding.reason or "every rank simulated") + ties
    classes = ranks // folding.classes_share
    return f"{ranks} ranks in {classes} class{'es' if classes > 1 else ''} of {folding.classes_share} equal ranks{ties}"
