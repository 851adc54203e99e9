"""What crossed the links of a graph, and who sent it."""

from __future__ import annotations

from collections.abc import Mapping
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
from chakrasim.simulator.kernels.layout import PAIR_BITS

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


def graph_links(flows: FlowNetwork, makespan_ns: int) -> tuple[GraphLink, ...]:
    """The links that were used, those with the largest share first."""
    table, graph = flows.table, flows.graph
    route = np.repeat(np.arange(table.latency.size), np.diff(table.first))
    crossed = table.coefficient * table.sent[route]
    carried = np.bincount(table.link, crossed, graph.links)[: graph.links]
    could = could_carry(graph.capacity, CapacityChanges(*np.array(flows.history).reshape(-1, 3).T), max(makespan_ns, 1))
    share = np.divide(carried, could, out=np.zeros(graph.links), where=could > 0)
    used = np.flatnonzero(carried)
    order = used[np.lexsort((used, -share[used]))]
    names = graph.link_names
    users = _users(flows, route, crossed, order[:NAMED])
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
    flows: FlowNetwork, route: NDArray[np.int64], crossed: NDArray[np.float64], links: NDArray[np.int64]
) -> dict[int, tuple[LinkUser, ...]]:
    """By link: who sent most over it."""
    asked = np.zeros(flows.sharing.links.size, np.bool_)
    asked[links] = True
    entries = np.flatnonzero(asked[flows.table.link] & (crossed > 0))
    user = flows.user[route[entries]]
    # What took another way on its way has several routes.
    order = np.lexsort((user, flows.table.link[entries]))
    at, user = flows.table.link[entries][order], user[order]
    first = np.flatnonzero(np.concatenate([[True], (at[1:] != at[:-1]) | (user[1:] != user[:-1])])[: at.size])
    at, user, sent = at[first], user[first], np.add.reduceat(crossed[entries][order], first)
    found: dict[int, tuple[LinkUser, ...]] = {}
    for i in np.lexsort((user, -sent, at)).tolist():
        link, known = int(at[i]), found.get(int(at[i]), ())
        if len(known) < MOST_USERS:
            found[link] = (*known, LinkUser(_name(flows, int(user[i]), link), round(sent[i])))
    return found


def _name(flows: FlowNetwork, user: int, link: int) -> str:
    """A user of routes (`FlowNetwork.user`), as a user of this link."""
    if user >= 0:
        return f"messages {user >> PAIR_BITS} -> {user & ((1 << PAIR_BITS) - 1)}"
    crossing = flows.activities.flows_over(-1 - user, link)
    return flows.activities.name_of(-1 - user) + (f": {crossing}" if crossing else "")
