"""What crossed the links of a graph, and who sent it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.section import open_section
from chakrasim.config.values import as_sequence
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.notes import Notes
from chakrasim.simulator.arena.flow_network import FlowNetwork

MOST_USERS = 3
NAMED = 10
"""Of so many links with the most load it is said who used them."""


@dataclass(frozen=True)
class LinkUser:
    """Who sent over a link: messages of a pair of ranks, or a collective of some ranks; ``bytes`` that crossed it."""

    name: str
    bytes: int


@dataclass(frozen=True)
class GraphLink:
    """A link of a flow network that something crossed; ``busy_share`` is what crossed it over what could have."""

    name: str
    bytes: int
    busy_share: float
    users: tuple[LinkUser, ...] = ()


def graph_links(flows: FlowNetwork, activities: Sequence[str], makespan_ns: int) -> tuple[GraphLink, ...]:
    """The links that were used, those with the largest share first; ``activities`` are names by number."""
    table, graph = flows.table, flows.graph
    route = np.repeat(np.arange(table.latency.size), np.diff(table.first))
    crossed = table.coefficient * table.sent[route]
    carried = np.bincount(table.link, crossed, graph.links)
    share = carried / (graph.capacity * max(makespan_ns, 1))
    used = np.flatnonzero(carried)
    order = used[np.lexsort((used, -share[used]))]
    names = graph.link_names
    found = []
    for place, link in enumerate(order.tolist()):
        users = _users(flows, activities, route, crossed, link) if place < NAMED else ()
        found.append(GraphLink(names[link], round(carried[link]), float(share[link]), users))
    return tuple(found)


def read_loads(path: str, graph: NetworkGraph, notes: Notes) -> dict[str, float]:
    """The busy share of links by name, from the JSON of a run on ``graph``. Raises InputError for any other file."""
    section = open_section(path, "result of simulate --json", "json", notes)
    links = as_sequence(section.entries.get("links"))
    if links is None:
        remedy = "run simulate with --network-model flow"
        section.fail("links", "no links of a graph", expected="a run on the flow network", remedy=remedy)
    loads = {}
    for index, entry in enumerate(links):
        name, share = (entry.get("name"), entry.get("busy_share")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(name, str) or isinstance(share, bool) or not isinstance(share, int | float):
            section.fail(("links", index), "not a link", expected="its name and busy_share")
        if name not in graph.link_number:
            section.fail(("links", index, "name"), "the network has no such link", expected="a run on this network")
        loads[name] = float(share)
    return loads


def _users(
    flows: FlowNetwork,
    activities: Sequence[str],
    route: NDArray[np.int64],
    crossed: NDArray[np.float64],
    link: int,
) -> tuple[LinkUser, ...]:
    entries = np.flatnonzero((flows.table.link == link) & (crossed > 0))
    most = entries[np.argsort(-crossed[entries], kind="stable")[:MOST_USERS]].tolist()
    return tuple(LinkUser(_name(flows, activities, int(route[e])), round(crossed[e])) for e in most)


def _name(flows: FlowNetwork, activities: Sequence[str], route: int) -> str:
    pair = flows.pair(route)
    return activities[flows.activity_of[route]] if pair is None else f"messages {pair[0]} -> {pair[1]}"
