"""Reading and writing Chakra execution traces (``PREFIX.RANK.et``, plain or gzip)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.files.inputs import Bound, bound
from chakrasim.files.outputs import write_together, write_whole
from chakrasim.notes import Notes, lists_too
from chakrasim.trace import recognise
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.graph import Trace


@lists_too
def parse_trace(
    data: bytes,
    source: str = "<memory>",
    *,
    lenient: bool = False,
    notes: Notes | None = None,
    limit: Bound | None = None,
) -> Trace:
    """The trace in the uncompressed bytes ``data`` of a Chakra file.

    ``source`` names the data in messages. Unknown fields are left out, with a warning. Raises InputError with the byte
    and the node where the data stop being a trace; with ``lenient`` the intact messages before that place are kept
    instead, and a warning counts what was kept and lost. ``limit`` bounds the memory of the trace's columns; None: by
    the number of bytes.
    """
    from chakrasim.trace.chakra import wire
    from chakrasim.trace.chakra.decoded import Columns

    notes = Notes() if notes is None else notes
    recognise.refuse_other_formats(data, source)
    columns = Columns(np.frombuffer(data, np.uint8), limit or bound(len(data)), source)
    status = columns.decode()
    unknown = int(columns.state[wire.UNKNOWN])
    if status != wire.DONE or unknown or columns.version().startswith("\n"):
        recognise.refuse_old_schema(data, source, damaged=status != wire.DONE)
    if status != wire.DONE:
        damage = recognise.damage(status, columns, source)
        if not lenient or not columns.state[wire.FRAMES]:
            raise damage
        kept = int(columns.state[wire.FRAMES]) - 1
        lost = len(data) - int(columns.state[wire.POS])
        notes.warn(f"{damage}: kept the {kept} nodes before it, left out the last {lost} of {len(data)} bytes")
    if unknown:
        notes.warn(f"{source}: left out {unknown} fields that Chakra schema 0.0.4 does not define")
    return columns.trace(source)


@lists_too
def read_trace(
    path: str | os.PathLike[str],
    *,
    lenient: bool = False,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Trace:
    """The trace in the file ``path``, plain or gzip (told by content).

    ``max_bytes`` bounds the memory that reading takes (None: see `chakrasim.files.inputs.bound`). Errors and
    ``lenient`` are as in `parse_trace`.
    """
    source = os.fspath(path)
    notes = Notes() if notes is None else notes
    return _decoded(storage.read_bytes(source, max_bytes), source, max_bytes, lenient, notes)


def _decoded(raw: bytes, source: str, max_bytes: int | None, lenient: bool, notes: Notes) -> Trace:
    """The trace in a file's bytes, which may be compressed."""
    limit = bound(len(raw), max_bytes)
    data = storage.unpack(raw, source, limit, lenient, notes)
    return parse_trace(data, source, lenient=lenient, notes=notes, limit=limit)


def write_trace(path: str | os.PathLike[str], trace: Trace, compress: bool | None = None) -> None:
    """Write ``trace`` to ``path``, gzip if ``compress`` or (None) if the name ends in ``.gz``.

    The file appears complete or not at all, and the same trace always gives the same bytes.
    """
    target = Path(path)
    data = encode_trace(trace)
    if compress if compress is not None else target.name.endswith(".gz"):
        data = storage.pack(data)
    write_whole(target, data)


@lists_too
def read(
    prefix: str | os.PathLike[str] | list[str | os.PathLike[str]] | tuple[str | os.PathLike[str], ...],
    *,
    ranks: int | None = None,
    lenient: bool = False,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> list[Trace]:
    """The traces of all ranks: of ``PREFIX.0.et``, ``PREFIX.1.et``, ... (or ``.et.gz``), or of the files in a list.

    ``ranks`` is the expected number of ranks: fewer files are an error, more are left out with a warning. Ranks whose
    files hold the same bytes share one Trace object, whose ``source`` is the first of the files. Of a job
    (``PREFIX.ranks.json``) the shared traces are expanded: groups are numbers and peers ranks (see `expand_job`).
    """
    notes = Notes() if notes is None else notes
    if isinstance(prefix, (list, tuple)):
        paths = [os.fspath(path) for path in prefix]
        if ranks is not None and len(paths) != ranks:
            raise InputError(
                "the list of trace files has the wrong length", found=len(paths), expected=f"{ranks} files"
            )
    else:
        from chakrasim.trace.job import file as job_file

        if job_file.is_job(prefix):
            return job_file.read_expanded(prefix, ranks, lenient, notes, max_bytes)
        paths = storage.rank_files(os.fspath(prefix), ranks, notes)
    known: dict[bytes, Trace] = {}
    traces = []
    for path in paths:
        raw = storage.read_bytes(path, max_bytes)
        key = storage.fingerprint(raw)
        trace = known.get(key)
        if trace is None:
            trace = known[key] = _decoded(raw, path, max_bytes, lenient, notes)
        traces.append(trace)
    return traces


def write(prefix: str | os.PathLike[str], traces: list[Trace], compress: bool = False) -> list[str]:
    """Write one trace per rank to ``PREFIX.RANK.et`` (``.et.gz`` if ``compress``), all or none; returns the names of
    the files.

    A trace that stands for several ranks (the same object) is encoded once.
    """
    return write_together(rank_contents(prefix, traces, compress))


def rank_contents(
    prefix: str | os.PathLike[str], traces: list[Trace], compress: bool = False
) -> Iterator[tuple[str, bytes]]:
    """The files of `write`: their names and what is in them."""
    ending = ".et.gz" if compress else ".et"
    encoded: dict[int, bytes] = {}
    for rank, trace in enumerate(traces):
        if id(trace) not in encoded:
            data = encode_trace(trace)
            encoded[id(trace)] = storage.pack(data) if compress else data
        yield f"{os.fspath(prefix)}.{rank}{ending}", encoded[id(trace)]
