"""Linked traces made by hand: rows with times that their edges explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.linked.columns import (
    Annotations,
    Communication,
    EdgeKind,
    Evidence,
    Lane,
    LinkedTrace,
    ProcessGroup,
    RowKind,
)

THREAD, OTHER_THREAD, STREAM, OTHER_STREAM = range(4)
LANES = (
    Lane("python", 1, "77"),
    Lane("backward", 1, "worker"),
    Lane("stream 7", 0, "7", 0, 7),
    Lane("stream 20", 0, "20", 0, 20),
)
DEVICE = (RowKind.KERNEL, RowKind.MEMCPY, RowKind.MEMSET)


@dataclass
class Row:
    """A row and the rows before it that it waits for, with the kinds of the edges."""

    name: str
    duration_ns: int
    after: Sequence[tuple[int, EdgeKind]] = ()
    kind: RowKind = RowKind.OPERATOR
    lane: int = THREAD
    delay_ns: int = 0
    step: int = -1
    more: dict[str, int] = field(default_factory=dict)


@dataclass
class Message:
    """An entry of communication; ``operation`` as in `Communication`."""

    row: int
    operation: int
    size_bytes: int = 1000
    group: int = 0
    peer: int = -1
    ordinal: int = -1
    transfer_ns: int = -1


def make(
    rows: Sequence[Row],
    messages: Sequence[Message] = (),
    *,
    groups: Sequence[ProcessGroup] = (),
    rank: int = 0,
    world: int = 1,
    steps: Sequence[tuple[int, int, int]] = (),
    begin_ns: int = 1_000_000_123,
    offset_ns: int = 0,
    source: str = "made",
) -> LinkedTrace:
    """A linked trace whose times follow from the rows; ``steps`` are (number, first row, last row) on THREAD."""
    n = len(rows)
    start, wait, end = (np.zeros(n, np.int64) for _ in range(3))
    for at, row in enumerate(rows):
        free = max((int(end[source]) for source, kind in row.after if kind != EdgeKind.CONTROL), default=begin_ns)
        same = [int(end[source]) for source, kind in row.after if kind in (EdgeKind.THREAD, EdgeKind.STREAM)]
        begins = max(same, default=free) if row.kind not in DEVICE else free + row.delay_ns
        start[at], wait[at] = begins, free + row.delay_ns - begins
        end[at] = free + row.delay_ns + row.duration_ns
    strings = Strings()
    names = [strings.add(row.name) for row in rows]
    step_names = [strings.add(f"ProfilerStep#{number}") for number, _, _ in steps]
    edges = [(source, at, kind) for at, row in enumerate(rows) for source, kind in row.after]

    def ints(name: str, default: int = -1, dtype: Any = np.int64) -> Any:
        return np.array([row.more.get(name, default) for row in rows], dtype)

    nothing = np.zeros((n, 2), np.int32)
    return LinkedTrace(
        rank=rank,
        world_size=world,
        source=source,
        strings=strings.build(),
        kind=np.array([int(row.kind) for row in rows], np.uint8),
        part=ints("part", 0, np.int32),
        head=np.array([row.more.get("head", at) for at, row in enumerate(rows)], np.int32),
        name=np.array(names, np.int32),
        lane=np.array([row.lane for row in rows], np.int32),
        start_ns=start,
        wait_ns=wait,
        duration_ns=np.array([row.duration_ns for row in rows], np.int64),
        delay_ns=np.array([row.delay_ns for row in rows], np.int64),
        inclusive_ns=end - start,
        parent=ints("parent", -1, np.int32),
        step=np.array([row.step for row in rows], np.int32),
        annotation=ints("annotation", -1, np.int32),
        correlation=ints("correlation"),
        external_id=ints("external_id"),
        rf_id=ints("rf_id"),
        host_id=ints("host_id"),
        sequence=ints("sequence"),
        forward_thread=ints("forward_thread"),
        values=nothing,
        shapes=nothing,
        types=nothing,
        op_schema=np.zeros(n, np.int32),
        communication=_communication(messages, start, end),
        groups=tuple(groups),
        edge_source=np.array([edge[0] for edge in edges], np.int32),
        edge_target=np.array([edge[1] for edge in edges], np.int32),
        edge_kind=np.array([int(edge[2]) for edge in edges], np.uint8),
        edge_evidence=np.array([int(Evidence.INFERRED)] * len(edges), np.uint8),
        edge_flags=np.zeros(len(edges), np.uint8),
        annotations=Annotations(
            np.array(step_names, np.int32),
            np.array([THREAD] * len(steps), np.int32),
            np.array([start[first] for _, first, _ in steps], np.int64),
            np.array([end[last] - start[first] for _, first, last in steps], np.int64),
            np.array([number for number, _, _ in steps], np.int32),
        ),
        lanes=LANES,
        start_offset_ns=offset_ns,
    )


def _communication(messages: Sequence[Message], start: Any, end: Any) -> Communication:
    def ints(values: list[int], dtype: Any = np.int32) -> Any:
        return np.array(values, dtype)

    k = len(messages)
    uses: dict[tuple[int, int, int], int] = {}
    ordinals = []
    for one in messages:
        key = (one.group, one.peer if one.operation >= 100 else -1, one.operation if one.operation >= 100 else -1)
        ordinals.append(one.ordinal if one.ordinal >= 0 else uses.get(key, 0))
        uses[key] = uses.get(key, 0) + 1
    return Communication(
        row=ints([one.row for one in messages]),
        operation=ints([one.operation for one in messages]),
        size_bytes=ints([one.size_bytes for one in messages], np.int64),
        in_bytes=ints([one.size_bytes for one in messages], np.int64),
        out_bytes=ints([one.size_bytes for one in messages], np.int64),
        group=ints([one.group for one in messages]),
        sequence=ints([-1] * k, np.int64),
        ordinal=ints(ordinals),
        peer=ints([one.peer for one in messages]),
        start_ns=ints([int(start[one.row]) for one in messages], np.int64),
        end_ns=ints([int(end[one.row]) for one in messages], np.int64),
        dtype=ints([0] * k),
        evidence=ints([0] * k),
        wait_ns=ints([-1] * k, np.int64),
        transfer_ns=ints([one.transfer_ns for one in messages], np.int64),
    )
