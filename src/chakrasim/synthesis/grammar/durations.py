"""How long recorded work takes: what its operations and bytes say, and how recordings scatter about that: a factor of
the rank, one of the step, and one of each node, drawn apart, as logarithms of normal spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.synthesis.expressions import Expression, Ints

Floats = NDArray[np.float64]
MEASURED: Final = "duration_ns"
WORK: Final = ("num_ops", "bytes_read", "bytes_written", "comm_size")
MICROS: Final[Expression] = ["//", ["column", f"own {MEASURED}"], ["const", 1000, 1]]
OF_RANKS: Final = 1
OF_STEPS: Final = 2
"""What seeds of ranks and of steps begin with."""
MOST: Final = 1.5
"""Logarithms of factors are cut off here."""


@dataclass(frozen=True)
class Scatter:
    """Spreads (standard deviations of logarithms): of ranks, of steps, and by role of single nodes."""

    rank: float
    step: float
    rest: Mapping[int, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"rank": self.rank, "step": self.step, "rest": dict(self.rest)}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Scatter:
        """From plain values. Raises ValueError, TypeError or KeyError for what is none."""
        found = cls(float(content["rank"]), float(content["step"]),
                    {int(role): float(spread) for role, spread in content["rest"].items()})  # fmt: skip
        if not all(0 <= spread <= MOST for spread in (found.rank, found.step, *found.rest.values())):
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
        self.own = self.random.normal(0, self.scatter.rank)

    def drawn(self, role: int, durations: Ints, steps: Ints) -> Ints:
        """int64[n]: durations as they might have been recorded."""
        of_step = {
            step: np.random.default_rng((OF_STEPS, *self.seed_of_steps, step & 0xFFFFFFFF)).normal(0, self.scatter.step)
            for step in {*steps.tolist()}
        }
        logs = self.own + np.array([of_step[step] for step in steps.tolist()], np.float64)
        logs = logs + self.random.normal(0, self.scatter.rest.get(role, 0.0), len(durations))
        return np.maximum(durations * np.exp(np.clip(logs, -MOST, MOST)), 0).astype(np.int64)


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


def law_of_work(rows: Rows) -> tuple[Expression, float]:
    """How the median duration of nodes of equal work follows from their work: a constant, and so much for each
    operation and byte; where the work is not known or always the same, from the jobs' parameters and products of two.
    And how far it is off in the median, relative."""
    columns = _columns(rows)
    keys = np.stack([rows.job, *rows.work.values()], axis=1)
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    median = np.array([np.median(rows.durations[group.ravel() == i]) for i in range(len(first))])
    aim = np.maximum(median, 1.0)
    table = np.stack([np.ones(len(aim)), *(column[first] for column in columns.values())], axis=1)
    weights = _not_negative(table / aim[:, None])
    terms = []
    for weight, names in zip(weights.tolist(), ((), *columns), strict=True):
        share = Fraction(weight).limit_denominator(10**9)
        if share:
            powers = {name: 2 * names.count(name) for name in names}
            terms.append([share.numerator, share.denominator, powers])
    return ["sum", terms], float(np.median(np.abs(table @ weights / aim - 1)))


def _columns(rows: Rows) -> dict[tuple[str, ...], Floats]:
    """Float columns that differ among the rows, by the names whose product they are."""
    work: dict[tuple[str, ...], Ints] = {
        (f"own {name}",): column for name, column in rows.work.items() if len(np.unique(column)) > 1
    }
    if not work:
        own = {name: column for name, column in rows.parameters.items() if len(np.unique(column)) > 1}
        work = {(name,): column for name, column in own.items()}
        work |= {pair: own[pair[0]] * own[pair[1]] for pair in combinations_with_replacement(own, 2)}
    return {names: column.astype(np.float64) for names, column in work.items()}


def _not_negative(table: Floats) -> Floats:
    """Weights of the columns, none negative, whose sum comes nearest to ones: columns of negative weights are left out,
    the most negative first."""
    scale = np.maximum(np.abs(table).max(axis=0), 1e-300)
    kept = [i for i in range(table.shape[1]) if scale[i] > 1e-290]
    weights = np.zeros(table.shape[1])
    while kept:
        found = np.linalg.lstsq(table[:, kept] / scale[kept], np.ones(len(table)), rcond=None)[0]
        if found.min() >= 0:
            weights[kept] = found / scale[kept]
            break
        kept.pop(int(found.argmin()))
    return weights


def scatter_of(every: Sequence[Rows]) -> Scatter | None:
    """How the nodes of each role scatter about the median of their job: what is common to a rank of it, to a step, and
    the rest, each time in proportion to what nodes take. None for a single step of a single rank of each job."""
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
