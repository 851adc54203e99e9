"""Graphs as nodes and edges with attributes: what GraphML and node-link JSON have in common.

=========  ========================================================================================================
graph      name, logical (``8x2``), capacity_unit (``GB/s``), latency_unit (``ns``)
node       kind (one of `KINDS`), island, transit, rank
edge       capacity (or bandwidth) and latency (or delay): numbers in the graph's units, or texts with units of their
           own; cable; medium
=========  ========================================================================================================

A directed edge is a link, an undirected one a cable: two links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.machine.graph.formats.cables import note_parallel, refuse_media
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import KINDS, NO_ISLAND, RANK, NetworkGraph
from chakrasim.text.amounts import first_of, plural

Attributes = Mapping[str, Any]
"""Numbers, truths and texts by name."""

CAPACITY_UNIT: Final = "GB/s"
LATENCY_UNIT: Final = "ns"
_LEAST: Final = -(2**31)
_KNOWN: Final = {
    "node": {"kind", "island", "transit", "rank"},
    "edge": {"capacity", "bandwidth", "latency", "delay", "cable", "medium"},
}


@dataclass
class Item:
    """A node, with its name as ``key``, or an edge; ``place`` is its line, or where it stands."""

    place: object
    key: str
    values: Attributes
    ends: tuple[str, str] = ("", "")


@dataclass
class Document:
    """What the file holds."""

    directed: bool
    values: Attributes
    nodes: list[Item] = field(default_factory=list)
    edges: list[Item] = field(default_factory=list)


# -- reading -----------------------------------------------------------------------------------------------------------


def graph_of(document: Document, source: Source) -> NetworkGraph:
    """The graph. Ranks go first, in the order of their attribute ``rank`` or else of the file."""
    seen: set[str] = set()
    for node in document.nodes:
        if node.key in seen:
            source.refuse("two nodes have one id", node.place, found=node.key, expected="each id once")
        seen.add(node.key)
    nodes = _in_order(document.nodes, source)
    number = {node.key: at for at, node in enumerate(nodes)}
    kind = np.array([_kind(node, source) for node in nodes], np.int8)
    ends = np.array([_ends(edge, number, source) for edge in document.edges], np.int64).reshape(-1, 2)
    capacity, latency = _amounts(document, source)
    each = 1 if document.directed else 2
    links = np.arange(each * len(ends), dtype=np.int32)
    both = (ends,) if document.directed else (ends, ends[:, ::-1])
    pairs = np.stack(both, 1).reshape(-1, 2).astype(np.int32)
    if not document.directed:
        note_parallel(source, ends[:, 0], ends[:, 1])
    _note_unknown(document, source)
    medium = _numbers(document, "medium", links, source)
    refuse_media(source, medium, np.repeat(capacity, each), lambda link: document.edges[link].place)
    return NetworkGraph(
        names=tuple(node.key for node in nodes),
        kind=kind,
        transit=np.array([_truth(node, kind[at] != RANK, source) for at, node in enumerate(nodes)], np.bool_),
        island=np.array([_whole(node, "island", NO_ISLAND, source) for node in nodes], np.int32),
        source=pairs[:, 0].copy(),
        target=pairs[:, 1].copy(),
        capacity=np.repeat(capacity, each),
        latency=np.repeat(latency, each),
        cable=_numbers(document, "cable", links // each, source),
        medium=medium,
        logical=_logical(document.values, int(np.count_nonzero(kind == RANK)), source),
        name=_name(document.values, source),
    )


def _in_order(nodes: list[Item], source: Source) -> list[Item]:
    """Ranks first; those that say their number by it."""
    ranks = [node for node in nodes if _kind(node, source) == RANK]
    if not ranks:
        source.refuse(
            "no node is a rank", found=plural(len(nodes), "node"),
            expected="an attribute `kind` of value `rank`, or `rank` with its number, at every node that sends",
        )  # fmt: skip
    if any("rank" in node.values for node in ranks):
        said = [_whole(node, "rank", -1, source) for node in ranks]
        for number, node in zip(said, ranks, strict=True):
            if not 0 <= number < len(ranks) or said.count(number) > 1:
                expected = f"each of 0 to {len(ranks) - 1} once"
                source.refuse(f"node {node.key}: rank", node.place, found=number, expected=expected)
        ranks = [node for _, node in sorted(zip(said, ranks, strict=True), key=lambda pair: pair[0])]
    found = [*ranks, *(node for node in nodes if _kind(node, source) != RANK)]
    if any(one is not other for one, other in zip(found, nodes, strict=True)):
        source.note("the nodes of the file are in another order than ranks 0, 1, ... and then the rest: they are moved")
    return found


def _kind(node: Item, source: Source) -> int:
    word = node.values.get("kind")
    if word is None:
        return RANK if "rank" in node.values else KINDS.index("switch")
    if word not in KINDS:
        source.refuse(f"node {node.key}: unknown kind", node.place, found=word, expected=f"one of {', '.join(KINDS)}")
    return KINDS.index(word)


def _truth(node: Item, default: bool, source: Source) -> bool:
    value = node.values.get("transit", default)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool | np.bool_):
        source.refuse(f"node {node.key}: transit", node.place, found=value, expected="true or false")
    return bool(value)


def _whole(item: Item, key: str, default: int, source: Source) -> int:
    value = item.values.get(key, default)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,10}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST <= value < -_LEAST:
        source.refuse(f"{_called(item)}: {key}", item.place, found=value, expected="a whole number")
    if value < 0 and value != default:
        source.refuse(f"{_called(item)}: {key}", item.place, found=value, expected="0 or more")
    return value


def _called(item: Item) -> str:
    return f"edge {item.ends[0]}-{item.ends[1]}" if item.ends[0] else f"node {item.key}"


def _ends(edge: Item, number: dict[str, int], source: Source) -> tuple[int, int]:
    for end in edge.ends:
        if end not in number:
            source.refuse("an edge's end is no node", edge.place, found=end, expected="a node of the file")
    if edge.ends[0] == edge.ends[1]:
        source.refuse("an edge joins a node to itself", edge.place, found=edge.ends[0], expected="two nodes")
    return number[edge.ends[0]], number[edge.ends[1]]


def _amounts(document: Document, source: Source) -> tuple[Any, Any]:
    """float64 capacities (bytes per ns) and latencies (ns) of the edges."""
    units = {"capacity": document.values.get("capacity_unit"), "latency": document.values.get("latency_unit")}
    bare = {"capacity": 0, "latency": 0}
    missing = 0
    found: dict[str, list[float]] = {"capacity": [], "latency": []}
    for edge in document.edges:
        for key, other, read in (("capacity", "bandwidth", source.rate), ("latency", "delay", source.time)):
            value = edge.values.get(key, edge.values.get(other))
            if value is None and key == "latency":
                missing += 1
                value = 0
            if value is None:
                expected = "an attribute `capacity` (or `bandwidth`), such as 400Gbps"
                source.refuse(f"{_called(edge)} has no capacity", edge.place, expected=expected)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                source.refuse(f"{_called(edge)}: {key}", edge.place, found=value, expected="a number or a text")
            text = value if isinstance(value, str) else repr(value)
            unit = units[key] or {"capacity": CAPACITY_UNIT, "latency": LATENCY_UNIT}[key]
            if not isinstance(value, str) or re.fullmatch(r"[-+0-9.eE ]+", text):
                bare[key] += 1
            found[key].append(read(text, edge.place, f"{_called(edge)}: {key}", str(unit)))
    for key, unit in (("capacity", CAPACITY_UNIT), ("latency", LATENCY_UNIT)):
        counted = bare[key] - (missing if key == "latency" else 0)
        if counted and units[key] is None:
            source.warn(f"{plural(counted, 'edge')} whose {key} has no unit: {unit} is taken ({key}_unit says another)")
    if missing:
        source.warn(f"{plural(missing, 'edge')} without a latency: 0 is taken")
    return np.array(found["capacity"], np.float64), np.array(found["latency"], np.float64)


def _numbers(document: Document, key: str, default: Any, source: Source) -> Any:
    """int32 column of numbers of cables or media, of links; only directed edges may state them."""
    if not any(key in edge.values for edge in document.edges):
        if document.directed and key == "cable" and document.edges:
            source.note(f"{plural(len(document.edges), 'link')} without `cable`: each counts as a cable of its own")
        return default
    if not document.directed:
        place = next(edge.place for edge in document.edges if key in edge.values)
        source.refuse(f"an undirected edge states `{key}`", place, expected="`directed` edges, each a link")
    column = default.copy()
    for at, edge in enumerate(document.edges):
        column[at] = _whole(edge, key, int(default[at]), source)
    return column


def _logical(values: Attributes, ranks: int, source: Source) -> tuple[int, ...]:
    text = values.get("logical")
    if text is None:
        return (ranks,)
    sizes = re.split(r"\s*[x,]\s*", str(text).strip("[] "))
    if not all(re.fullmatch(r"[1-9][0-9]{0,8}", size, re.ASCII) for size in sizes):
        source.refuse("logical is no shape", found=str(text), expected="sizes of dimensions, such as 8x2")
    return source.shape([int(size) for size in sizes], ranks)


def _name(values: Attributes, source: Source) -> str:
    name = values.get("name")
    return name if isinstance(name, str) and name else source.name


def _note_unknown(document: Document, source: Source) -> None:
    for what, items in (("node", document.nodes), ("edge", document.edges)):
        unknown = sorted({key for item in items for key in item.values if key not in _KNOWN[what]})
        if unknown:
            source.note(f"attributes of {what}s that are not read: {first_of(unknown)}")


# -- writing -----------------------------------------------------------------------------------------------------------


def graph_values(graph: NetworkGraph) -> dict[str, str]:
    """The attributes of a graph."""
    return {
        "name": graph.name,
        "logical": "x".join(map(str, graph.logical)),
        "capacity_unit": CAPACITY_UNIT,
        "latency_unit": LATENCY_UNIT,
    }


def node_values(graph: NetworkGraph) -> list[dict[str, Any]]:
    """The attributes of each vertex; what is usual is left out."""
    found = []
    for kind, island, transit in zip(*(c.tolist() for c in (graph.kind, graph.island, graph.transit)), strict=True):
        values: dict[str, Any] = {"kind": KINDS[kind]}
        if island != NO_ISLAND:
            values["island"] = island
        if transit != (kind != RANK):
            values["transit"] = transit
        found.append(values)
    return found


def edge_values(graph: NetworkGraph) -> list[tuple[int, int, dict[str, Any]]]:
    """From, to and attributes of each link."""
    columns: Sequence[Any] = (graph.source, graph.target, graph.capacity, graph.latency, graph.cable, graph.medium)
    return [
        (a, b, {"capacity": c, "latency": d, "cable": cable, **({"medium": medium} if medium != at else {})})
        for at, (a, b, c, d, cable, medium) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
    ]
