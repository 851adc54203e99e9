"""All-to-alls of unequal parts: by what each rank has for each other."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases import collective, trace_of
from random_networks import random_network
from test_activities import SYSTEM, one, star

import chakrasim as cs
from chakrasim.machine import Machine, load_machine, load_system
from chakrasim.machine.graph.routing import find_routes

ALL_TO_ALL = 6
Rows = Sequence[Sequence[int]]


def nodes_of(rows: Sequence[Rows], member: int) -> list[Any]:
    """The calls of one member, one after another."""
    return [
        collective(k, ALL_TO_ALL, sum(parts[member]), [k - 1] if k else [], group="1", comm_parts=list(parts[member]))
        for k, parts in enumerate(rows)
    ]


def run(machine: Machine, group: Sequence[int], *calls: Rows, **protocol: Any) -> cs.SimulationResult:
    nodes: list[list[Any]] = [[] for _ in range(machine.ranks)]
    for member, rank in enumerate(group):
        nodes[rank] = nodes_of(calls, member)
    how = cs.Protocol(**protocol)
    return cs.simulate([trace_of(own) for own in nodes], machine=machine, comm_groups={"1": list(group)}, protocol=how)


def plain(graph: Any, **more: Any) -> Machine:
    return Machine(graph, load_system(SYSTEM), **more)


def drawn(draw: random.Random, n: int, most: int = 1 << 24) -> list[list[int]]:
    return [[draw.choice((0, draw.randrange(most), draw.randrange(most))) for _ in range(n)] for _ in range(n)]


@pytest.mark.parametrize("library", [None, "nccl"])
@pytest.mark.parametrize("group", [range(16), [9, 0, 3, 12, 4], [3, 11]])
def test_parts_that_are_equal_give_the_even_all_to_all_exactly(library: str | None, group: Sequence[int]) -> None:
    """Whatever a rank keeps for itself."""
    machine, n = load_machine("h100", gpus=16, library=library), len(group)
    for part in (1, 4096, 777_777, 1 << 25):
        even = cs.simulate(
            one(ALL_TO_ALL, n * part, group, 16).traces(), machine=machine, comm_groups={"1": list(group)}
        )
        same = run(machine, group, [[part] * n] * n)
        kept = run(machine, group, [[0 if i == j else part for j in range(n)] for i in range(n)])
        for other in (same, kept):
            assert other.makespan_ns == even.makespan_ns
            assert {link.name: link.bytes for link in other.graph_links} == {
                link.name: link.bytes for link in even.graph_links
            }


def test_the_busiest_port_says_how_long_it_takes() -> None:
    """Ports of 50 bytes per ns: rank 2 gets 900 and 2,100 bytes, more than any gives."""
    rows = [[5, 0, 900], [100, 7, 2100], [400, 300, 0]]
    assert run(plain(star(3)), range(3), rows).makespan_ns == 500 + 3000 // 50
    turned = [[rows[j][i] for j in range(3)] for i in range(3)]
    assert run(plain(star(3)), range(3), turned).makespan_ns == 500 + 3000 // 50


def test_each_link_carries_the_parts_of_its_pairs() -> None:
    for seed in range(0, 120, 2):
        graph, routing = random_network(seed)
        draw = random.Random(seed)
        group = draw.sample(range(graph.ranks), draw.randint(2, graph.ranks))
        parts = drawn(draw, len(group))
        result = run(plain(graph, routing=routing), group, parts)
        pairs = [
            (a, b, parts[i][j]) for i, a in enumerate(group) for j, b in enumerate(group) if i != j and parts[i][j]
        ]
        expected = np.zeros(graph.links)
        for source, target, size in pairs:
            links, shares = find_routes(graph, [source], [target], None, routing).of(0)
            np.add.at(expected, graph.medium[links], shares * size)
        crossed = {link.name: link.bytes for link in result.graph_links}
        assert crossed == pytest.approx(
            {graph.link_names[link]: expected[link] for link in np.flatnonzero(expected)}, abs=1
        ), seed


@pytest.mark.parametrize("seed", range(12))
def test_its_messages_end_with_it(seed: int) -> None:
    """On a star, where each message shares two ports: those of the busiest port are done when its bytes are."""
    draw = random.Random(seed)
    n = draw.randint(2, 9)
    group = draw.sample(range(10), n)
    parts = drawn(draw, n, 1 << 30)
    whole, messages = (run(plain(star(10)), group, parts, messages=m) for m in (False, True))
    assert messages.makespan_ns >= whole.makespan_ns * (1 - 1e-6)
    assert messages.makespan_ns <= whole.makespan_ns * 1.5
    moved = sum(parts[i][j] for i in range(n) for j in range(n) if i != j)
    for result in (whole, messages):
        assert sum(link.bytes for link in result.graph_links) == pytest.approx(2 * moved, rel=1e-6)


def test_calls_of_a_group_belong_together_by_their_order() -> None:
    """The second call has the first one's rows turned round, so each takes its own time."""
    first, second = [[0, 5000, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0], [25_000, 0, 0]]
    result = run(plain(star(3, latency=0.0)), range(3), first, second)
    assert result.makespan_ns == 100 + 500


def test_a_member_without_parts_has_equal_ones() -> None:
    nodes = [[collective(0, ALL_TO_ALL, 3000, group="1")] for _ in range(3)]
    nodes[0] = [collective(0, ALL_TO_ALL, 3000, group="1", comm_parts=[0, 3000, 0])]
    result = cs.simulate([trace_of(own) for own in nodes], machine=plain(star(3)), comm_groups={"1": [0, 1, 2]})
    assert result.makespan_ns == 500 + math.ceil(4000 / 50)


@pytest.mark.parametrize(
    ("parts", "wrong"),
    [
        ([1, 2], "the parts are not one for each member.*2 parts.*expected 3"),
        ([1, 2, 3000], "comm_parts does not add up to comm_size"),
        ([-1, 2, 2], "comm_parts is no list of sizes"),
    ],
)
def test_parts_that_cannot_be_are_refused_with_their_node(parts: list[int], wrong: str) -> None:
    nodes = [[collective(0, ALL_TO_ALL, 3, group="1", comm_parts=parts)] for _ in range(3)]
    with pytest.raises(cs.InputError, match=wrong):
        cs.simulate([trace_of(own) for own in nodes], machine=plain(star(3)), comm_groups={"1": [0, 1, 2]})


def test_members_that_call_unequally_often_are_refused() -> None:
    rows = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]
    nodes = [nodes_of([rows] * (1 + (member == 2)), member) for member in range(3)]
    with pytest.raises(cs.InputError, match="do not run as many all-to-alls: rank 0 runs 1, rank 2 2"):
        cs.simulate([trace_of(own) for own in nodes], machine=plain(star(3)), comm_groups={"1": [0, 1, 2]})


def test_networks_of_astra_sim_take_them_as_equal_and_say_so() -> None:
    rows = [[0, 1 << 20, 1 << 19, 1 << 19], [1 << 21, 0, 0, 0], [0, 0, 1 << 21, 0], [1 << 20, 0, 1 << 20, 0]]
    nodes = [trace_of(nodes_of([rows], member)) for member in range(4)]
    even = cs.simulate(
        one(ALL_TO_ALL, 1 << 21, range(4), 4).traces(), machine="hgx-h100-4", comm_groups={"1": [*range(4)]}
    )
    result = cs.simulate(nodes, machine="hgx-h100-4", comm_groups={"1": list(range(4))})
    assert result.makespan_ns == even.makespan_ns
    assert any("4 all-to-alls of unequal parts: the unaware network takes" in line for line in result.warnings)
