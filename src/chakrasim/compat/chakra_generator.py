"""The test traces of ``chakra_generator`` 1.0.0: fourteen families of one or two nodes (chakra-toolchain.md, 7.4)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chakrasim.files.outputs import write_together
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Attributes, Trace
from chakrasim.trace.kinds import KIND_NUMBERS, CollectiveType, NodeType

VERSION: Final = "1.0.0"
_COLLECTIVES: Final = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.BROADCAST,
    CollectiveType.BARRIER,
)
_DIGITS: Final = [str(number) for number in range(12345, 12355)]
#: One attribute of each kind: its value, and those of its list.
_KINDS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "double": (1.2345, [1.2345, 2.3456]),
    "float": (1.2345, [1.2345, 2.3456]),
    "int32": (12345, [12345, 23456]),
    "int64": (9876543210, [9876543210, 1234567890]),
    "uint32": (12345, [12345, 23456]),
    "uint64": (9876543210, [9876543210, 1234567890]),
    "sint32": (-12345, [12345, -23456]),
    "sint64": (-9876543210, [9876543210, -1234567890]),
    "fixed32": (12345, [12345, 23456]),
    "fixed64": (9876543210, [9876543210, 1234567890]),
    "sfixed32": (-12345, [12345, -23456]),
    "sfixed64": (-9876543210, [9876543210, -1234567890]),
    "bool": (True, [True, False] * 5),
    "string": ("12345", _DIGITS),
    "bytes": (b"12345", [digits.encode() for digits in _DIGITS]),
}
#: Kinds whose single value carries a doc_string, which is its name.
_DOCUMENTED: Final = frozenset(
    ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "string")
)


@dataclass(frozen=True)
class Defaults:
    """Microseconds of a computation, bytes of a tensor, bytes of a collective."""

    runtime: int = 5
    tensor_size: int = 1024
    comm_size: int = 65536


def reference_set(ranks: int, defaults: Defaults | None = None) -> Iterator[tuple[str, Trace]]:
    """All traces with their names (``one_comp_node.0``), family by family; node ids count through all of them."""
    chosen = defaults or Defaults()
    next_id = 0
    for family, make in _families(chosen):
        for rank in range(ranks):
            builder = TraceBuilder(version=VERSION, source=family)
            make(builder, next_id)
            next_id += len(builder)
            trace = builder.build()
            yield f"{family}.{rank}", _documented(trace) if family == "one_metadata_node_all_types" else trace


def write_reference_set(folder: str | os.PathLike[str], ranks: int, defaults: Defaults | None = None) -> list[str]:
    """Write all traces into ``folder``, all or none; returns the files' names. Raises InputError."""
    made = reference_set(ranks, defaults)
    return write_together((str(Path(folder) / f"{name}.et"), encode_trace(trace)) for name, trace in made)


def file_names(ranks: int) -> list[str]:
    """The names of all files, in the order of writing."""
    return [f"{family}.{rank}.et" for family, _ in _families(Defaults()) for rank in range(ranks)]


_Make = Callable[[TraceBuilder, int], None]


def _families(defaults: Defaults) -> list[tuple[str, _Make]]:
    tensor = {"is_cpu_op": False, "tensor_size": {"uint64_val": defaults.tensor_size}}
    return [
        ("one_metadata_node_all_types", _one(NodeType.METADATA_NODE, 0, _all_kinds())),
        ("one_remote_mem_load_node", _one(NodeType.MEM_LOAD_NODE, 0, tensor)),
        ("one_remote_mem_store_node", _one(NodeType.MEM_STORE_NODE, 0, tensor)),
        ("one_comp_node", _one(NodeType.COMP_NODE, defaults.runtime, {"is_cpu_op": False})),
        ("two_comp_nodes_independent", _two(defaults.runtime, dependent=False)),
        ("two_comp_nodes_dependent", _two(defaults.runtime, dependent=True)),
        *((kind.name, _collective(kind, defaults.comm_size)) for kind in _COLLECTIVES),
        ("one_comm_send_node", _one(NodeType.COMM_SEND_NODE, 0, tensor)),
        ("one_comm_recv_node", _one(NodeType.COMM_RECV_NODE, 0, tensor)),
    ]


def _one(kind: NodeType, micros: int, attrs: dict[str, Any], name: str = "") -> _Make:
    def make(builder: TraceBuilder, first: int) -> None:
        builder.add(first, name or kind.name, kind, duration_micros=micros, attrs=attrs)

    return make


def _two(micros: int, *, dependent: bool) -> _Make:
    def make(builder: TraceBuilder, first: int) -> None:
        for at in (first, first + 1):
            deps = [first] if dependent and at > first else []
            builder.add(at, NodeType.COMP_NODE.name, data_deps=deps, duration_micros=micros, attrs={"is_cpu_op": False})

    return make


def _collective(kind: CollectiveType, size: int) -> _Make:
    attrs = {"is_cpu_op": False, "comm_type": kind.value, "comm_size": 0 if kind == CollectiveType.BARRIER else size}
    return _one(NodeType.COMM_COLL_NODE, 0, attrs, kind.name)


def _all_kinds() -> dict[str, Any]:
    attrs: dict[str, Any] = {}
    for kind, (value, values) in _KINDS.items():
        attrs[kind] = {f"{kind}_val": value}
        attrs[f"{kind}_list"] = {f"{kind}_list": values}
    return attrs


def _documented(trace: Trace) -> Trace:
    """The trace with the doc_strings that the builder does not write."""
    from dataclasses import replace

    attrs = trace.attrs
    doc = attrs.doc.copy()
    numbers = {KIND_NUMBERS[f"{kind}_val"] for kind in _DOCUMENTED}
    for at, kind in enumerate(attrs.kind.tolist()):
        if kind in numbers:
            doc[at] = attrs.name[at]
    return replace(trace, attrs=Attributes(attrs.offsets, attrs.name, attrs.kind, attrs.bits, doc))
