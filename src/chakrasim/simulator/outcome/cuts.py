"""What a network that has failed keeps from ending: ranks that went down, and flows that no link leads on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.kernels import layout as at
from chakrasim.text.amounts import ranks_text, some_of

Ints = NDArray[np.int64]
LINKS_NAMED = 6


def lost_lines(flows: FlowNetwork, ranks: Ints) -> list[str]:
    """A line for each rank that went down and stopped the job of these ranks, with those who wait for it."""
    jobs = set(flows.job_of[ranks].tolist())
    lost = [rank for rank in flows.lost_at_ns if flows.job_of[rank] in jobs]
    alive = [rank for rank in ranks.tolist() if rank not in lost]
    waiting = f"; waiting for it: {ranks_text(alive)}" if alive else ""
    return [f"rank {rank} is down since {flows.lost_at_ns[rank]} ns and stops its job{waiting}" for rank in lost]


def last_event_ns(m: Ints, flows: FlowNetwork, slots: Ints, ranks: Ints) -> int:
    """When something last happened to these ranks: the clock goes on for changes that concern nobody."""
    busy_until = slots[ranks, at.SLOT_TIMES : at.SLOT_TIMES + 16].sum(axis=1).max()
    jobs = set(flows.job_of[ranks].tolist())
    lost = [time for rank, time in flows.lost_at_ns.items() if flows.job_of[rank] in jobs]
    return max(int(busy_until), *lost, *(int(flows.sharing.slots[slot].since) for slot in _waiting(m, flows, ranks)), 0)


def waiting_lines(m: Ints, flows: FlowNetwork, ranks: Ints, most: int) -> list[str]:
    """A line for each flow of these ranks that cannot go on, of ``most`` at most: who it is, what it has left, which
    links are down."""
    slots = _waiting(m, flows, ranks)
    lines = [_line(m, flows, slot) for slot in slots[:most]]
    return lines if len(slots) <= most else [*lines, f"... and {len(slots) - most} more flows wait"]


def _waiting(m: Ints, flows: FlowNetwork, ranks: Ints) -> list[int]:
    """The slots of these ranks' flows under way: when nothing happens any more, none of them can go on."""
    slots = np.array(flows.under_way(), np.int64)
    routes = m[flows.sharing.slots["record"][slots] + at.MSG_ROUTE]
    found: list[int] = slots[np.isin(flows.ranks_of_routes()[routes], ranks)].tolist()
    return found


def _line(m: Ints, flows: FlowNetwork, slot: int) -> str:
    source, target = flows.ends(m, slot)
    down = flows.states.capacity == 0
    if source < 0:
        name, pair = f"the {flows.activities.name_of(target)}", flows.activities.cut_pair(target, down)
    else:
        name, pair = f"the message from rank {source} to rank {target}", (source, target)
    size = int(m[int(flows.sharing.slots[slot].record) + at.MSG_BYTES])
    left = f"{float(flows.sharing.slots[slot].remaining):.0f} of {size} bytes left"
    return f"{name} waits with {left}: {_why(flows.graph, pair, down)}"


def _why(graph: NetworkGraph, pair: tuple[int, int] | None, down: NDArray[np.bool_]) -> str:
    """Between which ranks there is no way, and the links down at the edge of what the first one reaches."""
    cut = np.flatnonzero(down)
    ends = ""
    if pair is not None:
        ends = f"no way from rank {pair[0]} to rank {pair[1]} "
        reached = _reached(graph, pair[0], ~down)
        leads_on = reached & (graph.transit | (np.arange(graph.vertices) == pair[0]))
        edge = down & leads_on[graph.source] & ~reached[graph.target]
        cut = np.flatnonzero(edge) if edge.any() else cut
    names = [graph.link_names[link] for link in cut.tolist()]
    return f"{ends}while {some_of(names, LINKS_NAMED)} {'is' if len(names) == 1 else 'are'} down"


def _reached(graph: NetworkGraph, source: int, up: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[v]: what a rank reaches over these links (bool[l]), through what lets traffic pass."""
    reached = np.zeros(graph.vertices, np.bool_)
    reached[source] = True
    while True:
        leads_on = reached & graph.transit
        leads_on[source] = True
        new = graph.target[up & leads_on[graph.source]]
        if reached[new].all():
            return reached
        reached[new] = True
