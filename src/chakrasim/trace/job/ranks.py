"""Chakra execution traces of all ranks: ``PREFIX.RANK.et``, plain or gzip, or those of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator

from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.files.job_formats import foreign_kind
from chakrasim.files.outputs import write_together
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.chakra.files import unpacked_trace
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.foreign.read import read_foreign
from chakrasim.trace.job.expand import expand_job
from chakrasim.trace.job.file import is_job, read_expanded
from chakrasim.trace.recognise import refuse_as_prefix


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
    (``PREFIX.ranks.json``, or a file in another maker's format) the shared traces are expanded: groups are numbers and
    peers ranks (see `expand_job`).
    """
    notes = Notes() if notes is None else notes
    if isinstance(prefix, (list, tuple)):
        paths = [os.fspath(path) for path in prefix]
        if ranks is not None and len(paths) != ranks:
            raise InputError(
                "the list of trace files has the wrong length", found=len(paths), expected=f"{ranks} files"
            )
    else:
        if is_job(prefix):
            return read_expanded(prefix, ranks, lenient, notes, max_bytes)
        if foreign_kind(prefix):
            return expand_job(read_foreign(prefix, ranks=ranks, notes=notes, max_bytes=max_bytes))
        refuse_as_prefix(os.fspath(prefix))
        paths = storage.rank_files(os.fspath(prefix), ranks, notes)
    known: dict[bytes, Trace] = {}
    traces = []
    for path in paths:
        raw = storage.read_bytes(path, max_bytes)
        key = storage.fingerprint(raw)
        trace = known.get(key)
        if trace is None:
            trace = known[key] = unpacked_trace(raw, path, max_bytes, lenient, notes)
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
