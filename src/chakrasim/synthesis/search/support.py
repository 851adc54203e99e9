"""Whether examples say more than chance would: a law is held by them if it takes less to say than what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lgamma, log
from typing import Any, Final

import numpy as np

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import OPERATIONS, Expression, Ints
from chakrasim.synthesis.search.levels import Table, first_rows, level_of

BEYOND: Final = 4.0
"""Bits by which examples say more than their law: one law of sixteen that is all chance comes so far."""
TESTED: Final = 8
"""Different numbers of a column of which each may be tested."""
SMALL: Final = 1 << 16
"""Numbers below are counted, others are sorted."""
OFFSETS: Final = 6
"""Tests of one column beside another."""


def by_few_examples(law: Expression, wanted: Ints, table: Table, own: Mapping[str, Ints]) -> bool:
    """Whether what a law gives, int64[n], could be given by chance by one of those that are as simple. What only jobs
    tell apart counts once a job. ``own``: columns of the same nodes, int64[n]."""
    asked = expressions.names(law)
    of_jobs, of_ranks, every = ({**table.columns(level), **own} for level in range(3))
    if not asked or not asked <= {*every} or any(level_of(own[name], table) for name in asked & {*own}):
        return False
    level = 0 if asked <= {*of_jobs} else 1 if asked <= {*of_ranks} else 2
    rows = first_rows((table.job, table.rank)[level]) if level < 2 else np.arange(len(wanted))
    choices = _Choices([column[rows] for column in (of_jobs, of_ranks, every)[level].values()])
    if _bits_of(wanted[rows]) < choices.bits(law) + BEYOND:
        return True
    tests = [test for test in _tests(law) if {test[0], test[2]} - {""} <= {*of_jobs}] if level else []
    if not tests:
        return False
    rows = first_rows(table.job)
    here = {name: of_jobs[name][rows] for test in tests for name in (test[0], test[2]) if name}
    part = np.unique([expressions.test(test, here) for test in tests], axis=1, return_inverse=True)[1].reshape(-1)
    choices = _Choices([column[rows] for column in of_jobs.values()])
    return _arranged(part) < sum(map(choices.test_bits, tests)) + BEYOND


def _bits_of(wanted: Ints) -> float:
    """Bits of whole numbers: of which there are, and which of them each example has."""
    return _arranged(wanted) + sum(_whole(value) for value in np.unique(wanted).tolist())


def _arranged(kinds: Ints) -> float:
    """Bits of the order of things of these kinds, of each as many as there are."""
    counts = np.unique(kinds, return_counts=True)[1].tolist()
    return (lgamma(len(kinds) + 1) - sum(lgamma(count + 1) for count in counts)) / log(2)


def _whole(number: int) -> float:
    return log(1 + abs(number), 2)


class _Choices:
    """What laws choose from: the columns that differ, each once."""

    def __init__(self, columns: Sequence[Ints]) -> None:
        distinct = {column.tobytes(): column for column in columns}
        values = [_few(column) for column in distinct.values()]
        values = [count for count in values if count > 1] or [1]
        self.column = log(len(values) + 1, 2)
        self.alone = log(2 * sum(values), 2)
        self.beside = log(OFFSETS * max(len(values) * (len(values) - 1) // 2, 1), 2)

    def test_bits(self, test: list[Any]) -> float:
        """Bits of a test."""
        return self.beside if test[2] else self.alone

    def bits(self, law: Expression) -> float:
        """Bits of a law."""
        match law[0]:
            case "const":
                return _whole(law[1]) + _whole(law[2] - 1)
            case "column":
                return self.column
            case "sum":
                return sum(_whole(p) + _whole(q - 1) + len(powers) * (self.column + 1) for p, q, powers in law[1])
            case "if":
                return self.test_bits(law[1]) + self.bits(law[2]) + self.bits(law[3])
            case _:
                return log(len(OPERATIONS), 2) + self.bits(law[1]) + self.bits(law[2])


def _few(column: Ints) -> int:
    """How many different numbers a column has, up to ``TESTED``."""
    least = int(column.min(initial=0))
    small = int(column.max(initial=0)) - least < SMALL
    return min(TESTED, int(np.count_nonzero(np.bincount(column - least))) if small else len(np.unique(column)))


def _tests(law: Expression) -> Iterator[list[Any]]:
    if law[0] == "if":
        yield law[1]
        yield from _tests(law[2])
        yield from _tests(law[3])
    elif law[0] in OPERATIONS:
        yield from _tests(law[1])
        yield from _tests(law[2])
