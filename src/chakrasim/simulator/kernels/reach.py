"""Which nodes of a graph can ever run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel

Ints = NDArray[np.int64]


@kernel
def count_reachable(offsets: Ints, children: Ints, parents: Ints, left: Ints, stack: Ints) -> int:
    """How many nodes can ever become free; ``left`` ends with the unfinished parents of the others."""
    top = 0
    done = 0
    for node in range(len(parents)):
        left[node] = parents[node]
        if parents[node] == 0:
            stack[top] = node
            top += 1
    while top > 0:
        top -= 1
        node = stack[top]
        done += 1
        for i in range(offsets[node], offsets[node + 1]):
            child = children[i]
            left[child] -= 1
            if left[child] == 0:
                stack[top] = child
                top += 1
    return done
