"""Reading a linked trace for the compatible converter."""

from __future__ import annotations

import re
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from chakrasim.compat.chakra_convert.nodes import FAULTS, Encoder, LinkedNode
from chakrasim.compat.chakra_link.crash import crash
from chakrasim.errors import InputError

#: Schemas that the reference converter reads.
SCHEMAS: Final = ("1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1-chakra.0.0.4")
HEADER: Final = ("schema", "pid", "time", "start_ts", "finish_ts")
_SPACE: Final = re.compile(r"[ \t\n\r]*")


def read_nodes(text: str, source: str) -> tuple[dict[str, Any], dict[Any, LinkedNode]]:
    """The header and the nodes (by id, in the order in which ids first occur) of the linked trace ``text``.

    Raises InputError for what is no JSON object of that kind, and where the reference converter stops in any case.
    """
    header: dict[str, Any] = {}
    nodes: dict[Any, LinkedNode] | None = None
    decode = JSONDecoder().raw_decode
    try:
        at = _next(text, _after(text, _next(text, 0), "{"))
        while not text.startswith("}", at):
            _after(text, at, '"')
            key, at = decode(text, at)
            at = _next(text, _after(text, _next(text, at), ":"))
            if key == "nodes":
                nodes, at = _read_array(text, at, source, header)
            else:
                header[key], at = decode(text, at)
            at = _next(text, at)
            if text.startswith("}", at):
                break
            at = _next(text, _after(text, at, ","))
            if text.startswith("}", at):
                raise JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        at = _next(text, at + 1)
        if at < len(text):
            raise JSONDecodeError("Extra data", text, at)
    except JSONDecodeError as fault:
        raise _no_json(text, fault.pos, fault.msg, source) from None
    missing = next((key for key in HEADER if key not in header), None if nodes is not None else "nodes")
    if nodes is None or missing is not None:
        raise crash(f"the linked trace has no {missing!r}", "KeyError", file=source)
    if nodes:
        check_schema(header, source)
    return header, nodes


def _next(text: str, at: int) -> int:
    """Where the white space at ``at`` ends."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _after(text: str, at: int, wanted: str) -> int:
    """The position after the character ``wanted``, which must stand at ``at``."""
    if not text.startswith(wanted, at):
        raise JSONDecodeError(f"Expecting {wanted!r}", text, at)
    return at + 1


def _no_json(text: str, at: int, message: str, source: str) -> InputError:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return InputError(
        f"this is no linked trace: {message}",
        file=source,
        place=f"line {line}, column {column}",
        found=repr(text[at : at + 20]) if at < len(text) else "the end of the file",
        expected="a JSON object as chakrasim link --compat chakra writes it",
    )


def check_schema(header: dict[str, Any], source: str) -> None:
    """Raise InputError for a schema that the reference converter does not read."""
    schema = header.get("schema", SCHEMAS[0])
    if schema not in SCHEMAS:
        kind = "AttributeError" if schema == "1.1.1-chakra.1.0.0" else "ValueError"
        raise crash(
            "the reference converter cannot read this schema", kind, file=source, place="schema", found=repr(schema)
        )


def _read_array(text: str, at: int, source: str, header: dict[str, Any]) -> tuple[dict[Any, LinkedNode], int]:
    """The nodes in the array that begins at ``at``, and the position after it."""
    at = _next(text, _after(text, at, "["))
    if text.startswith("]", at):
        return {}, at + 1
    check_schema(header, source)
    decode = JSONDecoder().raw_decode
    encoder = Encoder()
    nodes: dict[Any, LinkedNode] = {}
    count = 0
    while True:
        data, at = decode(text, at)
        try:
            node = encoder.node(data)
            nodes[node.id] = node
        except FAULTS as fault:
            reason = f"there is no {fault}" if isinstance(fault, KeyError) else str(fault)
            kind = type(fault).__name__
            raise crash(f"a node cannot be read: {reason}", kind, file=source, place=_title(data, count)) from None
        count += 1
        at = _next(text, at)
        if text.startswith("]", at):
            return nodes, at + 1
        at = _next(text, _after(text, at, ","))


def _title(data: Any, position: int) -> str:
    if not isinstance(data, dict):
        return f"number {position} in the file"
    return f"node {data.get('id')!r} ({data.get('name')!r}, number {position} in the file)"
