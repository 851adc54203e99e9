"""From a linked trace to a Chakra trace.

Every row becomes a node, every edge a dependency on a node of a smaller number, so that there are no cycles. Times are
in microseconds where the schema has them, and to the nanosecond in attributes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chakrasim.converter.across_ranks import RankInRun, alone
from chakrasim.converter.dependencies import dependencies
from chakrasim.converter.node_columns import NodeRange
from chakrasim.converter.nodes import JOIN, OFFSET, REASONS, plan_nodes
from chakrasim.converter.redaction import redacted_names
from chakrasim.converter.spans import span_metadata
from chakrasim.trace.assemble import Column, Strings, attributes, metadata, no_metadata
from chakrasim.trace.encode import encode_trace
from chakrasim.trace.graph import Csr, Ints, Trace
from chakrasim.trace.kinds import INT32, NodeType
from chakrasim.trace.linked import RECV, SEND, LinkedTrace
from chakrasim.trace.storage import write_in_pieces

SCHEMA = "chakrasim-1"
_NODES_AT_A_TIME = 1 << 18
_INT32_LIST = INT32 + 1


def convert(
    linked: LinkedTrace,
    *,
    rank: RankInRun | None = None,
    redact: bool = False,
    warnings: list[str] | None = None,
) -> Trace:
    """The Chakra trace of one rank.

    Parameters
    ----------
    linked:
        The linked trace.
    rank:
        What comparing it with the other ranks of its run gave (`compare_ranks`); None: the trace is taken alone.
    redact:
        Replace the names of operators, kernels and threads by stable pseudonyms, leave out tensor values, schemas and
        the names of files, and let times begin at 0. Kinds, sizes, shapes, types and durations stay.
    warnings:
        Receives what could not be converted as it is, with counts.

    Raises InputError for a linked trace whose edges do not all go forward.
    """
    conversion = Conversion(linked, rank, redact=redact)
    if warnings is not None:
        warnings += conversion.warnings
    return conversion.trace()


def write_converted(
    path: str | os.PathLike[str],
    linked: LinkedTrace,
    *,
    rank: RankInRun | None = None,
    redact: bool = False,
    warnings: list[str] | None = None,
) -> int:
    """Convert as `convert` does, straight into the file ``path``, a part of the nodes at a time; returns their number.

    The file is the same as that of `write_trace`, and appears complete or not at all.
    """
    conversion = Conversion(linked, rank, redact=redact)
    if warnings is not None:
        warnings += conversion.warnings
    write_in_pieces(Path(path), conversion.pieces())
    return len(conversion.plan)


class Conversion:
    """A linked trace on its way to a Chakra trace: everything planned, columns made a range of nodes at a time."""

    def __init__(self, linked: LinkedTrace, rank: RankInRun | None, *, redact: bool) -> None:
        self.linked = linked
        self.redact = redact
        self.rank = rank if rank is not None else alone(linked)
        self.plan = plan_nodes(linked, self.rank)
        self.dependencies = dependencies(linked, self.plan)
        self.strings = Strings(linked.strings)
        self.base_ns = int(linked.start_ns.min()) - linked.start_offset_ns if redact and len(linked) else 0
        self.names = linked.name
        if redact:
            self.names = redacted_names(linked.kind, linked.name, linked.strings, self.strings)
        self.counts = self._counts()
        self.warnings = [f"{linked.source}: {count} {what}" for what, count in self.counts.items()]

    def _counts(self) -> dict[str, int]:
        """What became something else than its name says."""
        refused = np.bincount(self.plan.refused, minlength=len(REASONS) + 1)
        counts = {what: int(refused[code]) for code, what in REASONS.items() if refused[code]}
        communication = self.linked.communication
        message = (communication.operation == SEND) | (communication.operation == RECV)
        homeless = int(((communication.group < 0) & (self.plan.refused == 0) & ~message).sum())
        if homeless and self.rank.world_size > 1:
            counts["collectives without a process group are taken as collectives of all ranks"] = homeless
        return counts

    def trace(self) -> Trace:
        """The whole trace."""
        return self._range(0, len(self.plan), with_metadata=True)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file, piece by piece."""
        yield encode_trace(self._range(0, 0, with_metadata=True))
        for begin in range(0, len(self.plan), _NODES_AT_A_TIME):
            # Each piece begins with the frame of its empty metadata: one byte, a length of 0.
            piece = self._range(begin, min(begin + _NODES_AT_A_TIME, len(self.plan)), with_metadata=False)
            yield encode_trace(piece)[1:]

    def _range(self, begin: int, end: int, *, with_metadata: bool) -> Trace:
        linked, plan = self.linked, self.plan
        nodes = NodeRange(linked, plan, self.rank, self.strings, begin, end, self.base_ns)
        kinds, lists = self._dependency_lists(begin, end)
        attrs = attributes(end - begin, [*nodes.columns(redact=self.redact), *kinds], self.strings)
        meta = no_metadata()
        if with_metadata:
            meta, lists = metadata(self.metadata(), self.strings, lists)
        work_start, work = nodes.work_ns
        inputs, outputs = (self._ports(nodes, side) for side in (0, 1))
        ctrl = _part(self.dependencies.ctrl_ends, self.dependencies.ctrl, begin, end)
        data = _part(self.dependencies.data_ends, self.dependencies.data, begin, end)
        return Trace(
            ids=np.arange(begin, end, dtype=np.uint64),
            types=self._types(nodes),
            name_index=self._names(nodes),
            start_micros=np.maximum(nodes.start_ns // 1000, 0).astype(np.uint64),
            duration_micros=np.maximum((work_start + work) // 1000 - work_start // 1000, 0).astype(np.uint64),
            ctrl_deps=ctrl,
            data_deps=data,
            inputs=inputs,
            outputs=outputs,
            attrs=attrs,
            lists=lists,
            strings=self.strings.build(),
            version="",
            meta=meta,
            source=linked.source,
        )

    def metadata(self) -> dict[str, object]:
        """What the file says of itself."""
        linked = self.linked
        header = linked.header
        content: dict[str, object] = {
            "schema": SCHEMA,
            "source_schema": str(header.get("schema", header.get("schemaVersion", ""))),
            "rank": linked.rank,
            "world_size": self.rank.world_size,
            "start_offset_ns": linked.start_offset_ns,
            "clock_shift_ns": linked.clock_shift_ns,
            **span_metadata(linked, self.plan),
            "edges_merged": self.dependencies.merged,
            "counts": json.dumps({**linked.counts, **self.counts}, sort_keys=True),
        }
        return content if self.redact else {**content, "source": linked.source}

    def _dependency_lists(self, begin: int, end: int) -> tuple[list[Column], Csr]:
        """Kind and evidence of every data dependency, as attributes, and the lists that hold them."""
        found = self.dependencies
        ends = found.data_ends[begin : end + 1]
        owners = np.flatnonzero(np.diff(ends))
        span = slice(int(ends[0]), int(ends[-1]))
        count = int(ends[-1] - ends[0])
        filled = np.append(ends[owners], ends[-1]) - ends[0]
        offsets = np.concatenate((filled, filled[1:] + count))
        items = np.concatenate((found.kind[span], found.evidence[span])).astype(np.uint64)
        first = np.arange(len(owners))
        columns = [
            Column("data_dep_kinds", _INT32_LIST, owners, first),
            Column("data_dep_evidence", _INT32_LIST, owners, first + len(owners)),
        ]
        return columns, Csr(offsets, items)

    def _types(self, nodes: NodeRange) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        types = np.full(len(nodes.entry), int(NodeType.COMP_NODE), np.int32)
        at = np.flatnonzero(nodes.is_communication)
        operation = self.linked.communication.operation[nodes.entry[at]]
        types[at] = np.where(
            operation == SEND,
            int(NodeType.COMM_SEND_NODE),
            np.where(operation == RECV, int(NodeType.COMM_RECV_NODE), int(NodeType.COMM_COLL_NODE)),
        )
        return types

    def _names(self, nodes: NodeRange) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        names = self.names[nodes.row].copy()
        names[(names == 0) & nodes.is_row] = self.strings.add("gap")
        names[nodes.entry == OFFSET] = self.strings.add("start offset")
        names[nodes.entry == JOIN] = self.strings.add("end of batch")
        return names

    def _ports(self, nodes: NodeRange, side: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
        linked = self.linked
        values, shapes, types = (column[nodes.row, side] for column in (linked.values, linked.shapes, linked.types))
        if self.redact:
            values = np.zeros_like(values)
        ports = np.stack((values, shapes, types), axis=1).astype(np.int32)
        ports[~nodes.is_row | ~ports.any(axis=1) | (linked.part[nodes.row] > 0)] = -1
        return ports


def _part(ends: Ints, targets: Ints, begin: int, end: int) -> Csr:
    """The lists of nodes ``begin`` to ``end``."""
    own = ends[begin : end + 1]
    return Csr(own - own[0], targets[int(own[0]) : int(own[-1])].astype(np.uint64))
