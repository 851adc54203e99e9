"""Sums that are exact or refused: NumPy's wrap around at 2^63 without a word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError

LARGEST = 2**63 - 1
_LOW = (1 << 32) - 1


def total(values: NDArray[np.int64]) -> int:
    """The sum of at most 2^31 values, however large."""
    return (int((values >> 32).sum()) << 32) + int((values & _LOW).sum())


def totals(group: NDArray[np.int64] | NDArray[np.intp], values: NDArray[np.int64], groups: int) -> list[int]:
    """By group, the sum of its values."""
    high, low = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    np.add.at(high, group, values >> 32)
    np.add.at(low, group, values & _LOW)
    return [(upper << 32) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]


def running(values: list[int], what: str, file: str | None = None) -> NDArray[np.int64]:
    """The sums of the first value, the first two, and so on. Raises InputError where one needs more than 64 bits."""
    sums = []
    now = 0
    for value in values:
        now += value
        sums.append(now)
    return np.array([checked(value, what, file) for value in sums], np.int64)


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
