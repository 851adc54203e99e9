"""A network as a graph, from the values of its keys: ranks, parts, single cables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from chakrasim.config.section import Section
from chakrasim.config.table import Key, Kind, Values, mapping, names, read
from chakrasim.errors import InputError, near
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.changes import Change, changes_below
from chakrasim.machine.graph.formats.api import read_graph
from chakrasim.machine.graph.formats.own import read_own
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NO_ISLAND, RANK, NetworkGraph
from chakrasim.machine.graph.network_keys import MOST_RANKS, Part, graph_network
from chakrasim.machine.graph.routing import Routing, routing_kind

_OWN: Final = ("name", "vertices", "links")
"""Keys of a graph that is written out whole (`formats.own`)."""


class GraphParts(NamedTuple):
    """What the keys of a graph give; its logical shape stands beside them in the file."""

    builder: GraphBuilder
    routing: Routing
    logical: tuple[int, ...] | None


def build(section: Section, values: Values) -> GraphParts:
    """Build what a file's ``graph`` says. Raises :class:`chakrasim.InputError` with the part or cable at fault."""
    logical = None
    if values["file"] is not None:
        for key in ("ranks", "islands", "switches", "parts"):
            if key in section:
                section.fail(key, "does not go with file", remedy="leave one of them out")
        whole = read_graph(values["file"], section.notes)
        graph, logical = GraphBuilder.of(whole), whole.logical
    else:
        graph = GraphBuilder(section.file)
        _add_ranks(section, values, graph)
    for name in values["switches"]:
        graph.vertex(name)
    for index, part in enumerate(values["parts"]):
        _add_part(section, index, part, graph)
    for index, cable in enumerate(values["cables"]):
        _cable(section, ("cables", index), cable, graph)
    for warning in graph.notes.warnings:
        section.warn("parts", warning)
    return GraphParts(graph, values["routing"], logical)


def graph_kind() -> Kind:
    """A network that is a graph: put together by keys, or written out whole."""
    by_keys = mapping(NETWORK_GRAPH, graph_of)

    def reader(section: Section, key: str) -> GraphNetwork:
        network = section.below(key, names(NETWORK_GRAPH)).entries
        graph = network.get("graph")
        if not isinstance(graph, Mapping) or not {"vertices", "links"} & set(graph):
            made: GraphNetwork = by_keys.read(section, key)
            return made
        below = section.strictly_below(key, names(NETWORK_GRAPH)).strictly_below("graph", (*_OWN, "routing"))
        own: dict[str, Any] = {"graph": {name: graph[name] for name in _OWN if name in graph}}
        own |= {"logical": network["logical"]} if "logical" in network else {}
        whole = read_own({"network": own}, Source(section.file, section.notes))
        routing = routing_kind.read(below, "routing") if "routing" in graph else Routing()
        beside = Section(network, section.file, section.notes, section.at(key))
        more = read(beside, tuple(one for one in NETWORK_GRAPH if one.name in ("changes", "network-model")))
        changes = changes_below(beside, more["changes"], whole)
        return GraphNetwork(whole, routing, more["network_model"] or "flow", tuple(changes))

    return Kind(reader, by_keys.shown, {"anyOf": [by_keys.schema, {"type": "object"}]}, by_keys.keys)


NETWORK_GRAPH: tuple[Key, ...] = graph_network(build)
"""The keys of a network that is a graph."""


class GraphNetwork(NamedTuple):
    """A network that is a graph, as a machine takes it."""

    graph: NetworkGraph
    routing: Routing
    model: str
    changes: tuple[Change, ...] = ()


def graph_of(section: Section, values: Values) -> GraphNetwork:
    """The graph, with the logical shape that the file gives it, from the values of `NETWORK_GRAPH`."""
    parts: GraphParts = values["graph"]
    ranks = parts.builder.ranks
    logical: tuple[int, ...] = values["logical"] or parts.logical or (ranks,)
    if prod(logical) != ranks:
        section.fail("logical", "does not hold the ranks", found=list(logical), expected=f"a product of {ranks}")
    try:
        graph = parts.builder.build(logical)
    except InputError as error:
        section.fail("graph", error.message, expected=error.expected or "")
    changes = changes_below(section, values["changes"], graph)
    return GraphNetwork(graph, parts.routing, values["network_model"] or "flow", tuple(changes))


def _add_ranks(section: Section, values: Values, graph: GraphBuilder) -> None:
    islands = values["islands"] or {"gpus": None, "sizes": None}
    sizes: tuple[int, ...] = islands["sizes"] or ()
    count = values["ranks"] or sum(sizes) or _own_ranks(values["parts"])
    if not 0 < count <= MOST_RANKS:
        section.fail(
            "ranks", "how many ranks there are is missing or too much", found=count, expected=f"1 to {MOST_RANKS}"
        )
    if sizes and sum(sizes) != count:
        section.fail("islands", "the islands do not hold the ranks", found=sum(sizes), expected=f"{count}")
    if not sizes and islands["gpus"]:
        size = islands["gpus"]
        sizes = (size,) * (count // size) + ((count % size,) if count % size else ())
    for island, size in enumerate(sizes or (count,)):
        for _ in range(size):
            graph.vertex(str(graph.vertices), RANK, island if sizes else NO_ISLAND)


def _own_ranks(parts: Sequence[Part]) -> int:
    """The ranks that the first family has that knows a number."""
    return next((part.family.ranks(part.values) for part in parts if part.family.ranks is not None), 0)


def _add_part(section: Section, index: int, part: Part, graph: GraphBuilder) -> None:
    graph.only, place = part.islands, ("parts", index, part.family.name)
    try:
        if not graph.ports:
            section.fail(place, "there are no such islands", found=sorted(part.islands or ()))
        part.family.build(graph, **part.values)
    except (ValueError, IndexError) as error:
        section.fail(place, str(error))
    graph.only = None


def _cable(section: Section, place: tuple[str, int], cable: Values, graph: GraphBuilder) -> None:
    """A single cable: added, or changed by name."""
    if (cable["between"] is None) == (cable["cable"] is None):
        section.fail(place, "one of between (a new cable) and cable (one that is there) is expected")
    if cable["cable"] is not None:
        links = graph.cable_named(cable["cable"])
        if links is None:
            section.fail(
                (*place, "cable"), "no such cable", found=cable["cable"], expected="a name such as leaf0-spine1"
            )
        for link in links[: 1 if cable["one_way"] else 2]:
            graph.change(link, cable["bandwidth"], cable["latency"])
        return
    if cable["bandwidth"] is None:
        section.fail((*place, "bandwidth"), "the key is missing", expected="the bandwidth of a new cable")
    a, b = (_vertex(section, place, name, graph) for name in cable["between"])
    if a == b:
        section.fail((*place, "between"), "a cable from a vertex to itself", found=list(cable["between"]))
    speed, wait, count = cable["bandwidth"], cable["latency"] or 0.0, cable["count"]
    try:
        if cable["one_way"]:
            for _ in range(count):
                graph.link(a, b, speed, wait)
        else:
            graph.cable(a, b, speed, wait, count=count, shared=cable["shared"])
    except ValueError as error:
        section.fail(place, str(error))


def _vertex(section: Section, place: tuple[str, int], name: str, graph: GraphBuilder) -> int:
    try:
        return graph.number_of(name)
    except KeyError:
        expected, remedy = "a rank's number or a switch's name", near(name, graph.names)
        section.fail((*place, "between"), "no such vertex", found=name, expected=expected, remedy=remedy)
