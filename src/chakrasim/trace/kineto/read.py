"""Reading device traces: Kineto's in one pass of a compiled scanner, straight into columns, a window of the file at a
time; profiles of other makers by their own readers."""

from __future__ import annotations

import os

from chakrasim.errors import InputError
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.kineto.columns import KinetoTrace


@lists_too
def read_kineto(
    path: str | os.PathLike[str],
    *,
    keep: str = "all",
    lenient: bool = False,
    notes: Notes | None = None,
    process: int | None = None,
) -> KinetoTrace:
    """The trace in the file ``path`` (plain or gzip, told by content), of PyTorch's profiler (Kineto) or of one of the
    profilers in `chakrasim.trace.profiles`.

    ``keep``: "all" events, or "work": only those with a duration and a category (no flow arrows, no metadata, no
    Python stack). ``process``: whose trace, where a profile of another maker has those of several. Raises InputError
    for damaged files; ``lenient`` recovers them, with a warning that counts what was lost and says where. Memory is
    that of the columns and a few MiB.
    """
    from chakrasim.trace.json.records import Records
    from chakrasim.trace.kineto.only_work import only_work
    from chakrasim.trace.kineto.taking import FORM, EventTaker
    from chakrasim.trace.profiles.kinds import profile_kind
    from chakrasim.trace.profiles.read import read_profile

    if keep not in ("all", "work"):
        raise InputError("unknown selection of events", found=repr(keep), expected="'all' or 'work'")
    said = Notes() if notes is None else notes
    kind = profile_kind(path)
    if kind:
        trace = read_profile(os.fspath(path), kind, lenient=lenient, notes=said, process=process)
        return only_work(trace) if keep == "work" else trace
    records = Records(os.fspath(path), FORM, lenient=lenient)
    with records.file:
        taker = EventTaker(records, work_only=keep == "work", lenient=lenient)
        return taker.read(said)
