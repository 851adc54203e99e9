"""The rows of a linked trace while it is being made, with where each came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.linker.rows.texts import TextPool
from chakrasim.trace.kineto.columns import Indices, Ints
from chakrasim.trace.linked.columns import Lane


@dataclass(frozen=True, eq=False)
class RowTable:
    """``n`` rows in their final order, which the linked trace keeps.

    Attributes
    ----------
    texts: all texts; names are indices into it. With a device trace, its first entries are those of
        ``KinetoTrace.strings`` under the same indices; without one, those of ``HostTrace.strings``.
    kind, part, head, name, lane, start_ns, wait_ns, duration_ns, inclusive_ns, parent, step: as in `LinkedTrace`.
        ``parent`` of a device row is the operator that launched it.
    event: int32[n], the row's event in the device trace (its row in `KinetoTrace`); -1 for gaps and without one.
    host_node: int32[n], the row's node in the host trace (its row in `HostTrace`); -1 where unmatched. Part 0 only.
    launch: int32[n], of a device row: the row (a part of the call) that launched it; -1 for others and orphans.
    lanes: as in `LinkedTrace`.
    """

    texts: TextPool
    kind: NDArray[np.uint8]
    part: Indices
    head: Indices
    name: Indices
    lane: Indices
    start_ns: Ints
    wait_ns: Ints
    duration_ns: Ints
    inclusive_ns: Ints
    parent: Indices
    step: Indices
    event: Indices
    host_node: Indices
    launch: Indices
    lanes: tuple[Lane, ...]

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def end_ns(self) -> Ints:
        """int64[n]: recorded end of each row."""
        end = self.start_ns + self.wait_ns
        end += self.duration_ns
        return end
