"""Sums that are exact or refused: NumPy's wrap around at 2^63 without a word."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError

LARGEST = 2**63 - 1

Words = NDArray[np.int64] | NDArray[np.uint64]


def total(values: Words) -> int:
    """The sum of at most 2^31 values, however large."""
    high, low = _halves(values)
    return (int(high.sum()) << 32) + int(low.sum())


def totals(group: NDArray[np.int64] | NDArray[np.intp], values: Words, groups: int) -> list[int]:
    """By group, the sum of its values."""
    sums = np.zeros((2, groups), np.int64)
    for sum_of_halves, half in zip(sums, _halves(values), strict=True):
        np.add.at(sum_of_halves, group, half)
    return [(upper << 32) + lower for upper, lower in zip(*sums.tolist(), strict=True)]


def _halves(values: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The upper and the lower 32 bits."""
    shift, low = values.dtype.type(32), values.dtype.type((1 << 32) - 1)
    return (values >> shift).astype(np.int64, copy=False), (values & low).astype(np.int64, copy=False)


def running(values: list[int], what: str, file: str | None = None) -> NDArray[np.int64]:
    """The sums of the first value, the first two, and so on. Raises InputError where one needs more than 64 bits."""
    return np.array([checked(value, what, file) for value in accumulate(values)], np.int64)


def checked(value: int, what: str, file: str | None = None) -> int:
    """The value, if it fits into 64 bits. Raises InputError else; ``what`` names it in the message."""
    if not -LARGEST - 1 <= value <= LARGEST:
        raise InputError(
            f"{what} cannot be counted",
            file=file,
            found=str(value),
            expected="less than 2^63",
            remedy="look for absurd sizes, durations or counts",
        )
    return value
