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

from chakrasim.converter.folder.across_ranks import RankInRun, alone
from chakrasim.converter.linked.dependencies import NodeDependencies, dependencies
from chakrasim.converter.linked.node_columns import NodeRange
from chakrasim.converter.linked.nodes import JOIN, OFFSET, REASONS, part_of, plan_nodes
from chakrasim.converter.linked.spans import find_spans, span_metadata
from chakrasim.converter.linked.work_columns import works_unknown
from chakrasim.files.outputs import write_pieces
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.assemble import Column, Strings, attributes, metadata, no_metadata
from chakrasim.trace.chakra.encode import encode_metadata, encode_nodes
from chakrasim.trace.chakra.graph import Csr, Trace
from chakrasim.trace.kinds import INT32, NodeType
from chakrasim.trace.linked.columns import RECV, SEND, LinkedTrace
from chakrasim.trace.linked.parts import LinkedParts, in_parts

SCHEMA = "chakrasim-1"
_NODES_AT_A_TIME = 1 << 16
_INT32_LIST = INT32 + 1


@lists_too
def convert(
    linked: LinkedTrace,
    *,
    rank: RankInRun | None = None,
    notes: Notes | None = None,
) -> Trace:
    """The Chakra trace of one rank.

    Raises InputError for a linked trace whose edges do not all go forward.

    Parameters
    ----------
    linked:
        The linked trace.
    rank:
        What comparing it with the other ranks of its run gave (`compare_ranks`); None: the trace is taken alone.
    notes:
        Receives what could not be converted as it is, with counts.
    """
    conversion = Conversion(in_parts(linked), rank)
    if notes is not None:
        notes.warn(*conversion.warnings)
    return conversion.trace()


@lists_too
def write_converted(
    path: str | os.PathLike[str],
    linked: LinkedTrace | LinkedParts,
    *,
    rank: RankInRun | None = None,
    strict: bool = False,
    notes: Notes | None = None,
) -> int:
    """Convert as `convert` does, straight into the file ``path``, a part of the nodes at a time; returns their number.

    The file is the same as that of `write_trace`, and appears complete or not at all. ``strict``: a warning is
    an error, and nothing is written.
    """
    parts = in_parts(linked) if isinstance(linked, LinkedTrace) else linked
    conversion = Conversion(parts, rank)
    said = Notes() if notes is None else notes
    said.warn(*conversion.warnings)
    said.refuse(strict)
    write_pieces(Path(path), conversion.pieces())
    return len(conversion.plan)


class Conversion:
    """A linked trace on its way to a Chakra trace: everything planned, columns made a range of nodes at a time."""

    def __init__(self, parts: LinkedParts, rank: RankInRun | None) -> None:
        self.parts = parts
        self.linked = linked = parts.outline
        self.rank = rank if rank is not None else alone(linked)
        self.plan = plan_nodes(linked, len(parts), self.rank)
        self.dependencies = dependencies(parts, self.plan)
        self.spans = find_spans(parts)
        self.strings = Strings(linked.strings)
        self.counts = self._counts()
        self.warnings = [f"{linked.source}: {count} {what}" for what, count in self.counts.items()]
        unknown, count = works_unknown(linked)
        if count:
            self.warnings.append(f"{linked.source}: {count} {unknown}")
            self.counts["operators of unknown work"] = count

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

    def pieces(self) -> Iterator[memoryview]:
        """The bytes of the file, piece by piece."""
        yield encode_metadata(self._range(0, 0, with_metadata=True))
        for begin in range(0, len(self.plan), _NODES_AT_A_TIME):
            end = min(begin + _NODES_AT_A_TIME, len(self.plan))
            yield from encode_nodes(self._range(begin, end, with_metadata=False))

    def _range(self, begin: int, end: int, *, with_metadata: bool) -> Trace:
        plan, part = self.plan, part_of(self.plan, begin, end)
        linked = self.parts.part(part.rows.start, part.rows.stop)
        nodes = NodeRange(linked, plan, part, self.rank, self.strings, self.spans.begin_ns)
        found = self.dependencies.of(begin, end)
        kinds, lists = _dependency_lists(found)
        attrs = attributes(end - begin, [*nodes.columns(), *kinds], self.strings)
        meta = no_metadata()
        if with_metadata:
            meta, lists = metadata(self.metadata(), self.strings, lists)
        work_start, work = nodes.work_ns
        inputs, outputs = (self._ports(nodes, side) for side in (0, 1))
        return Trace(
            ids=np.arange(begin, end, dtype=np.uint64),
            types=self._types(nodes),
            name_index=self._names(nodes),
            start_micros=np.maximum(nodes.start_ns // 1000, 0).astype(np.uint64),
            duration_micros=np.maximum((work_start + work) // 1000 - work_start // 1000, 0).astype(np.uint64),
            ctrl_deps=Csr(found.ctrl_ends, found.ctrl.astype(np.uint64)),
            data_deps=Csr(found.data_ends, found.data.astype(np.uint64)),
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
        return {
            "schema": SCHEMA,
            "source_schema": str(header.get("schema", header.get("schemaVersion", ""))),
            "rank": linked.rank,
            "world_size": self.rank.world_size,
            "start_offset_ns": linked.start_offset_ns,
            "clock_shift_ns": linked.clock_shift_ns,
            **span_metadata(self.spans, linked, self.plan),
            "edges_merged": self.dependencies.merged,
            "counts": json.dumps({**linked.counts, **self.counts}, sort_keys=True),
            "source": linked.source,
        }

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
        linked = nodes.linked
        names = linked.name[nodes.row]
        names[(names == 0) & nodes.is_row] = self.strings.add("gap")
        names[nodes.entry == OFFSET] = self.strings.add("start offset")
        names[nodes.entry == JOIN] = self.strings.add("end of batch")
        return names

    def _ports(self, nodes: NodeRange, side: int) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
        linked = nodes.linked
        values, shapes, types = (column[nodes.row, side] for column in (linked.values, linked.shapes, linked.types))
        ports = np.stack((values, shapes, types), axis=1).astype(np.int32)
        ports[~nodes.is_row | ~ports.any(axis=1) | (linked.part[nodes.row] > 0)] = -1
        return ports


def _dependency_lists(found: NodeDependencies) -> tuple[list[Column], Csr]:
    """Kind and evidence of every data dependency, as attributes, and the lists that hold them."""
    ends = found.data_ends
    owners = np.flatnonzero(np.diff(ends))
    filled = np.append(ends[owners], ends[-1])
    offsets = np.concatenate((filled, filled[1:] + len(found.data)))
    items = np.concatenate((found.kind, found.evidence)).astype(np.uint64)
    first = np.arange(len(owners))
    columns = [
        Column("data_dep_kinds", _INT32_LIST, owners, first),
        Column("data_dep_evidence", _INT32_LIST, owners, first + len(owners)),
    ]
    return columns, Csr(offsets, items)
