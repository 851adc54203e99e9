"""The event table of Holistic Trace Analysis (HTA), as its analyses see it, for comparison with that tool.

Sections such as 1.1.3 are those of the behavioural specification "trace-analysis.md". Two versions of HTA are in use
and differ: "new" (its newest) and "pinned" (the one that Chakra's users are told to install).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.kineto.columns import (
    DUR_IS_FLOAT,
    HAS_ARGS,
    HAS_CATEGORY,
    HAS_DUR,
    HAS_TID,
    HAS_TS,
    REAL,
    STREAM_IS_TEXT,
    TEXT,
    TS_IS_FLOAT,
    Ints,
    KinetoTrace,
    RareColumn,
)

Version = Literal["new", "pinned"]
Times = NDArray[Any]
Rows = NDArray[np.int64]

#: Rows of a device that have no stream.
DEVICE_NAMES: Final = ("Event Sync", "Context Sync")
#: The step filter joins on correlation, which can multiply rows; more than this is beyond any use.
MOST_ROWS: Final = 50_000_000
_COLUMNS: Final = (
    *("row", "row_index", "category", "name", "pid", "tid", "ts", "dur", "end"),
    *("stream", "correlation", "index_correlation", "iteration", "is_device"),
)
_STEP_NUMBER = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_STEP_SYMBOL = re.compile(r"ProfilerStep#(\d+)")


class HtaFailure(Exception):
    """HTA ends with an exception here. ``kind`` is its class name ("None" where HTA returns nothing)."""

    def __init__(self, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(f"{kind}: {reason}")


@dataclass(frozen=True, eq=False)
class HtaTable:
    """The rows that HTA works on, in its order: ``n`` rows, after the step filter.

    Attributes
    ----------
    version: "new" or "pinned".
    row: int32[n], row in ``kineto`` (for columns that are not here).
    row_index: int64[n], the event's position in ``traceEvents``: HTA's ``index``. Ascending, each once, unless
        ``filtered``: then device rows come first, and a row may occur several times.
    category, name: int32[n], index into ``kineto.strings``.
    pid, tid: int64[n], as in ``kineto``.
    ts, dur, end: us; int64[n], or float64[n] if some time is no whole number. ``ts`` counts from ``origin``; ``end``
        does not (1.1.3): it is ``ts + dur + origin``.
    stream, correlation: int64[n], -1 where absent.
    index_correlation: int64[n], ``row_index`` of the partner; -1 nothing to look for, 0 (or what a negative
        correlation is) not found.
    iteration: int64[n], N of ``ProfilerStep#N``, -1 outside.
    is_device: bool[n], HTA's test of a GPU row (1.1.4).
    origin: us, the trace's smallest ``ts``. (HTA subtracts the smallest of all ranks: ``ts + origin - min(origins)``.)
    symbols: int64[k], string indices of all names and categories of kept rows, before the step filter: HTA's symbol
        table, in no order of HTA's.
    device_type: "MTIA", "NVIDIA GPU", "AMD GPU" or "UNKNOWN GPU".
    filtered: whether the step filter was applied (1.1.6).
    kineto: where the rows come from.
    counts: rows left out, by a short name.
    """

    version: Version
    row: NDArray[np.int32]
    row_index: Rows
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    pid: Ints
    tid: Ints
    ts: Times
    dur: Times
    end: Times
    stream: Ints
    correlation: Ints
    index_correlation: Ints
    iteration: Ints
    is_device: NDArray[np.bool_]
    origin: float
    symbols: Ints
    device_type: str
    filtered: bool
    kineto: KinetoTrace
    counts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    def rare(self, argument: str) -> Ints:
        """int64[n]: the integer that each row's rare argument has (a text of digits counts), else -1."""
        return rare_integers(self.kineto, argument)[self.row]

    def named(self, *names: str) -> NDArray[np.bool_]:
        """bool[n]: rows that have one of these names."""
        return self.kineto.where(self.name, *names)

    def in_category(self, *categories: str) -> NDArray[np.bool_]:
        """bool[n]: rows of one of these categories."""
        return self.kineto.where(self.category, *categories)

    def has_symbol(self, text: str) -> bool:
        """Whether some kept row has ``text`` as its name or category."""
        return bool(np.any(self.symbols == self.kineto.find(text)))

    def symbols_with(self, part: str) -> Ints:
        """int64[]: string indices of the names and categories that contain ``part``."""
        strings = self.kineto.strings
        wanted = part.encode("utf-8", "surrogatepass")
        return np.array([index for index in self.symbols.tolist() if wanted in strings.raw(index)], np.int64)


def hta_table(
    kineto: KinetoTrace,
    version: Version = "new",
    include_last_profiler_step: bool = False,
    rounding: bool = True,
    step_filter: bool = True,
) -> HtaTable:
    """HTA's event table of one rank (1.1.2 to 1.1.7).

    ``kineto`` must hold all events (``read_kineto(path, keep="all")``): an event without ``ts`` anywhere makes HTA
    round. ``rounding=False`` is its ``HTA_DISABLE_NS_ROUNDING``. ``step_filter=False`` leaves all
    steps in, as its trace diff does. Raises HtaFailure where HTA fails to load the trace,
    InputError for a table that nobody could hold.
    """
    if version not in get_args(Version):
        raise InputError("there is no such version of HTA", found=repr(version), expected="new or pinned")
    _refuse_missing_columns(kineto, version)
    keep = kineto.has(HAS_DUR) & kineto.has(HAS_CATEGORY) & ~kineto.where(kineto.category, "Trace")
    timeless = keep & ~kineto.has(HAS_TS)
    row = np.flatnonzero(keep & ~timeless).astype(np.int32)
    if version == "pinned":
        _refuse_text_streams(kineto, row)
    ts, dur, end = _times(kineto, row, rounding)
    correlation, stream, name = kineto.correlation[row], kineto.stream[row], kineto.name[row]
    device = (stream > 0) if version == "pinned" else (stream >= 0) & (correlation >= 0)
    device = device | kineto.where(name, *DEVICE_NAMES)
    index = kineto.index[row].astype(np.int64)
    partner = _index_correlation(index, correlation, device)
    origin = ts.min() if len(ts) else ts.dtype.type(0)
    table = HtaTable(
        version=version,
        row=row,
        row_index=index,
        category=kineto.category[row],
        name=name,
        pid=kineto.pid[row],
        tid=kineto.tid[row],
        ts=ts - origin,
        dur=dur,
        end=end,
        stream=stream,
        correlation=correlation,
        index_correlation=partner,
        iteration=_iterations(kineto, version, row, ts, dur, index, partner),
        is_device=device,
        origin=origin.item(),
        symbols=np.unique(np.concatenate([name, kineto.category[row]])).astype(np.int64),
        device_type=_device_type(kineto, row),
        filtered=False,
        kineto=kineto,
        counts={"events without ts": int(timeless.sum())} if timeless.any() else {},
    )
    return _step_filter(table, include_last_profiler_step) if step_filter else table


def select(table: HtaTable, at: NDArray[np.integer[Any]], filtered: bool | None = None) -> HtaTable:
    """The table of these rows (positions), in this order."""
    chosen: dict[str, Any] = {name: getattr(table, name)[at] for name in _COLUMNS}
    return replace(table, **chosen, filtered=table.filtered if filtered is None else filtered)


def rare_integers(kineto: KinetoTrace, argument: str) -> Ints:
    """int64[events]: the integer of a rare argument, -1 if none; texts of digits and whole reals count."""
    column = kineto.rare_column(argument)
    dense = column.integers(len(kineto))
    for at in np.flatnonzero((column.kind == TEXT) | (column.kind == REAL)):
        bits = column.bits[at]
        value = kineto.strings[int(bits)] if column.kind[at] == TEXT else str(bits.view(np.float64))
        try:
            number = float(value)
        except ValueError:
            continue
        if number.is_integer() and abs(number) < 2**63:
            dense[column.rows[at]] = int(number)
    return dense


def has_tid(table: HtaTable) -> NDArray[np.bool_]:
    """bool[n]: rows with a thread; HTA's groupings lose the others."""
    return table.kineto.has(HAS_TID)[table.row]


def _refuse_missing_columns(kineto: KinetoTrace, version: Version) -> None:
    """HTA needs columns that no event of the file may have."""
    needed = [("ts", HAS_TS), ("args", HAS_ARGS)]
    if version == "pinned":  # the newest version goes on without rows
        needed += [("dur", HAS_DUR), ("cat", HAS_CATEGORY)]
    elif not (np.any(kineto.has(HAS_DUR)) and np.any(kineto.has(HAS_CATEGORY))):
        needed = needed[:1]
    for name, bit in needed:
        if not np.any(kineto.has(bit)):
            raise HtaFailure("KeyError", f"no event has {name!r}")


def _refuse_text_streams(kineto: KinetoTrace, row: NDArray[np.int32]) -> None:
    texts = int(kineto.has(STREAM_IS_TEXT)[row].sum())
    if texts:
        raise HtaFailure("TypeError", f"{texts} events have a stream that is text")


def _times(kineto: KinetoTrace, row: NDArray[np.int32], rounding: bool) -> tuple[Times, Times, Times]:
    """``ts``, ``dur`` and ``end`` in us, as pandas has them: floats if one ``ts`` of the file is no integer."""
    floating = bool(np.any(kineto.has(TS_IS_FLOAT))) or not bool(np.all(kineto.has(HAS_TS)))
    fractional = bool(np.any(kineto.has(DUR_IS_FLOAT)))
    if not floating and not fractional:
        ts, dur = kineto.ts_ns[row] // 1000, kineto.dur_ns[row] // 1000
        return ts, dur, ts + dur
    start = _microseconds(kineto.ts_ns, kineto.rare_column("ts text"), kineto)[row]
    length = _microseconds(kineto.dur_ns, kineto.rare_column("dur text"), kineto)[row]
    stop = start + length
    if floating and rounding:
        begin, finish = np.ceil(start).astype(np.int64), np.floor(stop).astype(np.int64)
        return begin, finish - begin, finish
    if all(np.array_equal(column, np.rint(column)) for column in (start, length)):
        return start.astype(np.int64), length.astype(np.int64), stop.astype(np.int64)
    return start, length, stop


def _microseconds(ns: Ints, odd: RareColumn, kineto: KinetoTrace) -> NDArray[np.float64]:
    """The float64 that Python reads from the file's text, by correctly rounded division."""
    large = ns // 1000 + (ns % 1000) / 1000.0
    us = np.where(np.abs(ns) < 2**53, ns / 1000.0, large)
    for at, text in zip(odd.rows.tolist(), odd.bits.tolist(), strict=True):
        us[at] = float(kineto.strings[text])
    return np.asarray(us, np.float64)


def _index_correlation(index: Rows, correlation: Ints, device: NDArray[np.bool_]) -> Ints:
    """Partners by correlation (1.1.4): of several, the last in file order."""
    partner = np.minimum(correlation, 0)
    related = correlation != -1
    host, gpu = np.flatnonzero(related & ~device), np.flatnonzero(related & device)
    _, key = np.unique(np.concatenate([correlation[host], correlation[gpu]]), return_inverse=True)
    for here, there, key_here, key_there in (
        (host, gpu, key[: len(host)], key[len(host) :]),
        (gpu, host, key[len(host) :], key[: len(host)]),
    ):
        last = np.full(len(host) + len(gpu), -1, np.int64)
        np.maximum.at(last, key_there, there)
        found = last[key_here]
        partner[here[found >= 0]] = index[found[found >= 0]]
    return partner


def _iterations(
    kineto: KinetoTrace, version: Version, row: NDArray[np.int32], ts: Times, dur: Times, index: Rows, partner: Ints
) -> Ints:
    """The profiler step of each row (1.1.5)."""
    name, stream = kineto.name[row], kineto.stream[row]
    number: dict[int, int] = {}
    for symbol in np.unique(name).tolist():
        text = kineto.strings[symbol]
        if text.startswith("ProfilerStep"):
            match = _STEP_NUMBER.match(text)
            if match is None:
                kind = "AttributeError" if version == "pinned" else "AssertionError"
                raise HtaFailure(kind, f"no number can be read from the step's name {text!r}")
            if len(match[1]) > 18:
                raise InputError("the number of a profiler step is too large", file=kineto.source, found=text[:80])
            number[symbol] = int(match[1])
    iteration = np.full(len(row), -1, np.int64)
    if not number:
        return iteration
    host = stream < 0
    if version == "new":
        host = host | ((stream == 0) & kineto.where(kineto.category[row], "cpu_op"))
    for at in np.flatnonzero(np.isin(name, list(number))).tolist():  # a later step overwrites
        iteration[host & (ts >= ts[at]) & (ts < ts[at] + dur[at])] = number[int(name[at])]
    device = np.flatnonzero((stream > 0) & (partner > 0))
    iteration[device] = iteration[np.searchsorted(index, partner[device])]
    return iteration


def _device_type(kineto: KinetoTrace, row: NDArray[np.int32]) -> str:
    info = kineto.header.get("distributedInfo")
    backend = info.get("backend") if isinstance(info, dict) else None
    if isinstance(backend, str) and "mtia:hccl" in backend:
        return "MTIA"
    for column, text, device in (
        (kineto.name, "cudaLaunchKernel", "NVIDIA GPU"),
        (kineto.name, "hipLaunchKernel", "AMD GPU"),
        (kineto.name, "runFunction - job_prep_and_submit_for_execution", "MTIA"),
    ):
        if bool(np.any(column[row] == kineto.find(text))):
            return device
    return "UNKNOWN GPU"


def _step_symbols(table: HtaTable) -> Ints:
    """The symbols that HTA takes for profiler steps."""
    named = table.symbols_with("ProfilerStep")
    if table.version == "pinned":
        return named
    texts = (table.kineto.strings[index] for index in named.tolist())
    anchored = np.array([_STEP_SYMBOL.match(text) is not None for text in texts], np.bool_)
    return np.asarray(named[anchored], np.int64)


def _step_filter(table: HtaTable, include_last: bool) -> HtaTable:
    """Without the last step, and without device rows that no kept host row launched (1.1.6)."""
    steps = _step_symbols(table)
    if len(steps) < 2 or (table.version == "new" and table.device_type == "MTIA"):
        return table
    host = np.flatnonzero(~table.is_device)
    if not len(host) and table.version == "new":
        return table
    marks = host[np.isin(table.name[host], steps)]
    if len(marks):
        start, end = table.ts[marks].max(), table.end[marks].max()
    elif table.version == "new":
        start, end = table.ts[host].min(), table.end[host].max()
    else:
        start, end = -1, -1  # pandas compares with a missing value: no row passes
    kept = host[table.ts[host] <= end] if include_last else host[table.ts[host] < start]
    device = np.flatnonzero(table.is_device)
    wanted = np.sort(table.correlation[kept])
    mine = table.correlation[device]
    copies = np.searchsorted(wanted, mine, "right") - np.searchsorted(wanted, mine, "left")
    if copies.sum() > MOST_ROWS:
        raise InputError(
            "the device rows without correlation make HTA's table too large",
            file=table.kineto.source,
            found=f"{copies.sum()} rows",
            remedy="analyse without --compat",
        )
    return select(table, np.concatenate([np.repeat(device, copies), kept]), filtered=True)
