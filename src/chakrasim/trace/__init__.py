"""Chakra execution traces: one columnar graph, its reader, writer and builder. Names are loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chakrasim.trace.chakra.builder import TraceBuilder
    from chakrasim.trace.chakra.encode import encode_trace
    from chakrasim.trace.chakra.files import parse_trace, read_trace, write_trace
    from chakrasim.trace.chakra.graph import AttrColumn, Attributes, Csr, NodeView, StringTable, Trace
    from chakrasim.trace.host.columns import HostTrace
    from chakrasim.trace.host.read import read_host
    from chakrasim.trace.job.expand import expand_job
    from chakrasim.trace.job.file import read_job, write_job
    from chakrasim.trace.job.job import Job
    from chakrasim.trace.job.ranks import read, write
    from chakrasim.trace.kinds import KIND_NAMES, CollectiveType, NodeType, type_name
    from chakrasim.trace.kineto.columns import KinetoTrace
    from chakrasim.trace.kineto.read import read_kineto

_HOMES = {
    **dict.fromkeys(("parse_trace", "read_trace", "write_trace"), "chakra.files"),
    **dict.fromkeys(("read", "write"), "job.ranks"),
    **dict.fromkeys(("AttrColumn", "Attributes", "Csr", "NodeView", "StringTable", "Trace"), "chakra.graph"),
    **dict.fromkeys(("KIND_NAMES", "CollectiveType", "NodeType", "type_name"), "kinds"),
    "Job": "job.job",
    "TraceBuilder": "chakra.builder",
    "encode_trace": "chakra.encode",
    "expand_job": "job.expand",
    "HostTrace": "host.columns",
    "KinetoTrace": "kineto.columns",
    "read_host": "host.read",
    "read_job": "job.file",
    "read_kineto": "kineto.read",
    "write_job": "job.file",
}

__all__ = [
    "KIND_NAMES",
    "AttrColumn",
    "Attributes",
    "CollectiveType",
    "Csr",
    "HostTrace",
    "Job",
    "KinetoTrace",
    "NodeType",
    "NodeView",
    "StringTable",
    "Trace",
    "TraceBuilder",
    "encode_trace",
    "expand_job",
    "parse_trace",
    "read",
    "read_host",
    "read_job",
    "read_kineto",
    "read_trace",
    "type_name",
    "write",
    "write_job",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim.trace' has no attribute {name!r}")
    return getattr(import_module(f"chakrasim.trace.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
