"""One plane of an XSpace: its lines, what its numbers of names mean, and its events, a window at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.trace.kineto.columns import Ints, Mask
from chakrasim.trace.xplane.messages import BYTES, NUMBER, Decoder, Fields, Parts, tag

#: Numbers of fields in the messages of tsl/profiler/protobuf/xplane.proto.
PLANES, ERRORS, WARNINGS, HOSTNAMES = 1, 2, 3, 4
_PLANE_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES = 2, 3, 4, 5
_LINE_ID, _LINE_NAME, _TIMESTAMP_NS, _EVENTS, _SHOWN_NAME = 1, 2, 3, 4, 11
_METADATA, _OFFSET_PS, _DURATION_PS, _EVENT_STATS, _OCCURRENCES = 1, 2, 3, 4, 5
_UNSIGNED, _SIGNED, _TEXT, _REFERENCE = 3, 4, 5, 7
_KEY, _VALUE, _NAME, _DISPLAY_NAME = 1, 2, 2, 4
#: Events of a window, so that their fields take tens of MiB.
_WINDOW: Final = 1 << 17
NONE: Final = -1


@dataclass(frozen=True, eq=False)
class NameTable:
    """Names by number: ``key`` int64[k] ascending, the name between ``begin`` and ``end``."""

    decoder: Decoder
    key: Ints
    begin: Ints
    end: Ints

    def find(self, keys: Ints) -> Ints:
        """int64[]: the place of each number in the table, NONE where it is not there."""
        if not len(self.key):
            return np.full(len(keys), NONE, np.int64)
        at = np.searchsorted(self.key, keys, "right") - 1
        return np.where((at >= 0) & (self.key[at] == keys), at, NONE)

    def text(self, place: int) -> str:
        """The name at a place."""
        return self.decoder.text(int(self.begin[place]), int(self.end[place]))

    def keys_of(self, *names: str) -> dict[str, int]:
        """The numbers of these names, as far as the table has them."""
        size = self.end - self.begin
        wanted = {name.encode(): name for name in names}
        maybe = np.flatnonzero(np.isin(size, [len(name) for name in wanted]))
        return {self.text(at): int(self.key[at]) for at in maybe.tolist() if self.text(at) in names}


def name_table(decoder: Decoder, entries: Parts, display: bool) -> NameTable:
    """The table of a map of names; ``display``: the name for people goes before the name."""
    _, entry = decoder.of(entries)
    inner = decoder.fields(*entry.span(_VALUE))
    begin, end = inner.span(_NAME)
    if display:
        other = inner.span(_DISPLAY_NAME)
        shown = other[1] > other[0]
        begin, end = np.where(shown, other[0], begin), np.where(shown, other[1], end)
    key = entry.last(_KEY)
    order = np.argsort(key, kind="stable")
    return NameTable(decoder, key[order], begin[order], end[order])


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a plane: a thread, a stream or what was derived from these."""

    id: int
    name: str
    timestamp_ns: int


@dataclass(frozen=True, eq=False)
class Window:
    """Some events of a plane: ``line`` their lines; ``name`` places in the table of names; times in ps from the line's
    begin; ``timeless``: counted, not timed; ``stat``: owner, numbers of names and values of what is known of them."""

    line: Ints
    name: Ints
    offset_ps: Ints
    duration_ps: Ints
    timeless: Mask
    stats: Stats | None
    stat_count: int


@dataclass(frozen=True, eq=False)
class Stats:
    """Values of events: ``owner`` the event's place in its window, ``key`` the number of the value's name, ``number``
    the integer (of a text that the table of names holds: its number there; NONE of a text of its own, which is between
    ``begin`` and ``end``)."""

    owner: Ints
    key: Ints
    number: Ints
    is_reference: Mask
    begin: Ints
    end: Ints


class Plane:
    """A plane, decoded as far as its lines."""

    def __init__(self, decoder: Decoder, fields: Fields) -> None:
        begin, end = fields.span(_PLANE_NAME)
        self.decoder, self.name = decoder, decoder.text(int(begin[0]), int(end[0]))
        self.names = name_table(decoder, fields.parts(_EVENT_NAMES), True)
        self.stat_names = name_table(decoder, fields.parts(_STAT_NAMES), False)
        _, lines = decoder.of(fields.parts(_LINES))
        self._events = lines.parts(_EVENTS)
        begin, end = lines.span(_LINE_NAME)
        shown, until = lines.span(_SHOWN_NAME)
        begin, end = np.where(until > shown, shown, begin), np.where(until > shown, until, end)
        names = [decoder.text(*span) for span in zip(begin.tolist(), end.tolist(), strict=True)]
        times = lines.last(_TIMESTAMP_NS).tolist()
        self.lines = [Line(*one) for one in zip(lines.last(_LINE_ID).tolist(), names, times, strict=True)]

    def __len__(self) -> int:
        return len(self._events[0])

    def windows(self, with_stats: bool) -> Iterator[Window]:
        """The events in the order of the file; ``with_stats``: with their values."""
        line, begin, end = self._events
        for first in range(0, len(line), _WINDOW):
            part = slice(first, first + _WINDOW)
            yield self._window(line[part].astype(np.int64), self.decoder.fields(begin[part], end[part]), with_stats)

    def _window(self, line: Ints, fields: Fields, with_stats: bool) -> Window:
        offset, duration = fields.last(_OFFSET_PS), fields.last(_DURATION_PS)
        timeless = np.zeros(fields.count, np.bool_)
        # Of these two, which exclude each other, the last one counts.
        either = np.flatnonzero(np.isin(fields.tag, (tag(_OFFSET_PS, NUMBER), tag(_OCCURRENCES, NUMBER))))
        timeless[fields.owner[either]] = fields.tag[either] == tag(_OCCURRENCES, NUMBER)
        parts = fields.parts(_EVENT_STATS)
        stats = self.stats(parts) if with_stats else None
        return Window(line, self.names.find(fields.last(_METADATA)), offset, duration, timeless, stats, len(parts[0]))

    def stats(self, parts: Parts) -> Stats:
        """Values, decoded."""
        owner, fields = self.decoder.of(parts)
        kinds = (tag(_UNSIGNED, NUMBER), tag(_SIGNED, NUMBER), tag(_REFERENCE, NUMBER), tag(_TEXT, BYTES))
        kind, number, begin, end = np.zeros((4, fields.count), np.int64)
        chosen = np.flatnonzero(np.isin(fields.tag, kinds))
        at = fields.owner[chosen]
        kind[at], number[at], end[at] = fields.tag[chosen], fields.value[chosen], fields.stop[chosen]
        is_text = kind == kinds[-1]
        begin[is_text], number[is_text] = number[is_text], NONE
        return Stats(owner.astype(np.int64), fields.last(_METADATA), number, kind == kinds[2], begin, end)

    def text_of(self, stats: Stats, at: int) -> str:
        """The text of a value, its own or of the table; "" if it is none."""
        if stats.is_reference[at]:
            place = int(self.stat_names.find(stats.number[at : at + 1])[0])
            return self.stat_names.text(place) if place >= 0 else ""
        return self.decoder.text(int(stats.begin[at]), int(stats.end[at])) if stats.end[at] > stats.begin[at] else ""
