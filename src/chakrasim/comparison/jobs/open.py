"""The jobs that a path means: one, or all of a folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chakrasim.converter.retarget.job_input import load_job
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import some_of
from chakrasim.trace.job.file import RANKS_ENDING
from chakrasim.trace.job.job import Job

Jobs = str | os.PathLike[str] | Job
_FIRST: Final = re.compile(r"(.*)\.0\.et(?:\.gz)?")


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
    if not os.path.isdir(path):
        return [
            NamedJob(os.path.basename(path.removesuffix(RANKS_ENDING)), load_job(path, lenient=lenient, notes=notes))
        ]
    prefixes: set[str] = set()
    files = [file for file in Path(path).rglob("*.et*") if file.is_file()] + [*Path(path).rglob(f"*{RANKS_ENDING}")]
    for file in files:
        match = _FIRST.fullmatch(file.name)
        if file.name.endswith(RANKS_ENDING):
            prefixes.add(str(file).removesuffix(RANKS_ENDING))
        elif match:
            prefixes.add(str(file.with_name(match[1])))
    if not prefixes:
        raise InputError("there are no jobs in this folder", file=path,
                         found=some_of(sorted(os.listdir(path)), 5) or "an empty folder",
                         expected="PREFIX.ranks.json or PREFIX.0.et, PREFIX.1.et, ...",
                         remedy="name the folder of the jobs, or a prefix")  # fmt: skip
    return [
        NamedJob(os.path.relpath(prefix, path), load_job(prefix, lenient=lenient, notes=notes))
        for prefix in sorted(prefixes)
    ]
