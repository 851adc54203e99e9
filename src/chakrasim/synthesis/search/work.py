"""How much is searched: numbers that are looked at, counted, not timed, so that every machine finds the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TOTAL: Final = 6_000_000_000
"""Numbers that all searches together look at, about; each takes some 10 ns."""
MOST: Final = 500_000_000
SHARE: Final = 12
"""One law may take this part of what is left, at most ``MOST``,"""
AT_FIRST: Final = 10
"""or this part of it, if it is looked for again,"""
LEAST: Final = 5_000_000
"""and at least so much: simple laws are found when nothing is left, too."""


@dataclass
class Work:
    """``left``: for all laws; ``own``: for the one that is looked for; ``again``: whether laws that are not found are
    looked for again."""

    left: int = TOTAL
    own: int = MOST
    again: bool = False

    def begin(self) -> None:
        """The next law."""
        self.own = max(LEAST, min(MOST // AT_FIRST if self.again else MOST, self.left // SHARE))

    def spend(self, numbers: int) -> None:
        """So many numbers are looked at."""
        self.left -= numbers
        self.own -= numbers

    @property
    def is_spent(self) -> bool:
        """Whether the law is given up."""
        return self.own <= 0
