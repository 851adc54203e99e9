"""A topology added as CONTRIBUTING says, to be run uncompiled: a mesh, a ring without the link from its last member to
its first.

Prints the makespan of an all-reduce on a mesh of 4 x 4, folded and not, and the names of three links.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from cases import Case, collective, network_of, system_of

from chakrasim.machine.topology import TOPOLOGIES, Symmetry, Topology
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels import loop, network

MESH = 3


def forward(m: Any, message: int) -> None:
    """The kernel's route, for the dimension that the message has to cross next."""
    here, to = m[message + at.MSG_AT], m[message + at.MSG_TO]
    for d in range(m[at.DIMS]):
        dim = m[at.DIM_TABLE] + d * at.DIM_WORDS
        a, b = network.coordinate(m, here, dim), network.coordinate(m, to, dim)
        if a != b and m[message + at.MSG_SWITCH] == 0 and m[dim + at.DIM_KIND] == MESH:
            ahead = b > a
            m[message + at.MSG_AT] = here + (1 if ahead else -1) * m[dim + at.DIM_STRIDE]
            network.offer(m, message, here, m[dim + at.DIM_PORT] + (0 if ahead else 1))
            return
        if a != b:
            break
    built_in(m, message)


built_in = network.forward
network.forward = forward  # type: ignore[assignment]
loop.forward = forward  # type: ignore[attr-defined]
stated = {"symmetry": Symmetry.ROTATIONS} if "as-a-ring" in sys.argv else {}
TOPOLOGIES["Mesh"] = Topology(
    "Mesh", MESH, lambda members: 2, lambda own, port, members: (own, own + (1 if port == 0 else -1)), **stated
)

dims = [("Mesh", 4, 1.0, 100.0)] * 2
keys = {"preferred_dataset_splits": 1, "collective_optimization": "baseline", "endpoint_delay": 0, "local_mem_bw": 0}
system = system_of("ring", "ring", **keys)
case = Case([[collective(0, 0, 1 << 20)]], network_of(*dims), system)
folded, single = case.run(), case.run(fold=False)
assert single.links is not None
figures = {
    "folded": folded.makespan_ns,
    "single": single.makespan_ns,
    "classes": len(folded.class_ranks),
    "reason": folded.fold_reason,
    "links": list(single.links.name)[:3],
}
print(json.dumps(figures))
