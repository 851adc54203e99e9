"""Where a rank's time goes: kinds of computation, communication that nothing hides by role, waiting, the bubble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.generator.layers.condense import PARTS as COMPUTE
from chakrasim.generator.layers.tape import STREAMS
from chakrasim.machine.device.power import BUSY, COMMUNICATING, IDLE, STATES
from chakrasim.trace import NodeType
from chakrasim.trace.job.job import PEER

if TYPE_CHECKING:
    from chakrasim.simulator.outcome.records import NodeRecord
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.trace import Job, Trace

Ints = NDArray[np.int64]

WAITING: Final = "waiting"
"""For other ranks of a collective, and with nothing to do where there are no stages."""
BUBBLE: Final = "bubble"
"""Of a pipeline: waiting for other stages."""
HOST_MEMORY: Final = "host_memory"
"""Loads and stores of it, where there are any."""
_COMMUNICATES: Final = (NodeType.COMM_COLL_NODE, NodeType.COMM_RECV_NODE)


_BUSY: Final = frozenset(COMPUTE) - {"host"} | {"compute", "overlap"}


def seconds_by_state(parts_s: Mapping[str, float]) -> dict[str, float]:
    """Seconds of parts, those of a simulation or of `parts_of`, by state of `chakrasim.machine.device.power`."""
    found = dict.fromkeys(STATES, 0.0)
    for name, seconds in parts_s.items():
        moving = name.startswith(("comm_", "exposed_comm"))
        found[BUSY if name in _BUSY else COMMUNICATING if moving else IDLE] += seconds
    return found


def slowest(result: SimulationResult) -> int:
    """The rank that computes longest, for which the others wait; of several the first."""
    return int(np.argmax(result.gpu_ns))


def parts_of(result: SimulationResult, job: Job, rank: int) -> dict[str, float]:
    """Seconds by part, which sum to the makespan: the kinds of `COMPUTE`, ``comm_ROLE`` of what moves while nothing is
    computed, `HOST_MEMORY`, `WAITING` and `BUBBLE`.

    What happens at once counts for the first of these in that order. Communication counts from when its last
    participant has come; what a rank waits for before is waiting, or, for a message, bubble.
    """
    record = result.records[int(result.classes[rank])]
    spans, kinds = _compute_spans(record)
    moving, early = _communication(result, job, rank, record)
    accesses = _accesses(record)
    layers = [
        ("compute", spans),
        *moving.items(),
        (HOST_MEMORY, accesses),
        (WAITING, early.pop(WAITING)),
        (BUBBLE, early.pop(BUBBLE)),
    ]
    taken = _first_of([span for _, span in layers], result.makespan_ns)
    found = dict(zip((name for name, _ in layers), taken[:-1], strict=True))
    rest = BUBBLE if len(job.traces) > 1 and "pp" in job.process_groups else WAITING
    found[rest] += taken[-1]
    busy, stated = found.pop("compute"), max(sum(kinds.values()), 1)
    parts = {name: busy * kinds.pop(name) / stated for name in COMPUTE}
    for role in sorted({*moving, *kinds}):
        parts[f"comm_{role}"] = found.pop(role, 0) + busy * kinds.get(role, 0) / stated
    if not len(accesses):
        del found[HOST_MEMORY]
    return {name: value / 1e9 for name, value in {**parts, **found}.items()}


def _accesses(record: NodeRecord) -> Ints:
    """int64[n, 2] of when the host's memory is loaded from or stored to."""
    trace, nodes, start, end = _ran(record)
    chosen = np.isin(trace.types[nodes], (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE))
    return np.stack([start[chosen], end[chosen]], axis=1)


def _ran(record: NodeRecord) -> tuple[Trace, Ints, Ints, Ints]:
    """The trace, and nodes that ran with their starts and ends."""
    ran = record.start_ns >= 0
    return record.graph.trace, record.graph.order[ran], record.start_ns[ran], record.end_ns[ran]


def _compute_spans(record: NodeRecord) -> tuple[Ints, dict[str, int]]:
    """int64[n, 2] of when something is computed, and what the nodes say that their times are made of: kinds of
    computation, and by role what collectives among them hold up."""
    trace, nodes, start, end = _ran(record)
    computes = trace.types[nodes] == NodeType.COMP_NODE
    stated = {name: f"{name}_ns" for name in COMPUTE} | {role: f"exposed_{role}_ns" for role in STREAMS}
    kinds = {name: int(trace.attr(key).integers()[nodes[computes]].sum()) for name, key in stated.items()}
    kinds = {name: value for name, value in kinds.items() if value or name in COMPUTE}
    return np.stack([start[computes], end[computes]], axis=1), kinds


def _communication(
    result: SimulationResult, job: Job, rank: int, record: NodeRecord
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Spans by role in which bytes of a rank's collectives and incoming messages move, and spans before that."""
    trace, nodes, start, end = _ran(record)
    chosen = np.isin(trace.types[nodes], _COMMUNICATES)
    nodes, start, end = nodes[chosen], start[chosen], end[chosen]
    receives = trace.types[nodes] == NodeType.COMM_RECV_NODE
    roles = trace.attr("pg_name").texts(nodes)
    come = start.copy()
    for role in np.unique(roles[~receives]).tolist():
        own = np.flatnonzero(~receives & (roles == role))
        own = own[np.argsort(nodes[own], kind="stable")]
        group = next((group for group in job.process_groups.get(role, ()) if rank in group), (rank,))
        for other in group:
            theirs = _starts(result.records[int(result.classes[other])], role)
            if len(theirs) == len(own):
                come[own] = np.maximum(come[own], theirs)
    if receives.any():
        come[receives] = _sent(result, job, rank, trace, nodes[receives], start[receives])
    come = np.minimum(come, end)
    moving = {role: np.stack([come, end], axis=1)[roles == role] for role in sorted(set(roles.tolist()))}
    before = np.stack([start, come], axis=1)
    return moving, {WAITING: before[~receives], BUBBLE: before[receives]}


def _starts(record: NodeRecord, role: str) -> Ints:
    """When a rank came to each of its collectives of a role, in program order."""
    trace, nodes, start, _ = _ran(record)
    chosen = trace.types[nodes] == NodeType.COMM_COLL_NODE
    chosen[chosen] = trace.attr("pg_name").texts(nodes[chosen]) == role
    found: Ints = start[chosen][np.argsort(nodes[chosen], kind="stable")]
    return found


def _sent(result: SimulationResult, job: Job, rank: int, trace: Trace, nodes: Ints, start: Ints) -> Ints:
    """When what a rank receives was sent, or when it was ready to receive if that is later."""
    group = next(group for group in job.process_groups["pp"] if rank in group)
    peers, tags = (trace.attr(name).integers()[nodes] for name in (PEER, "comm_tag"))
    sent = start.copy()
    for peer in np.unique(peers).tolist():
        theirs, their_nodes, their_start, _ = _ran(result.records[int(result.classes[group[peer]])])
        sends = theirs.types[their_nodes] == NodeType.COMM_SEND_NODE
        sends[sends] = theirs.attr(PEER).integers()[their_nodes[sends]] == group.index(rank)
        known = theirs.attr("comm_tag").integers()[their_nodes[sends]]
        order = np.argsort(known, kind="stable")
        mine = peers == peer
        at = np.searchsorted(known[order], tags[mine])
        sent[mine] = np.maximum(sent[mine], their_start[sends][order][np.minimum(at, len(order) - 1)])
    return sent


def _first_of(layers: list[Ints], until: int) -> list[int]:
    """How much of the time from 0 to ``until`` each layer of spans covers that none before it covers; then the rest."""
    edges = np.unique(np.concatenate([np.array([0, until]), *(spans.reshape(-1) for spans in layers)]))
    lengths = np.diff(edges)
    free = np.ones(len(lengths), np.bool_)
    taken = []
    for spans in layers:
        steps = np.zeros(len(edges), np.int64)
        np.add.at(steps, np.searchsorted(edges, spans[:, 0]), 1)
        np.subtract.at(steps, np.searchsorted(edges, spans[:, 1]), 1)
        covered = (np.cumsum(steps)[:-1] > 0) & free
        taken.append(int(lengths[covered].sum()))
        free &= ~covered
    return [*taken, int(lengths[free].sum())]
