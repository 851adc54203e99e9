"""The official protobuf library as oracle: the schema built at run time, files framed and read with its classes."""

from __future__ import annotations

import math
import struct
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import chakrasim.trace as ct

SCALARS = [
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
]
_F = descriptor_pb2.FieldDescriptorProto


def _field(message: Any, number: int, name: str, kind: str, repeated: bool = False, oneof: bool = False) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
    if kind[0] == ".":
        field.type = _F.TYPE_ENUM if kind == ".P.NodeType" else _F.TYPE_MESSAGE
        field.type_name = kind
    else:
        field.type = getattr(_F, f"TYPE_{kind.upper()}")
    if oneof:
        field.oneof_index = 0


def _classes() -> tuple[Any, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="chakra_oracle.proto", package="P", syntax="proto3")
    enum = file.enum_type.add(name="NodeType")
    for member in ct.NodeType:
        enum.value.add(name=member.name, number=member)
    for scalar in SCALARS:
        _field(file.message_type.add(name=f"{scalar}List"), 1, "values", scalar, repeated=True)
    attr = file.message_type.add(name="AttributeProto")
    attr.oneof_decl.add(name="value")
    _field(attr, 1, "name", "string")
    _field(attr, 2, "doc_string", "string")
    for at, scalar in enumerate(SCALARS):
        _field(attr, 3 + 2 * at, f"{scalar}_val", scalar, oneof=True)
        _field(attr, 4 + 2 * at, f"{scalar}_list", f".P.{scalar}List", oneof=True)
    io = file.message_type.add(name="IOInfo")
    for number, name in enumerate(("values", "shapes", "types"), 1):
        _field(io, number, name, "string")
    node = file.message_type.add(name="Node")
    _field(node, 1, "id", "uint64")
    _field(node, 2, "name", "string")
    _field(node, 3, "type", ".P.NodeType")
    _field(node, 4, "ctrl_deps", "uint64", repeated=True)
    _field(node, 5, "data_deps", "uint64", repeated=True)
    _field(node, 6, "start_time_micros", "uint64")
    _field(node, 7, "duration_micros", "uint64")
    _field(node, 8, "inputs", ".P.IOInfo")
    _field(node, 9, "outputs", ".P.IOInfo")
    _field(node, 10, "attr", ".P.AttributeProto", repeated=True)
    meta = file.message_type.add(name="GlobalMetadata")
    _field(meta, 1, "version", "string")
    _field(meta, 2, "attr", ".P.AttributeProto", repeated=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return tuple(  # type: ignore[return-value]
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"P.{name}")) for name in ("GlobalMetadata", "Node")
    )


GlobalMetadata, Node = _classes()


def varint(value: int) -> bytes:
    """Base-128, least significant group first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def frame(*messages: bytes) -> bytes:
    """The messages, each behind its length."""
    return b"".join(varint(len(message)) + message for message in messages)


def bodies(data: bytes) -> list[bytes]:
    """The messages of a file. Raises ValueError if the framing is damaged."""
    found, pos = [], 0
    while pos < len(data):
        size = shift = 0
        while True:
            if pos >= len(data) or shift > 28:
                raise ValueError("length")
            size |= (data[pos] & 127) << shift
            shift += 7
            pos += 1
            if data[pos - 1] < 128:
                break
        if pos + size > len(data) or size >= 1 << 31:
            raise ValueError("frame")
        found.append(data[pos : pos + size])
        pos += size
    return found


def read(data: bytes) -> tuple[Any, list[Any]]:
    """(metadata, nodes) as the official library reads them; raises ValueError or DecodeError."""
    first, *rest = bodies(data)
    return GlobalMetadata.FromString(first), [Node.FromString(body) for body in rest]


def _exact(value: Any, kind: str) -> Any:
    """Floats by their bits, so that NaN equals itself."""
    if kind.startswith(("double", "float")):
        code = "<d" if kind.startswith("double") else "<f"
        return struct.pack(code, value) if math.isfinite(value) or code == "<d" else repr(value)
    return value


def attributes(message: Any) -> list[Any]:
    """The attributes of an official message in a form that compares."""
    found = []
    for attr in message.attr:
        kind = attr.WhichOneof("value") or "none"
        value = None if kind == "none" else getattr(attr, kind)
        if kind.endswith("_list"):
            value = [_exact(element, kind) for element in value.values]
        elif value is not None:
            value = _exact(value, kind)
        found.append((attr.name, attr.doc_string, kind, value))
    return found


def node_content(node: Any) -> Any:
    """All of an official node."""
    ports = tuple(
        (io.values, io.shapes, io.types) if node.HasField(port) else None
        for port, io in (("inputs", node.inputs), ("outputs", node.outputs))
    )
    return (
        node.id, node.name, node.type, list(node.ctrl_deps), list(node.data_deps), node.start_time_micros,
        node.duration_micros, ports, attributes(node),
    )  # fmt: skip


def our_attributes(trace: ct.Trace, table: ct.Attributes, owner: int) -> list[Any]:
    """The same of ours."""
    found = []
    for at in range(int(table.offsets[owner]), int(table.offsets[owner + 1])):
        number = int(table.kind[at])
        kind = ct.KIND_NAMES[number]
        value = trace.decode(number, int(table.bits[at]))
        if kind.endswith("_list"):
            value = [_exact(element, kind) for element in value]
        elif value is not None:
            value = _exact(value, kind)
        found.append((trace.strings[int(table.name[at])], trace.strings[int(table.doc[at])], kind, value))
    return found


def our_content(trace: ct.Trace, at: int) -> Any:
    """All of one of our nodes."""
    node = trace.node(at)
    ports = tuple(None if io is None else tuple(io.values()) for io in (node.inputs, node.outputs))
    return (
        node.id, node.name, node.type, list(node.ctrl_deps), list(node.data_deps), node.start_micros,
        node.duration_micros, ports, our_attributes(trace, trace.attrs, at),
    )  # fmt: skip


def assert_same(trace: ct.Trace, metadata: Any, nodes: list[Any]) -> None:
    """Our reading equals the official one in everything."""
    assert len(trace) == len(nodes)
    assert trace.version == metadata.version
    assert our_attributes(trace, trace.meta, 0) == attributes(metadata)
    for at, node in enumerate(nodes):
        assert our_content(trace, at) == node_content(node)
