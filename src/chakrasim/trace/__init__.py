"""Chakra execution traces: one columnar graph, its reader, writer and builder."""

from chakrasim.trace.builder import TraceBuilder
from chakrasim.trace.chakra import parse_trace, read, read_trace, write, write_trace
from chakrasim.trace.encode import encode_trace
from chakrasim.trace.graph import AttrColumn, Attributes, Csr, NodeView, StringTable, Trace
from chakrasim.trace.kinds import KIND_NAMES, CollectiveType, NodeType, type_name

__all__ = [
    "KIND_NAMES",
    "AttrColumn",
    "Attributes",
    "CollectiveType",
    "Csr",
    "NodeType",
    "NodeView",
    "StringTable",
    "Trace",
    "TraceBuilder",
    "encode_trace",
    "parse_trace",
    "read",
    "read_trace",
    "type_name",
    "write",
    "write_trace",
]
