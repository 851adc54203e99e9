"""Perfetto's own trace format, protobuf: tracks, slices with categories and interned names, arrows, counters.

Numbers of fields are those of Perfetto's public schema (``protos/perfetto/trace``): ``trace.proto``,
``trace_packet.proto``, ``track_event/track_descriptor.proto``, ``track_event/track_event.proto``,
``interned_data/interned_data.proto``. Times are nanoseconds. All packets are of one sequence, whose names are interned
before they are used.

An arrow leads from the slice that starts first to the other, whatever the packets say (``FlowTracker`` of its trace
processor), so one whose target starts before its source leads to the moment when the target ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.report.timeline.events import SIZE, Counter, Process
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.chakra.wire_out import DELIMITED, VARINT, WORD8, Messages, tag, text_field, varint

Ints = NDArray[np.int64]

PACKET: Final = tag(1, DELIMITED)
"""A packet in a trace."""
TIMESTAMP, TRACK_EVENT, SEQUENCE, INTERNED, FLAGS, DESCRIPTOR = 8, 11, 10, 12, 13, 60
"""Of a packet. All are of sequence 1."""
STATE_CLEARED, NEEDS_STATE = 1, 2
SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4
CATEGORIES, NAMES, ARGUMENTS = 1, 2, 3
"""Of interned data."""
EXPLICIT, APART = 3, 2
"""Tracks below one are in the order of their ranks, and not joined by name."""
BYTES: Final = 3
"""The unit of a counter."""
TRACKS: Final = 1 << 24
"""Tracks of a process, at most: their numbers follow that of the process."""
BATCH: Final = 200_000
"""Events written at a time."""


def write_packets(processes: Iterable[Process], file: BinaryIO) -> None:
    """Write the trace. Same processes, same bytes."""
    known = _Interned()
    file.write(_packet(_number(SEQUENCE, 1) + _number(FLAGS, STATE_CLEARED)))
    told: set[int] = set()
    for process in processes:
        if process.pid not in told:
            told.add(process.pid)
            file.write(_packet(_nested(DESCRIPTOR, _process(process))))
        for text in _descriptors(process):
            file.write(_packet(_nested(DESCRIPTOR, text)))
        columns = _Columns(process, known)
        if more := known.more():
            file.write(_packet(_number(SEQUENCE, 1) + _number(FLAGS, NEEDS_STATE) + _nested(INTERNED, more)))
        for events in columns.events():
            file.write(events)
        for number, counter in enumerate(process.counters):
            file.write(_values(counter, _counter_uuid(process, number)))


# -- pieces of messages ------------------------------------------------------------------------------------------------


def _number(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def _nested(number: int, message: bytes) -> bytes:
    return text_field(number, message)


def _text(number: int, text: str) -> bytes:
    return text_field(number, text.encode("utf-8", "replace"))


def _packet(message: bytes) -> bytes:
    return PACKET + varint(len(message)) + message


# -- tracks ------------------------------------------------------------------------------------------------------------


def _uuid(process: Process, number: int) -> int:
    """Of a process (0) or its tracks."""
    return process.pid * TRACKS + number


def _counter_uuid(process: Process, number: int) -> int:
    return _uuid(process, TRACKS // 2 + number)


def _process(process: Process) -> bytes:
    said = _number(1, process.pid) + _text(6, process.name) + _number(3, process.order)
    return _number(1, _uuid(process, 0)) + _nested(3, said) + _number(11, EXPLICIT) + _number(15, APART)


def _descriptors(process: Process) -> Iterator[bytes]:
    def below(number: int, name: str, rank: int) -> bytes:
        place = _number(1, number) + _number(5, _uuid(process, 0)) + _text(2, name)
        return place + _number(12, rank) + _number(15, APART)

    for track in process.tracks:
        yield below(_uuid(process, track.tid), track.name, track.tid)
    last = max((track.tid for track in process.tracks), default=0)
    for number, counter in enumerate(process.counters):
        unit = _number(3, BYTES) if counter.unit == SIZE else _text(6, counter.unit)
        yield below(_counter_uuid(process, number), counter.name, last + 1 + number) + _nested(8, unit)


# -- interned names ----------------------------------------------------------------------------------------------------


@dataclass
class _Interned:
    """Names and their numbers, by `CATEGORIES` and its neighbours, and those that the file does not have yet."""

    numbers: dict[int, dict[str, int]] = field(default_factory=lambda: {CATEGORIES: {}, NAMES: {}, ARGUMENTS: {}})
    fresh: list[bytes] = field(default_factory=list)

    def number(self, kind: int, name: str) -> int:
        known = self.numbers[kind]
        if name not in known:
            known[name] = len(known) + 1
            self.fresh.append(_nested(kind, _number(1, known[name]) + _text(2, name)))
        return known[name]

    def more(self) -> bytes:
        """What was added since the last time."""
        made, self.fresh = b"".join(self.fresh), []
        return made


# -- slices ------------------------------------------------------------------------------------------------------------


class _Columns:
    """The slices of a process, and what is interned for them."""

    def __init__(self, process: Process, known: _Interned) -> None:
        self.process = process
        tracks = process.tracks
        self.at = np.concatenate([np.zeros(0, np.int64), *(track.at for track in tracks)]).astype(np.int64)
        counts = [len(track.at) for track in tracks]
        self.track = np.repeat(np.array([_uuid(process, track.tid) for track in tracks], np.int64), counts)
        categories = [known.number(CATEGORIES, track.category or track.name) for track in tracks]
        self.category = np.repeat(np.array(categories, np.int64), counts)
        numbers = {
            name: known.number(NAMES, name) for name in dict.fromkeys(process.names[i] for i in self.at.tolist())
        }
        self.name = np.array([numbers[process.names[i]] for i in self.at.tolist()], np.int64)
        self.start = process.start_ns[self.at]
        self.end = self.start + process.duration_ns[self.at]
        self.id_name = known.number(ARGUMENTS, "id") if process.ids is not None else 0
        self.annotations = _Annotations(known, [process.args[i] for i in self.at.tolist()])
        self.arrows = _arrows(process, self.at)
        if any(len(owner) and to_end for owner, _, to_end in self.arrows):
            self.arrived = known.number(NAMES, "arrives"), known.number(CATEGORIES, "arrival")

    def events(self) -> Iterator[bytes]:
        """Packets in batches, by track and time; what ends at a time goes before what begins."""
        count = len(self.at)
        here = np.arange(count)
        late = np.unique(next((owner for owner, _, to_end in self.arrows if to_end), here[:0]))
        # Slices, then moments at the end of slices that arrows lead to.
        of = np.concatenate([here, late])
        begins = np.concatenate([self.start, self.end[late]])
        ends = np.concatenate([self.end, self.end[late]])
        number = np.arange(len(of))
        event = np.concatenate([number, number])
        is_end = np.repeat([False, True], len(of))
        time = np.concatenate([begins, ends])
        closes = is_end & (ends > begins)[event]
        order = np.lexsort((is_end, np.where(closes, -event, event), ~closes, time, self.track[of][event]))
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            yield self._packets(event[chosen], of[event[chosen]], is_end[chosen], time[chosen], count)

    def _packets(self, event: Ints, of: Ints, is_end: NDArray[np.bool_], time: Ints, count: int) -> bytes:
        """``event``: its slice, or ``count`` and more: a moment; ``of``: the slice in whose place it is."""
        size = len(event)
        every = np.arange(size)
        moment = event >= count
        begins = np.flatnonzero(~is_end)
        inner = Messages(size)
        name, category = self.name[of], self.category[of]
        if moment.any():
            name = np.where(moment, self.arrived[0], name)
            category = np.where(moment, self.arrived[1], category)
        inner.numbers(tag(3, VARINT), begins, _words(category[begins]))
        slices = begins[~moment[begins]]
        if self.id_name:
            assert self.process.ids is not None
            id_ = Messages(len(slices))
            id_.numbers(tag(1, VARINT), np.arange(len(slices)), _words(np.full(len(slices), self.id_name)))
            id_.numbers(tag(4, VARINT), np.arange(len(slices)), _words(self.process.ids[self.at[of[slices]]]))
            inner.nested(tag(4, DELIMITED), slices, id_)
        self.annotations.add(inner, slices, of[slices])
        inner.numbers(tag(9, VARINT), every, _words(np.where(is_end, SLICE_END, SLICE_BEGIN)))
        inner.numbers(tag(10, VARINT), begins, _words(name[begins]))
        inner.numbers(tag(11, VARINT), every, _words(self.track[of]))
        for owner, numbers, to_end in self.arrows:
            wanted = begins[moment[begins]] if to_end else slices
            _flows(inner, wanted, of[wanted], owner, numbers)
        return _framed(inner, time)


class _Annotations:
    """Arguments of slices as debug annotations, encoded once each."""

    def __init__(self, known: _Interned, texts: list[str]) -> None:
        blobs: dict[bytes, int] = {}
        of_text: dict[str, list[int]] = {}
        for text in dict.fromkeys(texts):
            said: Mapping[str, Any] = json.loads("{" + text[1:] + "}") if text else {}
            made = [_number(1, known.number(ARGUMENTS, key)) + _value(value) for key, value in said.items()]
            of_text[text] = [blobs.setdefault(blob, len(blobs)) for blob in made]
        lists = [of_text[text] for text in texts]
        self.count = np.array([len(one) for one in lists], np.int64)
        self.first = np.concatenate([[0], np.cumsum(self.count)])
        self.blob = np.array([blob for one in lists for blob in one], np.int64)
        self.table = StringTable.of([*blobs])

    def add(self, messages: Messages, owners: Ints, slices: Ints) -> None:
        """Add those of ``slices`` to the messages ``owners``."""
        count = self.count[slices]
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(self.first[slices], count) + within
        messages.texts(tag(4, DELIMITED), np.repeat(owners, count), self.table, self.blob[places])


def _value(value: object) -> bytes:
    match value:
        case bool():
            return _number(2, int(value))
        case int() if -(1 << 63) <= value < 1 << 63:
            return _number(4, value % (1 << 64))
        case float():
            return tag(5, WORD8) + np.float64(value).tobytes()
        case str():
            return _text(6, value)
        case _:
            return _text(6, json.dumps(value))


# -- arrows ------------------------------------------------------------------------------------------------------------


def _arrows(process: Process, at: Ints) -> list[tuple[Ints, Ints, bool]]:
    """Slices (by place in ``at``, ascending) and their arrows; True: these lead to the slice's end."""
    if not process.arrows:
        return []
    place = np.full(len(process.names), -1, np.int64)
    place[at] = np.arange(len(at))
    owner = place[np.concatenate([one.entry for one in process.arrows])]
    number = np.concatenate([one.number for one in process.arrows])
    late = np.concatenate([one.to_end if one.to_end is not None else np.zeros(len(one.entry), np.bool_)
                           for one in process.arrows])  # fmt: skip
    found = []
    for to_end in (False, True):
        own = np.flatnonzero((owner >= 0) & (late == to_end))
        own = own[np.argsort(owner[own], kind="stable")]
        found.append((owner[own], number[own], to_end))
    return found


def _flows(messages: Messages, owners: Ints, slices: Ints, owner: Ints, numbers: Ints) -> None:
    """Add the arrows of ``slices`` to the messages ``owners``."""
    first, last = np.searchsorted(owner, slices), np.searchsorted(owner, slices, "right")
    count = last - first
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    chosen = numbers[np.repeat(first, count) + within]
    messages.words(tag(47, WORD8), np.repeat(owners, count), _words(chosen), 8)


# -- counters ----------------------------------------------------------------------------------------------------------


def _values(counter: Counter, uuid: int) -> bytes:
    size = len(counter.times_ns)
    every = np.arange(size)
    inner = Messages(size)
    inner.numbers(tag(9, VARINT), every, _words(np.full(size, COUNTER)))
    inner.numbers(tag(11, VARINT), every, _words(np.full(size, uuid)))
    if counter.values.dtype.kind == "f":
        inner.words(tag(44, WORD8), every, counter.values.astype(np.float64).view(np.uint64), 8)
    else:
        inner.numbers(tag(30, VARINT), every, _words(counter.values.astype(np.int64)))
    return _framed(inner, counter.times_ns)


def _framed(events: Messages, time: Ints) -> bytes:
    """Track events as packets."""
    size = len(time)
    every = np.arange(size)
    packets = Messages(size)
    packets.numbers(tag(TIMESTAMP, VARINT), every, _words(time))
    packets.constant(tag(SEQUENCE, VARINT) + varint(1) + tag(FLAGS, VARINT) + varint(NEEDS_STATE), every)
    packets.nested(tag(TRACK_EVENT, DELIMITED), every, events)
    return bytes(packets.framed(PACKET))


def _words(values: Ints) -> NDArray[np.uint64]:
    return values.astype(np.int64).view(np.uint64)
