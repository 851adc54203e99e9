"""Selene: nodes of eight A100 behind NVSwitch, one HDR InfiniBand port per GPU, a fat tree."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from chakrasim.generator.layers.tape import Row
from chakrasim.machine import Machine, load_machine
from chakrasim.trace import TraceBuilder
from chakrasim.trace.kinds import NodeType

NODE: Final = 8

NVLINK: Final = "240 GB/s"
"""What NCCL moves over the twelve NVLinks of an A100 (300 GB/s and direction by the data sheet): NCCL's own model has
20 of 25 GB/s a link (NVIDIA/nccl issue 1054)."""
NVLINK_STEP_US: Final = 3.0
"""Of one step of a ring: 128 MiB then take 510 us to gather over eight GPUs; aicb's A100 node has a median of 508 us
(reduce-scatter: 512 us)."""

INFINIBAND: Final = "25 GB/s"
"""HDR, 200 Gb/s."""
MESSAGE_US: Final = 75.0
"""Megatron-LM's messages between stages end with the host waiting for the device (torch.cuda.synchronize in
p2p_communication.py), hence cost what aicb measured for blocking calls of no size: 71 to 77 us."""

PROCESSORS: Final = 108
"""Streaming multiprocessors of an A100."""
NCCL_CHANNELS: Final = 24
"""On eight A100s behind NVSwitch (NVIDIA/nccl-tests issue 100); each holds a multiprocessor that it does not share with
kernels that compute (NVIDIA/nccl issues 689 and 1656)."""


def selene(nodes: int) -> Machine:
    """So many nodes of it. A message crosses two links of a switch, so that a link has half the latency."""
    network: list[dict[str, Any]] = [
        {"topology": "Switch", "npus": NODE, "bandwidth": NVLINK, "latency": f"{NVLINK_STEP_US / 2} us"}
    ]
    if nodes > 1:
        network.append(
            {"topology": "Switch", "npus": nodes, "bandwidth": INFINIBAND, "latency": f"{MESSAGE_US / 2} us"}
        )
    ring = ["ring"] * len(network)
    return load_machine(
        {
            "format": 1,
            "name": f"selene-{nodes}",
            "network": network,
            "collectives": {
                "splits": 1,
                "active-chunks": 1,
                "endpoint-delay": "0 ns",
                "scheduling": "FIFO",
                "algorithms": dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter", "all-to-all"), ring),
            },
        }
    )


def collective_ns(row: Row) -> int:
    """How long the collective of a row takes on one node with nothing in its way."""
    return _collective_ns(int(row.values["comm_type"]), int(row.values["comm_size"]))


@cache
def _collective_ns(kind: int, size: int) -> int:
    from chakrasim.simulator.api import simulate

    builder = TraceBuilder()
    attributes = {"is_cpu_op": False, "comm_type": kind, "comm_size": size}
    builder.add(0, "collective", NodeType.COMM_COLL_NODE, attrs=attributes)
    return simulate(builder.build(), machine=selene(1), ranks=NODE).makespan_ns
