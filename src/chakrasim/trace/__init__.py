"""Traces as columns, with their readers and writers: Chakra, host, Kineto, linked. Names are loaded when first used."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

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
    from chakrasim.trace.linked.columns import LinkedTrace
    from chakrasim.trace.linked.file import read_linked, write_linked

__all__ = [
    "KIND_NAMES",
    "AttrColumn",
    "Attributes",
    "CollectiveType",
    "Csr",
    "HostTrace",
    "Job",
    "KinetoTrace",
    "LinkedTrace",
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
    "read_linked",
    "read_trace",
    "type_name",
    "write",
    "write_job",
    "write_linked",
    "write_trace",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "chakra.builder": ("TraceBuilder",),
        "chakra.encode": ("encode_trace",),
        "chakra.files": ("parse_trace", "read_trace", "write_trace"),
        "chakra.graph": ("AttrColumn", "Attributes", "Csr", "NodeView", "StringTable", "Trace"),
        "host.columns": ("HostTrace",),
        "host.read": ("read_host",),
        "job.expand": ("expand_job",),
        "job.file": ("read_job", "write_job"),
        "job.job": ("Job",),
        "job.ranks": ("read", "write"),
        "kinds": ("KIND_NAMES", "CollectiveType", "NodeType", "type_name"),
        "kineto.columns": ("KinetoTrace",),
        "kineto.read": ("read_kineto",),
        "linked.columns": ("LinkedTrace",),
        "linked.file": ("read_linked", "write_linked"),
    },
)
