"""What one recorded step says of the nodes of a captured program: how long each takes, and the host beside it.

Where a device did the work, a node takes as long as its kernels, and is launched once the host has done all before it.
Where the host did, a node also takes what the host did since the node before: Python, autograd, operators that capture
leaves out. Waiting for other ranks is in neither. What the host does behind the last node comes before the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.binding.calls import Calls
from chakrasim.converter.binding.matching import Matching
from chakrasim.converter.binding.places import node_before, place_of_nodes, spread
from chakrasim.converter.binding.rows import Rows
from chakrasim.trace.chakra.graph import Ints

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """One step of one recorded rank, float64[nodes] in ns, NaN for what it does not say.

    Attributes
    ----------
    rank, step: of the recording.
    work_ns: of compute nodes.
    gap_ns: the part of ``work_ns`` that the host did between operators; 0 where a device did the work.
    launch_ns: when the host has launched a node, NaN where no device did it.
    transfer_ns: of collectives and messages, waiting included.
    left_ns: time of kernels that belong to no node.
    without_kernel: compute nodes whose operator launched none.
    placed: bool[nodes], nodes that have their share of what was done at their place.
    """

    rank: int
    step: int
    work_ns: Floats
    gap_ns: Floats
    launch_ns: Floats
    transfer_ns: Floats
    left_ns: int
    without_kernel: int
    placed: Mask


def measured_step(
    rows: Rows, step: int, chosen: Mask, calls: Calls, found: Matching, computes: Mask, moved: Floats
) -> Sample:
    """The sample of a step; ``chosen`` bool[rows] are its rows, ``computes`` bool[nodes] the compute nodes, ``moved``
    float64[nodes] their bytes."""
    nodes = len(computes)
    at_work = computes[found.pairs[:, 0]]
    work, talk = (_node_of(rows, calls, found.pairs[which]) for which in (at_work, ~at_work))
    matched = np.zeros(nodes, np.bool_)
    matched[found.pairs[at_work, 0]] = True
    host = np.flatnonzero(chosen & rows.host)
    host = host[np.argsort(rows.start_ns[host], kind="stable")]
    launch, gap = np.full(nodes, np.nan), np.zeros(nodes)
    kernels = np.flatnonzero(chosen & rows.device & ~rows.communicates)
    left = without = 0
    at_place = np.full(nodes, np.nan)
    if len(kernels):
        own = kernels[work[kernels] >= 0]
        total = _sums(work[own], rows.duration_ns[own], nodes)
        done = np.zeros(len(rows))
        done[host] = np.cumsum(rows.duration_ns[host])
        launched = own[rows.giver[own] >= 0]
        np.fmax.at(launch, work[launched], done[rows.giver[launched]])
        without = int((matched & (np.bincount(work[own], minlength=nodes) == 0)).sum())
        rest = kernels[work[kernels] < 0]
        place = place_of_nodes(found.pairs, computes & ~matched)
        at_place, late, given = spread(rows, rest, done[rows.giver[rest]], calls, found.pairs, place, moved)
        launch = np.fmax(launch, late)
        rest = rest[~given]
        more = rest[calls.owner[rest] >= 0] if at_work.any() else rest[:0]
        total += _sums(node_before(rows, more, calls, found.pairs[at_work]), rows.duration_ns[more], nodes)
        left = int(rows.duration_ns[rest].sum() - rows.duration_ns[more].sum())
    else:
        total, gap = _on_the_host(rows, host, work, nodes)
    total[~matched] = at_place[~matched]
    spoken = np.flatnonzero(chosen & rows.communicates & (talk >= 0))
    transfer = _sums(talk[spoken], rows.duration_ns[spoken], nodes)
    transfer[np.bincount(talk[spoken], minlength=nodes) == 0] = np.nan
    return Sample(rows.rank, step, total, gap, launch, transfer, left, without, np.isfinite(at_place))


def _node_of(rows: Rows, calls: Calls, pairs: Ints) -> Ints:
    """int64[rows]: the node whose call a row belongs to, -1: none."""
    node = np.full(len(calls) + 1, -1, np.int64)
    node[pairs[:, 1]] = pairs[:, 0]
    found: Ints = node[calls.owner]
    return found


def _on_the_host(rows: Rows, host: Ints, work: Ints, nodes: int) -> tuple[Floats, Floats]:
    """Time of each node and the part of it between operators; ``host``: rows of host threads, by start."""
    node, spent = work[host], rows.duration_ns[host]
    owned, between = np.flatnonzero(node >= 0), np.flatnonzero(node < 0)
    if not len(owned):
        return np.zeros(nodes), np.zeros(nodes)
    following = np.searchsorted(owned, between)
    following[following == len(owned)] = 0
    gap = _sums(node[owned[following]], spent[between], nodes)
    return _sums(node[owned], spent[owned], nodes) + gap, gap


def _sums(node: Ints, spent_ns: Ints, nodes: int) -> Floats:
    return np.bincount(node, spent_ns, minlength=nodes).astype(np.float64)
