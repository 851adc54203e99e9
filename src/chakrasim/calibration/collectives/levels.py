"""Weights of the model of collectives, fitted to machines of many makes at once.

Three levels: what holds for all, for a generation of GPUs or a kind of network, and for one machine and library. All
are logarithms with a normal prior, so that a machine takes from the others what its own points do not say. The fit is
by Gauss and Newton, robust against single points far off (soft L1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.descent import Solve, least
from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.collectives.libraries.model import ALL, SCOPES, SIZE_CLASSES, Model, constant_of

SIGMA: Final = np.array([0.08, 0.10, 0.07, 0.03])
"""How far a point may be off by its size class, as a logarithm: about what repeats and details make."""
NOMINAL: Final = {
    "launch/": 6.0, "LL.hop/near": 0.6, "LL128.hop/near": 1.9, "Simple.hop/near": 3.4, "LL128.hop/base": 8.0,
    "Simple.hop/base": 8.0, "LL.hop/tree.near": 0.6, "LL128.hop/tree.near": 1.25, "Simple.hop/tree.near": 4.0,
    "LL128.hop/tree.base": 8.0, "Simple.hop/tree.base": 8.0,
    "net.base/": 3.0, "net.LL.hop/": 2.7, "net.LL128.hop/": 4.0, "net.Simple.hop/": 14.0,
    "net.LL128.hop/chain": 4.0, "net.Simple.hop/chain": 4.0,
    "net.tree.LL.hop/LL": 5.0, "net.tree.hop/LL128": 8.5, "net.tree.hop/Simple": 14.0, "net.tree.hop/nvls": 20.0,
    **{f"net.{what}": 0.4 for what in ("LL.hop/near", "LL128.hop/near", "tree.LL.hop/near.LL", "tree.hop/near.LL128")},
    "net.Simple.hop/near": 1.0, "net.tree.hop/near.Simple": 1.0,
    **{f"net.crowd/{what}": 0.05 for what in ("all_reduce.", "parts.", "tree.", "chain.")},
    "net.p2p.crowd/": 0.05, "p2p.wire/crowd": 0.2, "net.p2p.hop/ramp": 0.3, "nvls.hop/": 15.0, "nvls.hop/part": 15.0,
}  # fmt: skip
"""What weights are near before any measurement, in us: NCCL's own latencies (tables of 2.30), and little where several
messages share a wire; others are near 1."""
USUAL: Final = {"net.wire": 1.1, "net.LL.wire": 1.2, "net.ramp": 0.5}
"""What networks reach before any measurement: what InfiniBand is known for."""
SD_FIXED: Final = (0.9, 0.2)
"""Of the weights of terms that are steps, inside nodes and between them: there NCCL's own latencies hold together."""
SD_CROWD: Final = 0.9
SD_MOVING: Final = (0.25, 0.12)
"""Of the weights of terms that are bytes on a wire, or pipelines that fill: details of one constant are alike."""
SD_ALL: Final = (1.0, 0.1)
SD_LEVEL: Final = (0.35, 1.5)
SD_NEAR: Final = 0.4
"""Of constants between nodes on networks like those that NCCL's own latencies are of."""
NEAR: Final = frozenset({"infiniband", "roce", "unknown", ALL})
SD_MACHINE: Final = (0.25, 0.8)
"""Of constants inside nodes, and of networks, which differ more."""
WIDER: Final = 1.3
"""The spread between machines is taken wider than that of the few that are known."""
LEAST_SPREAD: Final = 0.12
_LONGEST: Final = 1.5


@dataclass(frozen=True, eq=False)
class Levels:
    """The fit: logarithms of weights float64[terms], of levels by name and machines by group float64[constants]."""

    names: tuple[str, ...]
    constants: tuple[str, ...]
    weights: Floats
    offsets: Mapping[str, Floats]
    groups: Mapping[object, Floats]

    def model(self, basis: str = "") -> Model:
        """The weights as the model takes them, without residuals yet."""
        own = np.array(list(self.groups.values()))
        spread = np.maximum(WIDER * np.sqrt((own**2).mean(axis=0)), LEAST_SPREAD)
        return Model(
            dict(zip(self.names, self.weights.tolist(), strict=True)),
            {level: dict(zip(self.constants, values.tolist(), strict=True)) for level, values in self.offsets.items()},
            dict(zip(self.constants, spread.tolist(), strict=True)),
            {scope: (0.1,) * (len(SIZE_CLASSES) + 1) for scope in SCOPES},
            basis,
        )


class _Problem:
    """The points of the fit and where each parameter acts."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.constants, self.owner = design.constants, design.owner
        self.groups, self.group = design.labels([one.group for one in design.curves])
        pairs = [[one.levels[far] for one in design.curves] for far in (False, True)]
        self.levels = [ALL, *dict.fromkeys(level for side in pairs for level in side)]
        index = {level: at for at, level in enumerate(self.levels)}
        self.level = [np.array([index[level] for level in side], np.int64)[design.curve] for side in pairs]
        self.far = np.array([name.startswith("net.") for name in self.constants])
        self.weight = balance(design)
        count = len(self.constants)
        self.first = (len(design.names), len(design.names) + len(self.levels) * count)
        sizes = (len(design.names), len(self.levels) * count, len(self.groups) * count)
        self.sd = np.ones(sum(sizes))
        self.sd[: self.first[0]] = [_sd_weight(name) for name in design.names]
        far = self.far.astype(int)
        self.sd[slice(*self.first)] = np.concatenate(
            [np.array([SD_LEVEL[0], SD_NEAR if level in NEAR else SD_LEVEL[1]])[far] for level in self.levels]
        )
        self.sd[self.first[0] : self.first[0] + count] = np.array(SD_ALL)[far]
        self.sd[self.first[1] :] = np.tile(np.array(SD_MACHINE)[far], len(self.groups))
        self.mean = np.zeros(len(self.sd))
        self.mean[: len(design.names)] = np.log([NOMINAL.get(name, 1.0) for name in design.names])
        self.mean[self.first[0] : self.first[0] + count] = np.log([USUAL.get(name, 1.0) for name in self.constants])
        self.onehot = np.eye(count)[self.owner]

    def parts(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, levels and machines of a vector of parameters."""
        count = len(self.constants)
        first, second = self.first
        return at[:first], at[first:second].reshape(-1, count), at[second:].reshape(-1, count)

    def times(self, at: Floats) -> Floats:
        """float64[n, terms] in us."""
        weights, levels, machines = self.parts(at)
        offset = np.where(self.far, levels[self.level[1]], levels[self.level[0]]) + levels[0] + machines[self.group]
        return self.design.overlapped(self.design.nominal * np.exp(weights + offset[:, self.owner]))

    def off(self, times: Floats) -> Floats:
        """How far each point is off, in its sigmas."""
        return np.asarray((np.log(times.sum(axis=1)) - self.design.log_time) / SIGMA[self.design.sized])

    def cost(self, at: Floats, off: Floats) -> float:
        """What the fit makes least."""
        return float((self.weight * 2 * (np.sqrt(1 + off * off) - 1)).sum() + (((at - self.mean) / self.sd) ** 2).sum())

    def curvature(self, times: Floats, off: Floats) -> tuple[Floats, Floats]:
        """The matrix and the right side of a step of Gauss and Newton, without the prior.

        Points of one machine and the same levels have all parameters in common, and a level or a machine acts as the
        terms of its constant do together, so that products of terms, added up over such points, say all.
        """
        share = times / times.sum(axis=1)[:, None] / SIGMA[self.design.sized][:, None]
        robust = self.weight / np.sqrt(1 + off * off)
        bend, pull = np.zeros((len(self.sd), len(self.sd))), np.zeros(len(self.sd))
        count, (first, second) = len(self.constants), self.first
        own, terms = np.arange(count), np.arange(first)
        alone = np.eye(first)
        kinds, which = np.unique(np.stack([self.group, *self.level]), axis=1, return_inverse=True)
        for at, (group, near, far) in enumerate(kinds.T.tolist()):
            rows = np.flatnonzero(which.reshape(-1) == at)
            some, weight = share[rows], robust[rows]
            products, sums = (some * weight[:, None]).T @ some, some.T @ (weight * off[rows])
            level = first + np.where(self.far, far, near) * count + own
            acts = [(terms, alone)] + [(to, self.onehot) for to in (first + own, level, second + group * count + own)]
            for one, left in acts:
                pull[one] += left.T @ sums
                for other, right in acts:
                    bend[np.ix_(one, other)] += left.T @ products @ right
        return bend, pull


def _sd_weight(term: str) -> float:
    constant = constant_of(term)
    far = constant.startswith("net.")
    if term.endswith("crowd"):
        return SD_CROWD
    if not constant.endswith(("wire", "ramp", "copy", "reduce", "message", "crowd")) or term.endswith("lines"):
        return SD_FIXED[far and not (term.partition("/")[2].startswith("near") and "LL.hop" not in term)]
    return SD_MOVING[far]


def balance(design: Design) -> Floats:
    """float64[n]: points of long curves, and curves of machines with many, count less each."""
    keys = design.curve * (len(SIZE_CLASSES) + 1) + design.sized
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    machines, machine = design.labels([one.curve.machine for one in design.curves])
    points = np.bincount(machine, minlength=len(machines))
    weight = counts[which] ** -0.5 * points[machine] ** -0.5
    return np.asarray(weight / weight.mean())


def fit_levels(design: Design) -> Levels:
    """Fit all levels to the points that have a time."""
    known = design.some(~np.isnan(design.log_time))
    problem = _Problem(known)
    at = _least(problem)
    weights, levels, machines = problem.parts(at)
    return Levels(
        known.names, problem.constants, weights,
        dict(zip(problem.levels, levels, strict=True)), dict(zip(problem.groups, machines, strict=True)),
    )  # fmt: skip


def _least(problem: _Problem) -> Floats:
    def cost_of(at: Floats) -> tuple[float, tuple[Floats, Floats]]:
        times = problem.times(at)
        off = problem.off(times)
        return problem.cost(at, off), (times, off)

    def equations(at: Floats, state: tuple[Floats, Floats]) -> Solve:
        bend, pull = problem.curvature(*state)
        bend += np.diag(problem.sd**-2)
        pull += (at - problem.mean) / problem.sd**2
        return lambda damping: _solved(bend, -pull, damping, problem)

    return least(problem.mean.copy(), cost_of, equations, _LONGEST, 3e-4, 9)[0]


def _solved(bend: Floats, right: Floats, damping: float, problem: _Problem) -> Floats:
    """The solution of equations whose diagonal is raised by ``damping``. No machine's parameters meet another's: each
    machine's are put in by themselves, and only the shared ones are solved for together."""
    shared, count = problem.first[1], len(problem.constants)
    raised = bend + damping * np.diag(np.diag(bend))
    at = np.arange(shared, len(right)).reshape(-1, count)
    side = np.concatenate([raised[at, :shared], right[at][:, :, None]], axis=2)
    done = np.linalg.solve(raised[at[:, :, None], at[:, None, :]], side).reshape(-1, shared + 1)
    across = raised[:shared, shared:]
    found = np.linalg.solve(raised[:shared, :shared] - across @ done[:, :-1], right[:shared] - across @ done[:, -1])
    return np.concatenate([found, done[:, -1] - done[:, :-1] @ found])


def factors(design: Design, model: Model) -> Floats:
    """float64[n, terms]: the weighed times in us of a machine that was not measured, each alone."""
    weights = np.array([model.weights.get(name, 0.0) for name in design.names])
    levels, level = design.labels([one.levels for one in design.curves])
    offsets = np.array([[model.offset(name, one) for name in design.constants] for one in levels])
    return np.asarray(design.nominal * np.exp(weights + offsets[:, design.owner][level]))


def shares(design: Design, times: Floats) -> Floats:
    """float64[n, constants]: the part of each constant in the time of a point."""
    times = design.overlapped(times)
    return np.asarray((times / times.sum(axis=1)[:, None]) @ np.eye(len(design.constants))[design.owner])
