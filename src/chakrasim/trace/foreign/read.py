"""A job of another maker's format, whichever it is."""

from __future__ import annotations

import os

from chakrasim.errors import InputError
from chakrasim.files import job_formats as kinds
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.job.job import Job


@lists_too
def read_foreign(
    path: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Job:
    """The job of a GOAL, SimAI, AICB or OTF2 file. ``ranks``: how many there are, where the file does not say.

    ``max_bytes`` bounds the memory that reading takes. Raises InputError, also where the file says another number.
    """
    notes = Notes() if notes is None else notes
    kind = kinds.foreign_kind(path)
    if kind == kinds.GOAL:
        from chakrasim.trace.foreign.goal import read_goal

        job = read_goal(path, notes=notes, max_bytes=max_bytes)
    elif kind in (kinds.SIMAI, kinds.EARLY):
        if kind == kinds.EARLY:
            notes.warn(
                f"{os.fspath(path)}: its times are read as ns, as SimAI has them; of ASTRA-sim 1.0, chakrasim convert "
                "Text takes them for microseconds, as chakra_converter does"
            )
        from chakrasim.trace.foreign.simai import read_simai

        job = read_simai(path, ranks=ranks, notes=notes, max_bytes=max_bytes)
    elif kind == kinds.AICB:
        from chakrasim.trace.foreign.aicb import read_aicb

        job = read_aicb(path, ranks=ranks, notes=notes, max_bytes=max_bytes)
    elif kind == kinds.OTF2:
        from chakrasim.trace.foreign.otf2 import read_otf2

        job = read_otf2(path, notes=notes, max_bytes=max_bytes)
    else:
        raise InputError("this is no job of another format", file=os.fspath(path), expected=" or ".join(kinds.JOBS))
    if ranks is not None and ranks != job.ranks:
        raise InputError(
            f"{ranks} ranks are asked for", file=os.fspath(path), found=f"{job.ranks} ranks", remedy="leave ranks out"
        )
    return job
