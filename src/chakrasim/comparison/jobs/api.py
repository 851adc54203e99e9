"""`compare_jobs`: how alike two jobs, or two sets of jobs, are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from chakrasim.comparison.jobs.figures import apart, distances, kendall, regret, relative
from chakrasim.comparison.jobs.measures import Measures, measures
from chakrasim.comparison.jobs.open import Jobs, NamedJob, open_jobs
from chakrasim.comparison.jobs.result import Amount, Decision, JobsComparison, OnMachine, PairOfJobs, Privacy
from chakrasim.errors import ChakrasimError, InputError
from chakrasim.machine import board_names, load_machine
from chakrasim.notes import Notes, lists_too
from chakrasim.simulator.api import simulate
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.trace.job.job import Job

MACHINES: Final = ("h100", "a100", "mi300x")
"""Boards on which jobs are timed unless others are named."""
_EXAMPLES: Final = 8
_Times = dict[str, tuple[SimulationResult | None, str]]


@lists_too
def compare_jobs(
    a: Jobs,
    b: Jobs,
    *,
    machines: Sequence[str] = MACHINES,
    lenient: bool = False,
    notes: Notes | None = None,
) -> JobsComparison:
    """How alike the jobs of ``a`` are to those of ``b``: validity, structure, work, times, decisions, privacy.

    Two single jobs are compared with one another. Of two sets, jobs of the same name are; where no names are equal and
    the sets are as large, those at the same place. Decisions need two pairs of jobs (which is fastest) or two machines
    (which is faster).

    Parameters
    ----------
    a, b:
        A prefix of Chakra traces of all ranks, a folder of such jobs, or a job in memory.
    machines:
        Boards (with as many GPUs as a job has ranks), presets or machine files on which both are timed; none: no times.
    lenient:
        Of damaged traces use what is intact.
    notes:
        Receives warnings.

    Raises InputError for what cannot be read and machines that do not exist. A job that does not run is a finding.
    """
    said = Notes() if notes is None else notes
    remarks = Notes()
    first, second = (open_jobs(side, lenient=lenient, notes=said) for side in (a, b))
    _check(machines)
    known = [{one.name: measures(one.job) for one in side} for side in (first, second)]
    pairs = _paired(first, second, remarks)
    timed = [[_times(pair[i].job, machines) for pair in pairs] for i in (0, 1)]
    compared = tuple(
        _pair(own, other, known[0][own.name], known[1][other.name], timed[0][at], timed[1][at], machines)
        for at, (own, other) in enumerate(pairs)
    )
    decisions = _decisions(compared, machines)
    if machines and not decisions:
        remarks.note("no decisions: they need two pairs of jobs, or two machines, with times of both sides")
    names = [os.fspath(side) if not isinstance(side, Job) else "<memory>" for side in (a, b)]
    counts = (len(first), len(second))
    return JobsComparison(names[0], names[1], counts, compared, decisions, _privacy(*known), (*remarks,))


def _check(machines: Sequence[str]) -> None:
    """Raise InputError for a machine that cannot be read, and for one named twice."""
    for name in machines:
        load_machine(name)
    if len({*machines}) < len(machines):
        raise InputError("a machine is named twice", found=", ".join(machines), remedy="name each once")


def _paired(a: list[NamedJob], b: list[NamedJob], notes: Notes) -> list[tuple[NamedJob, NamedJob]]:
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    by_name = {one.name: one for one in b}
    pairs = [(one, by_name[one.name]) for one in a if one.name in by_name]
    if not pairs and len(a) == len(b):
        notes.note("no names are equal in both sets: jobs are compared in the order of their names")
        return [*zip(a, b, strict=True)]
    if not pairs:
        notes.note("no names are equal in both sets: no jobs are compared with one another")
    elif len(pairs) < max(len(a), len(b)):
        notes.note(f"jobs without one of the same name: {len(a) - len(pairs)} of A, {len(b) - len(pairs)} of B")
    return pairs


# -- one pair ----------------------------------------------------------------------------------------------------------


def _pair(
    first: NamedJob,
    second: NamedJob,
    a: Measures,
    b: Measures,
    times_a: _Times,
    times_b: _Times,
    machines: Sequence[str],
) -> PairOfJobs:
    shape = {
        "ranks": (a.info.ranks, b.info.ranks),
        "distinct traces": (a.info.distinct, b.info.distinct),
        "nodes": (a.info.nodes, b.info.nodes),
        "roles": (len(a.roles), len(b.roles)),
        "depth": (a.info.depth, b.info.depth),
        "width": (a.width, b.width),
        "longest recorded path, us": (a.info.critical_path_micros, b.info.critical_path_micros),
        "mean degree": (_mean_degree(a), _mean_degree(b)),
    }
    return PairOfJobs(
        first.name,
        second.name,
        (a.faults, b.faults),
        shape,
        apart(a.roles, b.roles),
        apart(a.in_degrees, b.in_degrees),
        apart(a.out_degrees, b.out_degrees),
        _work(a, b),
        tuple(_on_machine(name, times_a[name], times_b[name]) for name in machines),
    )


def _mean_degree(job: Measures) -> float:
    nodes = sum(job.in_degrees.values())
    return round(sum(degree * count for degree, count in job.in_degrees.items()) / nodes, 4) if nodes else 0.0


def _work(a: Measures, b: Measures) -> tuple[Amount, ...]:
    found = []
    for what in ("flops", "moved", "sent", "calls"):
        first, second = getattr(a, what), getattr(b, what)
        for kind in sorted({*first, *second}):
            own, other = first[kind], second[kind]
            if own or other:
                found.append(Amount(what, kind, own, other, relative(own, other)))
    return tuple(sorted(found, key=lambda one: -one.relative))


def simulated_on(job: Job, machine: str) -> SimulationResult:
    """A job on a board with as many GPUs as it has ranks, or on any other machine. Raises ChakrasimError."""
    gpus = job.ranks if machine in board_names() else None
    return simulate(job, machine=load_machine(machine, gpus=gpus))


def _times(job: Job, machines: Sequence[str]) -> _Times:
    """The job on each machine, or why it does not run there."""
    found: _Times = {}
    for name in machines:
        try:
            found[name] = simulated_on(job, name), ""
        except ChakrasimError as fault:
            found[name] = None, str(fault)
    return found


def _on_machine(name: str, a: tuple[SimulationResult | None, str], b: tuple[SimulationResult | None, str]) -> OnMachine:
    results = (a[0], b[0])
    steps = tuple(None if one is None else one.makespan_ns for one in results)
    parts = tuple({} if one is None else _shares(one) for one in results)
    links = [None if one is None or not one.graph_links else one.graph_links[0] for one in results]
    both = steps[0] is not None and steps[1] is not None
    return OnMachine(
        name,
        (steps[0], steps[1]),
        (parts[0], parts[1]),
        (parts[0].get("exposed_comm"), parts[1].get("exposed_comm")),
        ("" if links[0] is None else links[0].name, "" if links[1] is None else links[1].name),
        (None if links[0] is None else links[0].busy_share, None if links[1] is None else links[1].busy_share),
        (a[1], b[1]),
        steps[0] / steps[1] - 1 if both and steps[0] is not None and steps[1] else None,
        sum(abs(parts[0][part] - parts[1][part]) for part in PARTS) / 2 if both else None,
    )


def _shares(result: SimulationResult) -> Mapping[str, float]:
    """Shares of the parts in the time of all ranks."""
    whole = max(int(result.parts_ns.sum()), 1)
    return {name: int(total) / whole for name, total in zip(PARTS, result.parts_ns.sum(axis=0), strict=True)}


# -- sets --------------------------------------------------------------------------------------------------------------


def _decisions(pairs: Sequence[PairOfJobs], machines: Sequence[str]) -> tuple[Decision, ...]:
    """Which job is fastest on each machine, and which machine for each job, by the times of A and of B."""
    found = []
    for at, name in enumerate(machines):
        rows = [(pair, pair.machines[at].step_ns) for pair in pairs if None not in pair.machines[at].step_ns]
        found += _decided("job", name, [f"{pair.a} / {pair.b}" for pair, _ in rows], [times for _, times in rows])
    for pair in pairs:
        known = [one for one in pair.machines if None not in one.step_ns]
        where = f"{pair.a} / {pair.b}"
        found += _decided("machine", where, [one.machine for one in known], [one.step_ns for one in known])
    return tuple(found)


def _decided(
    what: str, where: str, named: Sequence[str], times: Sequence[tuple[int | None, int | None]]
) -> list[Decision]:
    if len(times) < 2:
        return []
    a, b = ([float(one[i] or 0) for one in times] for i in (0, 1))
    chosen = (named[int(np.argmin(a))], named[int(np.argmin(b))])
    return [Decision(what, where, len(times), kendall(a, b), regret(a, b), chosen)]


def _privacy(a: Mapping[str, Measures], b: Mapping[str, Measures]) -> Privacy:
    between, among = (distances([*side.values()], [*b.values()]) for side in (a, b))
    others = [*b]
    nearest = [(name, others[int(np.argmin(row))], float(row.min())) for name, row in zip(a, between, strict=True)]
    np.fill_diagonal(among, np.inf)
    rest = among.min(axis=1).tolist() if len(b) > 1 else []
    names = [frozenset[str]().union(*(one.names for one in side.values())) for side in (a, b)]
    works = [frozenset[object]().union(*(one.works for one in side.values())) for side in (a, b)]
    shared = sorted(names[0] & names[1])
    return Privacy(tuple(nearest), tuple(rest), len(names[0]), len(shared), tuple(shared[:_EXAMPLES]), len(works[0]),
                   len(works[0] & works[1]))  # fmt: skip
