"""Weights of the model of collectives, fitted to machines of many makes at once.

Three levels: what holds for all, for a generation of GPUs or a kind of network, and for one machine and library. All
are logarithms with a normal prior around nothing, so that a machine takes from the others what its own points do not
say. The fit is by Gauss and Newton, robust against single points far off (soft L1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from chakrasim.calibration.collectives.design import Design, Floats
from chakrasim.collectives.libraries.model import SIZE_CLASSES, Model, constant_of

SIGMA: Final = np.array([0.08, 0.10, 0.07, 0.03])
"""How far a point may be off by its size class, as a logarithm: about what repeats and details make."""
SD_WEIGHT: Final = 2.0
SD_LEVEL: Final = 0.35
SD_MACHINE: Final = 0.25
WIDER: Final = 1.3
"""The spread between machines is taken wider than that of the few that are known."""
LEAST_SPREAD: Final = 0.12
_STEPS: Final = 40
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
            {scope: (0.1,) * (len(SIZE_CLASSES) + 1) for scope in ("node", "network", "other")},
            basis,
        )


class _Problem:
    """The points of the fit and where each parameter acts: weights of terms, then constants by level, then by machine.

    Points of one machine with the same levels are a block: all that a point's parameters are, it has in common with the
    others of its block.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.constants, self.owner = design.constants, design.owner
        count, terms = len(self.constants), len(design.names)
        self.groups, group = design.labels([one.group for one in design.curves])
        pairs = [[one.levels[far] for one in design.curves] for far in (False, True)]
        self.levels = list(dict.fromkeys(level for side in pairs for level in side))
        index = {level: at for at, level in enumerate(self.levels)}
        near, far = (np.array([index[level] for level in side], np.int64)[design.curve] for side in pairs)
        kinds, which = np.unique(np.stack([group, near, far]), axis=1, return_inverse=True)
        self.block = which.reshape(-1)
        self.rows = [np.flatnonzero(self.block == at) for at in range(kinds.shape[1])]
        of_network = np.array([name.startswith("net.") for name in self.constants])
        own = np.arange(count)
        self.level_at = terms + np.where(of_network, kinds[2][:, None], kinds[1][:, None]) * count + own
        self.shared = terms + len(self.levels) * count
        self.machine_at = self.shared + kinds[0][:, None] * count + own
        self.weight = balance(design)
        sizes = (terms, len(self.levels) * count, len(self.groups) * count)
        self.sd = np.repeat([SD_WEIGHT, SD_LEVEL, SD_MACHINE], sizes)
        self.onehot = np.eye(count)[self.owner]

    def parts(self, at: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights, levels and machines of a vector of parameters."""
        count, terms = len(self.constants), len(self.design.names)
        return at[:terms], at[terms : self.shared].reshape(-1, count), at[self.shared :].reshape(-1, count)

    def times(self, at: Floats) -> Floats:
        """float64[n, terms] in us."""
        offset = at[self.level_at] + at[self.machine_at]
        factor = np.exp(at[: len(self.design.names)] + offset[:, self.owner])
        return np.asarray(self.design.nominal * factor[self.block])

    def off(self, times: Floats) -> Floats:
        """How far each point is off, in its sigmas."""
        return np.asarray((np.log(times.sum(axis=1)) - self.design.log_time) / SIGMA[self.design.sized])

    def cost(self, at: Floats, off: Floats) -> float:
        """What the fit makes least."""
        return float((self.weight * 2 * (np.sqrt(1 + off * off) - 1)).sum() + ((at / self.sd) ** 2).sum())

    def curvature(self, times: Floats, off: Floats) -> tuple[Floats, Floats]:
        """The matrix and the right side of a step of Gauss and Newton, without the prior.

        A constant's level and its machine act as the sum of its terms does, so that products of terms, added up over a
        block, say all.
        """
        share = times / times.sum(axis=1)[:, None] / SIGMA[self.design.sized][:, None]
        robust = self.weight / np.sqrt(1 + off * off)
        bend, pull = np.zeros((len(self.sd), len(self.sd))), np.zeros(len(self.sd))
        term_at = np.arange(share.shape[1])
        for rows, level, machine in zip(self.rows, self.level_at, self.machine_at, strict=True):
            some, weight = share[rows], robust[rows]
            products, sums = (some * weight[:, None]).T @ some, some.T @ (weight * off[rows])
            summed = ((term_at, np.eye(len(term_at))), (level, self.onehot), (machine, self.onehot))
            for one, left in summed:
                pull[one] += left.T @ sums
                for other, right in summed:
                    bend[np.ix_(one, other)] += left.T @ products @ right
        return bend, pull


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
    at = np.zeros(len(problem.sd))
    off = problem.off(times := problem.times(at))
    cost, damping = problem.cost(at, off), 1e-2
    for turn in range(_STEPS):
        bend, pull = problem.curvature(times, off)
        bend += np.diag(problem.sd**-2)
        pull += at / problem.sd**2
        for _ in range(8):
            step = _solved(bend, -pull, damping, problem.shared, len(problem.constants))
            step = np.clip(step, -_LONGEST, _LONGEST)
            off = problem.off(times := problem.times(at + step))
            lower = problem.cost(at + step, off)
            if lower < cost:
                break
            damping *= 6
        else:
            return at
        settled = cost - lower < 3e-4 * cost and turn > 8
        at, cost, damping = at + step, lower, max(damping / 5, 1e-7)
        if settled:
            break
    return at


def _solved(bend: Floats, right: Floats, damping: float, shared: int, count: int) -> Floats:
    """The solution of equations whose diagonal is raised by ``damping``. No machine's parameters, ``count`` of each
    from ``shared`` on, meet another's: each machine's are put in by themselves, and only the shared ones are solved for
    together."""
    diagonal = np.diag(bend) * damping
    square = (len(right) - shared) // count
    at = np.arange(shared, len(right)).reshape(square, count)
    own = bend[at[:, :, None], at[:, None, :]] + diagonal[at][:, :, None] * np.eye(count)
    side = np.concatenate([bend[at, :shared], right[at][:, :, None]], axis=2)
    done = np.linalg.solve(own, side)
    across = bend[:shared, shared:]
    flat = done.reshape(-1, shared + 1)
    rest = bend[:shared, :shared] + np.diag(diagonal[:shared]) - across @ flat[:, :-1]
    found = np.linalg.solve(rest, right[:shared] - across @ flat[:, -1])
    return np.concatenate([found, flat[:, -1] - flat[:, :-1] @ found])


def factors(design: Design, model: Model) -> Floats:
    """float64[n, terms]: the weighed times in us of a machine that was not measured."""
    weights = np.array([model.weights.get(name, 0.0) for name in design.names])
    offsets = np.zeros((len(design.curves), len(design.names)))
    for at, one in enumerate(design.curves):
        for term, name in enumerate(design.names):
            constant = constant_of(name)
            offsets[at, term] = model.offsets.get(one.levels[constant.startswith("net.")], {}).get(constant, 0.0)
    return np.asarray(design.nominal * np.exp(weights + offsets[design.curve]))


def shares(design: Design, times: Floats) -> Floats:
    """float64[n, constants]: the part of each constant in the time of a point."""
    return np.asarray((times / times.sum(axis=1)[:, None]) @ np.eye(len(design.constants))[design.owner])


def with_residual(model: Model, residual: Mapping[str, tuple[float, ...]]) -> Model:
    """The model with what is left on machines that were not in the fit."""
    return replace(model, residual=dict(residual))
