"""Copies and fills of memory: how many bytes, how fast, and the rate over time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import MEMORY
from chakrasim.analysis.table.result import Ints, Reals, Result, Texts
from chakrasim.analysis.table.statistics import group_keys
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.analysis.table.work import DeviceWork
from chakrasim.notes import Notes
from chakrasim.trace.intervals import merge

_DIRECTION = re.compile(
    r"(?:hip)?(Memcpy|Memset|FillBuffer|Copy(?=\w+To))\s*((?:\w+to\w+)|(?:(?:Host|Device)To(?:Host|Device))|[HDP]2[HDP])?",
    re.IGNORECASE,
)
_SHORT: Final = {"hosttodevice": "HtoD", "devicetohost": "DtoH", "devicetodevice": "DtoD", "hosttohost": "HtoH"} | {
    name.lower(): name.replace("2", "to")
    for name in ("H2D", "D2H", "D2D", "H2H", "P2P")  # XLA's
}


@dataclass(frozen=True, eq=False)
class MemoryBandwidth(Result):
    """One row for each rank, device and kind of copy (``Memcpy HtoD``, ``Memset``).

    ``busy_ns``: time with at least one such copy running. ``rate_gbps``: bytes over busy time, GB/s with GB = 10^9.
    Single copies: ``min_gbps`` to ``max_gbps``. Copies without bytes or without length (``unrated``) have no rate.
    """

    TITLE: ClassVar[str] = "Copies and fills of memory"
    rank: Ints
    device: Ints
    copy: Texts
    count: Ints
    bytes: Ints
    busy_ns: Ints
    rate_gbps: Reals
    min_gbps: Reals
    median_gbps: Reals
    max_gbps: Reals
    unrated: Ints


@dataclass(frozen=True, eq=False)
class BandwidthSeries(Result):
    """A point where the rate of a kind of copy changes, by rank, device, kind and time: ``gbps`` from ``ts_ns`` on."""

    TITLE: ClassVar[str] = "Copy rate over time"
    rank: Ints
    device: Ints
    copy: Texts
    ts_ns: Ints
    gbps: Reals


def copy_kind(name: str) -> str:
    """``Memcpy HtoD``, ``Memset`` or ``Memcpy`` of a copy's name, whatever the maker."""
    match = _DIRECTION.match(name)
    if match is None:
        return "Memcpy"
    if match[1].lower() in ("memset", "fillbuffer"):
        return "Memset"
    direction = match[2] or ""
    return f"Memcpy {_SHORT.get(direction.lower(), direction)}".rstrip()


def memory_bandwidth(traces: Traces, *, rank: int | None = None) -> MemoryBandwidth:
    """Bytes and rates by kind of copy. Raises InputError."""
    notes = Notes()
    rows: list[tuple[object, ...]] = []
    for one in open_traces(traces, rank=rank, notes=notes):
        copies = _copies(one.work)
        for key, chosen in copies.groups():
            rate = copies.gbps[chosen]
            rated = rate > 0
            busy = merge(copies.start_ns[chosen], copies.end_ns[chosen]).total
            moved = int(copies.bytes[chosen].sum())
            whole = moved / busy if busy and moved else np.nan
            spread = [f(rate[rated]) if rated.any() else np.nan for f in (np.min, np.median, np.max)]
            rows.append((one.rank, *key, len(chosen), moved, busy, whole, *spread, int((~rated).sum())))
    return MemoryBandwidth.of_rows(notes, rows)


def bandwidth_series(traces: Traces, *, rank: int | None = None) -> BandwidthSeries:
    """The rate of each kind of copy over time. Raises InputError."""
    notes = Notes()
    parts = []
    for one in open_traces(traces, rank=rank, notes=notes):
        copies = _copies(one.work)
        for (device, kind), chosen in copies.groups():
            parts.append(_rate(one.rank, device, kind, copies, chosen[copies.gbps[chosen] > 0]))
    return BandwidthSeries.join(notes, parts)


def _rate(rank: int, device: int, kind: str, copies: _Copies, chosen: Ints) -> BandwidthSeries:
    ts = np.concatenate([copies.end_ns[chosen], copies.start_ns[chosen]])
    change = np.concatenate([-copies.gbps[chosen], copies.gbps[chosen]])
    order = np.argsort(ts, kind="stable")
    ts, total = ts[order], np.cumsum(change[order])
    last = np.append(ts[1:] != ts[:-1], True)[: len(ts)]
    # What remains of a sum of rates that have all been taken off again is rounding.
    total = np.where(np.abs(total) < 1e-9 * np.abs(change).max(initial=0), 0.0, total)
    size = int(last.sum())
    where: dict[str, Any] = {"rank": np.full(size, rank), "device": np.full(size, device), "copy": (kind,) * size}
    return BandwidthSeries(**where, ts_ns=ts[last], gbps=total[last])


@dataclass(frozen=True, eq=False)
class _Copies:
    device: Ints
    kind: Ints
    kinds: Texts
    start_ns: Ints
    end_ns: Ints
    bytes: Ints
    gbps: NDArray[np.float64]

    def groups(self) -> list[tuple[tuple[int, str], Ints]]:
        """Device and kind, and the rows of each."""
        group, first = group_keys(self.device, self.kind)
        return [
            ((int(self.device[row]), self.kinds[int(self.kind[row])]), np.flatnonzero(group == number))
            for number, row in enumerate(first.tolist())
        ]


def _copies(work: DeviceWork) -> _Copies:
    at = np.flatnonzero(work.kind == MEMORY)
    distinct, inverse = np.unique(work.kineto.name[work.row[at]], return_inverse=True)
    named = [copy_kind(work.kineto.strings[index]) for index in distinct.tolist()]
    kinds = tuple(sorted(set(named)))
    kind = np.array([kinds.index(name) for name in named], np.int64)[inverse] if named else np.zeros(0, np.int64)
    moved = np.maximum(work.kineto.rare_column("bytes").integers(len(work.kineto), 0)[work.row[at]], 0)
    length = work.end_ns[at] - work.start_ns[at]
    gbps = np.divide(moved, length, out=np.zeros(len(at)), where=length > 0)
    return _Copies(work.device[at], kind, kinds, work.start_ns[at], work.end_ns[at], moved, gbps)
