"""The part of HTA's event table that its critical path looks at: an annotation's span, clipped (1.4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.compat.hta.table import MOST_ROWS, HtaFailure, HtaTable
from chakrasim.errors import InputError

Rows = NDArray[np.int64]
Instance = int | tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Window:
    """``start``, ``end``: us since the table's origin; ``rows``: int64[c], positions in the table by event index
    (a device row occurs more than once where HTA's joins multiply it); ``repeated``: whether that is so."""

    start: float
    end: float
    rows: Rows
    repeated: bool


def clip(table: HtaTable, annotation: str, instance: Instance) -> Window:
    """The rows that belong to one instance (or several) of an annotation. Raises HtaFailure where HTA fails."""
    start, end = _span(table, annotation, instance)
    at_host = np.flatnonzero(table.stream == -1)
    at_device = np.flatnonzero(table.stream != -1)
    inside = (table.ts[at_host] >= start) & (table.ts[at_host] <= end) & (table.dur[at_host] > 0)
    partner = table.index_correlation[at_host]
    size = int(table.row_index.max(initial=-1)) + 1
    launched = np.bincount(partner[inside & (partner >= 0)], minlength=size)
    related = np.bincount(partner[partner >= 0], minlength=size)
    device = table.row_index[at_device]
    waits = table.named("Stream Wait Event")[at_device]
    times = np.where(waits, np.maximum(related[device], 1), launched[device])
    if table.filtered:  # rows may stand there several times, and each is then found once for each
        copies = np.bincount(device, minlength=size)
        event, first = np.unique(device, return_index=True)
        at_device, times = at_device[first], times[first] * copies[event] ** 2
    if times.sum() > MOST_ROWS:
        raise InputError("HTA's joins multiply the rows beyond measure", found=f"{times.sum()} rows")
    rows = np.concatenate([at_host[inside], np.repeat(at_device, times)])
    rows = rows[np.argsort(table.row_index[rows], kind="stable")]
    return Window(float(start), float(end), rows, bool(np.any(times > 1)))


def touches_repeated(window: Window, table: HtaTable, rows: Rows) -> bool:
    """Whether HTA's joins multiplied one of these rows."""
    event, times = np.unique(table.row_index[window.rows], return_counts=True)
    return bool(np.any(np.isin(table.row_index[rows], event[times > 1])))


def _span(table: HtaTable, annotation: str, instance: Instance) -> tuple[float, float]:
    symbols = table.symbols_with(annotation)
    if not len(symbols):
        raise HtaFailure("None", f"no name contains {annotation!r}")
    if annotation == "":
        return float(table.ts.min(initial=0)), float(table.end.max(initial=0))
    first, last = (instance, instance) if isinstance(instance, int) else instance or (0, 0)
    found = np.flatnonzero(np.isin(table.name, symbols))[first : last + 1]
    if not len(found):
        raise HtaFailure("UndefinedVariableError", f"there is no instance {instance} of {annotation!r}")
    return float(table.ts[found].min()), float((table.ts[found] + table.dur[found]).max())
