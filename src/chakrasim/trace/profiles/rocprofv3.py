"""Profiles of rocprofv3 in JSON (``rocprofv3 --output-format json``), by the schema that its sources have.

A member ``rocprofiler-sdk-tool`` lists processes, each with names (``strings``, ``kernel_symbols``), devices
(``agents``) and lists of records (``buffer_records``). Times are ns of one clock. A stream is one of HIP's where the
file has them, else a queue of the hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.json_head import JsonHead
from chakrasim.files.storage import Stream
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.profiles.build import NONE, Part, Texts, assemble, one_process
from chakrasim.trace.profiles.kinds import ROCPROFV3
from chakrasim.trace.profiles.records import Rows, document

_TOP: Final = "rocprofiler-sdk-tool"
_CATEGORIES: Final = {
    "kernel_dispatch": "kernel",
    "memory_copy": "gpu_memcpy",
    "hip_api": "hip_runtime",
    "hsa_api": "hsa_runtime",
}
#: Markers that are no range of one thread, by the call that made them.
_MARKS: Final = {
    **dict.fromkeys(("roctxMarkA",), ("mark", "i")),
    **dict.fromkeys(("roctxRangeStartA", "roctxProcessRangeA"), ("start_end_range", "X")),
    **dict.fromkeys(("roctxRangePushA", "roctxThreadRangeA"), ("user_annotation", "X")),
}
_COPIES: Final = {
    "HOST_TO_HOST": "HtoH",
    "HOST_TO_DEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
}
_NO_HANDLE: Final = {"handle": NONE}
_GPU: Final = 2


def _call(record: Any) -> list[int]:
    return [
        record["start_timestamp"], record["end_timestamp"], record["thread_id"], record["correlation_id"]["internal"],
        record["kind"], record["operation"],
    ]  # fmt: skip


def _dispatch(record: Any) -> list[int]:
    info, stream = record["dispatch_info"], record.get("stream_id", _NO_HANDLE)["handle"]
    return [
        record["start_timestamp"], record["end_timestamp"], record["thread_id"], record["correlation_id"]["internal"],
        record["kind"], record["operation"], info["agent_id"]["handle"], stream, info["queue_id"]["handle"],
        info["kernel_id"],
    ]  # fmt: skip


def _copy(record: Any) -> list[int]:
    ends = [record[f"{side}_agent_id"]["handle"] for side in ("dst", "src")]
    return [*_call(record), *ends, record.get("stream_id", _NO_HANDLE)["handle"], record.get("bytes", NONE)]


_TAKEN: Final = {"kernel_dispatch": (10, _dispatch), "memory_copy": (10, _copy)}


@dataclass
class _Process:
    """One element of the list of processes."""

    pid: int = -1
    agents: list[Any] = field(default_factory=list)
    operations: list[Any] = field(default_factory=list)
    markers: dict[int, str] = field(default_factory=dict)
    kernels: dict[int, str] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)

    def read(self, text: JsonHead, file: Stream) -> None:
        for key in text.members():
            if key == "metadata":
                pid = _get(text.value(), "pid")
                self.pid = pid if type(pid) is int and 0 <= pid < 1 << 31 else -1
            elif key in ("agents", "kernel_symbols") and text.peek() == "[":
                for one in text.elements():
                    self.agents.append(one) if key == "agents" else self._name(one)
            elif key == "strings" and text.peek() == "{":
                self._strings(text)
            elif key == "buffer_records" and text.peek() == "{":
                for name in text.members():
                    self._records(name, text, file)
            else:
                text.skip()

    def _name(self, symbol: Any) -> None:
        keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
        name = next((found for key in keys if isinstance(found := _get(symbol, key), str) and found), "")
        number = _get(symbol, "kernel_id")
        if type(number) is int:
            self.kernels[number] = name.removesuffix(".kd")

    def _strings(self, text: JsonHead) -> None:
        for key in text.members():
            if key == "buffer_records" and text.peek() == "[":
                self.operations = list(text.elements())
            elif key == "marker_api" and text.peek() == "[":
                for one in text.elements():
                    number, name = _get(one, "key"), _get(one, "value")
                    if type(number) is int and isinstance(name, str):
                        self.markers[number] = name
            else:
                text.skip()

    def _records(self, name: str, text: JsonHead, file: Stream) -> None:
        if text.peek() != "[":
            text.skip()
            return
        rows = self.rows.setdefault(name, Rows(*_TAKEN.get(name, (6, _call)), file))
        for records in text.blocks():
            rows.add(records)


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def first_process(path: str) -> int:
    """The id of the first process, as the beginning of the file says; -1 if it does not."""
    with Stream(path, ROCPROFV3) as file:
        match = re.search(r'"pid"\s*:\s*(\d{1,9})\b', JsonHead(file).head.decode("utf-8", "replace"))
        return int(match[1]) if match else -1


def read_rocprofv3(path: str, *, lenient: bool, notes: Notes, process: int | None = None) -> KinetoTrace:
    """The work of one process: dispatches, copies, calls of HIP, HSA and RCCL, markers.

    ``process``: its id, needed where the file has several. Raises InputError for damaged files (with ``lenient`` what
    comes before the damage is kept), and where the process is not known.
    """
    found: list[_Process] = []
    with document(path, ROCPROFV3, lenient=lenient, notes=notes) as (text, file):
        for key in text.members():
            if key != _TOP or text.peek() != "[":
                text.skip()
                continue
            for _ in text.entries("[", "]"):
                found.append(_Process())
                found[-1].read(text, file)
    columns = [{name: rows.columns() for name, rows in one.rows.items()} for one in found]
    full = [at for at, lists in enumerate(columns) if any(values.size for values in lists.values())]
    ids = [found[at].pid for at in full]
    if len(set(ids)) < len(ids):
        raise InputError(
            "several processes in this profile have one id, or none",
            file=path,
            found=f"{len(ids)} processes with the ids {first_of([str(one) for one in sorted(set(ids))], 8)}",
            expected="a pid of its own in the metadata of each",
            remedy="write the profile of each process into a file of its own",
        )
    at = one_process(path, {found[at].pid: at for at in full}, process)
    one = found[at] if at >= 0 else _Process()
    for name, rows in one.rows.items():
        if rows.odd:
            notes.warn(f"{path}: left out {rows.odd:,} records of {name}, which are no events with two times")
    texts = Texts()
    parts = [
        part for name, values in (columns[at] if at >= 0 else {}).items() for part in _parts(one, name, values, texts)
    ]
    return assemble(path, texts, parts, _header(one), notes)


def _parts(one: _Process, name: str, values: Ints, texts: Texts) -> list[Part]:
    start, end, thread, correlation, kind, operation = values[:6]
    if not len(start):
        return []
    if name in _TAKEN:
        return [_on_device(one, name, values, texts)]
    pairs, at = np.unique(np.stack((kind, operation), axis=1), axis=0, return_inverse=True)
    names = [_operation(one, *pair) for pair in pairs.tolist()]
    usual = "user_annotation" if name.endswith("_api") else name
    where: dict[str, Any] = {"pid": one.pid, "tid": thread, "correlation": correlation}
    if name != "marker_api":
        return [Part(_CATEGORIES.get(name, usual), texts.places(names)[at.ravel()], start, end, **where)]
    said = [one.markers.get(number, "") for number in correlation.tolist()]
    plain = texts.places(names)[at.ravel()]
    whole = Part("", np.where(np.array(said) != "", texts.places(said), plain), start, end, **where)
    sorts = [_MARKS.get(text, ("marker_call", "X")) for text in names]
    parts = []
    for category, phase in sorted(set(sorts)):
        part = whole.take(np.array([sort == (category, phase) for sort in sorts])[at.ravel()])
        part.category, part.phase = category, phase
        parts.append(part)
    return parts


def _on_device(one: _Process, name: str, values: Ints, texts: Texts) -> Part:
    start, end, _, correlation, kind, operation, agent, stream, queue, last = values
    rare = {}
    if name == "kernel_dispatch":
        numbers, at = np.unique(last, return_inverse=True)
        found = texts.places([one.kernels.get(number, f"kernel {number}") for number in numbers.tolist()])[at]
        stream = stream if (stream > 0).any() else queue
        device = _devices(one, agent)
    else:
        source, stream, rare["bytes"] = stream, queue, last
        pairs, at = np.unique(np.stack((kind, operation), axis=1), axis=0, return_inverse=True)
        said = [_operation(one, *pair).removeprefix("MEMORY_COPY_") for pair in pairs.tolist()]
        found = texts.places([f"Memcpy {_COPIES.get(text, text)}" for text in said])[at.ravel()]
        target = _devices(one, agent)
        device = np.where(target >= 0, target, _devices(one, source))
    where = {"pid": device, "tid": stream, "device": device, "stream": stream, "correlation": correlation}
    return Part(_CATEGORIES[name], found, start, end, rare=rare, **where)


def _operation(one: _Process, kind: int, operation: int) -> str:
    """The name of an operation of a kind, as the file has it."""
    if 0 <= kind < len(one.operations):
        names = _get(one.operations[kind], "operations")
        if isinstance(names, list) and 0 <= operation < len(names):
            return str(names[operation])
    return f"operation {kind}.{operation}"


def _devices(one: _Process, agent: Ints) -> Ints:
    """The number of each agent among the GPUs, -1 for others."""
    gpus = [_get(_get(found, "id"), "handle") for found in one.agents if _get(found, "type") == _GPU]
    numbers, at = np.unique(agent, return_inverse=True)
    return np.array([gpus.index(number) if number in gpus else -1 for number in numbers.tolist()], np.int64)[at]


def _header(one: _Process) -> dict[str, Any]:
    names = {"product_name": "name", "cu_count": "numSms", "wave_front_size": "warpSize"}
    gpus = [found for found in one.agents if _get(found, "type") == _GPU]
    devices = [
        {"id": at} | {name: gpu[key] for key, name in names.items() if key in gpu} for at, gpu in enumerate(gpus)
    ]
    return {"format": "rocprofv3 profile (JSON)"} | ({"deviceProperties": devices} if devices else {})
