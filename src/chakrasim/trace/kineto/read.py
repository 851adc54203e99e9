"""Reading device traces: Kineto's in one pass of a compiled scanner, straight into columns, a window of the file at a
time; profiles of other makers by their own readers."""

from __future__ import annotations

import os

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.kineto.columns import UNSORTED, UNSORTED_SAID, KinetoTrace


@lists_too
def read_kineto(
    path: str | os.PathLike[str],
    *,
    keep: str = "all",
    lenient: bool = False,
    notes: Notes | None = None,
    process: int | None = None,
) -> KinetoTrace:
    """The trace in the file ``path`` (plain or gzip, told by content), of PyTorch's profiler (Kineto, Ascend's), of
    one of those in `chakrasim.trace.profiles`, or a job's timeline of veScale or dPRO.

    ``keep``: "all" events, or "work": only those with a duration and a category (no flow arrows, no metadata, no
    Python stack). ``process``: whose trace, where a profile of another maker has those of several. Raises InputError
    for damaged files; ``lenient`` recovers them, with a warning that counts what was lost and says where. Memory is
    that of the columns and a few MiB.
    """
    from chakrasim.trace.kineto import job_timelines
    from chakrasim.trace.kineto.ascend import is_ascend, sorted_out
    from chakrasim.trace.kineto.only_work import only_work
    from chakrasim.trace.profiles.kinds import OF_PROCESSES, profile_kind
    from chakrasim.trace.profiles.read import read_profile

    if keep not in ("all", "work"):
        raise InputError("unknown selection of events", found=repr(keep), expected="'all' or 'work'")
    said, name = Notes() if notes is None else notes, os.fspath(path)
    kind = profile_kind(path)
    if process is not None and kind not in OF_PROCESSES:
        raise InputError(
            "no process can be chosen in this file: it is read as the trace of one",
            file=name,
            found=f"process={process}" + (f" for {kind}" if kind else ""),
            expected="process=ID only for exports of Nsight Systems, profiles of rocprofv3 and traces of rocprof",
        )
    if kind:
        trace = read_profile(name, kind, lenient=lenient, notes=said, process=process)
        return only_work(trace) if keep == "work" else trace
    heard = Notes()
    trace = _read(name, keep, lenient, heard)
    if UNSORTED in trace.counts:
        whole = trace if keep == "all" else _read(name, "all", lenient, Notes())
        if is_ascend(whole):
            said.warn(*(text for text in heard.warnings if UNSORTED_SAID not in text))
            found = sorted_out(whole, said)
            return only_work(found) if keep == "work" else found
    said.add(heard)
    timeline = job_timelines.kind_of_timeline(trace)
    return job_timelines.sorted_out(trace, timeline, said) if timeline else trace


def _read(path: str, keep: str, lenient: bool, notes: Notes) -> KinetoTrace:
    """The events as the file has them."""
    from chakrasim.trace.json.records import Records
    from chakrasim.trace.kineto.taking import FORM, EventTaker

    records = Records(path, FORM, lenient=lenient)
    with records.file:
        return EventTaker(records, work_only=keep == "work", lenient=lenient).read(notes)
