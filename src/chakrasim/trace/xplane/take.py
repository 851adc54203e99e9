"""The events of a plane as columns of a `KinetoTrace`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import Ints, Mask
from chakrasim.trace.kineto.only_work import enclosing
from chakrasim.trace.profiles.build import Texts
from chakrasim.trace.xplane import roles
from chakrasim.trace.xplane.plane import NONE, Plane, Stats, Window

_LIMIT_NS: Final = 1 << 61
_LIMIT_PS: Final = 1 << 62
_BYTES_PER_EVENT: Final = 3 * sum(np.dtype(kind).itemsize for kind in k.COLUMNS.values())
_CORRELATION, _STEP, _COPIED = "correlation_id", "step_num", "memcpy_details"
_SIZE: Final = re.compile(r"\bsize:(\d{1,18})\b")
ROUNDED, BAD_TIMES, TIMELESS = "times rounded to nanoseconds", "events with unusable times", "events without times"
NAMELESS, OTHERS, AROUND = "events without a name", "events of other planes", "operations around others"
NOT_KEPT: Final = "values that were not kept"
Columns = dict[str, Any]


@dataclass
class Taker:
    """Takes planes one after another. ``parts``: columns of the events that were kept; ``copied``: rows that say how
    many bytes they copy, and the bytes; ``events``: of all planes, kept or not."""

    texts: Texts = field(default_factory=Texts)
    counts: Counter[str] = field(default_factory=Counter)
    parts: list[Columns] = field(default_factory=list)
    copied: list[tuple[Ints, Ints]] = field(default_factory=list)
    events: int = 0
    rows: int = 0

    def take(self, plane: Plane) -> None:
        """Take a plane's events. Raises InputError."""
        decoder = plane.decoder
        decoder.limit.check((self.events + len(plane)) * _BYTES_PER_EVENT, decoder.path)
        owner = roles.owner_of(plane.name)
        lanes = _lanes(plane, owner, self.texts)
        known = plane.stat_names.keys_of(_CORRELATION, _STEP, _COPIED)
        first = len(self.parts)
        for window in plane.windows(bool(known)):
            self._take(plane, owner, lanes, window, known)
        if owner.kind == "TPU":
            self._set_apart_loops(self.parts[first:])
        for part in self.parts[first:]:
            for name in ("line", "start_ps", "dur_ps"):
                del part[name]

    def _take(self, plane: Plane, owner: roles.Owner, lanes: Columns, window: Window, known: dict[str, int]) -> None:
        size = len(window.line)
        correlation, step, copied = (self._values(window, known.get(name, NONE)) for name in (_CORRELATION, _STEP, ""))
        if window.stats is not None and _COPIED in known:
            copied = _copied_bytes(plane, window.stats, known[_COPIED], size)
        name = self._names(plane, window, step)
        start, end = window.offset_ps, window.offset_ps + window.duration_ps
        begin = lanes["begin_ns"][window.line]
        part = {column: values[window.line] for column, values in lanes.items() if column in k.COLUMNS}
        part |= {"ts_ns": begin + start // 1000, "dur_ns": end // 1000 - start // 1000, "name": name}
        part |= {"category": self._categories(owner, lanes["works"][window.line] != 0, name, correlation, step)}
        part |= {"phase": np.full(size, ord("X")), "correlation": correlation, "index": self.events + np.arange(size)}
        part |= dict.fromkeys(("external_id", "rf_id"), np.full(size, -1))
        kept = self._usable(plane, window, part) & ~window.timeless
        self.counts[ROUNDED] += int(((start % 1000 != 0) | (end % 1000 != 0))[kept].sum())
        self.counts[TIMELESS] += int(window.timeless.sum())
        self.counts[NOT_KEPT] += window.stat_count - int(sum((one >= 0).sum() for one in (correlation, step, copied)))
        columns: Columns = {column: np.asarray(part[column][kept], kind) for column, kind in k.COLUMNS.items()}
        said = copied[kept]
        self.copied.append((self.rows + np.flatnonzero(said >= 0), said[said >= 0]))
        self.parts.append(columns | {"line": window.line[kept], "start_ps": start[kept], "dur_ps": (end - start)[kept]})
        self.events += size
        self.rows += len(said)

    def _values(self, window: Window, key: int) -> Ints:
        """int64[]: the integer of this name of each event, -1 where there is none."""
        found = np.full(len(window.line), -1, np.int64)
        if window.stats is not None and key != NONE:
            chosen = window.stats.key == key
            found[window.stats.owner[chosen]] = window.stats.number[chosen]
        return found

    def _names(self, plane: Plane, window: Window, step: Ints) -> Ints:
        """int64[]: the text of each event's name; steps of the program are named as PyTorch's profiler names them."""
        used, at = np.unique(window.name, return_inverse=True)
        self.counts[NAMELESS] += int((window.name < 0).sum())
        texts = [self.texts.place(plane.names.text(one)) if one >= 0 else 0 for one in used.tolist()]
        name = np.array(texts, np.int64)[at]
        for row in np.flatnonzero(step >= 0).tolist():
            name[row] = self.texts.place(f"ProfilerStep#{step[row]}")
        return name

    def _categories(self, owner: roles.Owner, works: Mask, name: Ints, correlation: Ints, step: Ints) -> Ints:
        used, at = np.unique(name, return_inverse=True)
        answer = {True: roles.device_category, False: roles.host_category}[owner.device >= 0]
        found = np.array([self.texts.place(answer(self.texts.text(one))) for one in used.tolist()], np.int64)[at]
        if owner.device >= 0:
            found[~works] = self.texts.place(roles.SPAN)
        elif owner is roles.HOST:
            found[correlation > 0] = self.texts.place(roles.CALL)
            found[step >= 0] = self.texts.place(roles.STEP)
        else:
            self.counts[OTHERS] += len(name)
            found[:] = self.texts.place(roles.OTHER)
        return found

    def _usable(self, plane: Plane, window: Window, part: Columns) -> Mask:
        """Which events have times that can be used. Raises InputError if not all do, unless lenient."""
        bad = (window.duration_ps < 0) | (np.abs(window.offset_ps) > _LIMIT_PS) | (window.duration_ps > _LIMIT_PS)
        bad |= (part["ts_ns"] < 0) | (part["ts_ns"] > _LIMIT_NS) | (part["dur_ns"] > _LIMIT_NS)
        bad &= ~window.timeless
        if bad.any() and not plane.decoder.lenient:
            at = int(np.flatnonzero(bad)[0])
            raise InputError(
                "an event has a time that cannot be used",
                file=plane.decoder.path,
                place=f"event {part['index'][at]} of the file, in plane {plane.name!r}",
                found=f"offset {window.offset_ps[at]} ps, duration {window.duration_ps[at]} ps",
                expected="times that are not negative, below 2**61 ns",
                remedy="record again, or read the file leniently (--lenient) to leave it out",
            )
        self.counts[BAD_TIMES] += int(bad.sum())
        usable: Mask = ~bad
        return usable

    def _set_apart_loops(self, parts: list[Columns]) -> None:
        """Make names of the operations of a TPU that have others inside."""
        if not parts:
            return
        line, start, length, category = (
            np.concatenate([part[name] for part in parts]) for name in ("line", "start_ps", "dur_ps", "category")
        )
        span = self.texts.place(roles.SPAN)
        around = enclosing(start, length, line) & (category != span)
        self.counts[AROUND] += int(around.sum())
        for part, marked in zip(
            parts, np.split(around, np.cumsum([len(part["line"]) for part in parts])), strict=False
        ):
            part["category"][marked] = span


def _lanes(plane: Plane, owner: roles.Owner, texts: Texts) -> Columns:
    """Columns by line: those of a trace, the begin, and whether the events are work of a device."""
    lines = []
    for line in plane.lines:
        if owner.device >= 0:
            stream = owner.stream(line)
            lines.append((owner.device, stream, owner.device, stream, 0, line.timestamp_ns, owner.works(line)))
        else:
            thread = line.name if line.name.endswith(f"/{line.id}") else f"{line.name}/{line.id}"
            identity = (-2 - texts.place(plane.name), -2 - texts.place(thread))
            lines.append((*identity, -1, -1, k.PID_IS_TEXT | k.TID_IS_TEXT, line.timestamp_ns, False))
    names = ("pid", "tid", "device", "stream", "flags", "begin_ns", "works")
    found = dict(zip(names, np.array(lines, np.int64).reshape(-1, len(names)).T, strict=True))
    found["flags"] = found["flags"] | k.HAS_TS | k.HAS_DUR | k.HAS_CATEGORY | k.HAS_NAME | k.HAS_TID
    return found


def _copied_bytes(plane: Plane, stats: Stats, key: int, size: int) -> Ints:
    """int64[size]: the bytes that each event says it copies, -1 where it does not."""
    found = np.full(size, -1, np.int64)
    known: dict[tuple[int, int, bool], int] = {}
    for at in np.flatnonzero(stats.key == key).tolist():
        shown = (int(stats.number[at]), int(stats.end[at]), bool(stats.is_reference[at]))
        if shown not in known:
            match = _SIZE.search(plane.text_of(stats, at))
            known[shown] = int(match[1]) if match else -1
        found[stats.owner[at]] = known[shown]
    return found
