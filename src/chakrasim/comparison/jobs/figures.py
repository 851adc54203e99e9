"""Figures by which two jobs, or two orders, are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.comparison.jobs.measures import Measures

K = TypeVar("K")
Floats = NDArray[np.float64]


def apart(a: Mapping[K, int], b: Mapping[K, int]) -> float:
    """Half the sum of the differences of shares, 0 (the same) to 1 (nothing in common)."""
    whole_a, whole_b = sum(a.values()), sum(b.values())
    if not whole_a or not whole_b:
        return float(bool(whole_a) != bool(whole_b))
    return sum(abs(a.get(key, 0) / whole_a - b.get(key, 0) / whole_b) for key in {*a, *b}) / 2


def relative(a: float, b: float) -> float:
    """The difference over the greater of two amounts, 0 to 1."""
    return abs(a - b) / max(abs(a), abs(b)) if a or b else 0.0


def kendall(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Kendall's rank correlation, tau-b, which counts ties on neither side; None where one side has nothing but ties.

    M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33 (1945).
    """
    first, second = (np.asarray(values, np.float64) for values in (a, b))
    agree = own = other = 0
    for at in range(len(first) - 1):
        signs, others = np.sign(first[at + 1 :] - first[at]), np.sign(second[at + 1 :] - second[at])
        agree += int(signs @ others)
        own += int(signs @ signs)
        other += int(others @ others)
    return agree / math.sqrt(own * other) if own and other else None


def regret(seen: Sequence[float], real: Sequence[float]) -> float:
    """How much longer the choice that is fastest by ``seen`` takes in ``real`` than the fastest there, as a share."""
    return real[int(np.argmin(seen))] / min(real) - 1 if min(real) > 0 else 0.0


def distances(a: Sequence[Measures], b: Sequence[Measures]) -> Floats:
    """float64[a, b]: the mean, over all counts of nodes (by type and degree) and amounts of work of either job, of how
    many times one has what the other has, as a logarithm: 0 for equal figures, 0.69 where all are doubled. Names are
    no part of it: jobs that differ in these alone are equal."""
    columns: dict[tuple[str, str], int] = {}
    rows = [_amounts(job, columns) for job in (*a, *b)]
    table = np.zeros((len(rows), len(columns)))
    for row, amounts in zip(table, rows, strict=True):
        row[[*amounts]] = np.log1p([*amounts.values()])
    others = table[len(a) :]
    found = np.zeros((len(a), len(b)))
    for at in range(len(a)):
        either = ((others > 0) | (table[at] > 0)).sum(axis=1)
        found[at] = np.abs(others - table[at]).sum(axis=1) / np.maximum(either, 1)
    return found


def _amounts(job: Measures, columns: dict[tuple[str, str], int]) -> dict[int, float]:
    """What a job has, by the number of its column; new ones are added."""
    tables = {
        "type": job.info.nodes_by_type,
        **{name: getattr(job, name) for name in ("in_degrees", "out_degrees", "flops", "moved", "sent", "calls")},
    }
    return {
        columns.setdefault((name, str(key)), len(columns)): float(amount)
        for name, table in tables.items()
        for key, amount in table.items()
    }
