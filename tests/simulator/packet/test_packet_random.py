"""What holds on every network of packets: bytes are conserved, buffers hold what they say, runs repeat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packet_cases import right, run_case

from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.build import exact_ns
from chakrasim.simulator.packet.faults import ALL_FAULTS
from chakrasim.simulator.packet.wire import serial_ns

SPEEDS = {"25Gbps": 25, "40Gbps": 40, "100Gbps": 100, "400Gbps": 400}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Hosts under one or two leaves, with spines between them, and any settings."""
    leaves = draw(st.integers(1, 2))
    spines = draw(st.integers(1, 3)) if leaves > 1 else 0
    hosts = draw(st.integers(2, 6))
    speed, up = draw(st.sampled_from(sorted(SPEEDS))), draw(st.sampled_from(sorted(SPEEDS)))
    error = draw(st.sampled_from([0, 0, 0, 0.002, 0.02]))
    links = [[hosts + host % leaves, host, speed, "600ns", error if host == 0 else 0] for host in range(hosts)]
    links += [[hosts + leaf, hosts + leaves + spine, up, "1us", 0] for leaf in range(leaves) for spine in range(spines)]
    maps = {
        key: {SPEEDS[name] * 10**9: draw(values) for name in sorted(SPEEDS)}
        for key, values in (("KMIN", st.integers(1, 50)), ("KMAX", st.integers(51, 200)), ("PMAX", st.floats(0.1, 1)))
    }
    flow = st.tuples(
        st.integers(0, hosts - 1), st.integers(1, hosts - 1), st.sampled_from([1, 3]), st.integers(0, 60_000),
        st.integers(0, 20_000),
    )  # fmt: skip
    flows = [[a, (a + b) % hosts, q, 100, size, t] for a, b, q, size, t in draw(st.lists(flow, max_size=12))]
    flag = st.sampled_from([0, 1])
    config = {
        "CC_MODE": draw(st.sampled_from([1, 3, 7, 8, 10, 12])),
        "PACKET_PAYLOAD_SIZE": draw(st.sampled_from([256, 1000, 4096])),
        "BUFFER_SIZE": draw(st.integers(1, 2)),
        "RP_TIMER": draw(st.sampled_from([0.5, 20, 900])),
        "L2_CHUNK_SIZE": draw(st.sampled_from([0, 4000])),
        "L2_ACK_INTERVAL": draw(st.sampled_from([0, 1, 5000])),
        **{key: draw(flag) for key in ("GLOBAL_T", "VAR_WIN", "FAST_REACT", "MULTI_RATE", "ACK_HIGH_PRIO")},
        **maps,
    }
    topology = {
        "nodes": hosts + leaves + spines,
        "switches": list(range(hosts, hosts + leaves + spines)),
        "links": links,
    }
    return {"topology": topology, "config": config, "flows": flows, "stop_ns": 20_000_000}


def check_tables(result: PacketResult) -> None:
    """What must hold whatever has happened."""
    net = result.net
    flows = net.flows[1:]
    assert (flows.una <= flows.bytes).all() and (flows.expected <= flows.bytes).all()
    done = result.fct_ns >= 0
    assert (flows.una[done] == flows.bytes[done]).all()
    assert (net.queues.egress >= 0).all() and (net.queues.ingress >= 0).all() and (net.queues.beyond >= 0).all()
    free, count = int(net.g[at.FREE]), 0
    while free:
        count += 1
        free = int(net.items[free].next)
    assert count == net.g[at.SPARE]


@given(cases())
@settings(max_examples=60)
@pytest.mark.slow
def test_all_bytes_come_or_the_flow_is_named(case: dict[str, Any]) -> None:
    result = right(case)
    check_tables(result)
    assert len(result.unfinished) + int(result.net.g[at.ENDED]) == len(case["flows"])
    assert bool(result.unfinished) == bool(result.stuck_text)
    if not case["topology"]["links"][0][4]:
        assert not result.unfinished, result.stuck_text


@pytest.mark.slow
@given(cases())
@settings(max_examples=30)
def test_buffers_never_hold_more_than_they_have(case: dict[str, Any]) -> None:
    faults = replace(ALL_FAULTS, whole_microseconds=False)  # with which timers of 0.5 us are refused
    result = run_case(case, faults)
    check_tables(result)
    numbers, net = result.network.ports, result.net
    for switch in result.network.topology.switches:
        own = range(int(numbers.first[switch]) + 1, int(numbers.first[switch + 1]) + 1)
        room = max(int(net.nodes[switch].total), 0) + sum(int(net.ports[port].headroom) * 7 + 7 * 4096 for port in own)
        assert sum(int(net.queues.most[port :: net.ports.size].max()) for port in own) <= room


@given(cases())
@settings(max_examples=15)
def test_a_run_repeats_to_the_last_figure(case: dict[str, Any]) -> None:
    assert right(case).to_dict() == right(case).to_dict()


@given(st.integers(1, 70_000), st.integers(1000, 1 << 44))
@settings(max_examples=300)
def test_times_of_bytes_are_those_of_the_fixed_point_numbers(size: int, rate: int) -> None:
    assert plain(serial_ns)(size, rate) == exact_ns(size, rate)


@pytest.mark.parametrize(("size", "rate", "ns"), [(1025, 400 * 10**9, 20), (1, 8192, 976_563)])
def test_halves_are_rounded_as_the_reference_does(size: int, rate: int, ns: int) -> None:
    assert plain(serial_ns)(size, rate) == exact_ns(size, rate) == ns


def plain(kernel: Any) -> Any:
    """A kernel's Python function."""
    return getattr(kernel, "py_func", kernel)


def test_the_random_streams_are_those_of_a_generator_that_skips() -> None:
    """Stream 1 is 2^127 numbers behind stream 0; the jump kept in halves is that step."""
    from chakrasim.simulator.packet.streams import A1, JUMP, M1, _power, stream_state

    jump = np.array(_power(A1, 1 << 127, M1), dtype=object)
    assert ((JUMP[0].astype(object) << 16) + JUMP[1].astype(object) == jump).all()
    assert (jump @ stream_state(0)[:3].astype(object) % M1).tolist() == stream_state(1)[:3].tolist()
