"""Files of networks read and written, whatever their form: told apart by what is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from chakrasim.config.decode import decode_json, decode_yaml, printable, read_bytes
from chakrasim.errors import InputError, near
from chakrasim.files.signatures import BOM, signature
from chakrasim.machine.graph.formats.graphml import read_graphml, write_graphml
from chakrasim.machine.graph.formats.htsim import is_htsim, read_htsim, write_htsim
from chakrasim.machine.graph.formats.nccl import read_nccl
from chakrasim.machine.graph.formats.node_link import read_node_link, write_node_link
from chakrasim.machine.graph.formats.ns3 import read_ns3, write_ns3, write_simai
from chakrasim.machine.graph.formats.nvidia_smi import is_topo, read_topo
from chakrasim.machine.graph.formats.own import is_alone, is_own, read_own, write_own_json, write_own_yaml
from chakrasim.machine.graph.formats.server import ONE_SERVER, Servers
from chakrasim.machine.graph.formats.simgrid import read_simgrid
from chakrasim.machine.graph.formats.simgrid_own import write_simgrid
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.formats.xml_tree import Element, read_tree
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.notes import Notes
from chakrasim.startup import without_gc
from chakrasim.text.amounts import plural

MAX_BYTES: Final = 1 << 27
"""Of a file of a network: some 4 million cables."""

_KNOWN: Final = (
    "a network: our YAML or JSON, ns-3's or SimAI's topology, SimGrid's XML, htsim's .topo, GraphML, node-link JSON, "
    "NCCL's topology XML, or the text of `nvidia-smi topo -m`"
)
_XML: Final[dict[str, Callable[[Element, Source, Servers], NetworkGraph]]] = {
    "graphml": lambda root, source, servers: read_graphml(root, source),
    "platform": lambda root, source, servers: read_simgrid(root, source),
    "system": read_nccl,
}
Other = Callable[[Mapping[str, Any]], NetworkGraph | None]

_WRITERS: Final[dict[str, Callable[[NetworkGraph, str, Notes], str]]] = {
    "yaml": lambda graph, file, notes: write_own_yaml(graph),
    "json": lambda graph, file, notes: write_own_json(graph),
    "ns3": write_ns3,
    "simai": write_simai,
    "simgrid": write_simgrid,
    "htsim": write_htsim,
    "graphml": lambda graph, file, notes: write_graphml(graph, file),
    "node-link": lambda graph, file, notes: write_node_link(graph),
}
WRITTEN: Final = tuple(_WRITERS)
"""The forms that `write_graph` writes."""


def read_graph(
    path: str | os.PathLike[str],
    notes: Notes | None = None,
    servers: Servers = ONE_SERVER,
    other: Other | None = None,
) -> NetworkGraph:
    """The graph in a file that holds a whole one; what it is is told by its content, not by its name.

    ``notes`` collects what was dropped, guessed or is worth knowing. ``servers`` says how often the server of a file of
    NCCL or nvidia-smi is there, and what joins them. ``other`` is asked for the graph of a mapping, of JSON or YAML,
    that holds none. Raises :class:`chakrasim.InputError` with the line, what was found there, what was expected and
    what to do.
    """
    data = read_bytes(os.fspath(path), "network", MAX_BYTES)
    source = Source(printable(os.fspath(path)), Notes() if notes is None else notes)
    return parse_graph(data, source, servers, other)


def parse_graph(data: bytes, source: Source, servers: Servers = ONE_SERVER, other: Other | None = None) -> NetworkGraph:
    """The same of the bytes of a file."""
    try:
        with without_gc():
            return _parsed(data, source, servers, other)
    except InputError as fault:
        if fault.file == source.file or fault.place:
            raise
        # The tables contradict each other: the graph that says so does not know its file.
        raise InputError(
            fault.message, file=source.file, found=fault.found, expected=fault.expected, remedy=fault.remedy
        ) from None


def _parsed(data: bytes, source: Source, servers: Servers, other: Other | None) -> NetworkGraph:
    known = signature(data[:512])
    if known is not None:
        source.refuse("this is no file of a network", found=known.name, expected=_KNOWN)
    head = data[:4096].removeprefix(BOM).lstrip()
    if head.startswith(b"<"):
        return _xml(data, source, servers)
    if head.startswith((b"{", b"[")):
        odd = Notes()
        document = decode_json(data, source.file, odd)
        for fault in odd.warnings:
            # Where a system's file is read as its program reads it, here a link would be lost.
            raise InputError(fault, remedy="leave out what is there twice, or behind the end")
        return _document(document, source, other)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        source.refuse("this is no text", f"byte {fault.start}", expected=_KNOWN)
    if _is_yaml(text, source):
        return _document(decode_yaml(data, source.file), source, other)
    return _lines(text, source, servers)


def _xml(data: bytes, source: Source, servers: Servers) -> NetworkGraph:
    root = read_tree(data, source)
    if root.name not in _XML:
        expected = "one of " + ", ".join(f"<{name}>" for name in _XML)
        source.refuse("this XML is no network", root.line, found=f"<{root.name}>", expected=expected)
    return _XML[root.name](root, source, servers)


def _document(document: object, source: Source, other: Other | None) -> NetworkGraph:
    """What JSON or YAML holds."""
    if isinstance(document, Mapping):
        if is_own(document) and (other is None or is_alone(document)):
            return read_own(document, source)
        if "nodes" in document and ("links" in document or "edges" in document):
            return read_node_link(document, source)
        graph = other(document) if other is not None else None
        if graph is not None:
            return graph
    expected = "`network: {graph: {vertices, links}}`, or node-link's `nodes` and `links`"
    source.refuse("this document is no network", "$", found=_members(document), expected=expected)


def _members(document: object) -> str:
    if isinstance(document, Mapping):
        return "keys " + ", ".join(str(key)[:20] for key in list(document)[:6]) if document else "no keys"
    return f"a {type(document).__name__}" if not isinstance(document, str) else f"the word {document[:20]!r}"


def _first_words(text: str) -> list[str]:
    """Those of the first line that says something."""
    return next((line.split() for line in text.split("\n") if line.strip() and not line.startswith("#")), [])


def _is_yaml(text: str, source: Source) -> bool:
    """Whether a text is of no line format; then it has to have keys."""
    words = _first_words(text)
    if not words:
        source.refuse("the file is empty", expected=_KNOWN)
    if words[0][0].isdigit() or is_topo(words) or is_htsim(words[0]):
        return False
    if re.search(r"^\s*[\w\"'][\w\"' -]*:", text, re.MULTILINE) is None:
        source.refuse("this is no file of a network", found=f"text beginning {' '.join(words)[:40]!r}", expected=_KNOWN)
    return True


def _lines(text: str, source: Source, servers: Servers) -> NetworkGraph:
    """Line formats, told apart by their first words."""
    words = _first_words(text)
    if words[0][0].isdigit():
        return read_ns3(text, source)
    return read_topo(text, source, servers) if is_topo(words) else read_htsim(text, source)


def write_graph(
    path: str | os.PathLike[str], graph: NetworkGraph, format: str = "yaml", notes: Notes | None = None
) -> None:
    """Write a graph in one of the forms `WRITTEN`; `read_graph` gives it back.

    yaml, json, graphml and node-link hold everything. What the others cannot hold is refused if the file would be
    another network, and is a warning, with its count, if it is a name, an island or a shape. Raises
    :class:`chakrasim.InputError`; then nothing is written.
    """
    from chakrasim.files.outputs import write_whole

    write_whole(
        path, graph_text(graph, format, printable(os.fspath(path)), Notes() if notes is None else notes).encode()
    )


def graph_text(graph: NetworkGraph, format: str, file: str, notes: Notes) -> str:
    """The text of a file that holds a graph; ``file`` names it in messages."""
    if format not in _WRITERS:
        expected = "one of " + ", ".join(WRITTEN)
        raise InputError(
            "unknown form of a network", found=repr(format), expected=expected, remedy=near(format, WRITTEN)
        )
    if graph.planned:
        count = plural(len(graph.planned), "planned change")
        notes.warn(f"{file}: {count} of capacity is not held by files of networks")
    return _WRITERS[format](graph, file, notes)
