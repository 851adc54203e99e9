"""Where things stand in the tables of the compatible converter's kernels, and the names that these know."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

#: Buffers of bytes and of words of 64 bits, which kernels take as they are.
Bytes = Any
Words = Any

#: Of a node, in a row of `COLUMNS`: where its text begins and ends, id, parent, flags, the node of another thread that
#: it waits for (0: none), the Chakra node type, and its Chakra bytes before the type and behind the dependencies.
BEGIN, END, ID, PARENT, FLAGS, WAITS, KIND, HEAD, HEAD_SIZE, TAIL, TAIL_SIZE = range(11)
COLUMNS: Final = 11
#: Flags: a kernel, process groups, a thread, and left to Python.
DEVICE, METADATA, THREAD, LEFT_OUT = 1, 2, 4, 8
#: Of a scan: nodes, position behind their array, bytes used, the largest id.
NODES, REACHED, USED, MAX_ID = range(4)

# The table that the dependencies are found with holds the row of each id, and then these columns by row. Zeros are what
# it begins with, so rows, places, ids and threads are kept plus one: place in the order, where the children begin, the
# children, the thread from which the row is reached, the stack of the search, the two nodes waited for, and whether
# some node waits for the row.
PLACE, FIRST_CHILD, CHILD, REACHED_FROM, STACK, WAIT, OTHER_WAIT, NEEDED = range(8)


def work_size(nodes: int, ids: int) -> int:
    """Words of that table."""
    return ids + 8 * (nodes + 1)


#: Names of fields and attributes, each behind its length: the fields that every node has, then what counts among
#: attributes, then others.
_FIELDS: Final = ("id", "name", "ctrl_deps", "inputs", "outputs", "attrs")
_INTEGERS: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_COUNTING: Final = (*_INTEGERS, "op_schema", "exclusive_dur", "inter_thread_dep", "cat", "stream", "parent")
_OTHERS: Final = ("pg_name", "type", "value", "values", "shapes", "types", "strides", "is_cpu_op")
_ALL: Final = (*_FIELDS, *_COUNTING, *_OTHERS)
NAMES: Final = b"".join(bytes((len(name),)) + name.encode() for name in _ALL)
_PLACES: Final = dict(zip(_ALL, accumulate((len(name) + 1 for name in _ALL), initial=0), strict=False))
IDENTITY, NAME, CTRL_DEPS, INPUTS, OUTPUTS, ATTRS = (_PLACES[name] for name in _FIELDS)
RF_ID, OP_SCHEMA, EXCLUSIVE, INTER_THREAD, CATEGORY, STREAM = (
    _PLACES[name] for name in ("rf_id", "op_schema", "exclusive_dur", "inter_thread_dep", "cat", "stream")
)
GROUP, TYPE, VALUE, VALUES, SHAPES, TYPES, STRIDES, IS_CPU_OP = (_PLACES[name] for name in _OTHERS)
FIELDS_END: Final = _PLACES[_COUNTING[0]]
COUNTING_END: Final = _PLACES[_OTHERS[0]]
