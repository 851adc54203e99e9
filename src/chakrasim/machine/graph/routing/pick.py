"""Which way an adaptive flow takes: a plain function of numbers and arrays, for Python and for compiled loops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def least_loaded(
    flow: int,
    first: NDArray[np.int64],
    route_first: NDArray[np.int64],
    link: NDArray[np.int32],
    detour: NDArray[np.bool_],
    tie: NDArray[np.int64],
    threshold: float,
    medium: NDArray[np.int32],
    capacity: NDArray[np.float64],
    on_link: NDArray[np.int64],
) -> int:
    """The way of a flow that starts now, as a route number of `Ways.routes`; -1 if it has none.

    A way's load is the most of (flows + 1) / capacity over its links; ``on_link`` [l] counts the flows under way on
    each medium (`NetworkGraph.medium`). Of the shortest ways the flow takes the one of least load, of the detours
    likewise. It takes the detour only where hops x load of the shortest exceed hops x load of the detour by more than
    ``threshold`` (UGAL; hops x ns per byte). Of equally loaded ways ``tie`` chooses.
    """
    taken = -1
    delay = 0.0
    for part in range(2):
        best = -1
        least = 0.0
        equal = 0
        for turn in range(2):
            number = tie[flow] % equal if turn == 1 and equal > 0 else -1
            for way in range(first[flow], first[flow + 1]):
                if detour[way] != (part == 1):
                    continue
                load = 0.0
                for i in range(route_first[way], route_first[way + 1]):
                    at = medium[link[i]]
                    load = max(load, (on_link[at] + 1) / capacity[at])
                if turn == 0:
                    if equal == 0 or load < least:
                        least = load
                        equal = 0
                    if load == least:
                        equal += 1
                elif load == least:
                    if number == 0:
                        best = way
                    number -= 1
        if best < 0:
            continue
        here = (route_first[best + 1] - route_first[best]) * least
        if taken < 0 or delay > here + threshold:
            taken = best
            delay = here
    return taken
