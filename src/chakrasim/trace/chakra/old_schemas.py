"""Reading traces of Chakra's schemas 0.0.1, 0.0.2 and 0.0.3 as what schema 0.0.4 has for the same.

Field numbers, types and enumerations are those of the schema's public history (mlcommons/chakra: df405e8 is 0.0.1,
2719463 is 0.0.2, 9d917e3 is 0.0.3, to which 7bab792 added unsigned integers; all of them differ). None states a unit.
Sizes were bytes for all tools. Run times:

* 0.0.1: ASTRA-sim 2.0 and 2.1, which ran these files, took ``simulated_run_time`` for cycles of 1 ns. The converter of
  PyTorch traces copied ``dur``, which is in microseconds; its names tell (``COMP_NODE_aten::mm``).
* 0.0.2 and 0.0.3: no ASTRA-sim ran these. When Chakra's own converters and generator moved to 0.0.4, the number
  that they had written as attribute ``runtime`` became ``duration_micros``.

Converters for FlexFlow wrote cycles of a clock that the file does not state.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.inputs import Bound
from chakrasim.notes import Notes
from chakrasim.trace.chakra import legacy
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import COMPUTE_NS

_BYTES_PER_BYTE: Final = 64
"""Memory for what Python holds of a byte of the file, generously."""
_OLD_TYPES: Final = (NodeType.INVALID_NODE, *list(NodeType)[2:])
"""By number, before METADATA_NODE came in."""
_COLLECTIVES: Final = (
    *(CollectiveType.ALL_REDUCE, CollectiveType.ALL_TO_ALL, CollectiveType.ALL_GATHER),
    *(CollectiveType.REDUCE_SCATTER, CollectiveType.BROADCAST),
)
"""By number; 0.0.1 counts the first four from 1."""
_MEMORIES: Final = ("INVALID_MEMORY", "LOCAL_MEMORY", "REMOTE_MEMORY")
_NUMBERS: Final = dict(
    enumerate(
        (
            *("tensor_loc", "tensor_size", "runtime", "input_tensor_loc", "input_tensor_size", "output_tensor_loc"),
            *("output_tensor_size", "num_ops", "comm_type", "involved_dim", "pg_name", "comm_src", "comm_dst"),
            *("comm_size", "comm_tag", "comm_priority"),
        ),
        5,
    )
)
"""Fields of a node of 0.0.1, by what is made of them."""
_KINDS: Final = {
    "0.0.2": ("float", "int64", "string"),
    "0.0.3": ("bool", "float", "int64", "string"),
    "0.0.3 with uint64": ("bool", "float", "uint64", "int64", "string"),
}
"""Of attribute values, by layout: from field 4 on single ones, then lists in the same order."""
_WIRES: Final = {"float": legacy.FIXED32, "string": legacy.BLOCK}


@dataclass(frozen=True)
class _Attribute:
    name: str
    declared: int
    values: dict[int, list[int | bytes]]
    """By field, the values in their order."""


@dataclass
class _Node:
    place: str
    id: int = 0
    name: str = ""
    type: int = 0
    parents: list[int] = field(default_factory=list)
    attrs: dict[str, object] = field(default_factory=dict)
    ports: list[dict[str, str] | None] = field(default_factory=lambda: [None, None])
    raw: list[_Attribute] = field(default_factory=list)


def read_old(data: bytes, source: str, schema: str, *, lenient: bool, notes: Notes, limit: Bound) -> Trace:
    """The trace in the bytes ``data`` of the older ``schema``, `legacy.FIRST` or `legacy.WITH_ATTRIBUTES`.

    ``notes`` is told what was assumed. Raises InputError for damage (``lenient``: keeps the nodes before it), and for
    what today's schema has no words for, or what may mean several things.
    """
    limit.check(_BYTES_PER_BYTE * len(data), source, "the trace")
    reading = _Reading(source, notes)
    nodes = list(reading.nodes(data, schema == legacy.FIRST, lenient))
    layout = schema if schema == legacy.FIRST else reading.layout()
    micros = schema != legacy.FIRST or any(map(_of_pytorch, nodes))
    builder = TraceBuilder(metadata=dict(reading.values(reading.meta, layout)), source=source)
    timed = sum(reading.add(builder, node, layout, micros) for node in nodes)
    notes.note(f"{source}: a trace of Chakra schema {layout[:5]}; parents are taken as data dependencies")
    if timed:
        unit, why = ("microseconds", "as 0.0.4 has them") if schema != legacy.FIRST else _REASONS[micros]
        notes.warn(f"{source}: schema {layout[:5]} states no unit of run times; {timed} are taken as {unit}, {why}")
    if reading.unknown:
        notes.warn(f"{source}: left out {reading.unknown} fields that Chakra schema {layout[:5]} does not define")
    if reading.documented:
        notes.warn(f"{source}: left out the doc_string of {reading.documented} attributes")
    return builder.build()


_REASONS: Final = (
    ("ns", "as ASTRA-sim 2.0 took them"),
    ("microseconds", "as the converter of PyTorch traces wrote them"),
)


def _of_pytorch(node: _Node) -> bool:
    return (node.type == NodeType.COMP_NODE and "::" in node.name) or node.name.startswith("COMM_COLL_NODE_nccl:")


class _Reading:
    def __init__(self, source: str, notes: Notes) -> None:
        self.source, self.notes = source, notes
        self.meta: list[_Attribute] = []
        self.seen: set[tuple[int, int]] = set()
        self.unknown = self.documented = 0

    def nodes(self, data: bytes, first: bool, lenient: bool) -> Iterator[_Node]:
        """The nodes of the file; the metadata, if there are any, go to ``meta``."""
        count, begin = 0, 0
        try:
            for number, (begin, body) in enumerate(legacy.bodies(data)):
                place = f"node number {count} of the file (at byte {begin})"
                if not first and number == 0 and (not body or legacy.begins_with_attribute(body)):
                    parts = [content for at, wire, _, content in legacy.fields(body) if (at, wire) == (1, legacy.BLOCK)]
                    self.meta = [self._attribute(part, "the metadata") for part in parts]
                    continue
                yield self._first(body, place) if first else self._with_attributes(body, place)
                count += 1
        except legacy.Damage as damage:
            error = InputError(
                f"the trace is damaged: {damage}",
                file=self.source,
                place=f"byte {begin + damage.at}, in or behind node number {count} of the file",
                remedy="copy or create the file again, or read it leniently (--lenient) to keep the intact beginning",
            )
            if not lenient or not count:
                raise error from None
            self.notes.warn(f"{error}: kept the {count} nodes before it")

    def _first(self, body: bytes, place: str) -> _Node:
        """A node of 0.0.1."""
        node, dims = _Node(place), []
        for number, wire, value, content in legacy.fields(body):
            if number == 2 and wire == legacy.BLOCK:
                node.name = self._text(content, place)
            elif wire != legacy.VARINT or number == 2 or number > 20:
                self.unknown += 1
            elif number == 14:
                dims.append(value != 0)
            elif number in _NUMBERS:
                node.attrs[_NUMBERS[number]] = value
            else:
                self._head(node, number, value)
        node.type = self._type(node, _OLD_TYPES)
        if dims:
            node.attrs["involved_dim"] = {"bool_list": dims}
        for name in ("tensor_loc", "input_tensor_loc", "output_tensor_loc"):
            if name in node.attrs:
                node.attrs[name] = self._one_of(_MEMORIES, node.attrs[name], name, place)
        kind = node.attrs.pop("comm_type", 0)
        if kind != 0:  # which 0.0.1 calls INVALID_COMM
            node.attrs["comm_type"] = self._one_of((None, *_COLLECTIVES[:4]), kind, "comm_type", place)
        group = node.attrs.pop("pg_name", 0)
        if group:
            node.attrs["pg_name"] = str(group)
            self.notes.warn(f"{self.source}: communicator_id is taken as the name of a group, whose members it has not")
        return node

    def _head(self, node: _Node, number: int, value: int) -> None:
        """The numbers at the beginning of a node: 1 id, 3 type, 4 a parent."""
        if number == 4:
            node.parents.append(value)
        else:
            setattr(node, "id" if number == 1 else "type", value)

    def _with_attributes(self, body: bytes, place: str) -> _Node:
        """A node of 0.0.2 or 0.0.3, its type and attributes still as numbers."""
        node = _Node(place)
        for number, wire, value, content in legacy.fields(body):
            if wire == legacy.VARINT and number in (1, 3, 4):
                self._head(node, number, value)
            elif wire != legacy.BLOCK or number == 1 or number == 3 or number > 11:
                self.unknown += 1
            elif number == 2:
                node.name = self._text(content, place)
            elif number == 4:
                at = 0
                while at < len(content):
                    value, at = legacy.number_at(content, at)
                    node.parents.append(value)
            elif number == 11:
                node.raw.append(self._attribute(content, place))
            else:
                side, part = divmod(number - 5, 3)
                ports = node.ports[side] or {}
                node.ports[side] = ports | {("values", "shapes", "types")[part]: self._text(content, place)}
        return node

    def _attribute(self, body: bytes, place: str) -> _Attribute:
        name, declared = "", -1
        values: dict[int, list[int | bytes]] = {}
        for number, wire, value, content in legacy.fields(body):
            if (number, wire) == (1, legacy.BLOCK):
                name = self._text(content, place)
            elif (number, wire) == (2, legacy.VARINT):
                declared = value
            elif (number, wire) == (3, legacy.BLOCK):
                self.documented += 1
            elif number in (1, 2, 3) or number > 13:
                self.unknown += 1
            else:
                self.seen.add((number, wire))
                values.setdefault(number, []).append(value if wire == legacy.VARINT else content)
        return _Attribute(name, declared, values)

    def layout(self) -> str:
        """Which of the layouts of attributes all those seen have. Raises InputError for none, or for several that
        differ in what they mean."""
        possible = [name for name, kinds in _KINDS.items() if all(_fits(kinds, *one) for one in self.seen)]
        if self.meta:  # 0.0.2 has no metadata
            possible = [name for name in possible if name != "0.0.2"]
        if not possible or "0.0.2" in possible[:-1]:
            raise InputError(
                "it cannot be told which schema this trace has",
                file=self.source,
                found="attributes of 0.0.2 and of 0.0.3 alike, whose node types have different numbers"
                if possible
                else "attributes whose numbers and types no schema has together",
                expected="attributes of schema 0.0.2 or 0.0.3",
                remedy="create the trace again with today's Chakra tools",
            )
        return possible[0]

    def values(self, attributes: list[_Attribute], layout: str) -> Iterator[tuple[str, object]]:
        """(name, value as `TraceBuilder` takes it) of attributes."""
        kinds = [f"{kind}_{form}" for form in ("val", "list") for kind in _KINDS.get(layout, ())]
        for one in attributes:
            declared = one.declared + 4
            at = declared if declared in one.values else next(iter(one.values), declared)
            kind = kinds[at - 4] if 4 <= at < 4 + len(kinds) else "none"
            taken = [self._value(kind, value, one.name) for value in one.values.get(at, ())]
            if kind.endswith("_list"):
                yield one.name, {kind: taken}
            else:
                yield one.name, {kind: taken[-1]} if taken else None

    def _value(self, kind: str, value: int | bytes, name: str) -> object:
        if isinstance(value, int):
            return value - (1 << 64) if kind.startswith("int64") and value >> 63 else value
        if kind.startswith("float"):
            return struct.unpack("<f", value)[0]
        return self._text(value, f"attribute {name!r}")

    def add(self, builder: TraceBuilder, node: _Node, layout: str, micros: bool) -> bool:
        """Add a node to the trace; whether it has a run time."""
        attrs = node.attrs
        if layout != legacy.FIRST:
            node.type = self._type(node, _OLD_TYPES if layout == "0.0.2" else tuple(NodeType))
            attrs = dict(self.values(node.raw, layout))
            self._rename(node, attrs)
        runtime = _plain(attrs.pop("runtime", 0))
        if not isinstance(runtime, int) or not 0 <= runtime < 1 << 62:
            raise self._wrong("the run time is out of range", node.place, runtime, "0 to 2^62 - 1")
        if not micros and runtime % 1000:
            attrs[COMPUTE_NS] = runtime
        duration = runtime if micros else (runtime + 500) // 1000
        inputs, outputs = node.ports
        builder.add(node.id, node.name, node.type, node.parents, (), duration, 0, attrs, inputs, outputs)
        return runtime > 0

    def _rename(self, node: _Node, attrs: dict[str, object]) -> None:
        """What 0.0.4 calls or counts otherwise."""
        if "comm_type" in attrs:
            attrs["comm_type"] = self._one_of(_COLLECTIVES, _plain(attrs["comm_type"]), "comm_type", node.place)
        dims = _plain(attrs.get("involved_dim"))
        if isinstance(dims, list) and all(isinstance(one, int) for one in dims):
            attrs["involved_dim"] = {"bool_list": [one != 0 for one in dims]}
        if node.type in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            for name in ("src", "dst"):
                if name in attrs and f"comm_{name}" not in attrs:
                    attrs[f"comm_{name}"] = attrs.pop(name)

    def _type(self, node: _Node, types: tuple[NodeType, ...]) -> int:
        kind = self._one_of(types, node.type, "the type", node.place)
        return kind if isinstance(kind, int) else 0

    def _one_of(self, known: tuple[object, ...], number: object, what: str, place: str) -> object:
        if not isinstance(number, int) or not 0 <= number < len(known) or known[number] is None:
            raise self._wrong(f"{what} is none that the schema has", place, number, f"up to {len(known) - 1}")
        found = known[number]
        return int(found) if isinstance(found, int) else found

    def _text(self, raw: bytes, place: str) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self._wrong("a string is not valid UTF-8", place, raw[:40], "text") from None

    def _wrong(self, fault: str, place: str, found: object, expected: str) -> InputError:
        return InputError(fault, file=self.source, place=place, found=repr(found)[:80], expected=expected)


def _fits(kinds: tuple[str, ...], number: int, wire: int) -> bool:
    """Whether a layout has such a value at field ``number``."""
    at = number - 4
    return at < 2 * len(kinds) and wire == _WIRES.get(kinds[at % len(kinds)], legacy.VARINT)


def _plain(value: object) -> object:
    """The value in a mapping of one kind."""
    return next(iter(value.values())) if isinstance(value, Mapping) else value
