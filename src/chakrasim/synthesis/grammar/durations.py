"""How long recorded work takes: what its operations and bytes say, and how recordings scatter about that: a factor of
the rank, one of the step, and one of each node, drawn apart, as logarithms of normal spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.grammar.near_sums import Measurements, near_sum

Floats = NDArray[np.float64]
MEASURED: Final = "duration_ns"
WORK: Final = ("num_ops", "bytes_read", "bytes_written", "comm_size")
MICROS: Final[Expression] = ["//", ["column", f"own {MEASURED}"], ["const", 1000, 1]]
OF_RANKS: Final = 1
OF_STEPS: Final = 2
"""What seeds of ranks and of steps begin with."""
ROUNDS: Final = 4
"""In which speeds of hosts and times of calls are told apart."""
MOST: Final = 1.5
"""Logarithms of factors are cut off here."""


@dataclass(frozen=True)
class Scatter:
    """Spreads (standard deviations of logarithms): of ranks, of steps, and by role of single nodes. ``host``: those of
    calls of the host, where a trace tells them from work of devices. ``recording``: of the host's speed from job to
    job, which is told and not drawn: what is made is as in the middle one."""

    rank: float
    step: float
    rest: Mapping[int, float]
    host: Scatter | None = None
    recording: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        own: dict[str, Any] = {"rank": self.rank, "step": self.step, "rest": dict(self.rest)}
        return own | ({"host": self.host.to_json(), "recording": self.recording} if self.host else {})

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Scatter:
        """From plain values. Raises ValueError, TypeError or KeyError for what is none."""
        host = cls.of(content["host"]) if "host" in content else None
        found = cls(float(content["rank"]), float(content["step"]),
                    {int(role): float(spread) for role, spread in content["rest"].items()},
                    host, float(content.get("recording", 0)))  # fmt: skip
        if not all(0 <= spread <= MOST for spread in (found.rank, found.step, found.recording, *found.rest.values())):
            raise ValueError("a spread is out of range")
        return found


@dataclass(eq=False)
class Draw:
    """Factors of one rank, drawn; those of a step are the same on all ranks, which is why the seed of these is the
    job's."""

    scatter: Scatter
    random: np.random.Generator
    seed_of_steps: tuple[int, ...]

    def __post_init__(self) -> None:
        own, host = self.random.normal(0, 1, 2).tolist()
        self.own = {False: own, True: host}

    def drawn(self, role: int, durations: Ints, steps: Ints) -> Ints:
        """int64[n]: durations as they might have been recorded, the same in the mean. Raises OverflowError for those
        beyond int64."""
        of_host = self.scatter.host is not None and role in self.scatter.host.rest
        scatter = self.scatter.host if self.scatter.host is not None and of_host else self.scatter
        by_step = {
            step: np.random.default_rng((OF_STEPS, *self.seed_of_steps, step & 0xFFFFFFFF)).normal(0, 1, 2)[
                int(of_host)
            ]
            for step in {*steps.tolist()}
        }
        spreads = (scatter.rank, scatter.step, scatter.rest.get(role, 0.0))
        logs = spreads[0] * self.own[of_host] - sum(spread**2 for spread in spreads) / 2
        logs = logs + spreads[1] * np.array([by_step[step] for step in steps.tolist()], np.float64)
        logs = logs + self.random.normal(0, spreads[2], len(durations))
        drawn = np.maximum(durations * np.exp(np.clip(logs, -MOST, MOST)), 0)
        if drawn.max(initial=0) >= 1 << 63:
            raise OverflowError("a duration is beyond int64")
        whole: Ints = drawn.astype(np.int64)
        return whole


@dataclass(frozen=True, eq=False)
class Rows:
    """The nodes of a role: their durations in ns, job, trace and step, and columns that say what they work on."""

    role: int
    durations: Ints
    job: Ints
    rank: Ints
    step: Ints
    work: Mapping[str, Ints]
    parameters: Mapping[str, Ints]
    host: bool = False
    """Whether these are calls of the host."""


def speeds_of(every: Sequence[Rows]) -> dict[int, float]:
    """By job how many times as long as in the middle one calls of the host take: a host is slower in one recording than
    in another of the same job, all calls together, for which no law of a single call can answer."""
    host = [rows for rows in every if rows.host]
    jobs = np.unique(np.concatenate([rows.job for rows in host])) if host else np.zeros(0, np.int64)
    total, count = np.zeros((len(host), len(jobs))), np.zeros((len(host), len(jobs)))
    for number, rows in enumerate(host):
        at = np.searchsorted(jobs, rows.job)
        total[number] = np.bincount(at, rows.durations, len(jobs))
        count[number] = np.bincount(at, minlength=len(jobs))
    speed = np.ones(len(jobs))
    for _ in range(ROUNDS if host else 0):
        each = np.where(count > 0, total / np.maximum(count, 1) / speed, np.nan)
        usual = np.nanmedian(each, axis=1)
        speed = total.sum(axis=0) / np.maximum(usual @ count, 1.0)
        speed = np.maximum(speed / max(float(np.median(speed)), 1e-9), 1e-3)
    return dict(zip(jobs.tolist(), speed.tolist(), strict=True))


def law_of_work(rows: Rows, speeds: Mapping[int, float] | None = None) -> tuple[Expression, float]:
    """How long nodes of equal work take in the mean follows from that work and from the jobs' parameters, where jobs
    are as fast as the middle one; and how far that is off in the median, relative, in other jobs."""
    columns = {name: column for name, column in rows.work.items() if len(np.unique(column)) > 1}
    keys = np.stack([rows.job, *columns.values()], axis=1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    own = [np.maximum(rows.durations[group.ravel() == i], 1) for i in range(len(first))]
    aim = np.array([each.mean() for each in own])
    if rows.host and speeds:
        aim = np.maximum(aim / [speeds.get(job, 1.0) for job in rows.job[first].tolist()], 1.0)
    work = {f"own {name}": column[first].astype(np.float64) for name, column in columns.items()}
    parameters = {name: column[first].astype(np.float64) for name, column in rows.parameters.items()}
    return near_sum(Measurements(aim, rows.job[first], work, parameters))


def scatter_of(every: Sequence[Rows]) -> Scatter | None:
    """How durations scatter, those of calls of the host apart. None for a single step of a single rank of each job."""
    own, host = (_scatter_of([rows for rows in every if rows.host == of_host]) for of_host in (False, True))
    if host is None:
        return own
    recording = float(np.std(np.log([*speeds_of(every).values()])))
    return replace(own or Scatter(0, 0, {}), host=host, recording=min(recording, MOST))


def _scatter_of(every: Sequence[Rows]) -> Scatter | None:
    """How the nodes of each role scatter about the median of their job: what is common to a rank of it, to a step, and
    the rest, each time in proportion to what nodes take."""
    logs: list[Floats] = []
    weights: list[Floats] = []
    job, rank, step = ([getattr(rows, name) for rows in every] for name in ("job", "rank", "step"))
    for rows in every:
        own = np.log(np.maximum(rows.durations, 1))
        work = np.stack([rows.job, *rows.work.values()], axis=1)
        group = np.unique(work, axis=0, return_inverse=True)[1].ravel()
        middle = np.array([np.median(own[group == i]) for i in range(int(group.max()) + 1)])
        logs.append(np.clip(own - middle[group], -MOST, MOST))
        weights.append(rows.durations.astype(np.float64))
    if not every or not any(part.any() for part in logs):
        return None
    left, weight = np.concatenate(logs), np.concatenate(weights)
    jobs, ranks, steps = (np.concatenate(column) for column in (job, rank, step))
    of_rank = _common(left, weight, jobs, ranks)
    of_step = _common(left - of_rank, weight, jobs, steps)
    left = left - of_rank - of_step
    ends = np.cumsum([len(part) for part in logs])[:-1]
    rest = {rows.role: float(part.std()) for rows, part in zip(every, np.split(left, ends), strict=True)}
    return Scatter(_spread(of_rank, jobs, ranks), _spread(of_step, jobs, steps), rest)


def _common(left: Floats, weight: Floats, jobs: Ints, of: Ints) -> Floats:
    """float64[n]: the mean of each rank, or step, of a job, less the job's."""
    whole = _means(left, weight, np.unique(jobs, return_inverse=True)[1])
    both = np.unique(np.stack([jobs, of], axis=1), axis=0, return_inverse=True)[1].ravel()
    return _means(left, weight, both) - whole


def _means(left: Floats, weight: Floats, group: Ints) -> Floats:
    total = np.bincount(group, weight)
    means = np.bincount(group, weight * left) / np.where(total > 0, total, 1)
    return np.asarray(means[group], np.float64)


def _spread(common: Floats, jobs: Ints, of: Ints) -> float:
    """The spread over the ranks, or steps, of all jobs."""
    first = np.unique(np.stack([jobs, of], axis=1), axis=0, return_index=True)[1]
    return min(float(np.sqrt(np.mean(common[first] ** 2))), MOST)
