"""From the graph of a captured step to a Chakra trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from chakrasim.collect.capturing.recorded.graph import Node
from chakrasim.collectives.kinds import ROOTED
from chakrasim.operators.describe import OperatorWork
from chakrasim.trace import work as names
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import PARTS, NodeType
from chakrasim.trace.linked.columns import RECV, SEND
from chakrasim.trace.work import Work, WorkKind


def build_trace(nodes: Sequence[Node], metadata: Mapping[str, object], durations: Mapping[int, int] | None) -> Trace:
    """The trace of a graph. ``durations`` are ns of the compute nodes by number, as `durations_of` gives them."""
    builder = TraceBuilder("0.0.4", metadata, source="chakrasim capture")
    for number, node in enumerate(nodes):
        attributes: dict[str, object] = {"is_cpu_op": False}
        kind = NodeType.COMP_NODE
        duration = 0
        if node.work is not None:
            attributes |= _work(node.work)
            if durations is not None:
                attributes["duration_ns"] = durations[number]
                duration = -(-durations[number] // 1000)
        elif node.access:
            kind = NodeType(node.access)
            attributes[names.BYTES] = node.size_bytes
        else:
            kind = _communication(node, attributes)
        attributes[names.STREAM] = node.stream
        attributes[names.STREAM_RULE] = node.rule
        attributes[names.PHASE] = node.phase
        builder.add(number, node.name, kind, node.data, node.control, duration, attrs=attributes)
    return builder.build()


def _work(work: OperatorWork) -> dict[str, object]:
    attributes: dict[str, object] = {
        names.FLOPS: work.flops,
        names.BYTES: max(work.bytes_read + work.bytes_written, 1),
        names.BYTES_READ: work.bytes_read,
        names.BYTES_WRITTEN: work.bytes_written,
        names.KIND: work.kind.name.lower(),
        names.DTYPE: work.dtype,
    }
    if work.k:
        attributes |= {"batch": work.batch, "m": work.m, "n": work.n, "k": work.k}
    if work.kind is WorkKind.ATTENTION:
        attributes[names.CAUSAL] = work.causal
    if work.kernels != 1:
        attributes[names.KERNELS] = work.kernels
    return attributes


def _communication(node: Node, attributes: dict[str, object]) -> NodeType:
    """Attributes of a collective or message, and its node type."""
    attributes["comm_size"] = node.size_bytes
    attributes["pg_name"] = node.role
    if node.dtype:
        attributes[names.DTYPE] = node.dtype
    if node.type in (SEND, RECV):
        attributes[PEER] = node.peer
        attributes["comm_tag"] = node.tag
        return NodeType.COMM_SEND_NODE if node.type == SEND else NodeType.COMM_RECV_NODE
    attributes["comm_type"] = node.type
    if node.parts:
        attributes[PARTS] = list(node.parts)
    if node.type in ROOTED:
        attributes["root"] = node.peer
    return NodeType.COMM_COLL_NODE


def durations_of(nodes: Sequence[Node], profile: Any) -> dict[int, int] | None:
    """Times in ns of the compute nodes by number, on a DeviceProfile; None without one."""
    if profile is None:
        return None
    numbers = [number for number, node in enumerate(nodes) if node.work is not None]
    work = work_columns([node.work for node in nodes if node.work is not None])
    return dict(zip(numbers, profile.durations_ns(work).tolist(), strict=True))


def work_columns(works: Sequence[OperatorWork]) -> Work:
    """Works of operators as columns."""
    types: dict[str, type] = {"causal": np.bool_, "dtype": np.str_}
    columns = [column.name for column in fields(Work)]
    return Work(*(np.array([getattr(work, name) for work in works], types.get(name, np.int64)) for name in columns))
