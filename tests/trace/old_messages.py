"""Messages of Chakra's schemas 0.0.1 to 0.0.3 as the official library writes and reads them, and random traces."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import official
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_NODES = ("INVALID", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
_LATER = ("INVALID", "METADATA", *_NODES[1:])
_COLLECTIVES = ("ALL_REDUCE", "ALL_TO_ALL", "ALL_GATHER", "REDUCE_SCATTER", "BROADCAST")
_FIRST = (
    *("id uint64", "name string", "node_type NodeType", "parent uint64*", "tensor_loc MemoryType"),
    *("tensor_size uint64", "simulated_run_time uint64", "input_tensor_loc MemoryType", "input_tensor_size uint64"),
    *("output_tensor_loc MemoryType", "output_tensor_size uint64", "num_ops uint64", "comm_type CollectiveCommType"),
    *("involved_dim bool*", "communicator_id uint32", "comm_src uint32", "comm_dst uint32", "comm_size uint32"),
    *("comm_tag uint32", "comm_priority uint32"),
)
_NODE = (
    *("id uint64", "name string", "type NodeType", "parent uint64*", "inputs string", "input_shapes string"),
    *("input_types string", "outputs string", "output_shapes string", "output_types string"),
    "attribute AttributeProto*",
)
_VALUES = {
    "0.0.2": "f float,i int64,s string,floats float*,ints int64*,strings bytes*",
    "0.0.3": "b bool,f float,i int64,s string,bools bool*,floats float*,ints int64*,strings string*",
    "0.0.3u": "b bool,f float,u uint64,i int64,s string,bools bool*,floats float*,uints uint64*,ints int64*,"
    "strings string*",
}
SCHEMAS = ("0.0.1", *_VALUES)


def _classes(schema: str) -> SimpleNamespace:
    """The message classes, and ``types``, ``collectives``: names by number."""
    first = schema == "0.0.1"
    file = descriptor_pb2.FileDescriptorProto(name=f"old{schema}.proto", package="O", syntax="proto2")
    nodes = _LATER if schema.startswith("0.0.3") else _NODES
    collectives = ("INVALID", *_COLLECTIVES[:4]) if first else _COLLECTIVES
    memories = ("INVALID_MEMORY", "LOCAL_MEMORY", "REMOTE_MEMORY")
    declared = [one.split()[0] for one in _VALUES.get(schema, "none").split(",")]
    for name, members in (("NodeType", nodes), ("CollectiveCommType", collectives), ("MemoryType", memories)):
        enum = file.enum_type.add(name=name)
        for number, member in enumerate(members):
            enum.value.add(name=f"{name}_{member}", number=number)
    _message(file, "Node", _FIRST if first else _NODE)
    _message(
        file,
        "AttributeProto",
        ["name string", "type uint32", "doc_string string", *_VALUES.get(schema, "x bool").split(",")],
    )
    _message(file, "GlobalMetadata", ["attribute AttributeProto*"])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {
        one: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"O.{one}"))
        for one in ("Node", "AttributeProto", "GlobalMetadata")
    }
    return SimpleNamespace(**made, types=nodes, collectives=collectives, memories=memories, declared=declared)


def _message(file: Any, name: str, fields: Any) -> None:
    message = file.message_type.add(name=name)
    for number, text in enumerate(fields, 1):
        title, kind = text.split()
        field = message.field.add(name=title, number=number)
        field.label = _F.LABEL_REPEATED if kind.endswith("*") else _F.LABEL_OPTIONAL
        kind = kind.rstrip("*")
        if kind[0].isupper():
            field.type = _F.TYPE_MESSAGE if kind == "AttributeProto" else _F.TYPE_ENUM
            field.type_name = f".O.{kind}"
        else:
            field.type = getattr(_F, f"TYPE_{kind.upper()}")


CLASSES = {schema: _classes(schema) for schema in SCHEMAS}


def drawn(schema: str, seed: int) -> tuple[list[Any], list[Any], bytes]:
    """(attributes of the metadata, nodes, the file) of a random trace of a schema."""
    draw = random.Random(f"{schema} {seed}")
    classes = CLASSES[schema]
    count = draw.randint(2, 12)
    nodes = [(_first if schema == "0.0.1" else _later)(draw, schema, at) for at in range(count)]
    meta = classes.GlobalMetadata()
    if schema == "0.0.3u" and draw.random() < 0.7:
        meta.attribute.extend([attribute(draw, schema, name) for name in ("schema", "pid")])
    head = [meta.SerializeToString()] if meta.attribute else []
    return list(meta.attribute), nodes, official.frame(*head, *(node.SerializeToString() for node in nodes))


def _first(draw: random.Random, schema: str, at: int) -> Any:
    classes = CLASSES[schema]
    node = classes.Node(
        id=at, name=f"n\u00e4 {at}", node_type=draw.randrange(7), parent=draw.sample(range(at), min(at, 2))
    )
    for name in ("tensor_size", "simulated_run_time", "input_tensor_size", "output_tensor_size", "num_ops"):
        if draw.random() < 0.5:
            setattr(node, name, draw.choice((0, 1, 999, 5000, 1 << 40)))
    for name in ("tensor_loc", "input_tensor_loc", "output_tensor_loc"):
        if draw.random() < 0.3:
            setattr(node, name, draw.randrange(3))
    for name in ("communicator_id", "comm_src", "comm_dst", "comm_size", "comm_tag", "comm_priority"):
        if draw.random() < 0.4:
            setattr(node, name, draw.choice((0, 3, (1 << 32) - 1)))
    node.involved_dim.extend(draw.choices((True, False), k=draw.randrange(3)))
    if at == 0 or draw.random() < 0.4:
        node.comm_type = draw.randrange(1, 5)
    return node


def _later(draw: random.Random, schema: str, at: int) -> Any:
    classes = CLASSES[schema]
    node = classes.Node(id=at, name=f"n{at}", type=draw.randrange(len(classes.types)), parent=range(min(at, 3)))
    for name in ("inputs", "input_shapes", "output_types"):
        if draw.random() < 0.5:
            setattr(node, name, draw.choice(("", "[[1, 2], []]", "['Tensor(float)']")))
    names = ["runtime", "num_ops", "tensor_size", "comm_size", "comm_type"]
    for name in draw.sample(names, draw.randrange(4)):
        one = node.attribute.add(name=name, type=classes.declared.index("i"))
        one.i = draw.randrange(5) if name == "comm_type" else draw.choice((0, 7, 1 << 35))
    kinds = draw.sample(classes.declared, draw.randrange(4)) if at else ["f", "s"]
    node.attribute.extend([attribute(draw, schema, f"a_{kind}", kind) for kind in kinds])
    return node


def attribute(draw: random.Random, schema: str, name: str, kind: str = "s") -> Any:
    """An attribute that has a value of a kind, or at times none."""
    classes = CLASSES[schema]
    one = classes.AttributeProto(name=name, type=classes.declared.index(kind))
    values = {
        "b": (True, False),
        "f": (0.5, -1.25, 1e30),
        "u": (0, (1 << 64) - 1),
        "i": (0, -1, 1 << 62, -(1 << 63)),
        "s": ("", "text", "\u00e4"),
    }[kind[0]]
    if len(kind) == 1:
        if name != "a_s" or draw.random() < 0.8:
            setattr(one, kind, draw.choice(values))
        return one
    chosen = draw.choices(values, k=draw.randrange(4))
    if schema == "0.0.2" and kind == "strings":
        chosen = [text.encode() for text in chosen]
    getattr(one, kind).extend(chosen)
    return one
