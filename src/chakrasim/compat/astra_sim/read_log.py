"""The reference simulator's log of issued and finished nodes, as a timeline."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.report.timeline.events import Process, Track, rows_in_parallel

_LINE: Final = re.compile(r"\b(issue|callback),(.*)$")
_NUMBER: Final = r"[^=,]*=\s*([0-9]{1,18})\s*,"
_CELLS: Final = re.compile(rf"{_NUMBER * 3}[^=,]*=(.*?)(?:,[^=,]*type\s*=\s*([0-9]{{1,9}})\s*)?", re.ASCII)
_TYPES: Final = {1: "metadata", 2: "memory", 3: "memory", 4: "compute", 5: "communication", 6: "communication"}
_LONGEST_LINE: Final = 1 << 20
_ROWS: Final = ("compute", "communication", "memory", "metadata", "other")


@dataclass(frozen=True)
class Span:
    """One node's run: on which NPU, its id and name, its row of the timeline, and from when to when, in cycles."""

    npu: int
    node: int
    name: str
    row: str
    begin: int
    end: int


def log_lines(path: str) -> Iterator[str]:
    """The lines of a log, plain or gzip. Raises InputError if they cannot be read."""
    from chakrasim.files.storage import Stream

    rest, window = b"", memoryview(bytearray(_LONGEST_LINE))
    with Stream(path, "a log of a simulation") as file:
        while size := file.fill(window):
            *lines, rest = (rest + window[:size]).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise InputError("a line is too long for a log", file=path, expected=f"at most {_LONGEST_LINE:,} bytes")
            yield from (line.removesuffix(b"\r").decode("utf-8", "replace") for line in lines)
        if file.fault:
            raise InputError(f"the log cannot be read: the gzip data are damaged ({file.fault})", file=path)
    if rest:
        yield rest.decode("utf-8", "replace")


def megahertz(text: str | None) -> float:
    """A frequency in MHz: a number is MHz, ``1.5GHz`` and the like are taken as they say."""
    if text is None:
        return 1000.0
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([kKmMgG]?)(?:[hH][zZ])?", text, re.ASCII)
    factor = {"": 1.0, "k": 1e-3, "m": 1.0, "g": 1e3}[match[2].lower()] if match else 0.0
    value = float(match[1]) * factor if match else 0.0
    if value <= 0:
        raise InputError("--npu-frequency is no frequency", found=repr(text), expected="MHz, such as 1000, or 1.5GHz")
    return value


def read_log(lines: Iterable[str], source: str, notes: Notes) -> list[Span]:
    """The nodes of a log, in order of their ends.

    Lines hold ``issue,`` or ``callback,`` and then NPU, cycle, node and name as ``word=value`` (a fifth: the type).
    What stands before is skipped, as are other lines. Raises InputError for such a line that cannot be understood, or a
    log without any; nodes that never end, and ends without an issue, are counted into ``notes``.
    """
    open_: dict[tuple[int, int], tuple[int, str]] = {}
    spans: list[Span] = []
    strange = 0
    for number, line in enumerate(lines, 1):
        match = _LINE.search(line)
        if match is None:
            continue
        npu, cycle, node, name, kind = _values(match[2], source, number)
        if match[1] == "issue":
            open_[npu, node] = cycle, name
            continue
        begun = open_.pop((npu, node), None)
        if begun is None:
            strange += 1
            continue
        spans.append(Span(npu, node, begun[1], _row(begun[1], kind), begun[0], cycle))
    if not spans and not open_:
        raise InputError(
            "the log has no line of an issued or finished node",
            file=source,
            expected="lines such as issue,sys->id=0,tick=0,node->id=1,node->name=COMP_NODE_x",
            remedy="name the log of a simulation",
        )
    if open_:
        notes.warn(f"{source}: left out {len(open_):,} nodes that were issued but never finished")
    if strange:
        notes.warn(f"{source}: left out {strange:,} ends of nodes that were never issued")
    return spans


def _values(text: str, source: str, number: int) -> tuple[int, int, int, str, int]:
    """NPU, cycle, node, name and type (-1: not stated)."""
    text = text.rstrip("\r\n")
    # A name may hold commas: it is all between the third cell and a type at the end.
    match = _CELLS.fullmatch(text)
    if match is None:
        raise InputError(
            "a line cannot be understood",
            file=source,
            place=f"line {number}",
            found=repr(text.strip()[:80]),
            expected="NPU, cycle, node and name, each as word=value, with commas between",
        )
    return int(match[1]), int(match[2]), int(match[3]), match[4].strip(), int(match[5] or -1)


def _row(name: str, kind: int) -> str:
    if kind in _TYPES or kind == 7:
        return _TYPES.get(kind, "communication")
    for word, row in (("MEM_", "memory"), ("COMP_NODE", "compute"), ("COMM_", "communication")):
        if word in name:
            return row
    return "other"


def log_processes(spans: Iterable[Span], npus: int | None, mhz: float, source: str) -> Iterator[Process]:
    """The timeline: a process for each NPU, a thread for compute, communication, memory.

    Raises InputError for an NPU beyond ``npus``.
    """
    by_npu: dict[int, dict[str, list[Span]]] = {}
    for span in spans:
        by_npu.setdefault(span.npu, {}).setdefault(span.row, []).append(span)
    if npus is not None and by_npu and max(by_npu) >= npus:
        raise InputError(
            "the log names an NPU that is not there",
            file=source,
            found=f"NPU {max(by_npu)}",
            expected=f"0 to {npus - 1}",
            remedy="correct --num-npus",
        )
    for npu in sorted(by_npu):
        tracks: list[Track] = []
        shown: list[Span] = []
        for row in _ROWS:
            mine = sorted(by_npu[npu].get(row, ()), key=lambda span: (span.begin, -span.end, span.node))
            parts = np.array(rows_in_parallel([span.begin for span in mine], [span.end for span in mine]), np.int64)
            for part in range(int(parts.max(initial=-1)) + 1):
                name = row + (f" ({part + 1})" if part else "")
                tracks.append(Track(len(tracks) + 1, name, len(shown) + np.flatnonzero(parts == part), row))
            shown += mine
        # Rounding start and end, not the length, keeps what follows from overlapping.
        start, end = (
            np.array([round(cycle * 1000 / mhz) for cycle in cycles], np.int64)
            for cycles in ([span.begin for span in shown], [span.end for span in shown])
        )
        names, args = [span.name for span in shown], [f',"cycles":{span.end - span.begin}' for span in shown]
        ids = np.array([span.node for span in shown], np.int64)
        yield Process(npu + 1, f"NPU {npu}", npu, tracks, start, end - start, names, args, ids)


# -- as the reference --------------------------------------------------------------------------------------------------


def compat_timeline(lines: Iterable[str], source: str, npus: int, mhz: int) -> dict[str, Any]:
    """What chakra_timeline_visualizer writes: milliseconds, threads by words in the names.

    Raises InputError, naming the reference's exception, where it fails.
    """
    events = []
    open_: dict[tuple[int, int], tuple[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if "issue" not in line and "callback" not in line:
            continue
        cells = line.strip().split(",")
        npu, cycle, node = (_at(cells, place, int, source, number) for place in (1, 2, 3))
        name = _at(cells, 4, str, source, number)
        if cells[0] == "issue":
            open_[npu, node] = name, cycle
        elif cells[0] == "callback":
            if (npu, node) not in open_:
                raise _crash("a node ends that was never issued", "KeyError", source, number, node)
            name, begin = open_.pop((npu, node))
            length = (cycle - begin) / (mhz * 1000)
            events.append(
                {
                    "pid": npu,
                    "tid": _compat_row(name, source, number),
                    "ts": begin / mhz / 1000,
                    "dur": length,
                    "ph": "X",
                    "name": name,
                    "args": {"ms": length},
                }
            )
    return {"meta_user": "aras", "traceEvents": events, "meta_cpu_count": npus}


def _at(cells: list[str], place: int, kind: Callable[[str], Any], source: str, number: int) -> Any:
    try:
        return kind(cells[place].split("=")[1])
    except IndexError:
        raise _crash("a line has too few values", "IndexError", source, number, ",".join(cells)[:80]) from None
    except ValueError:
        raise _crash("a value is no integer", "ValueError", source, number, cells[place][:80]) from None


def _compat_row(name: str, source: str, number: int) -> int:
    if "MEM_LOAD_NODE" in name or "MEM_STORE_NODE" in name:
        for word, row in (("LOCAL_MEMORY", 1), ("REMOTE_MEMORY", 2)):
            if word in name:
                return row
    elif "COMP_NODE" in name:
        return 3
    elif any(word in name for word in ("COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE")):
        return 4
    raise _crash("the name does not tell the type of the node", "ValueError", source, number, name)


def _crash(message: str, kind: str, source: str, number: int, found: object) -> InputError:
    return InputError(
        f"{message}; chakra_timeline_visualizer ends here with {kind}",
        file=source,
        place=f"line {number}",
        found=repr(found),
        remedy="leave out --compat chakra",
    )
