"""What operators of a host trace compute: operations and bytes, by the rules of captured programs.

An operator that only calls others has the work of those. Any other operator has all the work that is done below it,
so that nothing is counted twice: what it calls on one device is not what it would call on another.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.spelling import DEVICE_BACKENDS, HOST_BACKENDS
from chakrasim.linker.rows.data_edges import parents
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.linker.rows.texts import TextPool
from chakrasim.operators.contractions import CONTRACTIONS
from chakrasim.operators.describe import OperatorWork
from chakrasim.operators.flops import FlopSource
from chakrasim.operators.kinds import FREE, RATES
from chakrasim.operators.recorded_calls import RecordedSide, describe_recorded, recorded_operator
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import Indices, Ints, Mask
from chakrasim.trace.linked.columns import OperatorWorks, RowKind, no_works

Rows = NDArray[np.intp]
NO_SHAPES: Final = "no shapes"
NO_FORMULA: Final = "no formula"
FUSED: Final = "fused kernel"

_COMMUNICATION: Final = ("c10d::", "_c10d_functional::", "c10d_functional::")
_BACK_ENDS: Final = tuple(f"{name}:" for name in HOST_BACKENDS + DEVICE_BACKENDS)
#: More levels than this are a circle of a damaged trace.
_DEEPEST: Final = 10_000
_COLUMNS: Final = tuple(field.name for field in fields(OperatorWorks))
#: Operations or bytes of one operator that no trace has.
_TOO_MUCH: Final = 1 << 60
#: A tensor begins with its number, its storage's, and three more numbers before the device.
_TENSOR: Final = re.compile(r'\[\s*\d+,\s*(\d+),(?=\s*\d+,\s*\d+,\s*\d+,\s*")')
_MALFORMED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class _Role(IntEnum):
    """What a node is to the work below it."""

    NOTHING = 0
    """No operator: names and wrappers."""
    CALLS = 1
    """An operator that has the work of those it calls."""
    MAY_CALL = 2
    """An operator of others than PyTorch: CALLS where operators below it were recorded, else WORKS."""
    WORKS = 3
    """An operator with work of its own, whatever it calls."""
    FUSED = 4
    """A kernel that a compiler made of several operators."""
    APART = 5
    """Communication, with all that is below."""


def find_works(table: RowTable, host: HostTrace | None, *, measured: bool, communication: Indices) -> OperatorWorks:
    """What rows compute, as `LinkedTrace.works` says.

    Parameters
    ----------
    measured: there is a device trace: work belongs to the kernels that an operator launched, in proportion to their
        durations. Else there are operators only, and it belongs to these.
    communication: rows that carry out collectives and messages.
    """
    if host is None or not len(host):
        return no_works()
    owner = _owners(host)
    if measured:
        rows = np.flatnonzero((table.kind == RowKind.KERNEL) & (table.parent >= 0))
        rows = rows[~np.isin(rows, communication)]
        above = table.host_node[table.parent[rows]]
        nodes = np.where(above >= 0, owner[above], -1)
    else:
        rows = np.flatnonzero((table.kind == RowKind.OPERATOR) & (table.host_node >= 0))
        nodes = table.host_node[rows].astype(np.intp)
        nodes[(owner[nodes] != nodes) | ~_on_the_device(host)[nodes]] = -1
    rows, nodes = rows[nodes >= 0], nodes[nodes >= 0]
    entries = _entries(nodes, host, table.texts, measured=measured)
    place = np.full(len(host), -1)
    place[list(entries)] = np.arange(len(entries))
    shares = _shares(nodes, table.duration_ns[rows]) if measured else np.broadcast_to((0.0, 1.0), (len(nodes), 2))
    has_work = place[nodes] >= 0
    rows, which, shares = rows[has_work], place[nodes[has_work]], shares[has_work]
    values = np.array(list(entries.values()), np.int64).reshape(-1, len(_COLUMNS) - 1)[which]
    return _columns(np.column_stack((rows, values)), shares)


def _entries(nodes: Rows, host: HostTrace, texts: TextPool, *, measured: bool) -> dict[int, tuple[int, ...]]:
    """The columns behind ``row`` of each node that has work, or a problem; the amounts are those of all its rows."""
    described = _describe_all(host, np.unique(nodes).tolist())
    found = {}
    for node in dict.fromkeys(nodes.tolist()):
        work, problem = described[node]
        if problem and measured:
            work = None
        if problem or (work is not None and not work.is_free):
            name = texts.add(host.strings.raw(int(host.name[node])))
            found[node] = (name, *_entry(work, problem, texts, whole=not measured))
    return found


def _entry(work: OperatorWork | None, problem: str, texts: TextPool, *, whole: bool) -> tuple[int, ...]:
    if work is None:
        return (0, -1, *(0,) * 8, 1, texts.add(problem))
    amounts = (work.flops, work.bytes_read, work.bytes_written)
    shape = (work.batch, work.m, work.n, work.k, int(work.causal))
    kernels = work.kernels if whole else 1
    return (int(work.kind), *amounts, *shape, texts.add(work.dtype), kernels, texts.add(problem))


def _columns(values: NDArray[np.int64], shares: NDArray[np.float64]) -> OperatorWorks:
    columns: dict[str, Any] = dict(zip(_COLUMNS, values.T.copy(), strict=True))
    for name in ("row", "name", "dtype", "problem"):
        columns[name] = columns[name].astype(np.int32)
    for name in ("flops", "bytes_read", "bytes_written"):
        columns[name] = _parts(columns[name], shares)
    return OperatorWorks(**columns)


def _parts(amounts: Ints, shares: NDArray[np.float64]) -> Ints:
    """What lies between two fractions of each amount that is known; the parts of all fractions make the whole."""
    begin, end = shares.T
    whole = np.where(end == 1.0, amounts, (amounts * end).astype(np.int64))
    return np.where(amounts < 0, amounts, whole - (amounts * begin).astype(np.int64))


def _shares(nodes: Rows, duration_ns: Ints) -> NDArray[np.float64]:
    """float64[rows, 2]: of each kernel, from which to which fraction of its operator's time it ran, one kernel after
    another."""
    total = np.bincount(nodes, duration_ns, minlength=int(nodes.max(initial=-1)) + 1)
    count = np.bincount(nodes, minlength=len(total))
    done: dict[int, tuple[float, int]] = {}
    shares = np.empty((len(nodes), 2))
    for row, (node, own) in enumerate(zip(nodes.tolist(), duration_ns.tolist(), strict=True)):
        before, number = done.get(node, (0.0, 0))
        last = number + 1 == count[node]
        after = 1.0 if last else before + (own / total[node] if total[node] > 0 else 0.0)
        shares[row] = before, min(after, 1.0)
        done[node] = (min(after, 1.0), number + 1)
    return shares


def _on_the_device(host: HostTrace) -> Mask:
    """bool[nodes]: whether a node works on the accelerator, for all that is recorded; in a run without one, on whatever
    there is."""
    tensors = host.tensors
    chosen = host.strings.each(tensors.device, lambda name: bool(name) and not name.startswith(("cpu", "meta")))
    if not chosen.any():
        return np.ones(len(host), np.bool_)
    found = np.ones(len(host), np.bool_)
    found[tensors.node] = False
    found[tensors.node[chosen]] = True
    return found


def _owners(host: HostTrace) -> Rows:
    """intp[nodes]: of each node, the one at or above it that has its work; -1 where there is none."""
    above = parents(host)
    above[above == np.arange(len(above))] = -1
    role = _roles(host, above)
    owner = np.where(role >= _Role.WORKS, np.arange(len(role)), -1)
    at, up = np.flatnonzero(above >= 0), above[above >= 0]
    for _ in range(_DEEPEST):
        if not len(at):
            break
        owning = role[up] >= _Role.WORKS
        owner[at[owning]] = up[owning]
        up = above[up]
        at, up = at[up >= 0], up[up >= 0]
    known = owner >= 0
    owner[known] = np.where(role[owner[known]] == _Role.APART, -1, owner[known])
    return owner


def _roles(host: HostTrace, above: Rows) -> Ints:
    """int64[nodes]: the `_Role` of each."""
    each = host.strings.each
    role = np.maximum(each(host.op_schema, _role, np.int64), each(host.name, _role_by_name, np.int64))
    role[(host.kernel_backend > 0) & (role == _Role.NOTHING)] = _Role.FUSED
    leaves = np.ones(len(host), np.bool_)
    up = np.unique(above[role > _Role.NOTHING])
    while len(up := up[(up >= 0) & leaves[up]]):
        leaves[up] = False
        up = np.unique(above[up])
    may_work = (role == _Role.MAY_CALL) | ((role == _Role.CALLS) & each(host.op_schema, _contracts))
    role[may_work & leaves] = _Role.WORKS
    found: Ints = role
    return found


def _contracts(schema: str) -> bool:
    operator = recorded_operator(schema)
    return operator is not None and operator.plain_name in CONTRACTIONS


def _role(schema: str) -> _Role:
    operator = recorded_operator(schema)
    if operator is None:
        return _Role.NOTHING
    if f"{operator.namespace}::" in _COMMUNICATION:
        return _Role.APART
    if operator.is_composite:
        return _Role.CALLS
    known = operator.plain_name in RATES or operator.plain_name in CONTRACTIONS or operator.plain_name in FREE
    return _Role.WORKS if operator.namespace == "aten" or known else _Role.MAY_CALL


def _role_by_name(name: str) -> _Role:
    if name.startswith((*_COMMUNICATION, "record_param_comms", *_BACK_ENDS)):
        return _Role.APART
    return _Role.FUSED if name.startswith("triton_") else _Role.NOTHING


def _describe_all(host: HostTrace, nodes: list[int]) -> dict[int, tuple[OperatorWork | None, str]]:
    """`_describe` of every node; once for calls that differ in the names of tensors and storages only."""
    found: dict[int, tuple[OperatorWork | None, str]] = {}
    known: dict[tuple[int, tuple[str, ...]], tuple[OperatorWork | None, str]] = {}
    for node in nodes:
        text = host.span(node, h.SPAN_NODE)
        begin = text.find('"inputs"')
        key = int(host.op_schema[node]), _without_names(text[begin : text.find('"attrs"', begin)])
        if key not in known:
            known[key] = _describe(host.strings[key[0]], text)
        found[node] = known[key]
    return found


def _without_names(text: str) -> tuple[str, ...]:
    """The text of a call in pieces, its storages numbered by first use and its tensors without their numbers."""
    pieces = _TENSOR.split(text)
    numbers: dict[str, int] = {}
    pieces[1::2] = [str(numbers.setdefault(storage, len(numbers))) for storage in pieces[1::2]]
    return tuple(pieces)


def _describe(schema: str, text: str) -> tuple[OperatorWork | None, str]:
    """What the node with this text does, and why that is not (fully) known; "" where it is."""
    operator = recorded_operator(schema)
    if operator is None:
        return None, FUSED
    try:
        inputs, outputs = _sides(json.loads(text))
        if operator.takes_tensors and not inputs.values:
            return None, NO_SHAPES
        work = describe_recorded(operator, inputs, outputs)
    except _MALFORMED:
        return None, NO_SHAPES
    amounts = (work.flops, work.bytes_read, work.bytes_written, work.batch, work.m, work.n, work.k, work.kernels)
    if min(amounts) < 0 or max(amounts) >= _TOO_MUCH:
        return None, NO_SHAPES
    return work, NO_FORMULA if work.flops_from is FlopSource.UNKNOWN else ""


def _sides(record: Any) -> tuple[RecordedSide, RecordedSide]:
    """Inputs and outputs, in the form of whichever schema the file has."""

    def side(name: str) -> RecordedSide:
        given = record[f"{name}s"]
        if isinstance(given, list):
            return RecordedSide(given, record[f"{name}_shapes"], record[f"{name}_types"], [])
        return RecordedSide(given["values"], given["shapes"], given["types"], given.get("strides") or [])

    return side("input"), side("output")
