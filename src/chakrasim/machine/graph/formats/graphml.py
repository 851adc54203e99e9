"""GraphML, as NetworkX, igraph, yEd and others have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.sax.saxutils import escape

from chakrasim.machine.graph.formats.attributes import Document, Item, edge_values, graph_of, graph_values, node_values
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, fit, needed, quoted_attribute, refuse_misplaced
from chakrasim.machine.graph.graph import NetworkGraph

Keys = dict[str, tuple[str, str, str | None]]
"""By id: what it is of, its name, its default."""

_HEAD: Final = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
_INSIDE: Final = {
    "graphml": ("key", "graph", "data", "desc"),
    "key": ("default", "desc"),
    "graph": ("node", "edge", "data", "desc"),
    "node": ("data", "desc", "port"),
    "edge": ("data", "desc"),
}
_FREE: Final = ("data", "desc", "default", "port")
_TYPES: Final = {
    "graph": {"name": "string", "logical": "string", "capacity_unit": "string", "latency_unit": "string"},
    "node": {"kind": "string", "island": "int", "transit": "boolean"},
    "edge": {"capacity": "double", "latency": "double", "cable": "int", "medium": "int"},
}


def read_graphml(root: Element, source: Source) -> NetworkGraph:
    """The graph in the tree of a GraphML file. Raises InputError with the line."""
    refuse_misplaced(root, _INSIDE, source, free=_FREE)
    keys: Keys = {}
    for key in root.all("key"):
        default = next((child.text for child in key.all("default")), None)
        name = key.attributes.get("attr.name", key.attributes.get("id", ""))
        keys[needed(key, "id", source)] = (key.attributes.get("for", "all"), name, default)
    graphs = [*root.all("graph")]
    if len(graphs) != 1:
        line = graphs[1].line if graphs else root.line
        source.refuse("the file has to hold one graph", line, found=len(graphs), expected="one <graph>")
    graph = graphs[0]
    usual = graph.attributes.get("edgedefault", "undirected")
    if usual not in ("directed", "undirected"):
        source.refuse("edgedefault", graph.line, found=usual, expected="directed or undirected")
    document = Document(usual == "directed", _values(graph, "graph", keys, source))
    for child in graph.children:
        if child.name == "node":
            values = _values(child, "node", keys, source)
            document.nodes.append(Item(child.line, needed(child, "id", source), values))
        elif child.name == "edge":
            document.edges.append(_edge(child, usual, keys, source))
    return graph_of(document, source)


def _edge(element: Element, usual: str, keys: Keys, source: Source) -> Item:
    directed = element.attributes.get("directed", str(usual == "directed").lower())
    if directed not in ("true", "false") or (directed == "true") != (usual == "directed"):
        expected = f"all edges {usual}, as edgedefault says"
        source.refuse("directed and undirected edges in one file", element.line, found=directed, expected=expected)
    ends = needed(element, "source", source), needed(element, "target", source)
    return Item(element.line, "", _values(element, "edge", keys, source), ends)


def _values(element: Element, what: str, keys: Keys, source: Source) -> dict[str, Any]:
    """The data of an element by the names of their keys; defaults for those that are missing."""
    found: dict[str, Any] = {
        name: default for of, name, default in keys.values() if default is not None and of in (what, "all")
    }
    stated: set[str] = set()
    for data in element.all("data"):
        key = needed(data, "key", source)
        if key not in keys:
            source.refuse("data of a key that is not there", data.line, found=key, expected=f'<key id="{key}" .../>')
        if key in stated:
            source.refuse("the key has two values", data.line, found=key, expected="one")
        stated.add(key)
        found[keys[key][1]] = data.text.strip() if keys[key][1] != "name" else data.text
    return found


def write_graphml(graph: NetworkGraph, file: str) -> str:
    """A directed graph that may have parallel edges; holds everything. Raises InputError for names that XML cannot."""
    return "".join(_pieces(graph, file))


def _pieces(graph: NetworkGraph, file: str) -> Iterator[str]:
    names = [quoted_attribute(name, file) for name in graph.names]
    yield _HEAD
    for what, types in _TYPES.items():
        for name, kind in types.items():
            yield f'<key id="{what}-{name}" for="{what}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '<graph edgedefault="directed">\n' + _data("graph", graph_values(graph), file) + "\n"
    for name, values in zip(names, node_values(graph), strict=True):
        yield f"<node id={name}>{_data('node', values, file)}</node>\n"
    for at, (a, b, values) in enumerate(edge_values(graph)):
        yield f'<edge id="e{at}" source={names[a]} target={names[b]}>{_data("edge", values, file)}</edge>\n'
    yield "</graph>\n</graphml>\n"


def _data(what: str, values: dict[str, Any], file: str) -> str:
    return "".join(f'<data key="{what}-{key}">{_text(value, file)}</data>' for key, value in values.items())


def _text(value: Any, file: str) -> str:
    if isinstance(value, str):
        return escape(fit(value, file))
    return str(value).lower() if isinstance(value, bool) else repr(value)
