"""What of epsilon and delta each part of the mechanism may spend: by the composition theorem the sums of both.

The theorem: Dwork and Roth, The algorithmic foundations of differential privacy, 2014, theorem 3.16.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chakrasim.errors import InputError

EPSILON: Final = 4.0
DELTA: Final = 1e-5
CHUNKS: Final = 17
_STEPS: Final = 1 << 24
"""Shares are whole numbers of such parts of an epsilon of one, rounded down: noise is drawn with whole numbers."""


@dataclass(frozen=True)
class Share:
    """What one part of the mechanism spends."""

    epsilon: Fraction
    delta: float


@dataclass(frozen=True)
class Budget:
    """Shares of what is asked for: of which parameters there are, of which divide which, of how often each has which
    value, and of the program. None of them is private, nor is the number of chunks."""

    names: Share
    divisors: Share
    values: Share
    program: Share

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Budget:
        """Shares that sum to these. Raises InputError for amounts that guarantee nothing or leave nothing."""
        if not 0.01 <= epsilon <= 20:
            raise InputError("no epsilon of a release", found=f"{epsilon:g}", expected="0.01 to 20, such as 4")
        if not 1e-15 <= delta <= 0.01:
            raise InputError("no delta of a release", found=f"{delta:g}",
                             expected="1e-15 to 0.01, far less than one over the number of jobs")  # fmt: skip
        return cls(
            Share(_rounded(Fraction(epsilon) / 10), delta / 5),
            Share(_rounded(Fraction(epsilon) * 9 / 80), 0.0),
            Share(_rounded(Fraction(epsilon) * 3 / 16), delta / 5),
            Share(_rounded(Fraction(epsilon) * 3 / 5), delta * 3 / 5),
        )

    @property
    def shares(self) -> tuple[Share, ...]:
        """All of them."""
        return (self.names, self.divisors, self.values, self.program)


def part(epsilon: Fraction, count: int) -> Fraction:
    """What each of so many equal parts may spend."""
    return _rounded(epsilon / max(count, 1))


def _rounded(epsilon: Fraction) -> Fraction:
    return Fraction(int(epsilon * _STEPS), _STEPS)
