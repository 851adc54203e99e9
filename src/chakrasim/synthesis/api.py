"""``learn`` and ``synthesize``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import islice
from typing import Final

import numpy as np

from chakrasim.converter.retarget.job_input import check_groups, load_job
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.progress import Progress
from chakrasim.synthesis.choose import Choice, choices
from chakrasim.synthesis.columns import columns_of, is_whole
from chakrasim.synthesis.expand import IN_DOUBT
from chakrasim.synthesis.grammar.recorded import in_short, is_recorded
from chakrasim.synthesis.learn import learn_program
from chakrasim.synthesis.model import Learned
from chakrasim.synthesis.on_device import device_of, untimed
from chakrasim.synthesis.parameters import parameters_of
from chakrasim.synthesis.shared import shared
from chakrasim.synthesis.synthesize import job_of
from chakrasim.trace.job.file import prefixes_of, read_parameters
from chakrasim.trace.job.groups import check_job
from chakrasim.trace.job.job import Job, Parameter

PathLike = str | os.PathLike[str]
FEWEST: Final = 2
"""Jobs without which nothing can be told apart from chance."""
TRIED: Final = 4
"""Jobs of which some can be left out."""
SHOWN: Final = 8
"""Names in a warning."""
LARGEST: Final = 1 << 62


def learn(
    jobs: Sequence[PathLike | tuple[Mapping[str, Parameter], Job]],
    *,
    lenient: bool = False,
    notes: Notes | None = None,
    progress: Progress | None = None,
) -> Learned:
    """The program of these jobs: prefixes of files, folders of such, or pairs of parameters and a `Job`.

    Raises InputError for files that cannot be read, and for fewer than two jobs.
    """
    said = Notes() if notes is None else notes
    names: list[str] = []
    found: list[tuple[dict[str, Parameter], Job]] = []
    for each in jobs:
        if isinstance(each, tuple):
            names.append(f"job {len(names)}")
            found.append((dict(each[0]), replace(each[1], parameters=each[0])))
            continue
        for prefix in prefixes_of(each):
            job = stated_job(prefix, lenient=lenient, notes=said)
            names.append(prefix)
            found.append((parameters_of(job), job))
    if len(found) < FEWEST:
        raise InputError("a program is not learned from one job", found=f"{len(found)} jobs",
                         expected="two or more", remedy="give more jobs, or a folder of them")  # fmt: skip
    if find_spec("scipy") is None:
        said.warn("without SciPy no sums of more than two products are found: pip install 'chakrasim[learn]'")
    if len(found) < TRIED:
        said.warn(f"{len(found)} jobs are too few to try laws on jobs that they were not found in: {TRIED} are not")
    recorded = any(is_recorded(trace) for _, job in found for trace in job.traces)
    if recorded:
        found = [(own, _in_short(job)) for own, job in found]
        said.note("recorded jobs: each call that no other makes is one node, with all that it calls")
    device = "" if recorded else device_of([job for _, job in found])
    whole = shared([untimed(job) if device else job for _, job in found])
    parameters = _alike([own for own, _ in found], whole, said)
    stated = all(job.parameters for job in whole)
    model, lost, more = learn_program(
        list(zip(parameters, whole, strict=True)), progress, stated=stated, recorded=recorded
    )
    learned = Learned(
        replace(model, device=device),
        names,
        [{**own, **latent} for own, latent in zip(parameters, more, strict=True)],
        lost,
    )
    smallest = min(range(len(whole)), key=lambda at: sum(map(len, whole[at].traces)))
    try:
        next(synthesize(learned, learned.parameters[smallest]))
    except InputError as fault:
        said.warn(f"the model does not make {names[smallest]}, which it was learned from: {fault}")
    return learned


def _in_short(job: Job) -> Job:
    traces = tuple(in_short(trace) if is_recorded(trace) else trace for trace in job.traces)
    return replace(job, traces=traces)


def stated_job(prefix: str, *, lenient: bool, notes: Notes) -> Job:
    """The job of a prefix, with the parameters that a file beside it states. Raises InputError."""
    job = load_job(prefix, lenient=lenient, notes=notes)
    check_groups(job, prefix)
    return replace(job, parameters={**job.parameters, **read_parameters(prefix)})


def _alike(
    parameters: Sequence[Mapping[str, Parameter]], jobs: Sequence[Job], notes: Notes
) -> list[dict[str, Parameter]]:
    """Parameters that any job states, those of the first first; groups of a role that a job lacks have one member."""
    last = {name.rsplit(".", 1)[-1] for own in parameters for name in own}
    roles = {role for job in jobs for role in job.process_groups} - last
    every = [
        {**own, **{role: len(groups[0]) if (groups := job.process_groups.get(role)) else 1 for role in sorted(roles)}}
        for own, job in zip(parameters, jobs, strict=True)
    ]
    sized = {role for own in parameters for role in own if role in {r for job in jobs for r in job.process_groups}}
    every = [{**dict.fromkeys(sorted(sized), 1), **own} for own in every]
    if not any("ranks" in own for own in every):
        every = [{**own, "ranks": job.ranks} for own, job in zip(every, jobs, strict=True)]
    words = {name for own in every for name, value in own.items() if isinstance(value, str)}
    mixed = sorted(name for name in words for own in every if not isinstance(own.get(name, ""), str))
    if mixed:
        raise InputError("a parameter is a word in some jobs and a number in others", place=mixed[0],
                         remedy="state it in one way in all jobs")  # fmt: skip
    kinds = {name: type(value)() for own in reversed(every) for name, value in own.items()}
    left = [name for name in kinds if any(name not in own for own in every)]
    if left:
        notes.warn(f"{len(left)} parameters are 0 or empty where a job does not state them: {', '.join(left[:SHOWN])}")
    names = [*every[0], *sorted({*kinds} - {*every[0]})]
    return [{name: own.get(name, kinds[name]) for name in names} for own in every]


def _with_all_words(parameters: Sequence[Mapping[str, Parameter]]) -> list[Mapping[str, Parameter]]:
    """Some of the jobs' parameters that have all words, and numbers with fractions, that any has."""
    seen: set[tuple[str, Parameter]] = set()
    found: list[Mapping[str, Parameter]] = []
    for own in parameters:
        fresh = {(name, value) for name, value in own.items() if not is_whole(value)} - seen
        if fresh or not found:
            found.append(own)
            seen |= fresh
    return found


def _check_sizes(parameters: Mapping[str, Parameter]) -> None:
    """Raises InputError for a number that is too large, or none."""
    for name, value in parameters.items():
        if not isinstance(value, str) and not abs(value) < LARGEST:
            raise InputError("a parameter is too large", place=name, found=value, expected="less than 2^62")


@dataclass(frozen=True, eq=False)
class Synthetic:
    """A job that was made, and the parameters that it was made with."""

    choice: Choice
    job: Job

    @property
    def nodes(self) -> int:
        """How many the distinct traces have."""
        return sum(map(len, self.job.traces))


def synthesize(
    learned: Learned, settings: Mapping[str, Parameter], *, count: int = 1, seed: int = 0, notes: Notes | None = None
) -> Iterator[Synthetic]:
    """So many jobs with these parameters, one by one; what they leave open is as in a job learned from, drawn with
    ``seed``, or follows from the others. Each has matched collectives and messages, which is checked.

    Raises InputError for parameters that the model does not have, or that fit no job.
    """
    said = Notes() if notes is None else notes
    _check_sizes(settings)
    words = _with_all_words(learned.parameters)
    if learned.lost:
        worst, off = max(learned.lost.items(), key=lambda each: each[1])
        said.warn(f"{len(learned.lost):,} laws of the model are only near, the worst {off:.1%} off in jobs left"
                  f" out ({worst}): so is what is made; chakrasim learn lists them, and more may help")  # fmt: skip
    if few := learned.model.by_few:
        said.warn(f"{len(few):,} laws of the model are said by so few examples that they may hold by chance:"
                  f" {', '.join(few[:SHOWN])}")  # fmt: skip
    scatter = learned.model.scatter
    if scatter is not None and scatter.host is not None:
        said.warn(f"the recordings' hosts are {scatter.recording:.0%} faster or slower (one standard deviation): so far"
                  " off is what is bound by the host")  # fmt: skip
    for number, choice in enumerate(islice(choices(learned, settings, np.random.default_rng(seed)), count)):
        for warning in choice.outside:
            said.warn(warning)
        _check_sizes(choice.parameters)
        columns = columns_of([*words, choice.parameters], words)[-1]
        below: Counter[str] = Counter()
        try:
            job = job_of(learned.model, columns, choice.parameters, (seed, number), below)
        except OverflowError:
            raise InputError("these parameters make numbers beyond 2^63, or sums of such, which no trace can hold",
                             remedy="set smaller ones") from None  # fmt: skip
        except (KeyError, IndexError, TypeError, ValueError) as fault:
            raise InputError("the model does not fit together", found=f"{type(fault).__name__}: {str(fault)[:80]}",
                             remedy="learn it again") from None  # fmt: skip
        if doubts := below.pop(IN_DOUBT, 0):
            said.warn(f"what adds up comes to where no job says whether it is enough, {doubts:,} times: pieces may be"
                      " cut elsewhere")  # fmt: skip
        if below:
            said.warn(f"{below.total():,} numbers of the job are less than 0, where none can be, and 0 in its place:"
                      f" {', '.join(sorted(below)[:SHOWN])}")  # fmt: skip
        check_job(job)
        yield Synthetic(choice, job)
