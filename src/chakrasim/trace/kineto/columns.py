"""A device trace of the PyTorch profiler (Kineto, Chrome trace JSON) in memory: columns, in file order."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.shown import Shown
from chakrasim.trace.chakra.graph import StringTable

Ints = NDArray[np.int64]
Indices = NDArray[np.int32]
Mask = NDArray[np.bool_]

#: Bits of ``KinetoTrace.flags``.
HAS_TS, HAS_DUR, HAS_CATEGORY, HAS_NAME, HAS_ARGS = 1, 2, 4, 8, 16
TS_IS_FLOAT, DUR_IS_FLOAT = 32, 64
"""The number was written with a point or an exponent (the reference tools then compute with floats)."""
HAS_TID, TID_IS_TEXT, PID_IS_TEXT = 128, 256, 512
STREAM_IS_TEXT = 1024
"""``args.stream`` was a text, of digits or not (one reference tool then fails)."""

#: The dense columns of a `KinetoTrace`, in the order in which they are filled.
COLUMNS: Final[dict[str, Any]] = {
    "index": np.int32,
    "phase": np.uint8,
    "category": np.int32,
    "name": np.int32,
    **dict.fromkeys(("pid", "tid", "ts_ns", "dur_ns"), np.int64),
    "flags": np.uint16,
    "device": np.int32,
    **dict.fromkeys(("stream", "correlation", "external_id", "rf_id"), np.int64),
}

#: What ``RareColumn.kind`` says of a value.
INTEGER, REAL, TEXT, JSON = 1, 2, 3, 4

#: The value that readers give to calls that carry out what another thread put into a queue: its call's correlation id.
TASK_OF: Final = "task of the call with the correlation id"

UNSORTED: Final = "events with a duration, but no category"
UNSORTED_SAID: Final = "events have a duration, but no category that says what they are"
"""Their name in ``KinetoTrace.counts``, and what is said of them."""

#: Arguments (``args`` of an event) that have a dense column; all others that anybody needs are in ``rare``.
RARE_ARGS: Final = (
    *("wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "bytes"),
    *("memory bandwidth (GB/s)", "Collective name", "In msg nelems", "Out msg nelems", "In split size"),
    *("Out split size", "dtype", "Group size", "Global rank start", "Global rank stride", "Process Group Name"),
    *("Process Group Description", "Process Group Ranks", "Rank", "Src Rank", "Dst Rank", "Seq", "Is Async", "Is P2P"),
    *("Comms Id", "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Sequence number", "Fwd thread id"),
    *("Device Type", "Device Id", "Total Allocated", "Total Reserved"),
    *("size(B)", "MHz"),  # of Ascend's copies and counters
    *("graph node id", "graph id", "Python id", "Python parent id", "Ev Idx", "name", "labels"),
    # flow and async events keep their top-level "id" here
    "id",
    # the exact text of a "ts" or "dur" that int64 nanoseconds cannot hold (more than three decimals, an exponent)
    *("ts text", "dur text"),
)


@dataclass(frozen=True, eq=False)
class RareColumn:
    """A value that few events have: ``rows`` int32[k], ascending; ``kind`` uint8[k] (INTEGER, REAL, TEXT, JSON);
    ``bits`` int64[k]: the integer, the bits of the float64, or a string index (JSON: the text as it stood there).

    An integer beyond 64 bits is TEXT; ``true``, ``false`` and ``null`` are JSON.
    """

    rows: NDArray[np.int32]
    kind: NDArray[np.uint8]
    bits: Ints

    def integers(self, size: int, default: int = -1) -> Ints:
        """int64[size]: the integer of each row, ``default`` where there is none."""
        dense = np.full(size, default, np.int64)
        whole = self.kind == INTEGER
        dense[self.rows[whole]] = self.bits[whole]
        return dense

    def reals(self, size: int) -> NDArray[np.float64]:
        """float64[size]: the number of each row, 0 where there is none."""
        dense = np.zeros(size, np.float64)
        whole = self.kind == INTEGER
        dense[self.rows[whole]] = self.bits[whole]
        real = self.kind == REAL
        dense[self.rows[real]] = self.bits[real].view(np.float64)
        return dense

    def texts(self, size: int) -> NDArray[np.int32]:
        """int32[size]: the string index of each row, 0 where there is no text (JSON counts as text)."""
        dense = np.zeros(size, np.int32)
        text = self.kind >= TEXT
        dense[self.rows[text]] = self.bits[text]
        return dense


EMPTY_RARE: Final = RareColumn(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class KinetoTrace(Shown):
    """The events of one Kineto file, ``n`` rows in file order.

    Attributes
    ----------
    source: the file's name, for messages.
    strings: all names, categories and texts; entry 0 is "".
    index: int32[n], the event's position in ``traceEvents`` (what damage has lost is not counted).
    phase: uint8[n], code of the character of ``ph`` ("X" complete, "i" instant, "M" metadata, "s"/"f" flow); 0: none.
    category, name: int32[n], string index.
    pid, tid: int64[n]; a text (Kineto has ``"pid": "Spans"``) is ``-2 - string index``; 0 where absent.
    ts_ns, dur_ns: int64[n], nanoseconds, without loss; 0 where absent (see ``flags``).
    flags: uint16[n], HAS_TS and its neighbours.
    device: int32[n]; stream, correlation, external_id, rf_id: int64[n] ("Record function id"); all -1 where absent or
        no integer (a stream that is text of digits counts; other texts are counted in ``counts``).
    rare: the arguments of RARE_ARGS that occur, by name.
    header: everything of the file beside ``traceEvents`` (``distributedInfo``, ``deviceProperties``, ...).
    event_count: number of elements of ``traceEvents``, kept or not.
    counts: what was left out, repaired or guessed, by a short name, for reports.
    """

    source: str
    strings: StringTable
    index: NDArray[np.int32]
    phase: NDArray[np.uint8]
    category: NDArray[np.int32]
    name: NDArray[np.int32]
    pid: Ints
    tid: Ints
    ts_ns: Ints
    dur_ns: Ints
    flags: NDArray[np.uint16]
    device: NDArray[np.int32]
    stream: Ints
    correlation: Ints
    external_id: Ints
    rf_id: Ints
    rare: dict[str, RareColumn]
    header: dict[str, Any]
    event_count: int
    counts: dict[str, int] = field(default_factory=dict)

    def _in_short(self) -> dict[str, str]:
        return {"events": f"{len(self):,}", "of": f"{self.event_count:,}", "source": self.source}

    def __len__(self) -> int:
        return len(self.ts_ns)

    def has(self, bit: int) -> NDArray[np.bool_]:
        """bool[n]: which rows have this bit of ``flags``."""
        found: NDArray[np.bool_] = (self.flags & bit) != 0
        return found

    def rare_column(self, name: str) -> RareColumn:
        """The rare argument ``name``; an empty column if no event has it."""
        return self.rare.get(name, EMPTY_RARE)

    def text_of(self, identity: int) -> str:
        """A pid or tid as the file has it."""
        # Old traces have negative numbers of threads too, far below the index of any text.
        is_text = -2 - len(self.strings) < identity <= -2
        return self.strings[-2 - identity] if is_text else str(identity)

    def find(self, text: str) -> int:
        """The index of ``text`` in ``strings``, -1 if no event uses it."""
        return self._lookup.get(text.encode("utf-8", "surrogatepass"), -1)

    @cached_property
    def _lookup(self) -> dict[bytes, int]:
        blob = self.strings.blob.tobytes()
        return {blob[begin:end]: index for index, (begin, end) in enumerate(pairwise(self.strings.offsets.tolist()))}

    def where(self, column: NDArray[np.int32], *texts: str) -> NDArray[np.bool_]:
        """bool[n]: rows whose ``column`` (category or name) is one of these texts."""
        wanted = [self.find(text) for text in texts]
        found: NDArray[np.bool_] = np.isin(column, [index for index in wanted if index >= 0])
        return found
