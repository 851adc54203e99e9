"""How long the computations of a trace take, for formats that know times only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.simulator.lowering.compute import recorded_ns, work_of
from chakrasim.trace import NodeType, Trace
from chakrasim.trace import work as names

Ints = NDArray[np.int64]


def times_ns(trace: Trace, profile: DeviceProfile | None) -> Ints:
    """int64[nodes] ns, 0 of nodes that compute nothing: as a simulation without a roofline has them.

    The profile times the nodes that say what they compute. Raises InputError for such a node without a time where there
    is no profile. A node that says neither takes 1 ns.
    """
    computing = trace.types == NodeType.COMP_NODE
    host = trace.attr("is_cpu_op").integers() != 0
    found = np.zeros(len(trace), np.int64)
    nodes = np.flatnonzero(computing)
    found[nodes] = recorded_ns(trace, trace.attr, nodes)
    works = computing & ~host & (trace.attr(names.FLOPS).present | trace.attr(names.BYTES).present)
    works &= trace.attr(names.RECORDED).integers() == 0
    if profile is not None:
        nodes = np.flatnonzero(works)
        found[nodes] = profile.durations_ns(work_of(trace, nodes))
    untimed = np.flatnonzero(works & ~trace.attr(names.COMPUTE_NS).present & (trace.duration_micros == 0))
    if profile is None and len(untimed):
        raise InputError(
            f"{len(untimed):,} computations say what they do, but not how long it takes",
            file=trace.source,
            place=trace.place(int(untimed[0])),
            remedy="say what they run on: --device-profile h100",
        )
    return found
