"""How much is searched: numbers that are looked at, counted, not timed, so that every machine finds the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, TypeVar

T = TypeVar("T")

TOTAL: Final = 5_400_000_000
"""Numbers that all searches together look at, about; each takes some 10 ns."""
MOST: Final = 100_000_000
"""One law may take so many at most, or of what is left, this part,"""
SHARE: Final = 12
LEAST: Final = 5_000_000
"""and at least so many: simple laws are found when nothing is left, too."""
LATER: Final = 1_100_000_000
"""Of all, what is left for laws that need to know what adds up."""
AT_FIRST: Final = 50_000_000
LITTLE: Final = 8_000_000
"""What a law may take that is looked for again, or something near; and where most take less, and the rest are left for
later."""


@dataclass
class Work:
    """``left``: for all laws; ``own``: for the one that is looked for, which may take at ``most`` so much; ``done``:
    what was found, by what was asked."""

    left: int = TOTAL
    own: int = MOST
    most: int = MOST
    done: dict[bytes, Any] = field(default_factory=dict)

    def once(self, asked: bytes, search: Callable[[], T]) -> T:
        """What a search finds that asks for no more than this, and takes work but once; given up, it is not kept."""
        key = blake2b(asked).digest()
        if key in self.done:
            found: T = self.done[key]
            return found
        found = search()
        if not self.is_spent:
            self.done[key] = found
        return found

    def begin(self) -> None:
        """The next law."""
        self.own = max(LEAST, min(self.most, self.left // SHARE))

    @contextmanager
    def at_most(self, numbers: int) -> Iterator[None]:
        """A part of the search for a law, which may take so many of what that has."""
        own, part = self.own, min(self.own, numbers)
        self.own = part
        try:
            yield
        finally:
            self.own += own - part

    @contextmanager
    def without(self, numbers: int) -> Iterator[None]:
        """Searches that leave so much for others."""
        self.left -= numbers
        try:
            yield
        finally:
            self.left += numbers

    def spend(self, numbers: int) -> None:
        """So many numbers are looked at."""
        self.left -= numbers
        self.own -= numbers

    @property
    def is_spent(self) -> bool:
        """Whether the law is given up."""
        return self.own <= 0
