"""Timelines to files: in Chrome's trace format, or in Perfetto's own, by the ending of the name."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from os import PathLike, fspath
from os.path import splitext
from typing import BinaryIO, Final, cast

from chakrasim.errors import InputError
from chakrasim.files.outputs import open_whole
from chakrasim.report.timeline.events import Process

PERFETTO: Final = (".pftrace", ".perfetto-trace")


def check_name(path: str | PathLike[str], *, perfetto: bool = True) -> None:
    """Raise InputError for a file whose name promises something else than a timeline, plain or compressed; without
    ``perfetto``, than one of JSON."""
    ending = _ending(path)
    if ending not in ("", ".json", *(PERFETTO if perfetto else ())):
        raise InputError(
            "a timeline is JSON in Chrome's trace format, which this name does not say",
            file=path,
            found=ending,
            expected=".json or .json.gz" + (f"; {' or '.join(PERFETTO)} for Perfetto's own format" if perfetto else ""),
            remedy="open such a file at ui.perfetto.dev" + ("" if ending in PERFETTO else " or in chrome://tracing"),
        )


def is_perfetto(path: str | PathLike[str]) -> bool:
    """Whether a timeline of this name is written in Perfetto's own format."""
    return _ending(path) in PERFETTO


def write_processes(path: str | PathLike[str], processes: Iterable[Process]) -> None:
    """Write a timeline to ``path``, compressed if it ends in ``.gz``. Same processes, same bytes.

    Raises InputError if the file cannot be written, or has the name of something else.
    """
    check_name(path)
    with open_whole(path) as file:
        if not fspath(path).endswith(".gz"):
            _write(path, processes, file)
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=3, fileobj=file, mtime=0) as packed:
            _write(path, processes, cast(BinaryIO, packed))


def _write(path: str | PathLike[str], processes: Iterable[Process], file: BinaryIO) -> None:
    if is_perfetto(path):
        from chakrasim.report.timeline.perfetto import write_packets

        write_packets(processes, file)
    else:
        from chakrasim.report.timeline.chrome import write_events

        write_events(processes, file)


def _ending(path: str | PathLike[str]) -> str:
    return splitext(fspath(path).removesuffix(".gz"))[1]
