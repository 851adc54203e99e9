"""The ranks of a recorded run, one at a time: PyTorch's traces, linked traces, or Chakra traces made of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from chakrasim.converter.binding.rows import Rows, rows_of_chakra, rows_of_linked
from chakrasim.diagnosis.files.discover import discover
from chakrasim.diagnosis.files.sniff import FileKind, sniff
from chakrasim.errors import InputError
from chakrasim.files import storage
from chakrasim.linker.api import link
from chakrasim.notes import Notes
from chakrasim.text.amounts import some_of
from chakrasim.trace.chakra.files import read_trace
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.file import is_job, ranks_file
from chakrasim.trace.linked.columns import LinkedTrace
from chakrasim.trace.linked.file import read_linked

Recording = str | os.PathLike[str] | LinkedTrace | Trace
EXPECTED: Final = "a folder of PyTorch's traces, a device trace, a linked trace, or Chakra traces made of these"
_RANK: Final = re.compile(r"(.*)\.(\d+)\.et(?:\.gz)?")


def recorded_ranks(source: Recording, *, lenient: bool, notes: Notes) -> Iterator[Rows]:
    """Every rank of a recorded run. Raises InputError for what is none, or cannot be read."""
    if isinstance(source, LinkedTrace):
        yield rows_of_linked(source)
        return
    if isinstance(source, Trace):
        yield _of_chakra(source)
        return
    path = os.fspath(source)
    if os.path.isdir(path):
        stems = sorted({match[1] for match in map(_RANK.fullmatch, os.listdir(path)) if match})
        if len(stems) > 1:
            remedy = f"name one of them: {os.path.join(path, stems[0])}"
            raise InputError("this folder has the traces of several runs", file=path, found=some_of(stems, 5),
                             expected="one run", remedy=remedy)  # fmt: skip
        if stems:
            path = os.path.join(path, stems[0])
    elif os.path.exists(path):
        kind = sniff(Path(path)).kind
        if kind is FileKind.JOINED:
            yield rows_of_linked(read_linked(path))
            return
        if kind is FileKind.CHAKRA:
            yield _of_chakra(read_trace(path, lenient=lenient, notes=notes))
            return
    if os.path.exists(path):
        for files in discover(path, notes=notes):
            said = Notes()
            yield rows_of_linked(link(files.host, files.device, rank=files.rank, lenient=lenient, notes=said))
            notes.warn(*(f"rank {files.rank}: {text}" for text in said.warnings))
        return
    if is_job(path):
        raise InputError("this job is no recorded run", file=ranks_file(path), found="traces that ranks share",
                         expected=EXPECTED, remedy="give the folder that was recorded")  # fmt: skip
    for file in storage.rank_files(path, None, notes):
        yield _of_chakra(read_trace(file, lenient=lenient, notes=notes))


def _of_chakra(trace: Trace) -> Rows:
    rank = trace.metadata.get("rank")
    if not trace.attr("start_ns").present.any() or not trace.attr("op_schema").present.any():
        raise InputError("this is no trace of a recorded run", file=trace.source,
                         found="nodes without recorded times, or without the schemas of operators",
                         expected=EXPECTED, remedy="give the folder that was recorded")  # fmt: skip
    return rows_of_chakra(trace, rank if isinstance(rank, int) else -1)
