"""Reading Kineto traces: one pass of a compiled scanner, straight into columns, a window of the file at a time."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.totals import checked, total
from chakrasim.trace.json.rare import RareColumns
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto.columns import KinetoTrace

if TYPE_CHECKING:
    from chakrasim.trace.json.records import Format, Records

_BYTES_PER_EVENT: Final = 160  # only a first guess; columns that are too long cost no memory until they are used
_PACKED: Final = 12  # how many times larger a compressed file is when unpacked; a first guess, too
_COLUMNS: Final = (
    *(np.int32, np.uint8, np.int32, np.int32, np.int64, np.int64, np.int64, np.int64, np.uint16, np.int32),
    *(np.int64, np.int64, np.int64, np.int64),
)
_NAMES: Final = (
    *("index", "phase", "category", "name", "pid", "tid", "ts_ns", "dur_ns", "flags", "device"),
    *("stream", "correlation", "external_id", "rf_id"),
)


@lists_too
def read_kineto(
    path: str | os.PathLike[str],
    *,
    keep: str = "all",
    lenient: bool = False,
    notes: Notes | None = None,
) -> KinetoTrace:
    """The trace in the file ``path`` (plain or gzip, told by content).

    ``keep``: "all" events, or "work": only those with a duration and a category (no flow arrows, no metadata, no
    Python stack). Raises InputError for damaged files; ``lenient`` recovers them, with a warning that counts what was
    lost and says where. Memory is that of the columns and a few MiB.
    """
    from chakrasim.trace.json.records import Records

    if keep not in ("all", "work"):
        raise InputError("unknown selection of events", found=repr(keep), expected="'all' or 'work'")
    source = os.fspath(path)
    notes = Notes() if notes is None else notes
    records = Records(source, _format(), lenient=lenient)
    with records.file:
        columns = _Columns(records, work_only=keep == "work", lenient=lenient)
        for _ in records.batches():
            columns.take()
    records.require_records()
    header = records.header(notes)
    trace = columns.trace(source, header, notes)
    notes.warn(*(f"{source}: {note}" for note in _notes(trace.counts)))
    return trace


@cache
def _format() -> Format:
    from chakrasim.trace import recognise
    from chakrasim.trace.json.records import Format, vocabulary
    from chakrasim.trace.kineto import events

    levels = [events.DOCUMENT_KEYS, events.EVENT_KEYS, events.ARGS_KEYS]
    return Format(
        record="an event",
        expected=recognise.KINETO,
        vocabulary=vocabulary(levels, enters={"args": 2}, listed=0, around=[0, 0, 1], needed="ph"),
    )


class _Columns:
    """The arrays that the kernel fills."""

    def __init__(self, records: Records, *, work_only: bool, lenient: bool) -> None:
        from chakrasim.trace.kineto import events

        self.records = records
        self.work_only, self.strict = work_only, not lenient
        self._begin()
        guess = records.file.size * (_PACKED if records.file.packed else 1) // _BYTES_PER_EVENT + 64
        guess = min(guess, records.file.bound.bytes // sum(np.dtype(kind).itemsize for kind in _COLUMNS))
        self.columns: tuple[NDArray[Any], ...] = tuple(np.empty(guess, kind) for kind in _COLUMNS)
        self.scratch = np.zeros((2, 2 * events.KEYS), np.int64)
        self.restarts = 0

    def _begin(self) -> None:
        from chakrasim.trace.json.records import StringPool
        from chakrasim.trace.kineto import events

        self.count = np.zeros(events.COUNT_SIZE, np.int64)
        self.count[events.WORK_ONLY], self.count[events.STRICT_TIMES] = self.work_only, self.strict
        self.strings = StringPool(self.count)
        self.rare = RareColumns(k.RARE_ARGS)

    def take(self) -> None:
        """Take what the scanner has found."""
        from chakrasim.trace.kineto import events

        self._restart_at_a_second_list()
        count, records = self.count, self.records
        count[events.TAKEN] = 0
        while True:
            status = events.take_events(
                records.buffer, records.state, records.tokens, self.columns, self.rare.pool, self.strings.arrays, count,
                self.scratch,
            )  # fmt: skip
            if status == events.BAD_TIME:
                raise self._bad_time()
            if status != events.GROW:
                break
            self._grow()
        records.check_memory(self.columns, self.strings)
        self.rare.settle(int(count[events.RARES]), records.buffer)
        if 2 * count[events.RARES] > len(self.rare.pool[0]):
            self.rare.flush(int(count[events.RARES]))
            count[events.RARES] = 0

    def _restart_at_a_second_list(self) -> None:
        if self.restarts != self.records.restarts:
            self.restarts = self.records.restarts
            self._begin()

    def _grow(self) -> None:
        from chakrasim.trace.json.records import enlarge
        from chakrasim.trace.kineto import events

        count, file = self.count, self.records.file
        tokens, size = self.records.next_record(int(count[events.TAKEN]))
        texts = tokens + 4
        self.strings.reserve(texts, 3 * size + 16)
        if count[events.RARES] + texts > len(self.rare.pool[0]):
            self.rare.settle(int(count[events.RARES]), self.records.buffer)
            self.rare.flush(int(count[events.RARES]))
            count[events.RARES] = 0
            self.rare.reserve(texts)
        rows = int(count[events.ROWS])
        if rows >= len(self.columns[0]):
            expected = rows * file.size // max(file.taken, 1)
            room = max(expected + expected // 10, rows + rows // 4 + 64)
            self.records.check_memory((), self.strings, room * sum(column.itemsize for column in self.columns))
            # one at a time, so that at most one column is there twice
            columns = list(self.columns)
            self.columns = ()
            for at in range(len(columns)):
                columns[at] = enlarge(columns[at], room)
            self.columns = tuple(columns)

    def _bad_time(self) -> InputError:
        from chakrasim.trace.kineto import events

        start = int(self.count[events.BAD_PLACE])
        return InputError(
            "an event has a time that cannot be used",
            file=self.records.path,
            place=self.records.place_in_buffer(start),
            found=self.records.found(start, 120),
            expected="ts and dur as numbers of microseconds, not negative, below 2**63 nanoseconds",
            remedy="correct the event, or read the file leniently (--lenient) to leave it out",
        )

    def trace(self, source: str, header: dict[str, Any], notes: Notes) -> KinetoTrace:
        """The trace; nothing may be taken afterwards."""
        from chakrasim.trace.json import tokens as js
        from chakrasim.trace.json.values import REPAIRED
        from chakrasim.trace.kineto import events

        self._restart_at_a_second_list()
        count = self.count
        bare = bool(self.records.state[js.BARE]) and count[events.SEEN] > count[events.NO_WORK]
        if bare and not np.any(self.columns[events.FLAGS][: count[events.ROWS]] & k.HAS_TS):
            self.records.refuse_records("a list of other things")
        self.rare.flush(int(count[events.RARES]))
        arrays = {}
        for name, column in zip(_NAMES, self.columns, strict=True):
            column.resize(int(count[events.ROWS]), refcheck=False)
            arrays[name] = column
        slots = {
            "events without duration or category": events.NO_WORK,
            "python_function events": events.PYTHON,
            "events with a duration, but no category": events.NO_CATEGORY,
            "events with unusable times": events.BAD_TIMES,
            "times rounded to nanoseconds": events.ROUNDED,
            "values of an unexpected kind": events.ODD_VALUES,
            "integers beyond 64 bits": events.LARGE,
            "elements that are no events": events.NO_OBJECT,
            "texts with invalid characters": REPAIRED,
        }
        counts = {name: int(count[slot]) for name, slot in slots.items() if count[slot]}
        numbers = int(self.records.state[js.NON_FINITE])
        if numbers:
            counts["numbers that are not finite"] = numbers
        if self.restarts:
            counts["earlier traceEvents lists"] = self.restarts
        self.records.report(int(count[events.ROWS]), notes, counts)
        # So that no sum of durations wraps, whatever is added up.
        checked(total(arrays["dur_ns"]), "the durations of all events together, in ns,", source)
        return KinetoTrace(
            source, self.strings.build(), rare=self.rare.build(), header=header,
            event_count=int(count[events.SEEN]), counts=counts, **arrays,
        )  # fmt: skip


def _notes(counts: dict[str, int]) -> list[str]:
    """What of the counts deserves a warning."""
    said = {
        "events with a duration, but no category": "{} events have a duration, but no category that says what they "
        "are: they count neither as the host's work nor as the device's",
        "events with unusable times": "left out {} events whose ts or dur is no number, negative or too large",
        "times rounded to nanoseconds": "rounded {} times that are finer than a nanosecond",
        "elements that are no events": "left out {} elements of traceEvents that are no objects",
        "texts with invalid characters": "replaced invalid characters in {} texts",
        "earlier traceEvents lists": "left out {} lists traceEvents: the last one counts",
    }
    return [text.format(counts[name]) for name, text in said.items() if counts.get(name)]
