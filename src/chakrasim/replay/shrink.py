"""Fewer live ranks than the trace has: groups cut to the live ranks, sizes with them.

The rule is that of PARAM's ``--auto-shrink`` (trace-analysis.md, 2.4), but groups stay apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chakrasim.collectives.kinds import KINDS_BY_NAME


@dataclass(frozen=True)
class Cut:
    """What a collective becomes: live members and bytes; () where fewer than two are live."""

    members: tuple[int, ...]
    size_bytes: int


@dataclass
class Shrinker:
    """Cuts collectives to ranks 0 to ``ranks`` - 1, and counts what it changes."""

    ranks: int
    changes: Counter[str] = field(default_factory=Counter)

    def cut(self, kind: str, members: tuple[int, ...], size_bytes: int) -> Cut:
        """Input that has a part for each member loses the parts of those that are gone; all other sizes, which are
        those of one rank, stay."""
        live = tuple(member for member in members if member < self.ranks)
        if len(live) == len(members):
            return Cut(live, size_bytes)
        self.changes["collectives of groups that are cut to the live ranks"] += 1
        if KINDS_BY_NAME[kind].divides_input and live:
            self.changes["inputs that are cut to the parts of the live ranks"] += 1
            size_bytes = size_bytes * len(live) // len(members)
        return Cut(live, size_bytes)

    def root(self, root: int, live: tuple[int, ...]) -> int:
        """The root, or the first live member where it is none of them."""
        if root in live:
            return root
        if root >= 0:
            self.changes["roots that are not live, so that the first live member takes their place"] += 1
        return live[0]
