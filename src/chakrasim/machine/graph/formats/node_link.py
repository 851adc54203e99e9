"""Node-link JSON, as NetworkX, D3 and others have it: ``{"directed", "multigraph", "graph", "nodes", "links"}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from chakrasim.machine.graph.formats.attributes import Document, Item, edge_values, graph_of, graph_values, node_values
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NetworkGraph

_OF_FORM: Final = {"id", "source", "target", "key"}


def read_node_link(document: Mapping[str, Any], source: Source) -> NetworkGraph:
    """The graph in a node-link document; edges stand under ``links`` or ``edges``. Raises InputError."""
    edges = "links" if "links" in document else "edges"
    directed = document.get("directed", False)
    if not isinstance(directed, bool):
        source.refuse("not a truth", "$.directed", found=directed, expected="true or false")
    found = Document(directed, _mapping(document.get("graph", {}), "$.graph", source))
    for place, values in _listed(document, "nodes", source):
        name = _name(values, "id", place, source)
        found.nodes.append(Item(place, name, _rest(values)))
    for place, values in _listed(document, edges, source):
        ends = _name(values, "source", place, source), _name(values, "target", place, source)
        found.edges.append(Item(place, "", _rest(values), ends))
    return graph_of(found, source)


def _listed(document: Mapping[str, Any], key: str, source: Source) -> list[tuple[str, Mapping[str, Any]]]:
    items = document.get(key)
    if not isinstance(items, list):
        source.refuse("not a list", f"$.{key}", found=type(items).__name__, expected=f"a list of {key}")
    return [(f"$.{key}[{at}]", _mapping(item, f"$.{key}[{at}]", source)) for at, item in enumerate(items)]


def _mapping(value: Any, place: str, source: Source) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        source.refuse("not a mapping", place, found=type(value).__name__, expected="a mapping of attributes")
    return value


def _name(values: Mapping[str, Any], key: str, place: str, source: Source) -> str:
    """NetworkX writes numbers as numbers; a name is their text."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int):
        source.refuse(f"no {key}", place, found=value, expected="a text or a whole number")
    return str(value)


def _rest(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _OF_FORM and value is not None}


def write_node_link(graph: NetworkGraph) -> str:
    """A directed multigraph, a node and an edge a line; holds everything."""
    nodes = ({"id": name, **values} for name, values in zip(graph.names, node_values(graph), strict=True))
    seen: dict[tuple[int, int], int] = {}
    links = []
    for a, b, values in edge_values(graph):
        seen[a, b] = key = seen.get((a, b), -1) + 1
        links.append({"source": graph.names[a], "target": graph.names[b], "key": key, **values})
    head = f'{{"directed": true, "multigraph": true, "graph": {json.dumps(graph_values(graph))}'
    return f'{head},\n"nodes": [\n{_lines(nodes)}\n],\n"links": [\n{_lines(links)}\n]}}\n'


def _lines(items: Any) -> str:
    return ",\n".join(json.dumps(item) for item in items)
