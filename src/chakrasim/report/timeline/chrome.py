"""Chrome's trace format, which ui.perfetto.dev and chrome://tracing open: the one place where such files are written.

Times are microseconds with three decimals, which keep every nanosecond.
"""

from __future__ import annotations

import gzip
import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike, fspath
from os.path import splitext
from typing import BinaryIO, cast

from chakrasim.errors import InputError
from chakrasim.files.outputs import open_whole


def check_name(path: str | PathLike[str]) -> None:
    """Raise InputError for a file whose name promises something else than JSON, plain or compressed."""
    ending = splitext(fspath(path).removesuffix(".gz"))[1]
    if ending not in ("", ".json"):
        raise InputError(
            "a timeline is JSON in Chrome's trace format, which this name does not say",
            file=path,
            found=ending,
            expected=".json or .json.gz",
            remedy="open such a file at ui.perfetto.dev or in chrome://tracing",
        )


def write_chrome(path: str | PathLike[str], events: Iterable[str]) -> None:
    """Write events (JSON text, several to a piece with commas between) to ``path``, compressed if it ends in ``.gz``.

    Same events, same bytes. Raises InputError if the file cannot be written, or has the name of something else.
    """
    check_name(path)
    with open_whole(path) as file:
        if not fspath(path).endswith(".gz"):
            _write(events, file)
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=3, fileobj=file, mtime=0) as packed:
            _write(events, cast(BinaryIO, packed))


def _write(events: Iterable[str], file: BinaryIO) -> None:
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    first = True
    for text in events:
        file.write((text if first else ",\n" + text).encode())
        first = False
    file.write(b"\n]}\n")


def label(kind: str, pid: int, tid: int, args: dict[str, object]) -> str:
    """A metadata event: ``process_name``, ``thread_name``, ``process_sort_index``, ``thread_sort_index``."""
    return json.dumps({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}, separators=(",", ":"))


def named(pid: int, tid: int, name: str, order: int, *, process: bool = False) -> Iterator[str]:
    """Name and place of a process or a thread."""
    what = "process" if process else "thread"
    yield label(f"{what}_name", pid, tid, {"name": name})
    yield label(f"{what}_sort_index", pid, tid, {"sort_index": order})


def micros(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def rows_in_parallel(starts_ns: Sequence[int], ends_ns: Sequence[int]) -> list[int]:
    """A row (0, 1, ...) for each span, in order of the starts, so that the spans of a row do not overlap: each takes
    the first that is free."""
    busy: list[tuple[int, int]] = []
    idle: list[int] = []
    taken: list[int] = []
    rows = 0
    for start, end in zip(starts_ns, ends_ns, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(idle, heapq.heappop(busy)[1])
        if idle:
            row = heapq.heappop(idle)
        else:
            row, rows = rows, rows + 1
        heapq.heappush(busy, (end, row))
        taken.append(row)
    return taken
