"""The threads whose calls HTA nests, and their rows in the order of a stack (step B of 1.4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.hta.table import HtaFailure, HtaTable, has_tid
from chakrasim.compat.hta_critical_path.window import Window, touches_repeated
from chakrasim.trace.kineto.columns import PID_IS_TEXT, TID_IS_TEXT

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stacks:
    """Rows of host threads by thread, start, and length (longest first): their positions in the table, and the numbers
    of their threads."""

    row: Rows
    thread: Rows


def call_stacks(table: HtaTable, window: Window) -> Stacks:
    """The host threads' rows in the order in which a stack takes them. Raises HtaFailure where HTA fails."""
    row = window.rows[has_tid(table)[window.rows]]
    tid = _merged_threads(table, row)
    keys = (_ranks(table, tid, row, TID_IS_TEXT), _ranks(table, table.pid[row], row, PID_IS_TEXT))
    numbers, thread = np.unique(keys[1] * (keys[0].max(initial=0) + 1) + keys[0], return_inverse=True)
    thread = thread.reshape(-1)
    device = table.stream[row] > 0
    if window.repeated and touches_repeated(window, table, row[device]):
        raise HtaFailure("ValueError", "cannot reindex on an axis with duplicate labels")
    if table.version == "pinned" and not len(numbers):
        raise HtaFailure("ValueError", "No objects to concatenate")
    other = np.zeros(len(numbers), np.bool_)
    other[thread[table.stream[row] >= 0]] = True
    row, thread = row[~other[thread]], thread[~other[thread]]
    order = np.lexsort((-table.dur[row], table.ts[row], thread))
    stacks = Stacks(row[order], thread[order])
    if table.version == "pinned":
        _check_categories(table, stacks)
    return stacks


def _ranks(table: HtaTable, identity: Rows, row: Rows, text_flag: int) -> Rows:
    """Numbers that order pids or tids as pandas does: integers, then texts."""
    values, inverse = np.unique(identity, return_inverse=True)
    rank = np.arange(len(values))
    is_text = table.kineto.has(text_flag)[table.row[row]]
    if is_text.any():
        texts = set(np.unique(identity[is_text]).tolist())
        text_of = table.kineto.text_of
        keys = [(value in texts, text_of(value) if value in texts else value) for value in values.tolist()]
        rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return np.asarray(rank[inverse.reshape(-1)], np.int64)


def _merged_threads(table: HtaTable, row: Rows) -> Rows:
    """Threads of the rows; the backward pass counts as part of the forward pass' thread (newest)."""
    tid = table.tid[row]
    if table.version == "pinned":
        return tid
    worker = table.in_category("cpu_op", "user_annotation")[row]
    found = []
    for part in ("autograd", "forward"):
        chosen = worker & np.isin(table.name[row], table.symbols_with(part))
        found.append(np.unique(tid[chosen]).tolist())
    backward, forward = found
    if len(backward) == 1 and len(forward) == 1 and backward != forward and 0 not in (*backward, *forward):
        tid = np.where(tid == backward[0], forward[0], tid)
    return tid


def _check_categories(table: HtaTable, stacks: Stacks) -> None:
    """Pinned looks categories up that the trace may not have."""
    seen = stacks.row[table.row_index[stacks.row] > 0]
    if len(seen) and not table.has_symbol("cpu_op"):
        raise HtaFailure("KeyError", "no event is of category cpu_op")
    if not table.has_symbol("cuda_runtime") and not np.all(table.in_category("cpu_op")[seen]):
        raise HtaFailure("KeyError", "no event is of category cuda_runtime")
