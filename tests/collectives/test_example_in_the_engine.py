"""The how-to's algorithm in a simulation, without a change to the engine."""

from __future__ import annotations

import example_bruck  # registers "bruck"

import chakrasim as cs


def test_a_registered_algorithm_is_simulated_by_its_name() -> None:
    assert example_bruck is not None
    builder = cs.TraceBuilder()
    builder.add(0, type=7, attrs={"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 20})
    system = {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "preferred-dataset-splits": 1,
        "collective-optimization": "baseline",
        "local-mem-bw": 100,
        "all-gather-implementation": ["bruck"],
    }
    network = {"topology": ["FullyConnected"], "npus_count": [8], "bandwidth": [10.0], "latency": [100.0]}
    for congestion in ("aware", "unaware"):
        result = cs.simulate(builder.build(), ranks=8, system=system, network=network, congestion=congestion)
        bytes_per_ns = 10.0 * 2**30 / 10**9
        # Three rounds of 1, 2 and 4 contributions, each after a bundle, and the bundle of the last reception.
        hand_count = sum(int(100 + blocks * 2**20 / bytes_per_ns) for blocks in (1, 2, 4)) + 4 * 10
        assert set(result.finish_ns.tolist()) == {hand_count}
