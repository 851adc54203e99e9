"""What stragglers cost in a simulated or replayed job: the analysis of OSDI 2025 on the job's events, and ranks drawn
at random.

All is by the order in which things happened; see `simulated`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from chakrasim.errors import InputError
from chakrasim.event_graph.graph import Floats, Ints
from chakrasim.scenarios.quantiles import LEVELS, quantile
from chakrasim.scenarios.simulated import Mask, SimulatedScenarios
from chakrasim.scenarios.stragglers import WORST


@dataclass(frozen=True)
class JobStragglers:
    """S: the makespan over that with all ideal; S_x: with only x as it is; M: what the ``worst`` ranks explain."""

    slowdown: float
    ideal_ns: float
    only: dict[str, dict[str, float]]
    worst: tuple[int, ...]
    removal: float | None
    addition: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "S": self.slowdown,
            "ideal_ns": self.ideal_ns,
            "S_x": self.only,
            "M_W": self.removal,
            "M": {"worst_ranks": {"removal": self.removal, "addition": self.addition}},
            "worst_ranks": list(self.worst),
        }


def job_stragglers(job: SimulatedScenarios) -> JobStragglers:
    """What unequal times of equal nodes cost, by rank, class of operator and kind of communication.

    A set is taken away (removal: it is ideal, the rest as it is) and put alone into an ideal job (addition): the two
    shares of the slowdown need not agree, nor sum to one over sets.
    """
    nodes, families = job.nodes, job.families
    sets: dict[str, dict[str, Mask]] = {"rank": {str(r): nodes.owner == i for i, r in enumerate(nodes.ranks.tolist())}}
    for key, name in (("op", "op_class"), ("kind", "kind")):
        sets[name] = {str(label): families[key].group == i for i, label in enumerate(families[key].names)}
    masks = [mask for own in sets.values() for mask in own.values()]
    nothing, everything = np.zeros(len(nodes.owner), np.bool_), np.ones(len(nodes.owner), np.bool_)
    ends = _ends(job, [nothing, everything, *masks])
    ideal, real = float(ends[0]), float(ends[1])
    ratios = iter((ends[2:] / ideal).tolist() if ideal else [1.0] * len(masks))
    only = {name: {label: next(ratios) for label in own} for name, own in sets.items()}
    count = -(-len(nodes.ranks) * WORST[0] // WORST[1])
    worst = sorted(only["rank"], key=lambda rank: -only["rank"][rank])[:count]
    own = np.isin(nodes.ranks[nodes.owner], [int(rank) for rank in worst])
    without, alone = _ends(job, [~own, own]).tolist()
    slow = real - ideal
    share = (None, None) if slow == 0 else ((real - without) / slow, (alone - ideal) / slow)
    return JobStragglers(real / ideal if ideal else 1.0, ideal, only, tuple(map(int, worst)), *share)


def _ends(job: SimulatedScenarios, kept: list[Mask]) -> Floats:
    """The makespan with some nodes as they are and the others ideal, for each set."""
    real, ideal = job.graph.duration, job.ideal_ns

    def durations(part: slice) -> Floats:
        return np.stack([np.where(mask, real, ideal) for mask in kept[part]], axis=1)

    return job.ends(durations, len(kept))


@dataclass(frozen=True)
class Chances:
    """How ranks differ by chance: each computes a factor slower or faster for the whole step.

    ``jitter``: the standard deviation of its logarithm, of mean 1. ``slow_share``: of ranks that are ``slow_factor``
    times as slow.
    """

    jitter: float = 0.0
    slow_share: float = 0.0
    slow_factor: float = 1.0

    def factors(self, ranks: int, draws: int, seed: int) -> Floats:
        """float64[ranks, draws]; the same for the same seed, whatever the chances (common random numbers)."""
        rng = np.random.default_rng(seed)
        normal, uniform = rng.standard_normal((draws, ranks)).T, rng.random((draws, ranks)).T
        made: Floats = np.exp(self.jitter * normal - self.jitter**2 / 2)
        return made * np.where(uniform < self.slow_share, self.slow_factor, 1.0)


def chances_of(jitter: float | None, fail_slow: str | None) -> Chances | None:
    """From ``--jitter 0.03`` and ``--fail-slow 0.005=1.1``; None if neither is given. Raises InputError."""
    if jitter is None and fail_slow is None:
        return None
    if jitter is not None and not 0 <= jitter <= 2:
        raise InputError("--jitter is out of range", found=f"{jitter:g}", expected="0 to 2")
    if fail_slow is None:
        return Chances(jitter or 0.0)
    match = re.fullmatch(r"\s*([0-9.eE+-]{1,20})\s*=\s*([0-9.eE+-]{1,20})\s*", fail_slow, re.ASCII)
    try:
        share, factor = (float(match[1]), float(match[2])) if match else (-1.0, -1.0)
    except ValueError:
        share = factor = -1.0
    if not (0 <= share <= 1 and 0 < factor <= 1e6):
        raise InputError("--fail-slow is not SHARE=FACTOR", found=repr(fail_slow[:40]),
                         expected="a share of ranks and how many times as slow they are: 0.005=1.1")  # fmt: skip
    return Chances(jitter or 0.0, share, factor)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Makespans float64[draws] of a job whose ranks differ by chance."""

    makespan_ns: Floats

    def to_dict(self) -> dict[str, Any]:
        """Mean, deviation and quantiles, each with its interval of 95 %, by order statistics."""
        ordered, count = np.sort(self.makespan_ns), len(self.makespan_ns)
        deviation = float(ordered.std(ddof=1)) if count > 1 else 0.0
        quantiles = {f"{level:g}": quantile(ordered, level).to_dict("ns") for level in LEVELS}
        return {"mean_ns": float(ordered.mean()), "sd_ns": deviation, "quantiles": quantiles, "draws": count}


def drawn(job: SimulatedScenarios, base: Floats, chances: Chances, draws: int, seed: int) -> Drawn:
    """Makespans with ranks that differ by chance, from durations float64[nodes]. Raises InputError for folded jobs."""
    if job.events.folded:
        raise InputError("equal ranks were simulated as one, so they cannot differ by chance",
                         remedy="ask of a job of fewer ranks")  # fmt: skip
    factors = chances.factors(len(job.nodes.ranks), draws, seed)
    owner: Ints = job.nodes.owner

    def durations(part: slice) -> Floats:
        return base[:, None] * np.where(job.nodes.computes[:, None], factors[owner, part], 1.0)

    return Drawn(job.ends(durations, draws))
