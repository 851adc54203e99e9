"""Taking the events of a Kineto trace into columns."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.notes import Notes
from chakrasim.totals import checked, total
from chakrasim.trace import recognise
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json.records import Format, Records, enlarge, vocabulary
from chakrasim.trace.json.taking import Taker
from chakrasim.trace.json.values import REPAIRED
from chakrasim.trace.kineto import columns as k
from chakrasim.trace.kineto import events
from chakrasim.trace.kineto.columns import COLUMNS, KinetoTrace

_BYTES_PER_EVENT: Final = 160  # only a first guess; columns that are too long cost no memory until they are used
_PACKED: Final = 12  # how many times larger a compressed file is when unpacked; a first guess, too
_COUNTED: Final = {
    "events without duration or category": events.NO_WORK,
    "python_function events": events.PYTHON,
    k.UNSORTED: events.NO_CATEGORY,
    "events with unusable times": events.BAD_TIMES,
    "times rounded to nanoseconds": events.ROUNDED,
    "values of an unexpected kind": events.ODD_VALUES,
    "integers beyond 64 bits": events.LARGE,
    "elements that are no events": events.NO_OBJECT,
    "texts with invalid characters": REPAIRED,
}
FORM: Final = Format(
    record="an event",
    expected=recognise.KINETO,
    vocabulary=vocabulary(
        [events.DOCUMENT_KEYS, events.EVENT_KEYS, events.ARGS_KEYS],
        enters={"args": 2},
        listed=0,
        around=[0, 0, 1],
        needed="ph",
    ),
)


class EventTaker(Taker[KinetoTrace]):
    """Takes events."""

    refusal = (
        "an event has a time that cannot be used",
        "ts and dur as numbers of microseconds, not negative, below 2**63 nanoseconds",
        120,
    )
    said: ClassVar = {
        k.UNSORTED: f"{{}} {k.UNSORTED_SAID}: they count neither as the host's work nor as the device's",
        "events with unusable times": "left out {} events whose ts or dur is no number, negative or too large",
        "times rounded to nanoseconds": "rounded {} times that are finer than a nanosecond",
        "elements that are no events": "left out {} elements of traceEvents that are no objects",
        "texts with invalid characters": "replaced invalid characters in {} texts",
        "earlier traceEvents lists": "left out {} lists traceEvents: the last one counts",
    }

    def __init__(self, records: Records, *, work_only: bool, lenient: bool) -> None:
        options = {events.WORK_ONLY: work_only, events.STRICT_TIMES: not lenient}
        super().__init__(records, events, k.RARE_ARGS, options)
        guess = records.file.size * (_PACKED if records.file.packed else 1) // _BYTES_PER_EVENT + 64
        guess = min(guess, records.file.bound.bytes // sum(np.dtype(kind).itemsize for kind in COLUMNS.values()))
        self.columns: tuple[NDArray[Any], ...] = tuple(np.empty(guess, kind) for kind in COLUMNS.values())
        self.scratch = np.zeros((2, 2 * events.KEYS), np.int64)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.columns

    def take(self) -> None:
        super().take()
        if 2 * self.count[events.RARES] > len(self.rare.pool[0]):
            self.empty_rare_pool()

    def run(self) -> Any:
        records = self.records
        return events.take_events(
            records.buffer, records.state, records.tokens, self.columns, self.rare.pool, self.strings.arrays,
            self.count, self.scratch,
        )  # fmt: skip

    def grow(self, tokens: int, size: int) -> None:
        self.reserve_values(tokens, tokens + 4, size)
        file, rows = self.records.file, int(self.count[events.ROWS])
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

    def build(self, header: dict[str, Any], notes: Notes) -> KinetoTrace:
        count = self.count
        bare = bool(self.records.state[js.BARE]) and count[events.SEEN] > count[events.NO_WORK]
        if bare and not np.any(self.columns[events.FLAGS][: count[events.ROWS]] & k.HAS_TS):
            self.records.refuse_records()
        self.empty_rare_pool()
        for column in self.columns:
            column.resize(int(count[events.ROWS]), refcheck=False)
        arrays: dict[str, Any] = dict(zip(COLUMNS, self.columns, strict=True))
        counts = self.report(notes, _COUNTED, "earlier traceEvents lists")
        # So that no sum of durations wraps, whatever is added up.
        checked(total(arrays["dur_ns"]), "the durations of all events together, in ns,", self.records.path)
        self.tell(notes, counts)
        return KinetoTrace(
            self.records.path, self.strings.build(), rare=self.rare.build(), header=header,
            event_count=int(count[events.SEEN]), counts=counts, **arrays,
        )  # fmt: skip
