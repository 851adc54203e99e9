"""What is simulated, however it is given: as a job, which says of every rank which trace it runs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from os.path import isfile

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.job_formats import foreign_kind
from chakrasim.notes import Notes
from chakrasim.trace import Job, Trace, read, read_trace
from chakrasim.trace.foreign.read import read_foreign
from chakrasim.trace.job.file import RANKS_ENDING, is_job, read_job
from chakrasim.trace.job.groups import check_job

_BYTES_PER_RANK = 256
"""Of the columns of a result and of the folding that have an entry for each rank."""

Workload = str | PathLike[str] | Trace | Sequence[Trace] | Job


def load_workload(
    workload: Workload,
    ranks: int | None,
    lenient: bool,
    notes: Notes,
    *,
    one: bool = False,
    max_bytes: int | None = None,
) -> Job:
    """The job that a prefix, a trace, a list of traces or a job stands for, checked; ``one``: a single trace needs no
    number of ranks; ``max_bytes`` bounds the memory that reading a trace takes. Raises InputError.
    """
    if isinstance(workload, Job):
        check_job(workload)
        return workload
    if isinstance(workload, str | PathLike):
        if is_job(workload):
            return read_job(workload, lenient=lenient, notes=notes, max_bytes=max_bytes)
        if foreign_kind(workload):
            return read_foreign(workload, ranks=ranks, notes=notes, max_bytes=max_bytes)
        if (one or ranks is not None) and isfile(workload) and not str(workload).endswith(RANKS_ENDING):
            trace = read_trace(workload, lenient=lenient, notes=notes, max_bytes=max_bytes)
            return _of_one(trace, ranks or 1)
        _refuse_one_file(fspath(workload))
        return _of_list(read(workload, lenient=lenient, notes=notes, max_bytes=max_bytes), ranks)
    if isinstance(workload, Trace):
        if ranks is None and not one:
            raise InputError("one trace needs to be told how many ranks run it", remedy="give ranks=N")
        return _of_one(workload, ranks or 1)
    traces = list(workload)
    if not all(isinstance(trace, Trace) for trace in traces):
        raise InputError("the workload is neither a path nor a job nor a list of traces", found=repr(workload)[:80])
    return _of_list(traces, ranks)


def _refuse_one_file(path: str) -> None:
    """A file where a prefix is expected is a trace of which nobody said how many ranks run it."""
    if isfile(path) and not any(isfile(f"{path}.0{ending}") for ending in (".et", ".et.gz")):
        raise InputError(
            "this is one file, not the prefix of the traces of all ranks",
            file=path,
            expected=f"{path}.0.et and so on, or the number of ranks that run this trace",
            remedy="give ranks=N (--ranks N)",
        )


def _of_one(trace: Trace, ranks: int) -> Job:
    return Job((trace,), np.broadcast_to(np.int64(0), ranks))


def _of_list(traces: Sequence[Trace], ranks: int | None) -> Job:
    """Equal entries of a list are one object."""
    if len(traces) == 1:
        return _of_one(traces[0], 1 if ranks is None else ranks)
    distinct: dict[int, int] = {}
    which = np.array([distinct.setdefault(id(trace), len(distinct)) for trace in traces], np.int64)
    first = dict(zip(which.tolist(), traces, strict=True))
    return Job(tuple(first[index] for index in range(len(distinct))), which)


def workload_exists(prefix: str) -> bool:
    """Whether there are files of this prefix, or a file of this name."""
    return any(isfile(prefix + end) for end in ("", ".0.et", ".0.et.gz", RANKS_ENDING))


def check_memory(ranks: int, most_bytes: int) -> None:
    """Raise InputError for more ranks than the memory holds that a rank takes in any case."""
    if ranks * _BYTES_PER_RANK > most_bytes:
        raise InputError(
            f"{ranks:,} ranks take more memory than the simulation may take",
            found=f"{ranks * _BYTES_PER_RANK:,} bytes or more",
            expected=f"at most {most_bytes:,}",
            remedy="simulate fewer ranks, or raise the limit (max_bytes)",
        )


def check_count(job: Job, ranks: int | None, npus: int) -> None:
    """Raise InputError unless the job has as many ranks as the network, and as were asked for."""
    if ranks is not None and ranks == job.ranks != npus:
        raise InputError(
            f"{ranks} ranks are asked for, but the network has {npus} NPUs", remedy="make the two numbers equal"
        )
    if ranks is not None and ranks != job.ranks == npus:
        raise InputError(
            f"{ranks} ranks are asked for, but the workload and the network have {npus}", remedy="leave ranks out"
        )
    if job.ranks != (npus if ranks is None else ranks) or job.ranks != npus:
        raise InputError(
            f"the workload has {job.ranks} ranks, but the network has {npus} NPUs",
            remedy="give one trace per NPU (or one trace and the number of ranks), or another network",
        )
