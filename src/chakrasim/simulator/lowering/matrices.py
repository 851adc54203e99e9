"""All-to-alls whose parts differ: who has what for whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.custom.program import CustomKind, CustomProgram, linked
from chakrasim.simulator.lowering.patterns import Hops

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Matrix:
    """What members have for each other: ``parts[i, j]`` (int64[n, n]) are bytes of member i for member j."""

    number: int
    parts: Ints

    @property
    def size_bytes(self) -> int:
        """What the busiest member gives or gets, which stands for the size of the collective."""
        return int(max(self.parts.sum(axis=0).max(), self.parts.sum(axis=1).max()))

    @property
    def even(self) -> int:
        """The size of an all-to-all of equal parts that sends the same messages; -1 where they differ."""
        others = self.parts[~np.eye(len(self.parts), dtype=np.bool_)]
        return int(others[0]) * len(self.parts) if (others == others[0]).all() else -1

    def programs(self, members: tuple[int, ...]) -> tuple[CustomProgram, ...]:
        """Its messages as what each member does, in ascending order of rank: all at once, to the next member first."""
        return tuple(self._program(member) for member in sorted(range(len(members)), key=members.__getitem__))

    def _program(self, member: int) -> CustomProgram:
        n = len(self.parts)
        others = (member + np.arange(1, n)) % n
        to, back = others[self.parts[member, others] > 0], others[self.parts[others, member] > 0]
        kind = np.repeat([CustomKind.SEND, CustomKind.RECV], [to.size, back.size]).astype(np.int64)
        size = np.concatenate([self.parts[member, to], self.parts[back, member]])
        nothing = np.zeros(kind.size, np.int64)
        return linked(
            range(kind.size), [()] * kind.size, "all-to-all of unequal parts", str,
            kind=kind, peer=np.concatenate([to, back]), size_bytes=size, tag=nothing, delay_ns=nothing,
        )  # fmt: skip

    def hops(self, members: tuple[int, ...]) -> Hops:
        """Its messages, as parts of its size; each counts as one of an all-to-all of equal parts beside others."""
        ranks, others = np.array(members, np.int32), ~np.eye(len(members), dtype=np.bool_)
        source, target = np.nonzero((self.parts > 0) & others)
        share = self.parts[source, target] / self.size_bytes
        return Hops(ranks[source], ranks[target], share, unit=1 / len(members))
