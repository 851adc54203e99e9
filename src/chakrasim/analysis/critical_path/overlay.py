"""The critical path drawn into the recorded trace: events marked, arrows from one to the next, for a trace viewer."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from chakrasim.analysis.critical_path.path import LinkedPath
from chakrasim.errors import InputError
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.linked.columns import EdgeKind, LinkedTrace, RowKind

_CONTEXT: Final = ("user_annotation", "python_function")
_WITHIN_A_LANE: Final = (EdgeKind.CONTROL, EdgeKind.THREAD, EdgeKind.STREAM)


@dataclass(frozen=True)
class Arrow:
    """From one event to another, by their positions in ``traceEvents``; ``at_end``: whether it leaves (reaches) the
    event where that ends. ``category`` and ``details`` are the arrow's own ``cat`` and ``args``."""

    source: int
    source_at_end: bool
    target: int
    target_at_end: bool
    category: str
    details: dict[str, Any]


def write_overlay(
    trace: str | os.PathLike[str], out: str | os.PathLike[str], events: set[int], arrows: list[Arrow], keep_all: bool
) -> int:
    """Write ``trace`` with ``events`` marked (argument ``critical``) and ``arrows`` added; compressed if ``out`` ends
    in .gz. Without ``keep_all``, other complete events are left out, except annotations and Python's.

    The file is taken event by event: what is held is its text and the events that ``arrows`` refer to. Returns the
    number of arrows. Raises InputError if a file cannot be read, is no Kineto trace or is
    another maker's profile, or cannot be written.
    """
    from chakrasim.files.outputs import write_pieces
    from chakrasim.files.storage import read_unpacked
    from chakrasim.trace.profiles.kinds import refuse_profile

    source = os.fspath(trace)
    refuse_profile(source, "a critical path")
    raw = read_unpacked(source, expected="a Kineto trace", held=2)
    needed = {end for arrow in arrows for end in (arrow.source, arrow.target)}
    pieces = _overlaid(raw.decode("utf-8", "replace"), source, events, needed, arrows, keep_all)
    target = Path(out)
    write_pieces(target, _compressed(pieces) if target.name.endswith(".gz") else pieces)
    return len(arrows)


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for piece in pieces:
            file.write(piece)
            if buffer.tell() > 1 << 20:
                yield buffer.getvalue()
                buffer.seek(0)
                buffer.truncate()
    yield buffer.getvalue()


def _overlaid(
    text: str, source: str, events: set[int], needed: set[int], arrows: list[Arrow], keep_all: bool
) -> Iterator[bytes]:
    """The new file, piece by piece."""
    cursor = _Cursor(text, source)
    seen = False
    if cursor.closes("["):
        yield b"[\n"
        yield from _events(cursor, events, needed, arrows, keep_all)
        yield b"\n]\n"
        return
    cursor.past("{")
    yield b"{"
    while not cursor.closes("}"):
        begin = cursor.at
        key = cursor.skip()
        cursor.past(":")
        yield text[begin : cursor.at].encode("utf-8", "replace")
        if key == "traceEvents":
            seen = True
            yield b"[\n"
            yield from _events(cursor, events, needed, arrows, keep_all)
            yield b"\n]"
        else:
            begin = cursor.at
            cursor.skip()
            yield text[begin : cursor.at].encode("utf-8", "replace")
        if not cursor.closes("}"):
            cursor.past(",")
            yield b",\n"
    yield b"}\n"
    if not seen:
        raise InputError("the file has no traceEvents", file=source, expected="a Kineto trace")


def _events(
    cursor: _Cursor, events: set[int], needed: set[int], arrows: list[Arrow], keep_all: bool
) -> Iterator[bytes]:
    """The elements of ``traceEvents``, then the arrows."""
    ends: dict[int, dict[str, Any]] = {}
    comma = b""
    number = 0
    cursor.past("[")
    while not cursor.closes("]"):
        begin = cursor.at
        event = cursor.skip()
        content = cursor.text[begin : cursor.at]
        if number in needed:
            ends[number] = event
        if number in events:
            args = event.get("args", {})
            event["args"] = {**(args if isinstance(args, dict) else {"args": args}), "critical": 1}
            content = json.dumps(event)
        if number in events or keep_all or not _is_dull(event):
            yield comma + content.encode("utf-8", "replace")
            comma = b",\n"
        number += 1
        if not cursor.closes("]"):
            cursor.past(",")
    cursor.past("]")
    for number, arrow in enumerate(arrows):
        for begins in (True, False):
            yield comma + json.dumps(_flow(arrow, number, begins, ends, cursor.source)).encode()
            comma = b",\n"


def _is_dull(event: Any) -> bool:
    """Whether a view of the critical events can do without this one."""
    return isinstance(event, dict) and event.get("ph") == "X" and str(event.get("cat", "")) not in _CONTEXT


def _flow(arrow: Arrow, number: int, begins: bool, ends: dict[int, dict[str, Any]], source: str) -> dict[str, Any]:
    at, at_end = (arrow.source, arrow.source_at_end) if begins else (arrow.target, arrow.target_at_end)
    event = ends.get(at)
    if event is None:
        raise InputError("the trace has changed since it was analysed", file=source, place=f"event {at}")
    ts = event["ts"]
    if at_end:
        ts += event.get("dur", 0)
        args = event.get("args")
        device = args.get("device", -1) if isinstance(args, dict) else -1
        if isinstance(device, int) and device >= 0:
            ts -= min(1, event.get("dur", 0))  # so that a viewer ties the arrow to this event, not to what follows
    flow = {
        "ph": "s" if begins else "f",
        "id": number,
        "pid": event.get("pid", 0),
        "tid": event.get("tid", 0),
        "ts": int(ts),
        "cat": arrow.category,
        "name": "critical_path",
        "args": arrow.details,
    }
    return flow if begins else flow | {"bp": "e"}


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text} is out of range")
    return number


class _Cursor:
    """A place in a JSON text, moved over one value or sign after another."""

    _blanks = re.compile(r"[ \t\n\r]*")
    _decode = staticmethod(json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).raw_decode)

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.at = 0
        self._pass_blanks()

    def skip(self) -> Any:
        """Move over a value; returns it."""
        try:
            value, self.at = self._decode(self.text, self.at)
        except (ValueError, RecursionError) as fault:
            raise InputError(f"the file is damaged: {fault}", file=self.source) from None
        return value

    def closes(self, sign: str) -> bool:
        """Whether the next sign is this one."""
        self._pass_blanks()
        return self.text.startswith(sign, self.at)

    def past(self, sign: str) -> None:
        """Move over a sign that must stand here."""
        if not self.closes(sign):
            place = f"character {self.at}"
            raise InputError("the file is damaged", file=self.source, place=place, expected=repr(sign))
        self.at += 1
        self._pass_blanks()

    def _pass_blanks(self) -> None:
        match = self._blanks.match(self.text, self.at)
        self.at = match.end() if match else self.at


def linked_arrows(linked: LinkedTrace, path: LinkedPath, kineto: KinetoTrace) -> tuple[set[int], list[Arrow], int]:
    """Events and arrows of a linked trace's path: arrows where it goes from one thread or stream to another. Also how
    many rows of the path stand for no event of the file (gaps aside)."""
    event_of = _events_of(linked, path, kineto)
    arrows = []
    for at in range(1, len(path)):
        edge = int(path.edges[at])
        kind = EdgeKind(int(linked.edge_kind[edge]))
        source, target = event_of[at - 1], event_of[at]
        if kind in _WITHIN_A_LANE or source < 0 or target < 0:
            continue
        launched = kind is EdgeKind.LAUNCH
        waited = linked.wait_ns[path.rows[at]] > 0
        details = {"weight": int(path.delay_ns[at]) // 1000, "critical": True, "type": kind.name.lower()}
        arrows.append(Arrow(source, not launched, target, bool(waited), "critical_path", details))
    events = {event for event in event_of if event >= 0}
    missing = sum(
        event < 0 and linked.kind[row] != RowKind.GAP for event, row in zip(event_of, path.rows.tolist(), strict=True)
    )
    return events, arrows, missing


def _events_of(linked: LinkedTrace, path: LinkedPath, kineto: KinetoTrace) -> list[int]:
    """For each row of the path the position of its event in the file, -1 where there is none."""
    rows = linked.head[path.rows]
    wanted: dict[tuple[str, int], list[int]] = {}
    starts = np.isin(kineto.ts_ns, linked.start_ns[rows])
    for event in np.flatnonzero(starts & (kineto.phase == ord("X"))).tolist():
        key = (kineto.strings[int(kineto.name[event])], int(kineto.ts_ns[event]))
        wanted.setdefault(key, []).append(event)
    found = []
    for row in rows.tolist():
        same = wanted.get((linked.strings[int(linked.name[row])], int(linked.start_ns[row])), [])
        lane = linked.lanes[int(linked.lane[row])]
        fitting = [event for event in same if _is_in(kineto, event, lane.identity, lane.device, lane.stream)]
        found.append(int(kineto.index[(fitting or same)[0]]) if same and linked.kind[row] != RowKind.GAP else -1)
    return found


def _is_in(kineto: KinetoTrace, event: int, identity: str, device: int, stream: int) -> bool:
    if device >= 0:
        return bool(kineto.device[event] == device and kineto.stream[event] == stream)
    return kineto.text_of(int(kineto.tid[event])) == identity
