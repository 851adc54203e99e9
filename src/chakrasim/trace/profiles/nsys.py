"""Nsight Systems' SQLite exports (``nsys export --type sqlite``), whose tables and columns differ by version.

Schema: the exporter's documentation (docs.nvidia.com/nsight-systems, "SQLite Schema Reference"). Times are ns since
the capture began; a thread or process is ``hardware << 56 | vm << 48 | pid << 24 | tid`` in one integer. A table or
column that a version does not have is as one without values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of
from chakrasim.trace.kineto.columns import Ints, KinetoTrace
from chakrasim.trace.profiles import nvtx
from chakrasim.trace.profiles.build import NONE, Part, Texts, assemble, one_process
from chakrasim.trace.profiles.database import Database, open_database
from chakrasim.trace.profiles.kinds import NSYS

_KERNEL, _COPY, _SET = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET"))
_GRAPH, _CALLS, _SYNC, _EVENT = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("GRAPH_TRACE", "RUNTIME", "SYNCHRONIZATION", "CUDA_EVENT")
)
#: Tables of calls on threads that name spans, as NVTX ranges do.
_SPANS: Final = (
    *("CUBLAS_EVENTS", "CUDNN_EVENTS", "CUSOLVER_EVENTS", "CUSPARSE_EVENTS", "CUFFT_EVENTS"),
    *("MPI_P2P_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_OTHER_EVENTS"),
)
_WORK: Final = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver")
TABLES: Final = (_KERNEL, _COPY, _SET, _GRAPH, _CALLS, _SYNC, nvtx.TABLE, "OSRT_API", *_SPANS)
"""The tables whose rows become events."""
_OWNERS: Final = (*((table, "globalPid") for table in (_KERNEL, _COPY, _SET, _GRAPH)), (_CALLS, "globalTid"))
_SIDES: Final = ("start", "end")
_ON_DEVICE: Final = (*_SIDES, "globalPid", "deviceId", "streamId", "correlationId")
#: Databases of other profilers, by how a table of theirs begins, and what to do with them.
_OTHERS: Final = {
    "rocpd_": "a rocpd database of rocprofv3",
    "CUPTI_ACTIVITY_KIND_": "a profile of nvprof (NVIDIA Visual Profiler)",
    "CANN_API": "a database of Ascend's profiler",
}
_REMEDIES: Final = {"a rocpd database of rocprofv3": "write JSON: rocprofv3 --output-format json when recording"}
_NO_ID: Final = 0xFFFFFFFF
_BACKTRACE: Final = 67  # a call once more, with the stack that it came from
_DRIVER: Final = 1
_VERSION: Final = re.compile(r"_v\d{4,}$")
#: cudaMemcpyKind as CUPTI counts it, and its kinds of memory.
_COPIES: Final = (
    *("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD (unified memory)", "DtoH (unified memory)", "DtoD (unified memory)"),
)
_MEMORY: Final = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")
_EVENT_SYNC, _WAIT, _STREAM_SYNC, _CONTEXT_SYNC = 1, 2, 3, 4
_SYNC_NAMES: Final = ("", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


def read_nsys(path: str, *, lenient: bool, notes: Notes, process: int | None = None) -> KinetoTrace:
    """The work of one process in an export: kernels, copies, API calls, NVTX ranges, synchronisation.

    ``process``: its id, needed where several use devices. Raises InputError for damaged databases (with ``lenient``
    what comes before a damaged place of a table is kept), and where the process is not known.
    """
    with open_database(path, NSYS, lenient=lenient, notes=notes) as base:
        other = _other(base)
        if other:
            raise InputError(
                "this database is no export of Nsight Systems with a trace",
                file=path,
                found=other,
                expected=f"tables such as {_KERNEL}, {_CALLS} or {nvtx.TABLE}",
                remedy=_REMEDIES.get(
                    other, "record with nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"
                ),
            )
        texts = Texts()
        names = _Names(base, texts)
        parts = [*_device(base, names), *_calls(base, names), _synchronisation(base, texts), *_spans(base, names)]
        more, rank = nvtx.read(base, names.of, texts)
        parts += more
        parts = _of_one_process(base, parts, process)
        names.tell()
        header = _header(base, rank) | ({} if process is None else {"process": process})
        return assemble(path, texts, parts, header, notes)


def look(path: str) -> tuple[str, int]:
    """What a database is if it is no export with a trace ("": it is one), and the process that used devices, if it is
    one (-1)."""
    with open_database(path, NSYS, lenient=True) as base:
        other = _other(base)
        users = [] if other else _users(base)
    return other, users[0] if len(users) == 1 else -1


def processes(path: str, *, lenient: bool = False) -> list[int]:
    """The ids of the processes that used devices, ascending. Raises InputError for what is no database, and unless
    ``lenient`` for damaged ones."""
    with open_database(path, NSYS, lenient=lenient) as base:
        return _users(base)


def _users(base: Database) -> list[int]:
    owners = set().union(*(base.distinct(table, column) for table, column in _OWNERS))
    return [int(one) for one in np.unique(_process(np.array(sorted(owners), np.int64)))]


def _other(base: Database) -> str:
    if "StringIds" in base.tables and base.tables.intersection(TABLES):
        return ""
    known = (what for sign, what in _OTHERS.items() if any(table.startswith(sign) for table in base.tables))
    listed = first_of(sorted(base.tables), 6)
    return next(known, f"a database with the tables {listed}" if base.tables else "a database without tables")


class _Names:
    """Numbers of StringIds as texts."""

    def __init__(self, base: Database, texts: Texts) -> None:
        self.base, self.texts, self.missing = base, texts, 0
        self._places: dict[int, int] = {}
        self._table: dict[int, str] | None = None

    def of(self, column: Ints, change: Callable[[str], str] = str) -> Ints:
        """int64 of the same length: numbers of the texts that ``change`` makes of the names, 0 for none."""
        if self._table is None:
            self._table = dict(self.base.texts("StringIds", "id", "value"))
        numbers, at = np.unique(column, return_inverse=True)
        known = [self._table.get(number) for number in numbers.tolist()]
        absent = np.array([text is None for text in known], np.bool_) & (numbers != NONE)
        self.missing += int(absent[at].sum())
        return self.texts.places(["" if text is None else change(text) for text in known])[at]

    def tell(self) -> None:
        """Warn of names that the table of names does not have."""
        if self.missing:
            self.base.notes.warn(f"{self.base.path}: {self.missing:,} names are missing from the table StringIds")


def _process(identity: Ints) -> Ints:
    return np.where(identity == NONE, -1, identity >> 24 & 0xFFFFFF)


def _thread(identity: Ints) -> Ints:
    return np.where(identity == NONE, -1, identity & 0xFFFFFF)


def _device(base: Database, names: _Names) -> list[Part]:
    """Kernels, copies, sets, graphs."""
    parts = []
    names_of = ("demangledName", "shortName", "mangledName")
    more = (*names_of, "bytes", "graphNodeId", "graphId", "copyKind", "srcKind", "dstKind")
    for table, category in ((_KERNEL, "kernel"), (_COPY, "gpu_memcpy"), (_SET, "gpu_memset"), (_GRAPH, "kernel")):
        start, end, owner, device, stream, correlation, long, short, raw, size, node, graph, *copy = base.integers(
            table, (*_ON_DEVICE, *more)
        )
        if table == _KERNEL:
            found = names.of(np.where(long != NONE, long, np.where(short != NONE, short, raw)))
        elif table == _COPY:
            found = _copies(names.texts, *copy)
        else:
            found = np.full(len(start), names.texts.place("Memset (Device)" if table == _SET else "CUDA graph"))
        rare = {"bytes": size, "graph node id": node, "graph id": graph}
        parts.append(_on_device(category, found, start, end, owner, device, stream, correlation, rare))
    return parts


def _on_device(
    category: str, name: Ints, start: Ints, end: Ints, owner: Ints, device: Ints, stream: Ints, correlation: Ints,
    rare: dict[str, Ints],
) -> Part:  # fmt: skip
    """Events of a stream, whose pid is the device and whose tid the stream, as Kineto writes them."""
    stream = np.where(stream == _NO_ID, -1, stream)
    return Part(
        category, name, start, end, pid=device, tid=stream, device=device, stream=stream, correlation=correlation,
        rare=rare, process=_process(owner),
    )  # fmt: skip


def _copies(texts: Texts, kind: Ints, source: Ints, target: Ints) -> Ints:
    """Names of copies, as Kineto writes them."""
    triples, at = np.unique(np.stack((kind, source, target), axis=1), axis=0, return_inverse=True)
    names = []
    for what, *ends in triples.tolist():
        word = _COPIES[what] if 0 < what < len(_COPIES) else f"(kind {what})" if what != NONE else ""
        sides = [_MEMORY[end] if 0 <= end < len(_MEMORY) else "Unknown" for end in ends]
        names.append(f"Memcpy {word}" + (f" ({sides[0]} -> {sides[1]})" if " " not in word and ends[0] != NONE else ""))
    return texts.places(names)[at.ravel()]


def _calls(base: Database, names: _Names) -> list[Part]:
    """Calls of CUDA's runtime and driver, without the second records that have their stacks."""
    start, end, kind, owner, correlation, name = base.integers(
        _CALLS, (*_SIDES, "eventClass", "globalTid", "correlationId", "nameId")
    )
    again = kind == _BACKTRACE
    if again.any():
        base.notes.note(f"{base.path}: {int(again.sum()):,} second records of calls, with their stacks, were left out")
    found = names.of(name, lambda text: _VERSION.sub("", text))
    calls = Part("cuda_runtime", found, start, end, _process(owner), _thread(owner), correlation=correlation)
    driver = calls.take(~again & (kind == _DRIVER))
    driver.category = "cuda_driver"
    return [calls.take(~again & (kind != _DRIVER)), driver]


def _spans(base: Database, names: _Names) -> list[Part]:
    """Calls of libraries, which name what is done as NVTX ranges do, and of the operating system, which do not."""
    parts = []
    for table in (*_SPANS, "OSRT_API"):
        start, end, owner, name, text = base.integers(table, (*_SIDES, "globalTid", "nameId", "textId"))
        found = names.of(np.where(name != NONE, name, text))
        category = "os_call" if table == "OSRT_API" else "user_annotation"
        parts.append(Part(category, found, start, end, _process(owner), _thread(owner)))
    return parts


def _synchronisation(base: Database, texts: Texts) -> Part:
    """Records of waiting. Versions before 3.24 of the schema write 1 for several kinds: what names no event is not
    about one."""
    start, end, owner, device, stream, correlation, kind, event, number = base.integers(
        _SYNC, (*_ON_DEVICE, "syncType", "eventId", "eventSyncId")
    )
    about = (event != _NO_ID) & (event != NONE)
    on_stream = (stream != _NO_ID) & (stream != NONE)
    kind = np.where((kind > _CONTEXT_SYNC) | (kind < 0), 0, kind)
    kind = np.where(about | (kind > _WAIT), kind, np.where(on_stream, _STREAM_SYNC, _CONTEXT_SYNC))
    waited, call = _recorded(base, owner, np.where(about, number, NONE))
    rare = {
        "wait_on_cuda_event_id": np.where(about, event, NONE),
        "wait_on_stream": waited,
        "wait_on_cuda_event_record_corr_id": call,
    }
    name = texts.places(list(_SYNC_NAMES))[kind]
    return _on_device("cuda_sync", name, start, end, owner, device, stream, correlation, rare)


def _recorded(base: Database, owner: Ints, number: Ints) -> tuple[Ints, Ints]:
    """(stream, correlation of the call) where each event that was waited for had been recorded; NONE if unknown."""
    rows = base.integers(_EVENT, ("globalPid", "eventSyncId", "streamId", "correlationId"))
    known = {(one, sync): (stream, call) for one, sync, stream, call in rows.T.tolist() if sync not in (NONE, 0)}
    nothing = (NONE, NONE)
    found = [known.get(key, nothing) for key in zip(owner.tolist(), number.tolist(), strict=True)]
    stream, call = np.array(found, np.int64).reshape(-1, 2).T
    return stream, call


def _of_one_process(base: Database, parts: list[Part], process: int | None) -> list[Part]:
    """The events of one process, and those of which it is not known whose they are."""
    owners = [part.pid if isinstance(part.process, int) else part.process for part in parts]
    pairs = list(zip(parts, owners, strict=True))
    used = {int(one) for part, owner in pairs if part.category in _WORK for one in np.unique(owner)} - {-1}
    chosen = one_process(base.path, {one: one for one in used}, process)
    if chosen < 0:
        return parts
    kept, left = [], 0
    for part, owner in pairs:
        mine = np.broadcast_to((owner == chosen) | (np.asarray(owner) < 0), len(part))
        left += int((~mine).sum())
        kept.append(part if mine.all() else part.take(mine))
    if left:
        base.notes.note(f"{base.path}: {left:,} events of other processes than {chosen} were left out")
    return kept


def _header(base: Database, rank: int) -> dict[str, Any]:
    """What else a Kineto file says: when the capture began, the devices, the rank."""
    header: dict[str, Any] = {"format": "Nsight Systems export (SQLite)"}
    versions = dict.fromkeys(("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"), "")
    versions |= {key: value for key, value in base.pairs("META_DATA_EXPORT", "name", "value") if key in versions}
    header |= {key.lower(): value for key, value in versions.items() if value}
    began = base.integers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))[0]
    if len(began) and began[0] != NONE:
        header["baseTimeNanoseconds"] = int(began[0])
    columns = ("id", "totalMemory", "smCount", "computeMajor", "computeMinor", "threadsPerWarp")
    kineto = ("id", "totalGlobalMem", "numSms", "computeMajor", "computeMinor", "warpSize")
    rows = base.integers("TARGET_INFO_GPU", columns).T.tolist()
    names = [name for _, name in base.texts("TARGET_INFO_GPU", "rowid", "name")]
    devices = [{key: value for key, value in zip(kineto, row, strict=True) if value != NONE} for row in rows]
    if devices:
        same = len(names) == len(devices)
        header["deviceProperties"] = [
            device | ({"name": name} if same else {})
            for device, name in zip(devices, names if same else [""] * len(devices), strict=True)
        ]
    if rank >= 0:
        header["distributedInfo"] = {"rank": rank}
    return header
