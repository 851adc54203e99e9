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
from chakrasim.simulator.flow.alone.api import could_carry
from chakrasim.simulator.flow.alone.flows import CapacityChanges

MOST_USERS = 3
NAMED = 100
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
    could = could_carry(graph.capacity, CapacityChanges(*np.array(flows.history).reshape(-1, 3).T), max(makespan_ns, 1))
    share = np.divide(carried, could, out=np.zeros(graph.links), where=could > 0)
    used = np.flatnonzero(carried)
    order = used[np.lexsort((used, -share[used]))]
    names = graph.link_names
    users = _users(flows, activities, route, crossed, order[:NAMED])
    return tuple(
        GraphLink(names[link], round(carried[link]), float(share[link]), users.get(link, ())) for link in order.tolist()
    )


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
    links: NDArray[np.int64],
) -> dict[int, tuple[LinkUser, ...]]:
    """By link: who sent most over it."""
    asked = np.zeros(flows.graph.links, np.bool_)
    asked[links] = True
    entries = np.flatnonzero(asked[flows.table.link] & (crossed > 0))
    entries = entries[np.lexsort((entries, -crossed[entries], flows.table.link[entries]))]
    first = np.searchsorted(flows.table.link[entries], links)
    last = np.searchsorted(flows.table.link[entries], links, side="right")
    found = {}
    for link, low, high in zip(links.tolist(), first.tolist(), last.tolist(), strict=True):
        most = entries[low : min(high, low + MOST_USERS)].tolist()
        found[link] = tuple(LinkUser(_name(flows, activities, int(route[e]), link), round(crossed[e])) for e in most)
    return found


def _name(flows: FlowNetwork, activities: Sequence[str], route: int, link: int) -> str:
    pair = flows.pair(route)
    if pair is not None:
        return f"messages {pair[0]} -> {pair[1]}"
    number = flows.activity_of[route]
    crossing = flows.activities.flows_over(number, link)
    return f"{activities[number]}: {crossing}" if crossing else activities[number]
