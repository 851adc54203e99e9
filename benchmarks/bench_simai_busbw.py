"""Bus bandwidths of all-reduces that SimAI's tutorial publishes for 256 GPUs, beside what the flow network gives.

    python benchmarks/bench_simai_busbw.py

Its two networks (NVLink 2,880 Gb/s and 25 ns, NICs of 400 Gb/s and 500 ns, 64 spines) as graphs; routes by ECMP with
the hash of the package, seeds 1 to 5: median, least and most. *One ring* goes from rank to rank as numbered, as one
activity and message by message; *own NIC* is one ring that enters and leaves each server by NIC 0; *eight* is one ring
for each NIC, the default. GB/s, payload only: no headers, no congestion control.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

import chakrasim
from chakrasim import Protocol, TraceBuilder, load_machine
from chakrasim.machine import Machine
from chakrasim.machine.graph.routing import channel_rings

RANKS, MIB = 256, 1 << 20
SIZES_MIB = (16, 32, 64, 128, 256, 512)
PUBLISHED = {
    "spectrum-x": (33.10, 38.57, 42.05, 44.04, 45.10, 45.65),
    "dcn+": (23.33, 25.76, 23.68, 35.21, 36.21, 36.24),
}
"""GB/s at these sizes, from SimAI's tutorial: Spectrum-X, and DCN+ with a single ToR."""
SEEDS = range(1, 6)
BUS_FACTOR = 2 * (RANKS - 1) / RANKS


def machine(template: str, seed: int) -> Machine:
    """One of the networks, routed with a seed."""
    graph = {
        "ranks": RANKS,
        "islands": {"gpus": 8},
        "parts": [
            {"nvswitch": {"bandwidth": "2880 Gb/s", "latency": "25 ns"}},
            {"rails": {"template": template, "spines": 64, "nic": "400 Gb/s", "latency": "500 ns"}},
        ],
        "routing": {"rule": "ecmp", "seed": seed, "nvswitch-first": True},
    }
    collectives = {"splits": 1, "endpoint-delay": "0 ns", "algorithms": {"all-reduce": "ring"}}
    return load_machine({"format": 1, "network": {"graph": graph}, "collectives": collectives})


def simulated(on: Machine, size_mib: int, **protocol: Any) -> float:
    """Bus bandwidth of a run, GB/s."""
    builder = TraceBuilder()
    attrs = {"comm_type": 0, "comm_size": size_mib * MIB, "is_cpu_op": False}
    builder.add(0, name="all-reduce", type=7, attrs=attrs)
    result = chakrasim.simulate(builder.build(), ranks=RANKS, machine=on, protocol=Protocol(**protocol))
    return size_mib * MIB * BUS_FACTOR / result.makespan_ns


def by_own_nic(on: Machine, size_mib: int) -> float:
    """Bus bandwidth of one ring that enters and leaves each server by one NIC: latency of its steps, then bytes."""
    graph = on.graph
    routes = channel_rings(graph, np.arange(RANKS), 1, on.routing).routes
    crossed = np.bincount(graph.medium[routes.link], routes.coefficient, graph.links)
    latency_ns = 2 * (RANKS - 1) * routes.latency_ns(graph).mean()
    moved = size_mib * MIB * BUS_FACTOR
    return float(moved / (latency_ns + moved * (crossed / graph.capacity).max()))


def main() -> None:
    """Print a table a network."""
    for template, published in PUBLISHED.items():
        machines = [machine(template, seed) for seed in SEEDS]
        print(f"{template}\n   MiB  published        one ring     as messages         own NIC           eight")
        for size, theirs in zip(SIZES_MIB, published, strict=True):
            columns = [
                [simulated(on, size, channels=1) for on in machines],
                [simulated(on, size, messages=True) for on in machines],
                [by_own_nic(on, size) for on in machines],
                [simulated(on, size) for on in machines],
            ]
            shown = (f"{median(own):6.2f} ({min(own):.1f}-{max(own):.1f})".rjust(16) for own in columns)
            print(f"  {size:4}     {theirs:6.2f}" + "".join(shown), flush=True)


if __name__ == "__main__":
    main()
