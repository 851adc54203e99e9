"""Weights of least sum: of all sums of columns that give ones, that whose weights are least together, by the
predictor-corrector method for linear programs (Mehrotra, On the implementation of a primal-dual interior point method,
1992). With some hundred rows and thousands of columns this takes some 15 small systems of equations, where the simplex
method changes a thousand columns one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS: Final = 40
"""At most; 10 to 20 are enough."""
_NEAR: Final = 1e-12
"""How far the mean of what weights cost beyond the least may be off, by what they cost together,"""
_SMALL: Final = 100.0
"""or where that is less by this."""
_RIDGE: Final = 1e-12
"""Of the diagonal, added: rows that say the same have none of their own."""
_SHORT: Final = 0.9995
"""Of the way to where the first weight or price is 0."""


@dataclass(frozen=True, eq=False)
class _Program:
    """Weights and what is left of the rows, each less another, none below 0, that give ones: ``prices`` of
    float64[2 columns + 2 rows]."""

    table: Floats
    prices: Floats

    def given(self, x: Floats) -> Floats:
        """float64[rows]: what these give."""
        rows, columns = self.table.shape
        weights, left = x[: 2 * columns].reshape(2, columns), x[2 * columns :].reshape(2, rows)
        found: Floats = self.table @ (weights[0] - weights[1]) + left[0] - left[1]
        return found

    def worth(self, y: Floats) -> Floats:
        """float64[2 columns + 2 rows]: what each is worth by the worth of rows."""
        along = y @ self.table
        return np.concatenate([along, -along, y, -y])

    def solver(self, scale: Floats) -> Callable[[Floats], Floats]:
        """Solves for the worth of rows, given how much of each comes for it. Raises LinAlgError."""
        from scipy.linalg import cho_factor, cho_solve

        rows, columns = self.table.shape
        weights, left = scale[: 2 * columns].reshape(2, columns), scale[2 * columns :].reshape(2, rows)
        matrix = (self.table * weights.sum(axis=0)) @ self.table.T
        own = left.sum(axis=0)
        matrix[np.diag_indices(rows)] += own + _RIDGE * matrix.trace() / rows
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        return lambda right: np.asarray(cho_solve(factor, right, check_finite=False))


def least(table: Floats, away: float) -> tuple[Floats, float]:
    """Weights, float64[columns], of a table, float64[rows, columns], that give ones, and what is left of the ones: it
    costs ``away`` times what weights cost."""
    rows, columns = table.shape
    program = _Program(table, np.concatenate([np.ones(2 * columns), np.full(2 * rows, away)]))
    x, y, slack = _start(program)
    for _ in range(STEPS):
        off = float(x @ slack) / len(x)
        if off <= _NEAR * max(float(program.prices @ x), _SMALL):
            break
        try:
            x, y, slack = _step(program, x, y, slack, off)
        except np.linalg.LinAlgError:
            break
    weights, left = x[: 2 * columns].reshape(2, columns), x[2 * columns :].reshape(2, rows)
    return weights[0] - weights[1], float(np.abs(left[0] - left[1]).sum())


def _start(program: _Program) -> tuple[Floats, Floats, Floats]:
    """Some way inside."""
    solve = program.solver(np.ones(len(program.prices)))
    x = program.worth(solve(np.ones(len(program.table))))
    y = solve(program.given(program.prices))
    slack = program.prices - program.worth(y)
    x, slack = x + max(-1.5 * float(x.min()), 1.0), slack + max(-1.5 * float(slack.min()), 1.0)
    both = float(x @ slack) / 2
    return x + both / float(slack.sum()), y, slack + both / float(x.sum())


def _step(program: _Program, x: Floats, y: Floats, slack: Floats, off: float) -> tuple[Floats, Floats, Floats]:
    """A step towards the least, and one towards the middle with what that tells."""
    missing, dear = 1 - program.given(x), program.prices - program.worth(y) - slack
    solve = program.solver(x / slack)

    def towards(product: Any) -> tuple[Floats, Floats, Floats]:
        by_y = solve(missing + program.given((x * dear - product) / slack))
        by_slack = dear - program.worth(by_y)
        return (product - x * by_slack) / slack, by_y, by_slack

    by_x, _, by_slack = towards(-x * slack)
    least_off = float((x + _length(x, by_x) * by_x) @ (slack + _length(slack, by_slack) * by_slack)) / len(x)
    by_x, by_y, by_slack = towards((least_off / off) ** 3 * off - x * slack - by_x * by_slack)
    one, other = _SHORT * _length(x, by_x), _SHORT * _length(slack, by_slack)
    return x + one * by_x, y + other * by_y, slack + other * by_slack


def _length(values: Floats, by: Floats) -> float:
    """How far they may go before the first is 0, 1 at most."""
    less = by < 0
    return min(1.0, float((values[less] / -by[less]).min(initial=1.0)))
