"""In which order ranks have finished, where rings were reckoned as wholes: ties that only messages could decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.arena.engine import slot_table
from chakrasim.simulator.kernels import layout as at

Ints = NDArray[np.int64]


def put_in_order(m: Ints) -> int:
    """Order ranks by the tick in which they finished, then by number, and count those that share theirs with others."""
    finish = slot_table(m)[:, at.SLOT_FINISH]
    order = np.argsort(finish, kind="stable")
    start = int(m[at.FINISH_ORDER])
    m[start : start + len(order)] = order
    _, copies = np.unique(finish, return_counts=True)
    return int(copies[copies > 1].sum())
