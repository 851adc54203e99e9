"""Telling traces of the schemas before 0.0.4, by the fields that their messages have.

Read as today's schema, such a file would lose its first node, or text would turn into dependencies. `old_schemas` reads
those that can be told for sure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

VARINT, FIXED64, BLOCK, FIXED32 = 0, 1, 2, 5
FIRST: Final = "0.0.1"
WITH_ATTRIBUTES: Final = "0.0.2 or 0.0.3"
NO_METADATA: Final = "0.0.4"
"""Written without metadata, as by the first converters of text workloads for 0.0.4."""
_LOOKED_AT = 64
_BEYOND: Final = 32  # no schema has a field of this number


class Damage(ValueError):
    """A message that cannot be taken apart: ``at``, the byte of it, and what is wrong."""

    def __init__(self, at: int, fault: str) -> None:
        super().__init__(fault)
        self.at = at


def look(data: bytes, damaged: bool) -> tuple[str, str] | None:
    """(`FIRST`, `WITH_ATTRIBUTES`, `NO_METADATA` or "", what ``data`` look like); None for no older file.

    It goes by the first messages. ``damaged``: decoding by today's schema failed.
    """
    messages = [_looks(body) for body in islice(_whole(data), _LOOKED_AT)]
    if not messages:
        return None
    seen = {(number, wire) for message in messages for number, wire, _, _ in message}
    begins = {(number, wire) for number, wire, _, _ in messages[0]}
    if (1, VARINT) in begins:
        numbers = {number for number, _ in seen}
        if numbers & set(range(12, 21)) or {(number, VARINT) for number in range(8, 12)} & seen:
            return FIRST, "a node as first message, with the fields of schema 0.0.1"
        if (11, BLOCK) in seen:
            return WITH_ATTRIBUTES, "a node as first message, with the fields of schema 0.0.2 or 0.0.3"
        # Writers of proto3 leave zeros out and pack numbers.
        proto2 = (4, VARINT) in seen or any(number == 1 and zero for number, _, zero, _ in messages[0])
        if proto2 and {(6, VARINT), (7, VARINT)} & seen and max(numbers) < 8:
            return FIRST, "a node as first message, written as schema 0.0.1 was"
        tenth = {first for message in messages for number, _, _, first in message if number == 10}
        if tenth == {b"\x0a"} and max(numbers) == 10:
            return NO_METADATA, "nodes of 0.0.4, whose attributes have names, without metadata before them"
        return "", "a node where the metadata should be: an older schema, or the metadata are missing"
    if (3, VARINT) in begins and (1, BLOCK) not in begins:  # proto3 leaves out an id of 0
        return NO_METADATA, "nodes without metadata before them"
    if begins_with_attribute(next(_whole(data))):
        return WITH_ATTRIBUTES, "metadata as in schema 0.0.3"
    if (11, BLOCK) in seen and (damaged or (10, BLOCK) not in seen):
        return WITH_ATTRIBUTES if not messages[0] else "", "nodes with the fields of schema 0.0.3"
    return None


def begins_with_attribute(message: bytes) -> bool:
    """Whether field 1 of the metadata, today's version string, holds a message that begins with a name."""
    try:
        _, at = number_at(message, 1)
    except Damage:
        return False
    return message[:1] == b"\x0a" and message[at : at + 1] == b"\x0a"


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """(value, next position) of the base-128 number at ``at``, 64 bits at most. Raises `Damage`."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Damage(at, "the file ends, or a field does, in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (1 << 64) - 1, at
    raise Damage(at, "a number is malformed")


def bodies(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(position, content) of each message. Raises `Damage` where they end early."""
    at = 0
    while at < len(data):
        size, start = number_at(data, at)
        if size > len(data) - start:
            raise Damage(at, "the file ends in the middle of a message")
        yield start, data[start : start + size]
        at = start + size


def fields(body: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(number, wire type, value, content) of each field at the top of a message: the value of a `VARINT`, else the
    bytes. Raises `Damage`."""
    at = 0
    while at < len(body):
        tag, at = number_at(body, at)
        number, wire = tag >> 3, tag & 7
        if number == 0 or wire not in (VARINT, FIXED64, BLOCK, FIXED32):
            raise Damage(at, "a field's tag is malformed")
        if wire == VARINT:
            value, at = number_at(body, at)
            yield number, wire, value, b""
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(wire)
        if size is None:
            size, at = number_at(body, at)
        if size > len(body) - at:
            raise Damage(at, "a field reaches beyond the end of its message")
        yield number, wire, 0, body[at : at + size]
        at += size


def _whole(data: bytes) -> Iterator[bytes]:
    try:
        yield from (body for _, body in bodies(data))
    except Damage:
        return


def _looks(body: bytes) -> set[tuple[int, int, bool, bytes]]:
    """(number, `_BEYOND` at most; wire type; whether the value is 0; first byte of the content) of the intact fields:
    however many there are, few differ."""
    found = set()
    try:
        for number, wire, value, content in fields(body):
            found.add((min(number, _BEYOND), wire, value == 0, content[:1]))
    except Damage:
        pass
    return found
