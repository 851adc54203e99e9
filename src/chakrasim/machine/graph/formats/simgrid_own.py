"""Graphs written as platforms of SimGrid: one zone of routing Dijkstra.

Properties say what a platform has no word for: the ends of a link, kinds, islands, the logical shape. A cable with
equal ways is a SPLITDUPLEX link, one whose ways share a capacity a SHARED one, any other link a SHARED one of one way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from chakrasim.machine.graph.formats.attributes import Document, Item, graph_of, graph_values, node_values
from chakrasim.machine.graph.formats.quantities import nanoseconds, number_text
from chakrasim.machine.graph.formats.simgrid_draft import SHARED, SPLIT
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, needed, quoted_attribute
from chakrasim.machine.graph.graph import RANK, NetworkGraph
from chakrasim.notes import Notes
from chakrasim.text.amounts import plural

_MARK: Final = "chakrasim.graph"
_HEAD: Final = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="network" routing="Dijkstra">
"""


def write_simgrid(graph: NetworkGraph, file: str, notes: Notes) -> str:
    """A platform that `read_written` gives back equal, and whose routes SimGrid can use."""
    lost = graph.links - np.unique(graph.source.astype(np.int64) * graph.vertices + graph.target).size
    if lost:
        notes.warn(f"{file}: {plural(lost, 'link')} parallel to another: SimGrid has one route a pair, without them")
    shared = int(np.count_nonzero((graph.medium != np.arange(graph.links)) & ~_both_ways(graph)))
    if shared:
        notes.warn(f"{file}: {plural(shared, 'link')} sharing the capacity of another cable: SimGrid is not told")
    if graph.ranks < graph.vertices or not graph.transit[: graph.ranks].all():
        notes.note(f"{file}: in SimGrid every host lets others' traffic pass")
    return "".join(_pieces(graph, file))


def _both_ways(graph: NetworkGraph) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Links that are the way back of the link before, and share its capacity."""
    found = np.zeros(graph.links, np.bool_)
    found[1:] = graph.medium[1:] == np.arange(graph.links - 1)
    found[1:] &= (graph.source[1:] == graph.target[:-1]) & (graph.target[1:] == graph.source[:-1])
    return found


def _pieces(graph: NetworkGraph, file: str) -> Iterator[str]:
    names = [quoted_attribute(name, file) for name in graph.names]
    yield _HEAD
    for key, value in {_MARK: "1", **graph_values(graph)}.items():
        yield f"  {_prop(key, value, file)}\n"
    for name, values in zip(graph.names, node_values(graph), strict=True):
        if values != {"kind": "rank"}:
            yield f"  {_prop(f'vertex {name}', json.dumps(values), file)}\n"
    for name, kind in zip(names, graph.kind.tolist(), strict=True):
        yield f'  <host id={name} speed="1Gf"/>\n' if kind == RANK else f"  <router id={name}/>\n"
    routes: list[str] = []
    routed: set[tuple[int, int]] = set()
    columns = (graph.source, graph.target, graph.capacity, graph.latency, graph.cable, graph.medium)
    links = [*zip(*(column.tolist() for column in columns), strict=True)]
    at = 0
    while at < len(links):
        a, b, capacity, latency, cable, medium = links[at]
        policy = _pair(links, at)
        rate = f'bandwidth="{number_text(capacity)}GBps" latency="{nanoseconds(latency)}"'
        props = (
            _prop("from", graph.names[a], file) + _prop("to", graph.names[b], file) + _prop("cable", str(cable), file)
        )
        if medium != at:
            props += _prop("medium", str(medium), file)
        if policy:
            props += _prop("ways", "2", file)
        yield f'  <link id="link{at}" {rate} sharing_policy="{policy or SHARED}">{props}</link>\n'
        pairs = {(a, b), (b, a)} if policy else {(a, b)}
        if routed.isdisjoint(pairs):
            routed |= pairs
            way = ' direction="UP"' if policy == SPLIT else ""
            ends = f'src={names[a]} dst={names[b]} symmetrical="{"YES" if policy else "NO"}"'
            routes.append(f'  <route {ends}><link_ctn id="link{at}"{way}/></route>\n')
        at += 2 if policy else 1
    yield from routes
    yield "</zone>\n</platform>\n"


def _pair(links: list[tuple[Any, ...]], at: int) -> str:
    """The policy of a link and the next together, if they are the two ways of a cable; else nothing."""
    if at + 1 == len(links):
        return ""
    a, b, *rates, cable, medium = links[at]
    if [b, a, *rates, cable] != [*links[at + 1][:5]] or medium != at:
        return ""
    return {at + 1: SPLIT, at: SHARED}.get(links[at + 1][5], "")


def _prop(key: str, value: str, file: str) -> str:
    return f"<prop id={quoted_attribute(key, file)} value={quoted_attribute(value, file)}/>"


# -- reading -----------------------------------------------------------------------------------------------------------


def is_written(root: Element) -> bool:
    """Whether a platform was written by `write_simgrid`."""
    return any(prop.attributes.get("id") == _MARK for zone in root.all("zone") for prop in zone.all("prop"))


def read_written(root: Element, source: Source) -> NetworkGraph:
    """The graph that was written. Raises InputError with the line."""
    zone = next(root.all("zone"))
    values = _props(zone, source)
    document = Document(True, values)
    for element in zone.all("host", "router"):
        name = needed(element, "id", source)
        said = values.get(f"vertex {name}", '{"kind": "rank"}' if element.name == "host" else '{"kind": "switch"}')
        document.nodes.append(Item(element.line, name, _values(said, element.line, source)))
    for element in zone.all("link"):
        _link(element, document, source)
    return graph_of(document, source)


def _props(element: Element, source: Source) -> dict[str, str]:
    return {needed(prop, "id", source): prop.attributes.get("value", "") for prop in element.all("prop")}


def _values(text: str, line: int, source: Source) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        source.refuse("the property of a vertex is no mapping", line, found=text, expected='such as {"kind": "switch"}')
    return values


def _link(element: Element, document: Document, source: Source) -> None:
    """A link, or both ways of a cable."""
    props = _props(element, source)
    for key in ("from", "to"):
        if not props.get(key):
            expected = f'<prop id="{key}" value="..."/>, as every link of this file has'
            source.refuse(f"the link does not say {key} where it goes", element.line, expected=expected)
    at = len(document.edges)
    amounts = {"capacity": needed(element, "bandwidth", source), "latency": element.attributes.get("latency", "0ns")}
    numbers: dict[str, Any] = {key: props[key] for key in ("cable", "medium") if key in props}
    ends = props["from"], props["to"]
    document.edges.append(Item(element.line, "", {**amounts, **numbers}, ends))
    if props.get("ways") == "2":
        shared = {"medium": at} if element.attributes.get("sharing_policy", SHARED) == SHARED else {}
        cable: dict[str, Any] = {"cable": props["cable"]} if "cable" in props else {}
        document.edges.append(Item(element.line, "", {**amounts, **cable, **shared}, ends[::-1]))
