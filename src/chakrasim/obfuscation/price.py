"""What a release costs: how far the time of a step is off, on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb
from statistics import median
from typing import Final

import numpy as np

from chakrasim.comparison.jobs.api import MACHINES as MACHINES
from chakrasim.comparison.jobs.api import simulated_on
from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import ChakrasimError
from chakrasim.exchange.times import times_ns
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.progress import Progress, told
from chakrasim.trace import work
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import INT64, NodeType

MOST_JOBS: Final = 12
"""So many jobs of a set are simulated, evenly through it."""
DOUBT: Final = 0.05
"""How often the median of all jobs may be outside the interval."""


@dataclass(frozen=True)
class Price:
    """Steps of some jobs on a machine, in ns, before and after, ``of`` so many jobs in all; ``fault``: why a job does
    not run there, else ""."""

    machine: str
    before_ns: tuple[int, ...]
    after_ns: tuple[int, ...]
    of: int
    fault: str = ""

    @property
    def errors(self) -> list[float]:
        """By job, the time after over the time before, less one."""
        return [after / max(before, 1) - 1 for before, after in zip(self.before_ns, self.after_ns, strict=True)]

    @property
    def median_error(self) -> float:
        """Of the jobs, without its sign."""
        return median(map(abs, self.errors)) if self.errors else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """In which the median of all jobs' errors is in 95 of 100 draws, whatever their distribution, by the sign test,
        if the jobs simulated are as good as drawn; None where all were simulated, or fewer than six, too few for one.
        """
        errors = sorted(map(abs, self.errors))
        count = len(errors)
        tails = accumulate(comb(count, at) for at in range(count // 2))
        least = sum(2 * tail <= DOUBT * 2**count for tail in tails)
        return (errors[least - 1], errors[-least]) if least and count < self.of else None

    @property
    def largest_error(self) -> float:
        """The error of the job that is furthest off, with its sign."""
        return max(self.errors, key=abs, default=0.0)


def prices(
    before: Sequence[Job],
    after: Sequence[Job],
    machines: Sequence[str],
    progress: Progress | None = None,
    of: int | None = None,
) -> tuple[Price, ...]:
    """The price of a release whose jobs stand for those before at the same places, on machines that exist; these are
    some ``of`` so many, or all."""
    found, every = [], len(before) if of is None else of
    for name in told(machines, lambda name: f"price: {name}", progress):
        try:
            times = [tuple(simulated_on(job, name).makespan_ns for job in each)
                     for each in zip(some(before), some(after), strict=True)]  # fmt: skip
            found.append(Price(name, tuple(own for own, _ in times), tuple(other for _, other in times), every))
        except ChakrasimError as fault:
            found.append(Price(name, (), (), every, str(fault)))
    return tuple(found)


def some(jobs: Sequence[Job]) -> list[Job]:
    """A few of the jobs, evenly."""
    chosen = np.unique(np.linspace(0, len(jobs) - 1, min(len(jobs), MOST_JOBS)).round().astype(int))
    return [jobs[at] for at in chosen.tolist()]


def on_device(job: Job, profile: DeviceProfile | None) -> Job:
    """The job with its computations as durations, on a device or as the traces have them. Raises InputError."""
    traces = []
    for trace in job.traces:
        nodes = np.flatnonzero(trace.types == NodeType.COMP_NODE)
        change = Change(work.COMPUTE_NS, INT64, nodes, times_ns(trace, profile)[nodes])
        traces.append(edited(trace, [change], drop_from={work.FLOPS: nodes, work.BYTES: nodes}))
    return Job(tuple(traces), job.trace_of_rank, job.process_groups)
