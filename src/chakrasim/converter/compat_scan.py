"""Nodes of a linked trace straight from their text, where it is laid out as linkers lay it out.

Decoding all JSON of a node into Python objects, and printing most of them again, takes more than twice as long. One
pattern takes a whole node apart; whatever does not match it is left to the decoder.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, Final

from chakrasim.converter import compat_wire as wire
from chakrasim.converter.compat_nodes import (
    FAULTS,
    INTEGERS,
    ON_DEVICE,
    ON_HOST,
    REPLACEABLE,
    Encoder,
    LinkedNode,
    int64_attribute,
    join_port,
    micros,
    text_attribute,
)

_S: Final = r"[ \t\n\r]*+"
_INTEGER: Final = r"-?(?:0|[1-9][0-9]*+)"
_TEXT: Final = r'"[^"\\\x00-\x1f]*+"'


def _list(item: str) -> str:
    return rf"\[{_S}(?:{item}{_S}(?:,{_S}{item}{_S})*+)?+\]"


def _field(name: str, value: str) -> str:
    return rf'"{name}":{_S}{value}'


def _pattern(*, strides: bool) -> re.Pattern[str]:
    """The pattern of a whole node: id, name, parent, inputs and outputs (values, shapes, types), attributes, rest."""
    # No text with a comma, blank or quote in it: so integers and texts look the same in Python but for their quotes.
    # Whatever of this is no JSON is _DIFFERENT, and left to the decoder.
    atom = r'(?:-?[0-9][0-9.eE+-]*+|"[A-Za-z0-9_:<>./()#-]*+"|true|false|null)'
    lists = _list(rf"(?:{atom}|{_list(rf'(?:{atom}|{_list(atom)})')})")
    parts = [_field("values", f"({lists})"), _field("shapes", f"({lists})"), _field("types", f"({_list(_TEXT)})")]
    if strides:
        parts.append(_field("strides", lists))
    port = rf"\{{{_S}" + rf"{_S},{_S}".join(parts) + rf"{_S}\}}"
    entries = [(name, f"({_INTEGER})") for name in INTEGERS]
    entries.append(("op_schema", r'"([^"\\\x00-\x1f]*+)"'))
    attrs = rf"{_S},{_S}".join(
        rf'\{{{_S}"name":{_S}"{name}",{_S}"type":{_S}"[a-z0-9]*+",{_S}"value":{_S}{value}{_S}\}}'
        for name, value in entries
    )
    more = rf"((?:{_S},{_S}\{{[^{{}}\"]*+(?:{_TEXT}[^{{}}\"]*+)*+\}})*+)"
    fields = (
        _field("id", "(0|[1-9][0-9]*+)"),
        _field("name", r'"([^"\\\x00-\x1f]*+)"'),
        _field("ctrl_deps", "(0|[1-9][0-9]*+)"),
        _field("inputs", port),
        _field("outputs", port),
        _field("attrs", rf"\[{_S}{attrs}{more}{_S}\]"),
    )
    return re.compile(rf"\{{{_S}" + rf"{_S},{_S}".join(fields) + rf"({_S}(?:,[^{{}}]*+)?+)\}}")


#: What Python prints otherwise than JSON does, and what only looks like JSON.
_DIFFERENT: Final = re.compile(r"[0-9][.eE+-]|-0|[\[, \t\n\r]0[0-9]|true|false|null")
#: The fields that linkers add: duration, what another thread does first, and, of kernels, category and stream.
_TIME: Final = r"(0|[1-9][0-9]*+)(?:\.[0-9]++)?+"
_ADDED: Final = re.compile(
    rf'{_S},{_S}"inclusive_dur":{_S}{_TIME},{_S}"exclusive_dur":{_S}{_TIME},{_S}"ts":{_S}{_TIME}'
    rf',{_S}"inter_thread_dep":{_S}(null|[1-9][0-9]*+){_S}'
)


class Scanner:
    """Reads nodes, and makes each repeated part only once."""

    def __init__(self, encoder: Encoder, *, strides: bool) -> None:
        self._encoder = encoder
        self._match = _pattern(strides=strides).match
        self._decode = JSONDecoder().decode
        self._known_values: dict[str, bytes] = {}
        self._known_shapes: dict[str, bytes] = {}
        self._known_types: dict[str, bytes] = {}
        self._schemas: dict[str, bytes] = {}
        self._integers: tuple[dict[str, bytes], ...] = tuple({} for _ in INTEGERS)
        self._groups: dict[str, str | None] = {"": None}

    def node(self, text: str, at: int) -> tuple[LinkedNode, int] | None:
        """The node whose text begins at ``at``, and where it ends; None if it does not fit."""
        match = self._match(text, at)
        if match is None:
            return None
        try:
            node = self._node(match.groups())
        except FAULTS:  # among them what the decoder raises
            return None
        return None if node is None else (node, match.end())

    def _node(self, groups: tuple[str, ...]) -> LinkedNode | None:
        number, name, parent, in_values, in_shapes, in_types, out_values, out_shapes, out_types = groups[:9]
        fields = self._fields(groups[17])
        is_gpu = fields.get("cat") is not None
        if (is_gpu and "nccl" in name) or not fields.keys().isdisjoint(_TAKEN):
            return None
        stream = fields.get("stream", 0)
        duration = micros(fields.get("exclusive_dur", 0), name)
        encoder = self._encoder
        identity = int(number)
        own_group = self._group(groups[16])
        parts = [
            wire.DURATION + wire.varint(duration) if duration else b"",
            join_port(wire.INPUTS, self._values(in_values), self._shapes(in_shapes), self._types(in_types)),
            join_port(wire.OUTPUTS, self._values(out_values), self._shapes(out_shapes), self._types(out_types)),
        ]
        for at, known in enumerate(self._integers, 9):
            value = groups[at]
            encoded = known.get(value)
            if encoded is None:
                encoded = known[value] = int64_attribute(INTEGERS[at - 9], int(value))
            parts.append(encoded)
        schema = self._schemas.get(groups[15])
        if schema is None:
            schema = self._schemas[groups[15]] = text_attribute("op_schema", groups[15])
        parts += (schema, ON_DEVICE if is_gpu else ON_HOST, encoder.stream(stream))
        return LinkedNode(
            identity,
            name,
            int(parent),
            is_gpu,
            "process_group:init" in name,
            fields.get("inter_thread_dep"),
            fields.get("pg_name", "") if own_group is None else own_group,
            int(groups[13]),
            stream,
            duration,
            encoder.head(identity, name),
            b"".join(parts),
            None,
            None,
        )

    def _fields(self, text: str) -> dict[str, Any]:
        """The fields after attrs."""
        added = _ADDED.fullmatch(text)
        if added is not None:
            waits_for = added[4]
            return {"exclusive_dur": int(added[2]), "inter_thread_dep": None if waits_for == "null" else int(waits_for)}
        rest = text.strip()
        if not rest:
            return {}
        fields: dict[str, Any] = self._decode(f"{{{rest[1:]}}}")  # but for the comma
        if not fields:
            raise ValueError
        return fields

    def _values(self, text: str) -> bytes:
        known = self._known_values.get(text)
        if known is None:
            if len(self._known_values) > _MOST_VALUES:
                self._known_values.clear()  # what comes back comes back soon
            known = self._known_values[text] = wire.block(b"\x0a", self._print(text))
        return known

    def _shapes(self, text: str) -> bytes:
        known = self._known_shapes.get(text)
        if known is None:
            known = self._known_shapes[text] = wire.block(b"\x12", self._print(text))
        return known

    def _types(self, text: str) -> bytes:
        known = self._known_types.get(text)
        if known is None:
            known = self._known_types[text] = wire.block(b"\x1a", str(self._decode(text)).encode())
        return known

    def _print(self, text: str) -> bytes:
        """A list as Python prints it."""
        if _DIFFERENT.search(text):
            return str(self._decode(text)).encode()
        return "".join(text.split()).replace(",", ", ").replace('"', "'").encode()

    def _group(self, text: str) -> str | None:
        """The process group among the attributes after the common ones. Raises ValueError if others count as well."""
        known = self._groups.get(text, "?")
        if known == "?":
            entries = self._decode(f"[{text.strip()[1:]}]")
            own = {entry["name"]: entry["value"] for entry in entries}
            if not _COUNTING.isdisjoint(own) or not isinstance(own.get("pg_name", ""), str):
                raise ValueError
            known = self._groups[text] = own.get("pg_name")
        return known


_MOST_VALUES: Final = 1 << 14
_TAKEN: Final = ("id", "name", "ctrl_deps", "inputs", "outputs", "attrs")
_COUNTING: Final = (REPLACEABLE | {*INTEGERS, "op_schema"}) - {"pg_name"}
