"""Field numbers and enumerations of the Chakra schema 0.0.4 (1.0 is the same), as plain integers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class NodeType(IntEnum):
    """What a node does (``enum NodeType`` of the schema). Columns keep the raw number, known or not."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


PARTS = "comm_parts"
"""Attribute of an all-to-all whose parts differ: bytes that this rank has for each member, in the group's order."""


class CollectiveType(IntEnum):
    """What a collective does (``enum CollectiveCommType`` of the schema), the value of the attribute ``comm_type``."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


#: What linked traces have beyond the collective types of the schema.
SEND, RECV, UNKNOWN = 100, 101, 102
#: Collectives that are several messages under one start (coalesced, batched) and cannot be told apart.
COALESCED = 103
OPERATION_NAMES: Final[dict[int, str]] = {
    **{kind.value: kind.name.lower() for kind in CollectiveType},
    SEND: "send",
    RECV: "recv",
    UNKNOWN: "unknown",
    COALESCED: "coalesced",
}

#: Name of each member of the attribute's value oneof, by field number; 0 stands for an attribute without a value.
KIND_NAMES: Final[dict[int, str]] = {0: "none"}
_SCALARS = "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"
for _position, _name in enumerate(_SCALARS.split()):
    KIND_NAMES[3 + 2 * _position] = f"{_name}_val"
    KIND_NAMES[4 + 2 * _position] = f"{_name}_list"

KIND_NUMBERS: Final[dict[str, int]] = {name: number for number, name in KIND_NAMES.items()}

DOUBLE, FLOAT, INT32, INT64, UINT32, UINT64 = 3, 5, 7, 9, 11, 13
SINT32, SINT64, FIXED32, FIXED64, SFIXED32, SFIXED64 = 15, 17, 19, 21, 23, 25
BOOL, STRING, BYTES = 27, 29, 31

#: Kinds whose value is an integer or a truth value: what converts to the integer that a simulator asks for.
INTEGER_KINDS: Final[frozenset[int]] = frozenset(range(INT32, BOOL + 1, 2))

#: (smallest, largest) value of each integer kind.
INTEGER_RANGES: Final[dict[int, tuple[int, int]]] = {
    **dict.fromkeys((INT32, SINT32, SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((INT64, SINT64, SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((UINT32, FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((UINT64, FIXED64), (0, 2**64 - 1)),
    BOOL: (0, 1),
}


def type_name(number: int) -> str:
    """The schema's name of a node type, or ``type N`` for a number that the schema does not know."""
    try:
        return NodeType(number).name
    except ValueError:
        return f"type {number}"
