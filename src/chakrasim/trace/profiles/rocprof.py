"""Traces of rocprof, versions 1 and 2, in Chrome's form (``rocprof --hip-trace``, ``--hsa-trace``, ``--roctx-trace``).

Processes of the file are sorts of events ("CPU HIP API", "COPY", "GPU0", ...). Numbers are texts; ``args`` have the
times in ns, while ``ts`` and ``dur`` are cut to whole microseconds. No event has a correlation id: arrows lead from a
call to what it launched, by microsecond and thread, and calls of a thread come one after another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.files.storage import Stream
from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.profiles.build import NONE, Part, Texts, assemble, one_process
from chakrasim.trace.profiles.kinds import ROCPROF
from chakrasim.trace.profiles.records import FAULTS, Rows, document

_NUMBERED: Final = re.compile(r"(?:\d+ )?(.*)")
_CATEGORIES: Final = {
    "CPU HIP API": "hip_runtime",
    "CPU HSA API": "hsa_runtime",
    "CPU KFD API": "kfd_call",
    "Markers and Ranges": "user_annotation",
    "COPY": "gpu_memcpy",
}
_OTHER: Final = "other"
_DEVICE: Final = re.compile(r"GPU(\d{1,6})")
_COPY: Final = re.compile(r"Copy(Host|Device)To(Host|Device)")
_BARRIER: Final = "<barrier packet>"
_COLUMNS: Final = 10


@dataclass
class _Events:
    """What the list of events holds."""

    file: Stream
    texts: Texts = field(default_factory=Texts)
    labels: dict[int, str] = field(default_factory=dict)
    flows: dict[int, dict[bool, tuple[int, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = Rows(_COLUMNS, self._row, self.file)

    def take(self, events: list[Any]) -> None:
        """Sort events out."""
        spans = []
        for event in events:
            phase = event.get("ph") if isinstance(event, dict) else None
            if phase == "X":
                spans.append(event)
            elif event:
                self._other(event, phase)
        self.rows.add(spans)

    def _other(self, event: Any, phase: Any) -> None:
        try:
            if phase == "M" and event["name"] == "process_name":
                match = _NUMBERED.fullmatch(event["args"]["name"])
                self.labels[int(event["pid"])] = match[1] if match else ""
            elif phase in ("s", "t", "f"):
                ends = self.flows.setdefault(int(event["id"]), {})
                ends[phase == "s"] = (int(event["pid"]), int(event["tid"]), _ns(event["ts"]) // 1000)
            elif phase != "M":
                self.rows.odd += 1
        except FAULTS:
            self.rows.odd += 1

    def _row(self, event: Any) -> list[int]:
        args = event.get("args") or {}
        get, start = args.get, _ns(event["ts"])
        exact = "BeginNs" in args and "EndNs" in args
        times = (int(args["BeginNs"]), int(args["EndNs"])) if exact else (start, start + _ns(event.get("dur", 0)))
        name = event.get("name")
        return [
            int(event["pid"]), int(event["tid"]), start // 1000, *times, int(get("dev-id", NONE)),
            int(get("queue-id", NONE)), int(get("stream-id", NONE)), int(get("proc-id", NONE)),
            self.texts.place(name if isinstance(name, str) else ""),
        ]  # fmt: skip


def _ns(microseconds: Any) -> int:
    """Microseconds, a number or its text, in ns."""
    if isinstance(microseconds, str):
        whole, _, part = microseconds.partition(".")
        return int(whole) * 1000 + (int((part + "000")[:3]) if part else 0)
    value: int = round(microseconds * 1000)
    return value


def read_rocprof(path: str, *, lenient: bool, notes: Notes, process: int | None = None) -> KinetoTrace:
    """Kernels, copies, calls of HIP, HSA and the driver, markers.

    Raises InputError for damaged files (with ``lenient`` what comes before the damage is kept), for those of several
    processes where ``process`` does not say which, and where it is another one. Events that name no process are kept.
    """
    header: dict[str, Any] = {"format": "rocprof trace (JSON)"}
    with document(path, ROCPROF, lenient=lenient, notes=notes) as (text, file):
        events = _Events(file)
        for key in text.members():
            if key == "traceEvents" and text.peek() == "[":
                for block in text.blocks():
                    events.take(block)
            elif key == "otherData":
                text.skip()
            else:
                header[key] = text.value()
    if events.rows.odd:
        notes.warn(f"{path}: left out {events.rows.odd:,} events that are not as rocprof writes them")
    pid, tid, us, begin, end, device, queue, stream, owner, name = events.rows.columns()
    owners = set(np.unique(owner).tolist()) - {NONE}
    chosen = one_process(path, {one: one for one in owners}, process)
    correlation = _correlations(events, pid, tid, us, end // 1000, path, notes)
    mine = (owner == chosen) | (owner == NONE)
    if not mine.all():
        notes.note(f"{path}: {int((~mine).sum()):,} events of other processes than {chosen} were left out")
    parts = []
    for number in np.unique(pid[mine]).tolist():
        some = mine & (pid == number)
        label = events.labels.get(number, "")
        match = _DEVICE.fullmatch(label)
        category = "kernel" if match else _CATEGORIES.get(label, _OTHER)
        if category == _OTHER:
            notes.warn(f"{path}: {int(some.sum()):,} events of the process {label!r}, which is not known, are no work")
        whole = Part(category, name, begin, end, 0, tid, correlation=correlation)
        if category in ("kernel", "gpu_memcpy"):
            where = stream if (stream[some] != NONE).any() else tid if (tid[some] > 0).any() else queue
            whole.device = np.full(len(pid), int(match[1])) if match else device
            whole.stream, whole.tid, whole.pid = where, where, whole.device
        parts += _named(whole.take(some), events.texts)
    return assemble(path, events.texts, parts, header, notes)


def _named(part: Part, texts: Texts) -> list[Part]:
    """Copies under Kineto's names, apart from sets; kernels apart from barriers between them."""
    if part.category not in ("kernel", "gpu_memcpy"):
        return [part]
    numbers, at = np.unique(part.name, return_inverse=True)
    table = texts.all()
    category, name = [], []
    for number in numbers.tolist():
        text = table[number].strip('"')
        copy = _COPY.search(text)
        if part.category == "kernel":
            category.append("barrier_packet" if text == _BARRIER else "kernel")
        else:
            category.append("gpu_memset" if "Fill" in text else "gpu_memcpy")
            text = (
                f"Memcpy {copy[1][0]}to{copy[2][0]}" if copy else f"{'Memset' if 'Fill' in text else 'Memcpy'} ({text})"
            )
        name.append(text)
    part.name = texts.places(name)[at]
    parts = []
    for one in sorted(set(category)):
        parts.append(part.take(np.array([other == one for other in category])[at]))
        parts[-1].category = one
    return parts


def _correlations(events: _Events, pid: Ints, tid: Ints, us: Ints, until_us: Ints, path: str, notes: Notes) -> Ints:
    """int64 of the same length: the number of the arrow that begins or ends at each event, -1: none."""
    found = np.full(len(pid), -1, np.int64)
    whole = [ends for ends in events.flows.values() if len(ends) == 2]
    calls: dict[tuple[int, int], list[int]] = {}
    work: dict[tuple[int, int, int], list[int]] = {}
    order = np.argsort(us, kind="stable")
    for begins_here in (True, False):
        sorts = {flow[begins_here][0] for flow in whole}
        some = order[np.isin(pid[order], list(sorts))]
        for row, *lane, at in zip(*(column.tolist() for column in (some, pid[some], tid[some], us[some])), strict=True):
            if begins_here:
                calls.setdefault((lane[0], lane[1]), []).append(row)
            else:
                work.setdefault((lane[0], lane[1], at), []).append(row)
    begins, ends = us.tolist(), until_us.tolist()
    next_call = dict.fromkeys(calls, 0)
    lost = len(events.flows) - len(whole)
    for number, flow in enumerate(sorted(whole, key=lambda flow: flow[True][2]), 1):
        *lane, at = flow[True]
        key = (lane[0], lane[1])
        rows, place = calls.get(key, []), next_call.get(key, 0)
        while place < len(rows) and ends[rows[place]] + 1 < at:
            place += 1
        target = work.get(flow[False], [])
        if place < len(rows) and begins[rows[place]] <= at and target:
            found[rows[place]] = found[target.pop(0)] = number
            next_call[key] = place + 1
        else:
            lost += 1
            next_call[key] = place
    if lost:
        notes.warn(f"{path}: {lost:,} of {len(events.flows):,} arrows lead from no call, or to no work")
    return found
