"""The jobs that a path means: one, or all of a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass

from chakrasim.converter.retarget.job_input import load_job
from chakrasim.notes import Notes
from chakrasim.trace.job.file import prefixes_of
from chakrasim.trace.job.job import Job

Jobs = str | os.PathLike[str] | Job


@dataclass(frozen=True, eq=False)
class NamedJob:
    """A job of a set; its name is that of its files, from the set's folder."""

    name: str
    job: Job


def open_jobs(source: Jobs, *, lenient: bool, notes: Notes) -> list[NamedJob]:
    """All jobs of a folder (with its sub-folders) in order of their names, or the one of a prefix.

    Raises InputError for a folder without jobs and for what cannot be read.
    """
    if isinstance(source, Job):
        return [NamedJob("<memory>", source)]
    path = os.fspath(source)
    folder = path if os.path.isdir(path) else ""
    return [
        NamedJob(os.path.relpath(prefix, folder) if folder else os.path.basename(prefix),
                 load_job(prefix, lenient=lenient, notes=notes))
        for prefix in prefixes_of(path)
    ]  # fmt: skip
