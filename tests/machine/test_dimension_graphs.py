"""Dimension files as graphs: the way of a message has the links that the topologies say, whatever the network."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from chakrasim.machine import Network
from chakrasim.machine.graph.routing import Routing, find_routes

KINDS = ("Ring", "Switch", "FullyConnected")


def drawn(seed: int) -> Network:
    draw = random.Random(seed)
    dims = range(draw.randint(1, 3))
    return Network(
        tuple(draw.choice(KINDS) for _ in dims),
        tuple(draw.randint(2, 6) for _ in dims),
        tuple(float(draw.randint(1, 400)) for _ in dims),
        tuple(float(draw.randint(0, 2000)) for _ in dims),
    )


@pytest.mark.parametrize("seed", range(40))
def test_an_uncontended_message_takes_its_latencies_and_its_slowest_link(seed: int) -> None:
    net = drawn(seed)
    graph = net.to_graph()
    draw = np.random.default_rng(seed)
    source = draw.integers(0, net.ranks, 60, np.int32)
    target = draw.integers(0, net.ranks, 60, np.int32)
    source, target = source[source != target], target[source != target]
    routes = find_routes(graph, source, target, np.zeros(source.size, np.int64), Routing())
    for flow, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        links = routes.link[routes.first[flow] : routes.first[flow + 1]]
        latency, speed, stride = 0.0, math.inf, 1
        for kind, count, wait, rate in zip(net.kinds, net.npus_count, net.latency_ns, net.bytes_per_ns, strict=True):
            here, there = a // stride % count, b // stride % count
            stride *= count
            if here != there and kind.hops is not None:
                latency += kind.hops(here, there, count) * wait
                speed = min(speed, rate)
        assert graph.latency[links].sum() == pytest.approx(latency, rel=1e-12)
        assert graph.capacity[links].min() == speed
