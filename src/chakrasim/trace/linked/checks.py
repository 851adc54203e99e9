"""Whether what a linked trace's file holds can be a linked trace: types, lengths, indices, ranges of times."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from chakrasim.trace.linked.columns import (
    OPERATION_NAMES,
    EdgeKind,
    Evidence,
    Lane,
    LinkedTrace,
    ProcessGroup,
    RowKind,
    StepPath,
)
from chakrasim.trace.work import WorkKind

#: Times within 73 years of the zero of their clock: sums of three stay below 2^63.
MOST_NS: Final = 2**61 - 1
#: Operations or bytes of a row.
MOST_WORK: Final = 2**62
_AMOUNTS: Final = ("bytes_read", "bytes_written", "batch", "m", "n", "k", "causal", "kernels")
_MOST_RANK: Final = 2**31 - 1


def integers(values: Any, kind: Any) -> Any:
    """A list of integers as an array of this type. Raises ValueError if it is none, or they do not fit."""
    array = values if isinstance(values, np.ndarray) else np.array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("a column is no list of integers")
    bounds = np.iinfo(kind)
    if array.size and (int(array.min()) < bounds.min or int(array.max()) > bounds.max):
        raise ValueError("a number is too large for its column")
    if array.size and array.strides == (0,):  # one number throughout
        return np.broadcast_to(array[0].astype(kind), array.shape)
    return array.astype(kind, copy=False)


def number(value: Any, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """An integer of this range. Raises ValueError for everything else."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"found {str(value)[:40]!r} in place of an integer from {low} to {high}")
    return value


def rank_number(value: Any) -> int:
    """A rank or a number of ranks; -1 stands for none. Raises ValueError."""
    return number(value, -1, _MOST_RANK)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"found {str(value)[:40]!r} in place of a text")
    return value


def group(entry: dict[str, Any]) -> ProcessGroup:
    """A process group. Raises ValueError, TypeError or KeyError."""
    ranks = tuple(number(rank, 0, _MOST_RANK) for rank in entry["ranks"])
    texts = {name: _text(entry[name]) for name in ("name", "description", "backend")}
    return ProcessGroup(ranks=ranks, size=number(entry["size"], 0, _MOST_RANK), **texts)


def lane(entry: dict[str, Any]) -> Lane:
    """A thread or stream. Raises ValueError or KeyError."""
    numbers = {name: number(entry[name]) for name in ("pid", "device", "stream")}
    return Lane(name=_text(entry["name"]), identity=_text(entry["identity"]), **numbers)


def step_path(entry: dict[str, Any]) -> StepPath:
    """The critical path of a step. Raises ValueError, TypeError or KeyError."""
    path, delay = (number(entry[name], 0, MOST_NS) for name in ("path_ns", "delay_ns"))
    return StepPath(number(entry["step"], -1, _MOST_RANK), path, number(delay, 0, path))


def check(linked: LinkedTrace, tables: dict[str, list[Any]]) -> None:
    """Raise ValueError if columns of a table differ in length, point outside of what they are indices of, or hold
    codes and times that do not exist."""
    for name, columns in tables.items():
        if len({len(one) for one in columns}) != 1:
            raise ValueError(f"the columns of the {name} differ in length")
    for name, values, low, high in (*_indices(linked), *_codes(linked), *_times(linked)):
        if values.size and (values.min() < low or values.max() >= high):
            raise ValueError(f"{name} holds a number that cannot be")
    if not np.isin(linked.communication.operation, list(OPERATION_NAMES)).all():
        raise ValueError("operation of communication holds a number that cannot be")
    if (np.diff(linked.works.row) <= 0).any():
        raise ValueError("the works are not in the order of their rows")
    if not (linked.edge_source < linked.edge_target).all():
        raise ValueError("an edge goes backward")


def _indices(linked: LinkedTrace) -> list[tuple[str, Any, int, int]]:
    n, texts = len(linked), len(linked.strings)
    lanes, notes = len(linked.lanes), len(linked.annotations)
    said = linked.communication
    return [
        *((name, getattr(linked, name), 0, texts) for name in ("name", "op_schema", "values", "shapes", "types")),
        ("lane", linked.lane, 0, lanes),
        ("head", linked.head, 0, n),
        ("parent", linked.parent, -1, n),
        ("annotation", linked.annotation, -1, notes),
        ("edge_source", linked.edge_source, 0, n),
        ("edge_target", linked.edge_target, 0, n),
        ("row of communication", said.row, 0, n),
        ("group of communication", said.group, -1, len(linked.groups)),
        ("dtype of communication", said.dtype, 0, texts),
        ("evidence of communication", said.evidence, 0, texts),
        ("row of works", linked.works.row, 0, n),
        ("name of works", linked.works.name, 0, texts),
        ("dtype of works", linked.works.dtype, 0, texts),
        ("problem of works", linked.works.problem, 0, texts),
        ("name of annotations", linked.annotations.name, 0, texts),
        ("thread of annotations", linked.annotations.thread, 0, max(lanes, 1)),
    ]


def _codes(linked: LinkedTrace) -> list[tuple[str, Any, int, int]]:
    return [
        ("kind", linked.kind, 0, max(RowKind) + 1),
        ("kind of edges", linked.edge_kind, 0, max(EdgeKind) + 1),
        ("evidence of edges", linked.edge_evidence, 0, max(Evidence) + 1),
        ("kind of works", linked.works.kind, 0, max(WorkKind) + 1),
        ("flops of works", linked.works.flops, -1, MOST_WORK),
        *((f"{name} of works", getattr(linked.works, name), 0, MOST_WORK) for name in _AMOUNTS),
    ]


def _times(linked: LinkedTrace) -> list[tuple[str, Any, int, int]]:
    said, notes = linked.communication, linked.annotations
    lengths = {name: getattr(linked, name) for name in ("wait_ns", "duration_ns", "inclusive_ns")}
    lengths["duration_ns of annotations"] = notes.duration_ns
    moments = {"start_ns": linked.start_ns, "delay_ns": linked.delay_ns, "start_ns of annotations": notes.start_ns}
    for name in ("size_bytes", "in_bytes", "out_bytes", "start_ns", "end_ns", "wait_ns", "transfer_ns"):
        moments[f"{name} of communication"] = getattr(said, name)
    return [
        *((name, values, 0, MOST_NS) for name, values in lengths.items()),
        *((name, values, -MOST_NS, MOST_NS) for name, values in moments.items()),
    ]
