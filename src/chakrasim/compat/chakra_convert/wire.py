"""Chakra nodes as protobuf bytes, without NumPy: what a run needs to import takes longer than what it then does."""

from __future__ import annotations

_BYTES = [bytes((number,)) for number in range(128)]
_WORD = (1 << 64) - 1

NAME, TYPE, CTRL_DEPS, DATA_DEPS, DURATION, INPUTS, OUTPUTS = (
    b"\x12",
    b"\x18",
    b"\x22",
    b"\x2a",
    b"\x38",
    b"\x42",
    b"\x4a",
)


def varint(number: int) -> bytes:
    """A number from 0 to 2**64 - 1 in groups of seven bits."""
    if number < 128:
        return _BYTES[number]
    if number < 16384:
        return bytes((number & 127 | 128, number >> 7))
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def block(tag: bytes, data: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return tag + varint(len(data)) + data


def packed(tag: bytes, numbers: list[int]) -> bytes:
    """A field of repeated numbers, nothing if there are none."""
    return block(tag, b"".join(map(varint, numbers))) if numbers else b""


def frame(message: bytes) -> bytes:
    """A message as it stands in a file."""
    return varint(len(message)) + message


def int64_attribute(name: str, number: int) -> bytes:
    """Attribute ``name`` of a node (field 10) with an ``int64_val``."""
    return _attribute(name, b"\x48" + varint(number & _WORD))


def uint64_attribute(name: str, number: int) -> bytes:
    """Attribute ``name`` with an ``uint64_val``."""
    return _attribute(name, b"\x68" + varint(number))


def text_attribute(name: str, text: bytes) -> bytes:
    """Attribute ``name`` with a ``string_val``."""
    return _attribute(name, block(b"\xea\x01", text))


def truth_attribute(name: str, value: bool) -> bytes:
    """Attribute ``name`` with a ``bool_val``."""
    return _attribute(name, b"\xd8\x01" + _BYTES[value])


def empty_attribute(name: str) -> bytes:
    """Attribute ``name`` without a value."""
    return _attribute(name, b"")


def _attribute(name: str, value: bytes) -> bytes:
    return block(b"\x52", block(b"\x0a", name.encode()) + value)


def metadata_attribute(attribute: bytes) -> bytes:
    """A node's attribute as one of the file's GlobalMetadata (field 2)."""
    return b"\x12" + attribute[1:]
