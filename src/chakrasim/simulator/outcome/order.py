"""In which order ranks of one tick have finished, where rings were reckoned as wholes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.arena.engine import slot_table
from chakrasim.simulator.arena.fill import Layout
from chakrasim.simulator.context import Context
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.plans import Plan

Ints = NDArray[np.int64]


def settle_order(m: Ints, layout: Layout, plans: Sequence[Sequence[Plan]], context: Context) -> bool:
    """Put the ranks that finished in one tick in their order; False where only messages know it."""
    slots = slot_table(m)
    start = int(m[at.FINISH_ORDER])
    order = m[start : start + len(slots)]
    key = slots[order][:, [at.SLOT_FINISH, at.SLOT_FINISH_LINEAGE, at.SLOT_FINISH_ROOT]]
    same = key[1:, 0] == key[:-1, 0]
    return not same.any()
