"""Events of another maker's profile, put together as a `KinetoTrace`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of
from chakrasim.totals import checked, total
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.kineto.columns import (
    COLUMNS,
    HAS_ARGS,
    HAS_CATEGORY,
    HAS_DUR,
    HAS_NAME,
    HAS_TID,
    HAS_TS,
    INTEGER,
    JSON,
    TEXT,
    Ints,
    KinetoTrace,
    Mask,
    RareColumn,
)

NONE: Final = -(1 << 62)
"""A value that a profile does not have."""
_LIMIT_NS: Final = 1 << 61
_KEYS: Final = ("pid", "tid", "device", "stream", "correlation")
BYTES_PER_EVENT: Final = sum(np.dtype(kind).itemsize for kind in COLUMNS.values())


class Texts:
    """The texts of a trace, each once; number 0 is the empty one."""

    def __init__(self) -> None:
        self._places = {"": 0}
        self._listed: list[str] = []

    def place(self, text: str) -> int:
        """The number of a text."""
        return self._places.setdefault(text, len(self._places))

    def places(self, texts: list[str]) -> Ints:
        """int64: the number of each text."""
        return np.array([self.place(text) for text in texts], np.int64)

    def all(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._places)

    def text(self, place: int) -> str:
        """The text of a number."""
        if place >= len(self._listed):
            self._listed = self.all()
        return self._listed[place]

    def table(self) -> StringTable:
        """The table of all texts."""
        return StringTable.of([text.encode("utf-8", "replace") for text in self._places])


@dataclass(eq=False)
class Part:
    """Events of one sort, ``k`` of them. ``name`` int64[k]: numbers of texts; ``start_ns``, ``end_ns`` int64[k], NONE
    where there is none; ``pid``, ``tid``, ``device``, ``stream``, ``correlation``: int64[k] or one number for all, NONE
    or below 0 where unknown; ``rare``: further integers of a `KinetoTrace` by name, int64[k], NONE where there is
    none, ``texts`` the same as numbers of texts; ``phase``: as in Chrome's format."""

    category: str
    name: Ints
    start_ns: Ints
    end_ns: Ints
    pid: Ints | int = -1
    tid: Ints | int = -1
    device: Ints | int = -1
    stream: Ints | int = -1
    correlation: Ints | int = -1
    rare: dict[str, Ints] = field(default_factory=dict)
    texts: dict[str, Ints] = field(default_factory=dict)
    phase: str = "X"
    process: Ints | int = NONE
    """Whose event it is, where ``pid`` is a device."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, which: Mask) -> Part:
        """Some of the events."""
        arrays: dict[str, Any] = {
            key: value[which] if isinstance(value := getattr(self, key), np.ndarray) else value
            for key in ("name", "start_ns", "end_ns", "process", *_KEYS)
        }
        rare, texts = ({key: value[which] for key, value in some.items()} for some in (self.rare, self.texts))
        return Part(self.category, rare=rare, texts=texts, phase=self.phase, **arrays)


def assemble(source: str, texts: Texts, parts: list[Part], header: dict[str, Any], notes: Notes) -> KinetoTrace:
    """The trace of these parts, by start. What has no start, a negative one, no end, or an end before it is no work,
    and is counted and warned of."""
    parts = [part for part in parts if len(part)]
    start, end = (_join([getattr(part, side) for part in parts]) for side in ("start_ns", "end_ns"))
    placed = (start >= 0) & (start < _LIMIT_NS)
    bare = np.repeat([part.phase != "X" for part in parts], [len(part) for part in parts]).astype(np.bool_)
    ended = placed & ~bare & (end >= start) & (end < _LIMIT_NS)
    lost = int((~np.where(bare, placed, ended)).sum())
    counts = {"events without usable times": lost} if lost else {}
    if lost:
        what = "have no start, a negative one, no end or an end before it: they do not count as work"
        notes.warn(f"{source}: {lost:,} events {what}")
    order = np.argsort(np.where(placed, start, 0), kind="stable")
    wide = {key: _join([_spread(part, key) for part in parts])[order] for key in ("name", *_KEYS)}
    category = np.repeat([texts.place(part.category) for part in parts], [len(part) for part in parts])
    phase = np.repeat([ord(part.phase) for part in parts], [len(part) for part in parts])
    flags = HAS_CATEGORY | HAS_NAME | HAS_ARGS | HAS_TID | placed * HAS_TS | ended * HAS_DUR
    columns: dict[str, Any] = {
        "index": np.arange(len(order)),
        "phase": phase[order],
        "category": category[order],
        "ts_ns": np.where(placed, start, 0)[order],
        "dur_ns": np.where(ended, end - np.where(placed, start, 0), 0)[order],
        "flags": np.asarray(flags)[order],
        "external_id": np.full(len(order), -1),
        "rf_id": np.full(len(order), -1),
        **wide,
    }
    for key in ("device", "stream", "correlation"):
        columns[key] = np.where((columns[key] < 0) | ((key == "device") & (columns[key] >= 1 << 31)), -1, columns[key])
    for key in ("pid", "tid"):
        columns[key] = np.where(columns[key] < 0, -1, columns[key])
    checked(total(columns["dur_ns"]), "the durations of all events together, in ns,", source)
    return KinetoTrace(
        source, texts.table(), rare=_rare(parts, order), header=header, event_count=len(order), counts=counts,
        **{key: columns[key].astype(kind) for key, kind in COLUMNS.items()},
    )  # fmt: skip


def one_process(path: str, known: dict[int, int], process: int | None) -> int:
    """Of the processes that used devices in a profile, by id, the value of ``process``, or of the only one; -1 if
    there is none. Raises InputError where there are several, and for one that is not there."""
    listed = f"processes {first_of([str(one) for one in sorted(known)], 8)}" if known else "none"
    if process is None and len(known) > 1:
        raise InputError(
            "several processes used devices in this profile: one trace is of one process",
            file=path,
            found=listed,
            remedy="record each into a file of its own, such as nsys profile -o rank.%q{RANK}, or choose one in "
            "Python: read_kineto(FILE, process=ID); chakrasim analyze takes each process of an nsys export for a rank",
        )
    if process is not None and process not in known:
        raise InputError(f"there is no process {process} that used a device", file=path, found=listed)
    return known[process] if process is not None else next(iter(known.values()), -1)


def _spread(part: Part, key: str) -> Ints:
    value = getattr(part, key)
    return value if isinstance(value, np.ndarray) else np.full(len(part), value, np.int64)


def _join(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)


def _rare(parts: list[Part], order: NDArray[np.intp]) -> dict[str, RareColumn]:
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    found: dict[str, list[tuple[NDArray[np.int32], Ints, int]]] = {}
    begin = 0
    for part in parts:
        for values, usual in ((part.rare, INTEGER), (part.texts, TEXT)):
            for name, column in values.items():
                kind = JSON if name == "Input Dims" else usual
                known = column != NONE
                if known.any():
                    rows = place[begin : begin + len(part)][known]
                    found.setdefault(name, []).append((rows, column[known], kind))
        begin += len(part)
    columns = {}
    for name, pieces in sorted(found.items()):
        rows = np.concatenate([piece[0] for piece in pieces])
        kinds = np.repeat([piece[2] for piece in pieces], [len(piece[0]) for piece in pieces]).astype(np.uint8)
        by_row = np.argsort(rows)
        columns[name] = RareColumn(rows[by_row], kinds[by_row], np.concatenate([piece[1] for piece in pieces])[by_row])
    return columns
