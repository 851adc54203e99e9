"""Our own form of a whole graph, in YAML or JSON: every vertex and every cable or link, in order.

::

    format: 1
    network:
      graph:
        vertices:
          - {name: "0", kind: rank, island: 0}
          - {name: leaf0}                                   # a switch, unless kind says another
        links:
          - {between: ["0", leaf0], bandwidth: 400 Gbps, latency: 500 ns, count: 2}
          - {from: leaf0, to: "0", bandwidth: 50 GB/s, latency: 500 ns}
      logical: [1]

``between`` is a cable, two links; ``back: {bandwidth, latency}`` says how its way back differs, ``shared: true`` that
both ways share one capacity. ``from`` and ``to`` are one link; ``cable`` and ``medium`` give it the number of its cable
and of the first link with which it shares its capacity.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from chakrasim.config.values import Scalar, as_sequence
from chakrasim.errors import near
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.formats.attributes import node_values
from chakrasim.machine.graph.formats.cables import note_parallel, refuse_media
from chakrasim.machine.graph.formats.quantities import nanoseconds, number_text
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import KINDS, NO_ISLAND, NetworkGraph
from chakrasim.text.amounts import plural

_VERTEX: Final = ("name", "kind", "island", "transit")
_CABLE: Final = ("between", "bandwidth", "latency", "count", "back", "shared")
_LINK: Final = ("from", "to", "bandwidth", "latency", "cable", "medium")
_DOCUMENT: Final = ("format", "name", "network")
_NETWORK: Final = ("graph", "logical")
_GRAPH: Final = ("name", "vertices", "links")
_MOST_COUNT: Final = 1 << 16
_MOST_LINKS: Final = 1 << 22


def is_own(document: object) -> bool:
    """Whether a mapping holds a whole graph in our form."""
    graph = document.get("network") if isinstance(document, Mapping) else None
    graph = graph.get("graph") if isinstance(graph, Mapping) else None
    return isinstance(graph, Mapping) and ("vertices" in graph or "links" in graph)


def is_alone(document: Mapping[str, Any]) -> bool:
    """Whether such a mapping holds nothing else: a machine file has more keys."""
    graph = document["network"]["graph"]
    return (
        document.keys() <= set(_DOCUMENT)
        and document["network"].keys() <= set(_NETWORK)
        and graph.keys() <= set(_GRAPH)
    )


def read_own(document: Mapping[str, Any], source: Source) -> NetworkGraph:
    """The graph. Raises InputError with its place."""
    _known(document, _DOCUMENT, "$", source)
    if str(document.get("format", "1")) != "1":
        source.refuse("unknown format", "$.format", found=document["format"], expected="1")
    network = document["network"]
    _known(network, _NETWORK, "$.network", source)
    graph = network["graph"]
    _known(graph, _GRAPH, "$.network.graph", source)
    builder = GraphBuilder(str(graph.get("name", document.get("name", source.name))))
    numbers = _vertices(graph, builder, source)
    cables, media = _links(graph, builder, numbers, source)
    built = builder.build(_logical(network, builder.ranks, source))
    note_parallel(source, *_ends(built))
    return _numbered(built, cables, media, source)


def _known(section: object, keys: Collection[str], place: str, source: Source) -> None:
    if not isinstance(section, Mapping):
        source.refuse("not a mapping", place, found=type(section).__name__, expected="keys " + ", ".join(keys))
    for key in section:
        if key not in keys:
            remedy = near(str(key), keys)
            source.refuse("unknown key", f"{place}.{key}", expected="one of " + ", ".join(keys), remedy=remedy)


def _listed(section: Mapping[str, Any], key: str, place: str, source: Source) -> list[Any]:
    items = as_sequence(section.get(key))
    if items is None:
        source.refuse("not a list", f"{place}.{key}", expected=f"a list of {key}")
    return list(items)


def _vertices(graph: Mapping[str, Any], builder: GraphBuilder, source: Source) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for at, vertex in enumerate(_listed(graph, "vertices", "$.network.graph", source)):
        place = f"$.network.graph.vertices[{at}]"
        _known(vertex, _VERTEX, place, source)
        name = _text(vertex, "name", place, source)
        if name in numbers:
            source.refuse("two vertices have one name", place, found=name, expected="each name once")
        kind = str(vertex.get("kind", "switch"))
        if kind not in KINDS:
            source.refuse("unknown kind", f"{place}.kind", found=kind, expected="one of " + ", ".join(KINDS))
        if kind == "rank" and builder.ranks != at:
            expected = "ranks first, in order of their numbers"
            source.refuse("a rank behind a vertex of another kind", place, found=name, expected=expected)
        island = _whole(vertex, "island", place, NO_ISLAND, source)
        transit = _truth(vertex, "transit", place, kind != "rank", source)
        numbers[name] = builder.vertex(name, KINDS.index(kind), island, transit)
    return numbers


def _links(
    graph: Mapping[str, Any], builder: GraphBuilder, numbers: dict[str, int], source: Source
) -> tuple[dict[int, int], dict[int, int]]:
    """Add the links; returns the stated numbers of cables and media, by link."""
    cables: dict[int, int] = {}
    media: dict[int, int] = {}
    link = 0
    for at, entry in enumerate(_listed(graph, "links", "$.network.graph", source)):
        place = f"$.network.graph.links[{at}]"
        if link > _MOST_LINKS:
            source.refuse("too many links", place, expected=f"at most {_MOST_LINKS:,}")
        if isinstance(entry, Mapping) and "between" in entry:
            link += _cable(entry, place, builder, numbers, source)
            continue
        _known(entry, _LINK, place, source)
        a, b = (_end(_text(entry, key, place, source), f"{place}.{key}", numbers, source) for key in ("from", "to"))
        if a == b:
            source.refuse("a link joins a vertex to itself", place, expected="two vertices")
        builder.link(a, b, *_amounts(entry, place, source))
        for key, column in (("cable", cables), ("medium", media)):
            if key in entry:
                column[link] = _whole(entry, key, place, 0, source)
        link += 1
    return cables, media


def _cable(entry: Mapping[str, Any], place: str, builder: GraphBuilder, numbers: dict[str, int], source: Source) -> int:
    """Add the cables of an entry; returns the number of links."""
    _known(entry, _CABLE, place, source)
    names = as_sequence(entry["between"])
    if names is None or len(names) != 2 or not all(isinstance(name, str | int) for name in names):
        source.refuse("not two vertices", f"{place}.between", expected="a list of two names")
    a, b = (_end(str(name), f"{place}.between", numbers, source) for name in names)
    if a == b:
        source.refuse("a cable joins a vertex to itself", place, expected="two vertices")
    count = _whole(entry, "count", place, 1, source)
    if not 1 <= count <= _MOST_COUNT:
        source.refuse("count is out of range", f"{place}.count", found=count, expected=f"1 to {_MOST_COUNT:,}")
    there = _amounts(entry, place, source)
    back = entry.get("back")
    if back is not None:
        _known(back, ("bandwidth", "latency"), f"{place}.back", source)
        back = _amounts({**entry, **back}, f"{place}.back", source)
    shared = _truth(entry, "shared", place, False, source)
    if shared and back is not None and back[0] != there[0]:
        source.refuse("both ways share one capacity, and differ in it", f"{place}.back", expected="the same bandwidth")
    builder.cable(a, b, *there, count=count, back=back, shared=shared)
    return 2 * count


def _end(name: str, place: str, numbers: dict[str, int], source: Source) -> int:
    if name not in numbers:
        expected = f"one of the {plural(len(numbers), 'name')} under vertices"
        source.refuse("there is no such vertex", place, found=name, expected=expected, remedy=near(name, numbers))
    return numbers[name]


def _amounts(entry: Mapping[str, Any], place: str, source: Source) -> tuple[float, float]:
    for key in ("bandwidth", "latency"):
        if key not in entry:
            source.refuse("the key is missing", f"{place}.{key}", expected="a number and a unit")
    bandwidth, latency = str(entry["bandwidth"]), str(entry["latency"])
    return source.rate(bandwidth, f"{place}.bandwidth"), source.time(latency, f"{place}.latency")


def _text(entry: Mapping[str, Any], key: str, place: str, source: Source) -> str:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        source.refuse("no name", f"{place}.{key}", found=value, expected="the name of a vertex")
    return str(value)


def _whole(entry: Mapping[str, Any], key: str, place: str, default: int, source: Source) -> int:
    value = entry.get(key, default)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    if key not in entry:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        source.refuse("not a whole number", f"{place}.{key}", found=value, expected="0 to 2,147,483,647")
    return value


def _truth(entry: Mapping[str, Any], key: str, place: str, default: bool, source: Source) -> bool:
    value = entry.get(key, default)
    if isinstance(value, Scalar) and not value.quoted and value in ("true", "false"):
        value = value == "true"
    if not isinstance(value, bool):
        source.refuse("not a switch", f"{place}.{key}", found=value, expected="true or false")
    return value


def _logical(network: Mapping[str, Any], ranks: int, source: Source) -> tuple[int, ...] | None:
    if "logical" not in network:
        return None
    items = _listed(network, "logical", "$.network", source)
    shape = [_whole({"logical": item}, "logical", "$.network", 0, source) for item in items]
    return source.shape(shape, ranks, "$.network.logical")


def _ends(graph: NetworkGraph) -> tuple[Any, Any]:
    """The ends of each cable."""
    first = np.unique(graph.cable, return_index=True)[1]
    return graph.source[first].astype(np.int64), graph.target[first].astype(np.int64)


def _numbered(graph: NetworkGraph, cables: dict[int, int], media: dict[int, int], source: Source) -> NetworkGraph:
    """The same graph with the stated numbers of cables and media in place."""
    if not cables and not media:
        return graph
    cable, medium = graph.cable.copy(), graph.medium.copy()
    cable[list(cables)] = list(cables.values())
    medium[list(media)] = list(media.values())
    refuse_media(source, medium, graph.capacity, lambda link: f"$.network.graph.links (link {link})")
    return replace(graph, cable=cable, medium=medium)


# -- writing -----------------------------------------------------------------------------------------------------------


def write_own_json(graph: NetworkGraph) -> str:
    """The form as JSON; holds everything."""
    vertices = ",\n".join(json.dumps(vertex) for vertex in _vertex_entries(graph))
    links = ",\n".join(json.dumps(entry) for entry in _link_entries(graph))
    head = f'{{"format": 1, "name": {json.dumps(graph.name)},\n"network": {{'
    head += f'"logical": {json.dumps(list(graph.logical))}, "graph": {{\n'
    return f'{head}"vertices": [\n{vertices}\n],\n"links": [\n{links}\n]}}}}}}\n'


def write_own_yaml(graph: NetworkGraph) -> str:
    """The form as YAML; holds everything."""
    return "".join(_yaml(graph))


def _yaml(graph: NetworkGraph) -> Iterator[str]:
    yield f"format: 1\nname: {_plain(graph.name)}\nnetwork:\n  logical: {list(graph.logical)}\n  graph:\n"
    for key, entries in (("vertices", _vertex_entries(graph)), ("links", _link_entries(graph))):
        items = [f"      - {_plain(entry)}\n" for entry in entries]
        yield f"    {key}:\n" if items else f"    {key}: []\n"
        yield from items


def _plain(value: Any) -> str:
    """A value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, str) and not value.replace("_", "a").replace(" ", "a").replace("/", "a").isalnum():
        return _escaped(value)
    if isinstance(value, str) and (not value.isascii() or not value[:1].isalpha() or value != value.strip()):
        return value if _is_quantity(value) else _escaped(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_quantity(text: str) -> bool:
    number, _, unit = text.partition(" ")
    return unit in ("GB/s", "ns") and number.replace(".", "").isdigit()


def _escaped(text: str) -> str:
    """In double quotes; JSON's escapes of characters beyond 16 bits are none of YAML's."""
    return '"' + "".join(_character(char) for char in text) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isascii() and char.isprintable() else f"\\U{ord(char):08x}"


def _vertex_entries(graph: NetworkGraph) -> Iterator[dict[str, Any]]:
    return ({"name": name, **values} for name, values in zip(graph.names, node_values(graph), strict=True))


def _link_entries(graph: NetworkGraph) -> Iterator[dict[str, Any]]:
    """Cables where two links are one and are numbered as they stand, else links."""
    columns = (graph.source, graph.target, graph.capacity, graph.latency, graph.cable, graph.medium)
    source, target, capacity, latency, cable, medium = (column.tolist() for column in columns)
    names, at, number, usual = graph.names, 0, 0, bool(_is_usual(graph))
    while at < len(source):
        there = {"bandwidth": f"{number_text(capacity[at])} GB/s", "latency": _spaced(latency[at])}
        to = at + 1
        pair = usual and to < len(source) and cable[to] == cable[at]
        if pair:
            entry: dict[str, Any] = {"between": [names[source[at]], names[target[at]]], **there}
            if (capacity[at], latency[at]) != (capacity[to], latency[to]):
                entry["back"] = {"bandwidth": f"{number_text(capacity[to])} GB/s", "latency": _spaced(latency[to])}
            if medium[to] == at:
                entry["shared"] = True
        else:
            entry = {"from": names[source[at]], "to": names[target[at]], **there}
            if cable[at] != number:
                entry["cable"] = cable[at]
            if medium[at] != at:
                entry["medium"] = medium[at]
        yield entry
        at += 2 if pair else 1
        number += 1


def _spaced(ns: float) -> str:
    return f"{nanoseconds(ns).removesuffix('ns')} ns"


def _is_usual(graph: NetworkGraph) -> bool:
    """Whether cables are numbered in order, each a link or a link and its way back, with a medium of its own."""
    first = np.ones(graph.links, np.bool_)
    first[1:] = graph.cable[1:] != graph.cable[:-1]
    if (graph.cable != np.cumsum(first) - 1).any():
        return False
    second = np.flatnonzero(~first)
    links = np.arange(graph.links)
    own = graph.medium == links
    own[second] |= graph.medium[second] == second - 1
    turned = (graph.source[second] == graph.target[second - 1]) & (graph.target[second] == graph.source[second - 1])
    return bool(own.all() and turned.all() and first[second - 1].all())
