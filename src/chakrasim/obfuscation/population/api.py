"""Level population: a model of many jobs that tells next to nothing of any one of them.

Subsample and aggregate: each job is in one chunk by chance, and a program is learned from each chunk alone. Sets of
parameters are drawn from what is known of all jobs' parameters by noisy counts, every program makes a job of each set,
and what most make alike, by so many that one job cannot decide it, is what the released program is learned from. All
that is released follows from the noisy counts, the two tests, random numbers, and epsilon, delta and the number of
chunks, which are no secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrasim.errors import ChakrasimError, InputError
from chakrasim.notes import Notes
from chakrasim.obfuscation.population.budget import CHUNKS, DELTA, EPSILON, Budget
from chakrasim.obfuscation.population.consensus import consensus
from chakrasim.obfuscation.population.noise import SECURE, Below, holds
from chakrasim.obfuscation.population.parameters import partition, population_of, stated
from chakrasim.progress import Progress, told
from chakrasim.synthesis.api import learn
from chakrasim.synthesis.model import Learned
from chakrasim.trace.job.job import Job

POINTS = 30
"""Sets of parameters that programs make jobs of: more teach more, and one on which programs differ stops a release."""
FEWEST_CHUNKS = 5


@dataclass(frozen=True)
class Guarantee:
    """Of a release: ``epsilon``, the sum of all shares, and ``delta``, for one job added or removed; ``chunks``;
    ``points``, jobs that the model is learned from; of ``kinds`` of nodes ``left_out`` and ``unknown`` numbers."""

    epsilon: float
    delta: float
    chunks: int
    points: int
    left_out: int
    unknown: int


def of_population(
    jobs: Sequence[Job],
    *,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    chunks: int = CHUNKS,
    notes: Notes,
    progress: Progress | None = None,
    below: Below = SECURE,
) -> tuple[Learned, Guarantee]:
    """A model of the jobs with (epsilon, delta)-differential privacy for one job added or removed.

    Raises InputError for amounts that guarantee nothing, and where chunks do not agree enough for anything to be
    released.
    """
    budget = Budget.of(epsilon, delta)
    if chunks < FEWEST_CHUNKS:
        raise InputError("too few chunks for any to be outvoted", found=chunks, expected=f"{FEWEST_CHUNKS} or more")
    known = population_of([stated(job) for job in jobs], chunks, budget, below)
    if known is None:
        raise _refused("too few chunks of the jobs state the same parameters", len(jobs))
    points = known.points(POINTS, np.random.default_rng(below(1 << 128)))
    programs = programs_of(jobs, partition(len(jobs), chunks, below), progress)
    made = consensus(programs, points, chunks, progress)
    if not holds(made.distance, budget.program, below) or len(made.jobs) < 4:
        raise _refused("programs learned from chunks of the jobs do not agree enough", len(jobs))
    learned = learn([(job.parameters, job) for job in made.jobs], notes=notes, progress=progress)
    return learned, Guarantee(
        float(sum(one.epsilon for one in budget.shares)), delta, chunks, len(made.jobs), made.left_out, made.unknown
    )


def programs_of(jobs: Sequence[Job], parts: Sequence[Sequence[int]], progress: Progress | None) -> list[Learned]:
    """The programs of chunks, each learned from its jobs alone; of chunks of which none can be learned, none."""
    found = []
    for part in told(parts, lambda part: "programs of chunks", progress):
        try:
            own = learn([(stated(jobs[at]), jobs[at]) for at in part], notes=Notes())
        except ChakrasimError:
            continue
        found.append(replace(own, model=replace(own.model, scatter=None)))
    return found


def _refused(what: str, jobs: int) -> InputError:
    remedy = "give more jobs of one kind, fewer chunks with more jobs each, or a larger epsilon; each try on the same "
    return InputError(
        f"nothing can be released: {what}", found=f"{jobs:,} jobs", remedy=remedy + "jobs spends its epsilon again"
    )
