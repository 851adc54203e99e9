"""What is obfuscated, as jobs, and what is released, as files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.whole_folder import check_folder, whole_folder
from chakrasim.notes import Notes
from chakrasim.synthesis.api import stated_job
from chakrasim.trace.chakra.files import read_trace, write_trace
from chakrasim.trace.job.file import check_prefix, is_file_of_job, prefixes_of, write_job
from chakrasim.trace.job.job import Job

ONE, JOB, FOLDER, MODEL = "a trace", "a job", "a folder of jobs", "a model"
_ENDINGS: Final = (".et", ".et.gz")
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Opened:
    """What was given: ``kind`` is ONE (a rank's trace by itself), JOB or FOLDER."""

    kind: str
    names: tuple[str, ...]
    jobs: tuple[Job, ...]


def opened(source: PathLike | Job | Sequence[Job], *, lenient: bool, notes: Notes) -> Opened:
    """The jobs of a trace's file, a prefix, a folder of jobs, or in memory. Raises InputError."""
    if isinstance(source, Job):
        return Opened(JOB, ("<memory>",), (source,))
    if not isinstance(source, (str, os.PathLike)):
        return Opened(FOLDER, tuple(f"job {i}" for i in range(len(source))), tuple(source))
    given = os.fspath(source)
    if given.endswith(_ENDINGS) and os.path.isfile(given):
        trace = read_trace(given, lenient=lenient, notes=notes)
        return Opened(ONE, (given,), (Job((trace,), np.zeros(1, np.int64)),))
    names = prefixes_of(given)
    jobs = tuple(stated_job(prefix, lenient=lenient, notes=notes) for prefix in names)
    return Opened(FOLDER if os.path.isdir(given) else JOB, tuple(names), jobs)


def write_release(
    path: PathLike, kind: str, names: Sequence[str], jobs: Sequence[Job], *, expand: bool = False
) -> list[str]:
    """Write what is released, whole or not at all: a trace to its file, a job under its prefix, several jobs into a
    folder that is not there yet or is empty. Returns the names of the files. Raises InputError."""
    target = os.fspath(path)
    if kind == ONE:
        write_trace(target, jobs[0].traces[0])
        return [target]
    if kind == JOB:
        return write_job(target, jobs[0], expand=expand)
    with whole_folder(target) as folder:
        files = [os.path.relpath(file, folder) for name, job in zip(names, jobs, strict=True)
                 for file in write_job(folder / name, job, expand=expand)]  # fmt: skip
    return [os.path.join(target, file) for file in files]


def check_release(path: PathLike, kind: str, inputs: Sequence[str]) -> None:
    """Raise InputError for an output that is not of the kind of the input, or would replace it."""
    target = os.fspath(path)
    if (kind == ONE) != target.endswith(_ENDINGS):
        expected = "the name of a trace, such as shared.0.et" if kind == ONE else f"a name for {kind}, as the input is"
        raise InputError("the output is of another kind than the input", file=target, expected=expected)
    if kind == JOB:
        check_prefix(target)
    if kind == MODEL and os.path.isdir(target):
        raise InputError("the model's file is a folder", file=target, remedy="name a file")
    if kind == FOLDER:
        check_folder(target, force=False)
    real = os.path.realpath(target)
    if any(real == os.path.realpath(one) or (kind == MODEL and is_file_of_job(one, real)) for one in inputs):
        raise InputError("--output would replace the input", file=target, remedy="name another place")
