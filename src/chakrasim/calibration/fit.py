"""Least squares for the efficiency of one kind of work.

What is fitted are logarithms of time, so that a kernel of 5 us and one of 5 ms count alike; errors beyond 5 % count
linearly (Huber), so that single outliers do not move the fit. A weak prior keeps what the data leave open at usual
values. The method is Levenberg's and Marquardt's; eight parameters do not need a library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.device.profile import Efficiency

Floats = NDArray[np.float64]

HUBER = 0.05
"""Logarithmic error from which on errors count linearly."""
PRIOR = 0.3
"""Weight of the prior: a parameter e times off its usual value costs as much as some ten rows that are 5 % off."""
ROUNDS = 80


@dataclass(frozen=True, eq=False)
class Samples:
    """Work and its measured time: float64[n] each. ``compute_ns``, ``memory_ns``: at full peak and full bandwidth;
    ``traffic`` in bytes."""

    compute_ns: Floats
    memory_ns: Floats
    steps: Floats
    kernels: Floats
    traffic: Floats
    measured_ns: Floats


def fit_efficiency(samples: Samples, usual: Efficiency) -> Efficiency:
    """The efficiency that fits best. ``usual`` holds the values that the prior prefers, where the fit begins.

    Shares and times that the samples say nothing about (operations that never count, no chain of steps) stay as usual.
    """
    chains = bool((samples.steps > 0).any())
    operations = bool((samples.compute_ns > 0.1 * samples.memory_ns).any())
    caches = bool(usual.cache_bytes)
    free = np.array([True, chains, operations, bool((samples.memory_ns > 0).any()), operations, chains, caches, caches])
    usual_point = _point(usual)
    logs = np.log(samples.measured_ns)

    def residual(x: Floats) -> Floats:
        point = usual_point.copy()
        point[free] = x
        found = _efficiency(point).times_ns(
            samples.compute_ns, samples.memory_ns, samples.steps, samples.kernels, samples.traffic
        )
        return np.concatenate([np.log(np.maximum(found, 1e-3)) - logs, PRIOR * (x - usual_point[free])])

    point = usual_point.copy()
    point[free] = _minimise(residual, usual_point[free])
    return _rounded(_efficiency(point))


def _point(efficiency: Efficiency) -> Floats:
    """Parameters on the whole real line: logarithms of times and of exponents above 1, logits of shares."""
    shares = _logits([efficiency.compute, efficiency.bandwidth])
    times = np.log(np.maximum([efficiency.start_ns, efficiency.step_ns], 1e-3))
    exponents = np.log(np.clip(np.array([efficiency.knee, efficiency.tail]) - 1, 1e-3, 999.0))
    cache = _logits([efficiency.cached]), np.log(np.maximum([efficiency.cache_bytes], 1e-6))
    return np.concatenate([times, shares, exponents, *cache])


def _logits(shares: list[float]) -> Floats:
    clipped = np.clip(shares, 0.01, 0.99)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _efficiency(point: Floats) -> Efficiency:
    start, step = np.exp(np.clip(point[:2], -7, 25))
    compute, bandwidth = 1 / (1 + np.exp(-np.clip(point[2:4], -7, 15)))
    knee, tail = 1 + np.exp(np.clip(point[4:6], -7, 6.9))
    cached, cache = 1 / (1 + np.exp(-np.clip(point[6], -7, 15))), np.exp(np.clip(point[7], -14, 40))
    found = Efficiency(float(start), float(step), float(compute), float(bandwidth), float(knee), float(tail))
    return replace(found, cached=float(max(cached, bandwidth)), cache_bytes=float(cache)) if cache > 1 else found


def _rounded(found: Efficiency) -> Efficiency:
    """To five digits: the last bits of a fit differ between machines."""
    values = {name: float(f"{value:.5g}") for name, value in vars(found).items() if name != "tiling"}
    return replace(found, **values)  # type: ignore[arg-type]


def _loss(residual: Floats) -> float:
    size = np.abs(residual)
    return float(np.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER)).sum())


def _minimise(residual: Callable[[Floats], Floats], start: Floats) -> Floats:
    x, damping = start.copy(), 1e-2
    at_x = residual(x)
    loss = _loss(at_x)
    for _ in range(ROUNDS):
        jacobian = np.stack([(residual(x + step) - at_x) / 1e-4 for step in 1e-4 * np.eye(len(x))], axis=1)
        weight = HUBER / np.maximum(np.abs(at_x), HUBER)
        normal = (jacobian * weight[:, None]).T @ jacobian
        gradient = jacobian.T @ (weight * at_x)
        before = loss
        while damping < 1e12:
            move = -np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), gradient)
            tried = residual(x + np.clip(move, -0.7, 0.7))
            if _loss(tried) < loss:
                x, at_x, loss = x + np.clip(move, -0.7, 0.7), tried, _loss(tried)
                damping = max(damping / 5, 1e-9)
                break
            damping *= 4
        if before - loss <= 1e-7 * before:
            break
    return x
