"""Reading PyTorch host traces: one pass of a compiled scanner, straight into columns; the text is kept."""

from __future__ import annotations

import os

from chakrasim.notes import Notes, lists_too
from chakrasim.trace.host.columns import HostTrace


@lists_too
def read_host(path: str | os.PathLike[str], *, lenient: bool = False, notes: Notes | None = None) -> HostTrace:
    """The host trace in the file ``path`` (plain or gzip; all schemas from 1.0.1 on; also what a linker wrote).

    Raises InputError for damaged files; ``lenient`` recovers them, with a warning that counts what was lost and says
    where.
    """
    from chakrasim.trace.host.taking import FORM, NodeTaker
    from chakrasim.trace.json.records import Records

    records = Records(os.fspath(path), FORM, lenient=lenient, whole=True)
    with records.file:
        return NodeTaker(records, lenient=lenient).read(Notes() if notes is None else notes)
