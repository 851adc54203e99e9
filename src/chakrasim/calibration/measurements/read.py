"""Measured collectives out of whatever a user has: the kind of a file is told by what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from chakrasim.calibration.measurements.csv_folder import Holdout, read_folder
from chakrasim.calibration.measurements.csv_rows import decoded
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.calibration.measurements.nccl_tests import measurements_of, read_log
from chakrasim.calibration.measurements.nccl_tests_json import read_json
from chakrasim.calibration.measurements.points_csv import read_points_csv
from chakrasim.calibration.measurements.runs import assembled, joined
from chakrasim.errors import InputError
from chakrasim.files.signatures import BOM, signature
from chakrasim.files.storage import Stream, read_unpacked
from chakrasim.notes import Notes
from chakrasim.trace.recognise import look

EXPECTED: Final = "a log of nccl-tests or rccl-tests, its JSON, a CSV file of points, or a folder with curves.csv"
_ENDS: Final = (".log", ".txt", ".out", ".json", ".csv", ".err")
_STEP: Final = 1 << 20
_HEAD: Final = 1 << 16
_HELD_JSON: Final = 24  # bytes of memory for a byte of JSON, as Python's objects

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read_measurements(paths: Paths, notes: Notes | None = None, *, holdout: Holdout | None = None) -> Measurements:
    """All curves in files and folders: logs of nccl-tests and rccl-tests with or without lines of NCCL_DEBUG, their
    JSON and CSV, CSV files of points, and folders with curves.csv or of such files, each plain or gzip.

    Points of one curve that stand in several logs are pooled. Of points that ``holdout`` names no measured column of a
    folder is read, and no time is returned. Raises InputError for what cannot be read or holds no measurements; what of
    it was left out is told in ``notes``.
    """
    notes = Notes() if notes is None else notes
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputError("no measurements are named", expected=EXPECTED)
    parts: list[Measurements] = []
    logs: list[str] = []
    for path in (file for name in given for file in _files(os.fspath(name))):
        if os.path.isdir(path):
            parts.append(read_folder(path, notes, holdout=holdout))
        else:
            logs.append(path)
    runs = []
    for path in logs:
        head = _head(path)
        if head.startswith(b"{") or head[:1] + head[1:].lstrip()[:1] in (b"[{", b"[]"):  # else a rank's label: [0]
            text = decoded(path, read_unpacked(path, expected=EXPECTED, held=_HELD_JSON), EXPECTED)
            runs += read_json(path, text, notes)
        elif _is_csv(head):
            text = decoded(path, read_unpacked(path, expected=EXPECTED, held=_HELD_JSON), EXPECTED)
            parts.append(read_points_csv(path, text, notes))
        else:
            found, debug = read_log(path, _lines(path), notes)
            runs += found
            parts += [] if found else [measurements_of(path, [], debug, notes)]
    parts.append(assembled(runs, notes))
    whole = parts[0] if len(parts) == 2 and not runs else joined(parts, notes)
    return whole if holdout is None else holdout.hidden_in(whole)


def _files(path: str) -> Iterator[str]:
    """The path itself, or the files of a folder that may hold measurements."""
    if not os.path.isdir(path):
        yield path
        return
    root = Path(path)
    if any((root / name).exists() for name in ("curves.csv", "curves.csv.gz", "points.csv", "points.csv.gz")):
        yield path
        return
    names = sorted(name for name in os.listdir(root) if name.lower().removesuffix(".gz").endswith(_ENDS))
    if not names:
        raise InputError("the folder has no measurements", file=path, expected=f"{EXPECTED}, or a folder of such files")
    yield from (str(root / name) for name in names)


def _head(path: str) -> bytes:
    """The beginning of a file, unpacked. Raises InputError for an empty one and for what is surely no text."""
    with Stream(path, EXPECTED) as stream:
        block = bytearray(_HEAD)
        size = stream.fill(memoryview(block))
    head = bytes(block[:size])
    if not head.strip():
        fault = "the gzip data are damaged" if stream.fault else "the file is empty"
        raise InputError(fault, file=path, found=stream.fault, expected=EXPECTED)
    if signature(head) is not None or b"\0" in head:
        raise InputError("this is no text", file=path, found=look(head) or "a zero byte", expected=EXPECTED)
    return head.removeprefix(BOM).lstrip()


def _is_csv(head: bytes) -> bool:
    """Whether the first line is a header of measured points."""
    names = [name.strip().strip(b'"').lower() for name in head.split(b"\n", 1)[0].split(b",")]
    known = {b"curve", b"collective", b"bytes", b"size", b"time_us", b"nranks", b"ranks", b"machine", b"time", b"place"}
    return len(names) > 2 and len(known.intersection(names)) > 1


def _lines(path: str) -> Iterator[str]:
    """The lines of a log one by one: it may be far larger than memory."""
    rest = b""
    with Stream(path, EXPECTED) as stream:
        block = bytearray(_STEP)
        while size := stream.fill(memoryview(block)):
            lines = (rest + block[:size]).split(b"\n")
            rest = lines.pop()
            if len(rest) > _STEP:  # no line of a log is that long
                rest = rest[:_HEAD]
            for line in lines:
                yield line.decode("utf-8", "replace")
    stream.refuse_damage()
    if rest:
        yield rest.decode("utf-8", "replace")
