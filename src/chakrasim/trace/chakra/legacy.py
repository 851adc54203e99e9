"""Telling traces of the schemas before 0.0.4, which are refused: their files do not say all that a conversion needs.

What is documented of 0.0.1 leaves the unit of its run times open, of 0.0.2 and 0.0.3 the field numbers of attributes,
so a conversion would guess. Read as today's schema, such a file would lose its first node, or text would turn into
dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

_VARINT, _BLOCK = 0, 2
_LOOKED_AT = 64


def look(data: bytes, damaged: bool) -> str | None:
    """What older file ``data`` look like, from the first messages; None for none. ``damaged``: decoding failed."""
    messages = [set(_fields(body)) for body in islice(_bodies(data), _LOOKED_AT)]
    if not messages:
        return None
    seen = set().union(*messages)
    numbers = {field for field, _ in seen}
    if (1, _VARINT) in messages[0]:
        if numbers & set(range(12, 21)):
            return "a node as first message, with the fields of schema 0.0.1"
        if (11, _BLOCK) in seen:
            return "a node as first message, with the fields of schema 0.0.2 or 0.0.3"
        return "a node where the metadata should be: an older schema, or the metadata are missing"
    if _begins_with_attribute(data):
        return "metadata as in schema 0.0.3"
    if (11, _BLOCK) in seen and (damaged or (10, _BLOCK) not in seen):
        return "nodes with the fields of schema 0.0.3"
    return None


def _begins_with_attribute(data: bytes) -> bool:
    """Whether field 1 of the metadata, today's version string, holds a message that begins with a name."""
    first = next(_bodies(data), b"")
    _, at = _varint(first, 1)
    return first[:1] == b"\x0a" and first[at : at + 1] == b"\x0a"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, next position); the position is past the end if the number is cut or longer than any legal one."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    return 0, len(data) + 1


def _bodies(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = _varint(data, at)
        if at + size > len(data):
            return
        yield data[at : at + size]
        at += size


def _fields(body: bytes) -> Iterator[tuple[int, int]]:
    """(number, wire type) of each field at the top of a message, as far as it makes sense."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        field, wire = tag >> 3, tag & 7
        if field == 0 or at > len(body) or wire not in (0, 1, 2, 5):
            return
        yield field, wire
        value, after = _varint(body, at)
        at = {_VARINT: after, _BLOCK: after + value, 1: at + 8, 5: at + 4}[wire]
