"""A profile of another maker's tool, whichever it is."""

from __future__ import annotations

from chakrasim.notes import Notes
from chakrasim.trace.kineto.columns import KinetoTrace
from chakrasim.trace.profiles import kinds


def read_profile(path: str, kind: str, *, lenient: bool, notes: Notes, process: int | None = None) -> KinetoTrace:
    """The trace of ``process`` in a file of a kind of `kinds`. Raises InputError for what cannot be read."""
    if kind == kinds.XPLANE:
        from chakrasim.trace.xplane.read import read_xplane

        return read_xplane(path, lenient=lenient, notes=notes)
    if kind == kinds.NSYS:
        from chakrasim.trace.profiles.nsys import read_nsys as read
    elif kind == kinds.ROCPROFV3:
        from chakrasim.trace.profiles.rocprofv3 import read_rocprofv3 as read
    else:
        from chakrasim.trace.profiles.rocprof import read_rocprof as read
    return read(path, lenient=lenient, notes=notes, process=process)


def look(path: str, kind: str) -> tuple[str, int]:
    """What a file of a kind is where it holds no trace ("": it does), and the process it is of (-1: not one)."""
    if kind == kinds.NSYS:
        from chakrasim.trace.profiles.nsys import look as look_closer

        return look_closer(path)
    if kind == kinds.ROCPROFV3:
        from chakrasim.trace.profiles.rocprofv3 import first_process

        return "", first_process(path)
    return "", -1
