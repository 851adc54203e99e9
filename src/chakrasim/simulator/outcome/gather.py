"""Reads the figures of a finished run out of the arena and spreads them from classes to ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives import Collective
from chakrasim.collectives.kinds import KINDS
from chakrasim.simulator.arena.engine import slot_table
from chakrasim.simulator.arena.fill import Digit, Layout, representatives
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.checks.unaware import Calls, warn_of_impossible
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Plan
from chakrasim.simulator.outcome.graph_links import graph_links
from chakrasim.simulator.outcome.local_memory import tensors_of, usage
from chakrasim.simulator.outcome.records import PARTS, CollectiveFigures, LinkFigures, NodeRecord, RoleTimes
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.totals import totals

Ints = NDArray[np.int64]
NOBODY = np.zeros(0, np.int64)
SKIPPED = "skipped nodes (no operation, or a roofline node without a tensor)"


def gather(
    m: Ints,
    layout: Layout,
    context: Context,
    plans: Sequence[Sequence[Plan]],
    digits: Sequence[Digit],
    reason: str,
    flows: FlowNetwork | None = None,
    unfinished: Ints = NOBODY,
) -> SimulationResult:
    """The result of a run in which all ranks finished, but for the ``unfinished`` ones."""
    slots = slot_table(m)
    classes = np.searchsorted(layout.ranks, representatives(context.ranks, digits))
    times = slots[:, at.SLOT_TIMES : at.SLOT_TIMES + 16]
    finish = slots[:, at.SLOT_FINISH].copy()
    finish[unfinished] = max(finish.max(initial=0), times[unfinished].sum(axis=1).max(initial=0))
    side_by_side = context.issue == "streams"
    parts = (_parts_beside if side_by_side else _parts)(times, finish)
    gpu, comm = _busy_beside(parts) if side_by_side else _busy(times)
    records = _records(m, layout, slots)
    peak = _peak_memory(records, classes, context) if context.system.track_local_mem else None
    context.counts[SKIPPED] += int(slots[classes, at.SLOT_SKIPPED].sum())
    collective_bytes = np.zeros(1, np.int64) if flows is None else flows.bytes_sent()
    if flows is not None:
        context.counts["flows under way that took another way, each time"] += flows.rerouted
        context.counts["flows under way that waited for links to come back"] += len(flows.waited)
    calls = _calls(records, layout, classes, plans)
    if context.network_model == "unaware":
        warn_of_impossible(calls, context)
    if m[at.MISMATCHES]:
        context.notes.warn("some ranks ran different collectives under the same place in their group's sequence")
    if m[at.UNEQUAL]:
        context.counts["collectives whose members name different sizes"] += int(m[at.UNEQUAL])
        context.notes.warn(
            f"the members of {int(m[at.UNEQUAL])} collectives name different sizes: each runs with the largest, in "
            "equal parts, since traces do not say who sends how much to whom"
        )
    return SimulationResult(
        finish_ns=finish[classes],
        exposed_comm_ns=(finish - (gpu if side_by_side else slots[:, at.SLOT_GPU_NS]))[classes],
        parts_ns=parts[classes],
        gpu_ns=gpu[classes],
        comm_ns=comm[classes],
        bytes_sent=slots[classes, at.SLOT_BYTES_SENT] + collective_bytes,
        finish_order=_finish_order(m, layout, slots, context.ranks, digits),
        classes=classes,
        fold_reason=reason,
        messages=int(m[at.MESSAGES]) * (context.ranks // len(layout.ranks)),
        message_bytes=int(m[at.MESSAGE_BYTES]) * (context.ranks // len(layout.ranks)) + int(collective_bytes.sum()),
        events=int(m[at.EVENTS]),
        links=_links(m, layout, context) if context.aware else None,
        graph_links=() if flows is None else graph_links(flows, int(finish.max(initial=0))),
        collectives=_collectives(calls, context),
        records=records,
        class_ranks=layout.ranks,
        peak_memory_bytes=peak,
        unfinished=unfinished,
        roles=_roles(m, layout, slots, classes),
        **_of_context(context),
    )


def empty_result(context: Context) -> SimulationResult:
    """The result of a run that was only checked: zeros."""
    zeros = np.zeros(context.ranks, np.int64)
    return SimulationResult(
        finish_ns=zeros,
        exposed_comm_ns=zeros,
        parts_ns=np.zeros((context.ranks, len(PARTS)), np.int64),
        gpu_ns=zeros,
        comm_ns=zeros,
        bytes_sent=zeros,
        finish_order=np.zeros(0, np.int64),
        classes=np.arange(context.ranks),
        fold_reason="checked only, nothing was simulated",
        class_ranks=np.arange(context.ranks),
        **_of_context(context),
    )


def _of_context(context: Context) -> dict[str, Any]:
    """What a result says of how it was asked for, and of the way to it."""
    return {
        "congestion": context.network_model,
        "warnings": context.notes.warnings,
        "counts": {name: count for name, count in sorted(context.counts.items()) if count},
        "system": context.system,
        "replay": context.replay,
    }


def _parts(times: Ints, finish: Ints) -> Ints:
    """Split each rank's time by what was in flight; after its end it is done."""
    parts = np.zeros((len(times), len(PARTS)), np.int64)
    for active in range(16):
        gpu, comm = active >> at.CAT_GPU & 1, active >> at.CAT_COMM & 1
        if gpu:
            name = "overlap" if comm else "compute"
        elif comm:
            name = "exposed_comm"
        elif active >> at.CAT_MEMORY & 1:
            name = "memory"
        else:
            name = "cpu" if active else "idle"
        parts[:, PARTS.index(name)] += times[:, active]
    return _with_idle(parts, finish)


def _parts_beside(times: Ints, finish: Ints) -> Ints:
    """Where streams run side by side the times are by part."""
    parts = np.zeros((len(times), len(PARTS)), np.int64)
    parts[:, : at.IN_IDLE + 1] = times[:, : at.IN_IDLE + 1]
    return _with_idle(parts, finish)


def _with_idle(parts: Ints, finish: Ints) -> Ints:
    """What is left of a rank's time is idle until its end; then it is done."""
    makespan = int(finish.max(initial=0))
    parts[:, PARTS.index("idle")] += finish - parts.sum(axis=1)
    parts[:, PARTS.index("done")] = makespan - finish
    return parts


def _busy(times: Ints) -> tuple[Ints, Ints]:
    """How long a GPU operation was in flight, and a communication."""
    active = np.arange(16)
    gpu, comm = ((active >> category & 1) > 0 for category in (at.CAT_GPU, at.CAT_COMM))
    return times[:, gpu].sum(axis=1), times[:, comm].sum(axis=1)


def _busy_beside(parts: Ints) -> tuple[Ints, Ints]:
    """The same of streams side by side, where a receive whose message has not been sent is no communication."""
    of = {name: parts[:, i] for i, name in enumerate(PARTS)}
    return of["compute"] + of["overlap"], of["overlap"] + of["exposed_comm"] + of["waiting"]


def _roles(m: Ints, layout: Layout, slots: Ints, classes: Ints) -> tuple[RoleTimes, ...]:
    """Communication by role, those first that expose most; none where streams do not run side by side."""
    times: dict[str, Ints] = {}
    for i, (slot, graph) in enumerate(zip(slots, layout.graph_of.tolist(), strict=True)):
        for r, name in enumerate(layout.graphs[graph].roles):
            record = int(slot[at.SLOT_ROLES]) + r * at.ROLE_WORDS
            own = times.setdefault(name, np.zeros((3, len(slots)), np.int64))
            own[:, i] = m[record + at.ROLE_EXPOSED_NS : record + at.ROLE_EXPOSED_NS + 3]
    made = [RoleTimes(name, *own[:, classes]) for name, own in times.items()]
    return tuple(sorted(made, key=lambda one: (-int(one.exposed_ns.sum() + one.waiting_ns.sum()), one.role)))


def _finish_order(m: Ints, layout: Layout, slots: Ints, ranks: int, digits: Sequence[Digit]) -> Ints:
    """All ranks in the order of finishing; where lineages are equal, in the order of their roots."""
    start = int(m[at.FINISH_ORDER])
    order = m[start : start + int(m[at.FINISHED])]
    if len(layout.ranks) == ranks:
        return layout.ranks[order]
    key = slots[order][:, [at.SLOT_FINISH, at.SLOT_FINISH_LINEAGE]]
    block = np.zeros(len(order), np.int64)
    block[1:] = np.cumsum((key[1:] != key[:-1]).any(axis=1))
    shifts = np.zeros(1, np.int64)
    for digit in digits:
        if digit.folded:
            shifts = (shifts[:, None] + np.arange(digit.radix) * digit.stride).reshape(-1)
    rank = (layout.ranks[order][:, None] + shifts).reshape(-1)
    root = _shifted(slots[order, at.SLOT_FINISH_ROOT], shifts, digits).reshape(-1)
    position = np.repeat(np.arange(len(order)), len(shifts))
    return rank[np.lexsort((position, root, np.repeat(block, len(shifts))))]


def _shifted(roots: Ints, shifts: Ints, digits: Sequence[Digit]) -> Ints:
    """Roots moved by every translation: int64[roots, shifts]."""
    moved = np.repeat(roots[:, None], len(shifts), axis=1)
    for digit in digits:
        if digit.folded:
            old = moved // digit.stride % digit.radix
            new = (old + shifts // digit.stride % digit.radix) % digit.radix
            moved += (new - old) * digit.stride
    return moved


def _records(m: Ints, layout: Layout, slots: Ints) -> tuple[NodeRecord, ...]:
    if not len(slots) or not slots[:, at.SLOT_STARTS].any():
        return ()
    records = []
    for slot, graph in zip(slots, layout.graph_of, strict=True):
        starts, ends, n = int(slot[at.SLOT_STARTS]), int(slot[at.SLOT_ENDS]), int(slot[at.SLOT_NODE_COUNT])
        issued = int(slot[at.SLOT_ISSUED])
        order = m[issued : issued + int(slot[at.SLOT_ISSUED_COUNT])].copy()
        times = m[starts : starts + n].copy(), m[ends : ends + n].copy()
        records.append(NodeRecord(layout.graphs[graph], *times, order))
    return tuple(records)


def _peak_memory(records: tuple[NodeRecord, ...], classes: Ints, context: Context) -> Ints:
    missing = 0
    for record, copies in zip(records, np.bincount(classes).tolist(), strict=True):
        trace = record.graph.trace
        missing += copies * int((~trace.attr("inputs").present & ~trace.attr("outputs").present).sum())
    if missing:
        context.notes.warn(
            f"{missing} nodes name no tensors (attributes inputs and outputs): the peak of local memory leaves them out"
        )
    peaks = [usage(tensors_of(record))[1].max(initial=0) for record in records]
    return np.array(peaks, np.int64)[classes]


def _links(m: Ints, layout: Layout, context: Context) -> LinkFigures:
    slots, ports = len(layout.ranks), layout.ports[-1]
    start = int(m[at.LINK_TABLE])
    table = m[start : start + slots * ports * at.LINK_WORDS].reshape(slots * ports, at.LINK_WORDS)
    used = np.flatnonzero(table[:, at.LINK_MESSAGES])
    names = [_link_name(int(layout.ranks[i // ports]), int(i % ports), layout, context) for i in used]
    return LinkFigures(
        name=tuple(names),
        dim=table[used, at.LINK_DIM],
        busy_ns=table[used, at.LINK_BUSY_NS],
        bytes=table[used, at.LINK_BYTES],
        messages=table[used, at.LINK_MESSAGES],
        most_queued=table[used, at.LINK_QUEUED_MOST],
        copies=context.ranks // slots,
        row=used,
    )


def _link_name(rank: int, port: int, layout: Layout, context: Context) -> str:
    d = int(np.searchsorted(layout.ports, port, side="right")) - 1
    stride = math.prod(context.network.npus_count[:d])
    count = context.network.npus_count[d]
    own = rank // stride % count
    ends = context.network.kinds[d].ends(own, port - layout.ports[d], count)
    first, last = (str(rank + (end - own) * stride) if end < count else _switch(end - count) for end in ends)
    dim = f"dim {d} " if context.network.dimensions > 1 else ""
    return f"{dim}{first} -> {last}"


def _switch(number: int) -> str:
    return f"switch {number}" if number else "switch"


def _calls(
    records: tuple[NodeRecord, ...], layout: Layout, classes: Ints, plans: Sequence[Sequence[Plan]]
) -> list[Calls]:
    """The collectives of every class of ranks that have run."""
    weights = np.bincount(classes, minlength=len(layout.ranks)).tolist()
    found = []
    for record, g, weight in zip(records, layout.graph_of.tolist(), weights, strict=False):
        graph = record.graph
        nodes = np.flatnonzero((graph.kind == at.RUN_COLLECTIVE) & (record.end_ns >= 0))
        duration = record.end_ns[nodes] - record.start_ns[nodes]
        uses = graph.a[nodes]
        calls = np.bincount(uses, minlength=len(graph.uses)).tolist()
        spent = totals(uses, duration, len(graph.uses))
        found += [Calls(plans[g][u], weight, count, spent[u]) for u, count in enumerate(calls) if count]
    return found


def _collectives(calls: Sequence[Calls], context: Context) -> tuple[CollectiveFigures, ...]:
    """Calls and mean duration of every kind of collective, weighted by the ranks of each class."""
    sums: dict[Kind, list[int]] = {}
    for entry in calls:
        plan = entry.plan
        kind = (plan.use.type, plan.use.size_bytes, plan.member_count(context), _algorithm(plan, context))
        own = sums.setdefault(kind, [0, 0, 0])
        own[0] += entry.ranks
        own[1] += entry.calls * entry.ranks
        own[2] += entry.spent_ns * entry.ranks
    return tuple(_figures(kind, *own) for kind, own in sorted(sums.items()))


Kind = tuple[Collective, int, int, str]
"""Type, size in bytes, members of the group, algorithm."""


def _figures(kind: Kind, callers: int, calls: int, spent_ns: int) -> CollectiveFigures:
    collective, size, members, algorithm = kind
    mean = spent_ns / calls
    meaning = KINDS[collective]
    algbw = meaning.whole_bytes(size, members) / mean if mean else 0.0
    busbw = algbw * meaning.bus_factor(members)
    groups = callers // members
    return CollectiveFigures(meaning.key, size, members, groups, algorithm, calls, mean, algbw, busbw)


def _algorithm(plan: Plan, context: Context) -> str:
    if plan.programs:
        return "custom"
    if plan.activity >= 0:
        course = None if context.activities is None else context.activities.course(plan.activity)
        return "activity" if course is None else f"{course.choice.algorithm} {course.choice.protocol}"
    by_dim = {phase.dim: phase.algorithm for phase in plan.phases}
    return ",".join(by_dim[d] for d in sorted(by_dim)) or "none"
