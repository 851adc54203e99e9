"""Conversion as ``chakra_converter PyTorch`` 1.0.0 does it, its faults included (chakra-toolchain.md, section 4).

Without NumPy, whose start takes longer than converting most traces does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import index
from typing import Any

from chakrasim.compat.chakra_convert import wire
from chakrasim.compat.chakra_convert.graph import (
    Dependencies,
    check_acyclic,
    children_of,
    converted_order,
    data_dependencies,
    node_crash,
    without_dangling,
)
from chakrasim.compat.chakra_convert.nodes import FAULTS, LinkedNode, text_attribute
from chakrasim.compat.chakra_convert.read import HEADER, read_nodes
from chakrasim.compat.chakra_convert.types import communication
from chakrasim.compat.chakra_link.crash import crash
from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.files.storage import read_unpacked
from chakrasim.trace.kinds import NodeType

#: Bytes of memory for one of the document, whose values are Python's.
_HELD = 8


@dataclass(frozen=True)
class Converted:
    """What conversion gave: ``nodes`` of the linked trace by id, ``dependencies`` of those that were kept, and the
    bytes of the Chakra file."""

    nodes: dict[Any, LinkedNode]
    dependencies: Dependencies
    data: bytes


def convert_compat(linked: str | os.PathLike[str], output: str | os.PathLike[str]) -> Converted:
    """Convert the linked trace in the file ``linked`` and write ``output``, exactly that name, not compressed.

    Raises InputError, naming the node and the exception, where the reference converter stops.
    """
    source = os.fspath(linked)
    data = read_unpacked(source, expected="a linked trace", held=_HELD)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise InputError("this is no linked trace: no UTF-8 text", file=source, place=f"byte {fault.start}") from None
    converted = convert_text(text, source)
    write_whole(output, converted.data)
    return converted


def convert_text(text: str, source: str) -> Converted:
    """Convert the text of a linked trace."""
    header, nodes = read_nodes(text, source)
    children = children_of(nodes, source)
    order = converted_order(nodes, children)
    parts = _parts(order, nodes, source)
    dependencies = without_dangling(data_dependencies(nodes, order, children, source))
    check_acyclic(dependencies, nodes, source)
    frames = [wire.frame(_metadata(header, source))]
    for at in sorted(dependencies):
        head, tail = parts[at]
        waits = dependencies[at]
        deps = wire.packed(wire.DATA_DEPS, waits) if waits else b""
        frames += wire.varint(len(head) + len(deps) + len(tail)), head, deps, tail
    return Converted(nodes, dependencies, b"".join(frames))


def _parts(order: list[LinkedNode], nodes: dict[Any, LinkedNode], source: str) -> dict[Any, tuple[bytes, bytes]]:
    """What stands before and after the data dependencies in each Chakra node, by id, in the order of conversion."""
    parts: dict[Any, tuple[bytes, bytes]] = {}
    compute, metadata = (wire.TYPE + wire.varint(kind) for kind in (NodeType.COMP_NODE, NodeType.METADATA_NODE))
    for node in order:
        kind, tail = metadata if node.is_metadata else compute, node.tail
        try:
            if node.fault is not None:
                raise node_crash(node, *node.fault, source)
            if node.inputs is not None:
                number, more = communication(node, nodes)
                kind, tail = wire.TYPE + wire.varint(number), tail + more
            ctrl = wire.packed(wire.CTRL_DEPS, [index(node.parent)]) if node.parent in parts else b""
        except FAULTS as fault:
            raise node_crash(node, type(fault).__name__, str(fault), source) from None
        parts[node.id] = node.head + kind + ctrl, tail
    return parts


def _metadata(header: dict[str, Any], source: str) -> bytes:
    """The attributes of the file's GlobalMetadata."""
    parts = []
    for key in HEADER:
        value = header[key]
        try:
            if key in ("schema", "time"):
                parts.append(text_attribute(key, value))
            elif value is None:
                parts.append(wire.empty_attribute(key))
            elif isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"it is no integer but {value!r}")
            elif not 0 <= value < 1 << 64:
                raise ValueError(f"it is out of range: {value}")
            else:
                parts.append(wire.uint64_attribute(key, value))
        except (TypeError, ValueError) as fault:
            raise crash(f"{key!r} cannot be converted: {fault}", type(fault).__name__, file=source) from None
    return b"".join(map(wire.metadata_attribute, parts))
