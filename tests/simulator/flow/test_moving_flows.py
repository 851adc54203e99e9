"""Flows without a workload that find their ways on the way: figures worked by hand, and the same as the fast loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.machine.graph.changes import load_changes
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.simulator.flow.alone.moving import run_moving
from chakrasim.simulator.flow.alone.solve import How
from made_graphs import spines

ADAPTIVE = Routing("adaptive")


def carried(result: cs.FlowResult) -> dict[str, float]:
    return {name: count for name, count in zip(result.link_names, result.link_bytes.tolist(), strict=True) if count}


def run(graph: NetworkGraph, flows: cs.Flows, changes: list[dict[str, Any]], **more: Any) -> cs.FlowResult:
    return cs.run_flows(graph, flows, changes=load_changes({"changes": changes}, graph), **more)


def first_up() -> tuple[str, str]:
    """The uplink of leaf0 that a flow from 0 to 2 takes, and the other one."""
    used = next(name for name in carried(cs.run_flows(spines(), cs.Flows(0, [2], 1000))) if name.startswith("leaf0-s"))
    return used, {"leaf0-spine0": "leaf0-spine1", "leaf0-spine1": "leaf0-spine0"}[used]


@pytest.mark.parametrize("exact", [False, True])
def test_a_flow_takes_another_way_with_what_it_has_left(exact: bool) -> None:
    up, other = first_up()
    result = run(spines(), cs.Flows(0, [2], 1000), [{"at": "10 ns", "down": up, "detect": "7 ns"}], exact=exact)
    assert result.finish_ns.tolist() == [27]
    assert (carried(result)[up], carried(result)[other], carried(result)["leaf1-2"]) == (500, 500, 1000)


def test_flows_that_are_cut_wait_or_never_end() -> None:
    up, other = first_up()
    cut = [{"at": "10 ns", "down": up}, {"at": "10 ns", "down": other}]
    flows = cs.Flows([0, 1], [2, 0], 1000, after=[-1, 0])
    assert run(spines(), flows, [*cut, {"at": "40 ns", "up": other}]).finish_ns.tolist() == [50, 70]
    stuck = run(spines(), flows, cut)
    assert np.isnan(stuck.finish_ns).tolist() == [True, True]
    assert (carried(stuck)[up], stuck.stuck.tolist()) == (500, [0, 1])


def test_a_flow_that_starts_in_a_cut_network_waits_and_pays_its_latency_once() -> None:
    cut = [{"at": "0 ns", "down": f"leaf0-spine{i}"} for i in (0, 1)]
    flows = cs.Flows(0, [2], 1000)
    assert run(spines(latency=1.0), flows, [*cut, {"at": "2 ns", "up": "leaf0-spine1"}]).finish_ns.tolist() == [24]
    assert run(spines(latency=1.0), flows, [*cut, {"at": "9 ns", "up": "leaf0-spine1"}]).finish_ns.tolist() == [29]
    assert run(spines(), cs.Flows(0, [2], 0), [*cut, {"at": "9 ns", "up": "leaf0-spine1"}]).finish_ns.tolist() == [9]


def test_adaptive_flows_choose_when_they_start() -> None:
    # 0 takes a spine; 1 the other one; 2 follows 0, which has gone, and takes its spine beside 1.
    flows = cs.Flows([0, 1, 0], [2, 3, 2], [1000, 9000, 1000], start_ns=[0, 5, 3], after=[-1, -1, 0])
    result = cs.run_flows(spines(), flows, routing=ADAPTIVE)
    assert result.finish_ns.tolist() == [20, 185, 43]
    ups = [carried(result)[f"leaf0-spine{i}"] for i in (0, 1)]
    assert sorted(ups) == [2000, 9000]


def test_circuits_of_a_schedule_carry_flows_only_while_they_are_there() -> None:
    schedule = [{"pairs": [[0, 2]]}, {"at": "10 ns", "pairs": [[0, 1]]}, {"at": "30 ns", "pairs": [[0, 2]]}]
    circuits = {"bandwidth": "50 GB/s", "latency": "0 ns", "delay": "5 ns", "schedule": schedule}
    graph = cs.load_machine(
        {"network": {"graph": {"ranks": 3, "parts": [{"optical": circuits}]}}, "collectives": {"splits": 1}}
    ).graph
    result = cs.run_flows(graph, cs.Flows([0, 1, 1], [2, 0, 0], [1000, 750, 1], after=[-1, -1, 1]))
    assert result.finish_ns[:2].tolist() == [45, 30]
    assert result.stuck.tolist() == [2]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exact", [False, True])
def test_without_changes_the_slow_loop_is_the_fast_one(seed: int, exact: bool) -> None:
    draw = np.random.Generator(np.random.PCG64(seed))
    graph, count = spines(3, latency=0.7), 40
    after = np.where(draw.random(count) < 0.4, np.maximum(np.arange(count) - draw.integers(1, 9, count), -1), -1)
    size, start = draw.integers(0, 5000, count), draw.integers(0, 300, count)
    ranks = draw.integers(0, 4, (2, count))
    flows = cs.Flows(*ranks, size, start, after, draw.choice([1.0, 2.5], count), np.arange(count))
    routing = Routing(["ecmp", "spray"][seed % 2])
    fast = cs.run_flows(graph, flows, routing=routing, exact=exact)
    slow, _, link_bytes = run_moving(graph, flows, routing, (), How(exact))
    assert slow.finish_ns == pytest.approx(fast.finish_ns, rel=1e-9 if exact else 0)
    assert link_bytes == pytest.approx(fast.link_bytes, rel=1e-9)


def test_flows_with_routes_of_their_own_keep_them() -> None:
    up, _ = first_up()
    graph = spines()
    routes = cs.run_flows(graph, cs.Flows(0, [2], 1000)).routes
    changes = [{"at": "10 ns", "down": up}, {"at": "30 ns", "up": up}]
    assert run(graph, cs.Flows(0, [2], 1000, routes=routes), changes).finish_ns.tolist() == [40]


def test_the_command_takes_changes_and_says_which_flows_cannot_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "changes.yaml").write_text("changes:\n  - {at: 1 us, down: nic0}\n  - {at: 2 us, up: nic0}\n")
    (tmp_path / "cut.yaml").write_text("changes:\n  - {at: 1 us, down: nic0}\n")
    words = ["flows", "--machine", "h100", "--gpus", "16", "--pattern", "incast:10x1MiB", "--quiet", "--changes"]
    assert main([*words, str(tmp_path / "changes.yaml")]) == 0
    assert main([*words, str(tmp_path / "cut.yaml")]) == 3
    assert "3 flows cannot end: 7, 8, 9" in capsys.readouterr().err
