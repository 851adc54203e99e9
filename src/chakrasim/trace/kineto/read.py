"""Reading Kineto traces: one pass of a compiled scanner, straight into columns, a window of the file at a time."""

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
) -> KinetoTrace:
    """The trace in the file ``path`` (plain or gzip, told by content).

    ``keep``: "all" events, or "work": only those with a duration and a category (no flow arrows, no metadata, no
    Python stack). Raises InputError for damaged files; ``lenient`` recovers them, with a warning that counts what was
    lost and says where. Memory is that of the columns and a few MiB.
    """
    from chakrasim.trace.json.records import Records
    from chakrasim.trace.kineto.taking import FORM, EventTaker

    if keep not in ("all", "work"):
        raise InputError("unknown selection of events", found=repr(keep), expected="'all' or 'work'")
    records = Records(os.fspath(path), FORM, lenient=lenient)
    with records.file:
        taker = EventTaker(records, work_only=keep == "work", lenient=lenient)
        return taker.read(Notes() if notes is None else notes)
