"""One message on any old network as a graph takes its latencies and its bytes over the narrowest link, rounded up."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
from cases import collective, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim.machine import Machine, Network, load_machine, load_system, preset_names
from chakrasim.machine.topologies import TOPOLOGIES, topology_of
from chakrasim.trace import Trace

SYSTEM = load_system(system_of("ring", endpoint_delay=0, local_mem_bw=0))
HOPS = {
    "Ring": lambda a, b, size: min((b - a) % size, (a - b) % size),
    "FullyConnected": lambda a, b, size: 1,
    "Switch": lambda a, b, size: 2,
}


def hops(kind: str, a: int, b: int, size: int) -> int:
    if a == b:
        return 0
    if kind in HOPS:
        return HOPS[kind](a, b, size)
    found = topology_of(kind).hops
    assert found is not None
    return int(found(a, b, size))


def drawn(draw: random.Random) -> Network:
    """A product of one to three dimensions, with latencies and bandwidths of any kind."""
    kinds = [name for name in TOPOLOGIES if topology_of(name).hops is not None]
    dims = range(draw.randint(1, 3))
    return Network(
        tuple(draw.choice(kinds) for _ in dims),
        tuple(draw.randint(2, 6) for _ in dims),
        tuple(draw.choice((draw.uniform(0.01, 900), float(draw.randint(1, 400)))) for _ in dims),
        tuple(
            draw.choice((0.0, draw.uniform(0, 3), float(draw.randint(0, 2000)), draw.randint(0, 8) / 8)) for _ in dims
        ),
    )


def messages(seed: int, count: int) -> Iterator[tuple[Network, int, int, int, int]]:
    """Networks, sources, targets, sizes, and when the message has arrived, in ns."""
    draw = random.Random(f"message {seed}")
    for _ in range(count):
        net = drawn(draw)
        source, target = draw.sample(range(net.ranks), 2)
        size = draw.choice((1, 7, draw.randint(1, 10**4), draw.randint(1, 10**9), 1 << draw.randint(0, 36)))
        latency, narrowest, stride = 0.0, math.inf, 1
        for kind, members, gib, wait in zip(
            net.topology, net.npus_count, net.bandwidth_gib, net.latency_ns, strict=True
        ):
            here, there = source // stride % members, target // stride % members
            stride *= members
            if here != there:
                latency += hops(kind, here, there, members) * wait
                narrowest = min(narrowest, gib * 2**30 / 1e9)
        yield net, source, target, size, math.ceil(latency + size / narrowest - 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_flows_alone(seed: int) -> None:
    for net, source, target, size, expected in messages(seed, 100):
        result = cs.run_flows(net.to_graph(), cs.Flows([source], [target], [size]))
        assert result.finish_ns.tolist() == [expected], net


@pytest.mark.parametrize("seed", range(4))
def test_a_send_and_a_receive_on_the_network_of_the_flow_model(seed: int) -> None:
    for net, source, target, size, expected in messages(seed, 25):
        traces: list[Trace] = [trace_of([]) for _ in range(net.ranks)]
        traces[source], traces[target] = trace_of([send(0, target, size)]), trace_of([receive(0, source, size)])
        result = cs.simulate(traces, machine=Machine(net, SYSTEM), network_model="flow")
        assert result.finish_ns[target] == expected, net


@pytest.mark.parametrize("name", [name for name in preset_names() if not name.startswith("astra-sim-")])
def test_presets_keep_their_model(name: str) -> None:
    """Products of dimensions under the unaware model, which no flow network is without being asked for."""
    machine = load_machine(name)
    assert isinstance(machine.network, Network)
    workload = trace_of([collective(0, 0, 64 << 20)])
    usual = cs.simulate(workload, ranks=machine.network.ranks, machine=machine)
    unaware = cs.simulate(workload, ranks=machine.network.ranks, machine=machine, network_model="unaware")
    assert usual.makespan_ns == unaware.makespan_ns > 0
    assert usual.graph_links == ()
