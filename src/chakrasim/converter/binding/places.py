"""Nodes that the recorded program did by other operators: it ran on a device whose library fuses what the capture saw
apart, or takes apart what the capture saw whole. What the device did between two operators that are known on both sides
is what the nodes between them do; where there are none, and it is an operator that the program has elsewhere (a copy
more, for another layout), the operator before needed it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.binding.calls import Calls
from chakrasim.converter.binding.rows import Mask, Rows
from chakrasim.trace.chakra.graph import Ints

Floats = NDArray[np.float64]

MOST_NODES: Final = 48
"""A place with more nodes is no detail of an operator."""


def place_of_nodes(pairs: Ints, open_: Mask) -> Ints:
    """int64[nodes]: how many known nodes stand before each ``open_`` one; -1: others, and those of large places."""
    place = np.searchsorted(pairs[:, 0], np.arange(len(open_)), side="right")
    many = np.bincount(place[open_], minlength=len(pairs) + 1)
    return np.where(open_ & (many[place] <= MOST_NODES), place, -1)


def spread(
    rows: Rows, kernels: Ints, launched_ns: Floats, calls: Calls, pairs: Ints, place: Ints, weight: Floats
) -> tuple[Floats, Floats, Mask]:
    """Kernels that belong to no node, given to the nodes at their places by ``weight``.

    ``kernels``: rows; ``launched_ns`` float64[k]: when the host had launched them. Gives float64[nodes] times and
    launches, NaN for all others, and bool[k]: kernels that were given to nodes.
    """
    at = _place(rows, kernels, calls, pairs)
    nodes = np.flatnonzero(place >= 0)
    given = (rows.giver[kernels] >= 0) & np.isin(at, place[nodes])
    total = np.bincount(at[given], rows.duration_ns[kernels[given]], minlength=len(pairs) + 1)
    nodes = nodes[np.isin(place[nodes], at[given])]
    own = place[nodes]
    share = weight[nodes] + 1.0
    share /= np.bincount(own, share, minlength=len(pairs) + 1)[own]
    time, launch = np.full(len(place), np.nan), np.full(len(place), np.nan)
    time[nodes] = share * total[own]
    order = np.flatnonzero(given)[np.lexsort((launched_ns[given], at[given]))]
    first, last = (np.searchsorted(at[order], own, side=side) for side in ("left", "right"))
    alike = np.bincount(own, minlength=len(pairs) + 1)
    turn = np.arange(len(own)) - np.searchsorted(own, own)
    launch[nodes] = launched_ns[order[first + turn * (last - first) // alike[own]]]
    return time, launch, given


def node_before(rows: Rows, kernels: Ints, calls: Calls, pairs: Ints) -> Ints:
    """int64[k]: the known node before each kernel, or the first."""
    before: Ints = pairs[np.maximum(_place(rows, kernels, calls, pairs) - 1, 0), 0]
    return before


def _place(rows: Rows, kernels: Ints, calls: Calls, pairs: Ints) -> Ints:
    """How many known calls had begun when each kernel was launched."""
    begun = rows.start_ns[calls.rows[pairs[:, 1]]]
    return np.searchsorted(begun, rows.start_ns[rows.giver[kernels]], side="right")
