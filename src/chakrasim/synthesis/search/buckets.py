"""Messages that send what nodes before them wrote, as soon as enough has come together: the gradients that data
parallelism sends in buckets, of which the first may be smaller than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Columns, Expression, Ints

REGIONS: Final = ("before", "along", "behind")
"""Where the places of a bucket are, by the loop."""
Spot = tuple[int, int, int, bool]
"""Which of the regions, which place there, the row of that, and whether anything is let go there."""


@dataclass(frozen=True)
class Enough:
    """A law of how much is enough, and of what between the jobs do not say whether it is: more than the first of
    ``gap`` and less than the second."""

    law: Expression
    gap: tuple[Expression, Expression]


@dataclass(frozen=True)
class Bucket:
    """Laws of what adds up before a loop, along it and behind it, and when it is let go.

    Attributes
    ----------
    number: among the meters of a model, of which it is one.
    loop: along whose iterations it adds up, run by run.
    before, along, behind: what is added up to one place after another, at which it may be let go, and last what is
        added behind these: ``along`` of the loop's iterations, the others of those of the loop around.
    enough: of the iterations of the loop around: for what is let go first in a run, and for all else.
    flush: whether what is there at the last place of a run is let go, enough or not.
    """

    number: int
    loop: int
    before: tuple[Expression, ...]
    along: tuple[Expression, ...]
    behind: tuple[Expression, ...]
    enough: tuple[Enough, Enough]
    flush: bool

    def laws(self) -> list[Expression]:
        """All of them."""
        return [
            *self.before,
            *self.along,
            *self.behind,
            *(law for each in self.enough for law in (each.law, *each.gap)),
        ]

    def in_doubt(self, own: Columns, first: Columns, second: Columns, parent: Ints) -> int:
        """How often what has added up lies where the jobs do not say whether it is enough."""
        return int(second[f"doubts of meter {self.number}"].sum())

    def name(self, what: str, where: int, place: int) -> str:
        """Of a column of what has added up, "sum", or of whether it is let go, "fires", at a place of `REGIONS`."""
        return f"{what} {place} {REGIONS[where]} of meter {self.number}"

    def columns(
        self, own: Columns, around: Columns, parent: Ints, runs: int, *, fits: bool = False
    ) -> tuple[dict[str, Ints], dict[str, Ints]]:
        """Columns of the loop's iterations and of the ``runs`` iterations of the loop around it, from theirs, by name:
        what has added up at each place, and whether it is let go. ``parent`` int64[n]: in which of these each iteration
        is, ascending. Raises OverflowError for numbers beyond int64 if laws have to be of ones that it ``fits``, and
        for sums beyond it."""
        value = partial(expressions.value, fits=fits)
        of = (self.before, around, runs), (self.along, own, len(parent)), (self.behind, around, runs)
        weights = [[value(law, columns, rows).tolist() for law in laws] for laws, columns, rows in of]
        limits = [[value(law, around, runs).tolist() for law in (each.law, *each.gap)] for each in self.enough]
        sums, fires = ([np.zeros((len(laws) - 1, rows), np.int64) for laws, _, rows in of] for _ in range(2))
        left, doubts = np.zeros((2, runs), np.int64)
        for run, places in enumerate(spots_of([len(each) for each in weights], parent, runs)):
            held, fired, last = 0, 0, last_of(places)
            for at, (where, place, row, lets_go) in enumerate(places):
                held += weights[where][place][row]
                if lets_go:
                    enough, low, high = (limit[run] for limit in limits[fired])
                    flushed = self.flush and at == last
                    doubts[run] += low < held < high and not flushed
                    sums[where][place, row] = held
                    if held >= enough or (flushed and held > 0):
                        fires[where][place, row] = fired = 1
                        held = 0
            left[run] = held
        made = [{self.name(what, where, place): each for what, found in (("sum", sums), ("fires", fires))
                 for place, each in enumerate(found[where])} for where in range(len(REGIONS))]  # fmt: skip
        return made[1], made[0] | made[2] | {
            f"left of meter {self.number}": left, f"doubts of meter {self.number}": doubts
        }  # fmt: skip


def spots_of(many: Sequence[int], parent: Ints, runs: int) -> Iterator[list[Spot]]:
    """Of each run its places one after another, of so ``many`` each time before the loop, along it and behind it."""
    ends = np.searchsorted(parent, np.arange(runs), side="right").tolist()
    for run, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        rows = ((0, run), *((1, row) for row in range(begin, end)), (2, run))
        yield [(where, place, row, place < many[where] - 1) for where, row in rows for place in range(many[where])]


def last_of(places: Sequence[Spot]) -> int:
    """Which is the last at which anything is let go; -1 for none."""
    return max((at for at, spot in enumerate(places) if spot[-1]), default=-1)
