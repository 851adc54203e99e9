"""Single figures of the reference: collectives with their finish order, graphs, and messages on idle networks.

astra-system.md, 17; astra-network.md, 12 and 16.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import UNIT_BANDWIDTH, Case, Node, collective, compute, network_of, receive, send, system_of, trace_of

from chakrasim.collectives.custom.hash_order import HashOrder
from chakrasim.trace import write_trace

AR, AG, A2A, RS = 0, 2, 6, 7
MIB = 1 << 20
RING = network_of(("Ring", 8, 50.0, 500.0))
SWITCH = network_of(("Switch", 8, 50.0, 500.0))
FULL = network_of(("FullyConnected", 8, 50.0, 500.0))
U2 = network_of(("Ring", 4, 100.0, 50.0), ("Switch", 2, 25.0, 600.0))
THREE = network_of(("Ring", 2, 200.0, 50.0), ("FullyConnected", 4, 100.0, 500.0), ("Switch", 4, 50.0, 2000.0))
ASCENDING = list(range(8))
HALVES = [4, 5, 6, 7, 0, 1, 2, 3]
TREE = [271210, 309892, 304500, 309892, 293237, 309892, 304500, 309892]
TREE_ORDER = [0, 4, 2, 6, 1, 3, 5, 7]
Figures = int | list[int]

RING_FIGURES: list[tuple[str, int, str, Figures, list[int]]] = [
    ("G1", AR, "ring", 64440, ASCENDING),
    ("G2", AR, "direct", 57160, ASCENDING),
    ("G3", AR, "direct2", 79880, ASCENDING),
    ("G4", AR, "halvingDoubling", 87568, ASCENDING),
    ("G5", AR, "doubleBinaryTree", TREE, TREE_ORDER),
    ("G6", AG, "ring", 151016, HALVES),
    ("G7", AG, "direct", 199360, ASCENDING),
    ("G8", AG, "direct2", 261984, ASCENDING),
    ("G9", AG, "halvingDoubling", 248516, ASCENDING),
    ("G10", AG, "doubleBinaryTree", TREE, TREE_ORDER),
    ("G11", RS, "ring", 33080, HALVES),
    ("G12", RS, "direct", 28720, ASCENDING),
    ("G13", RS, "direct2", 39840, ASCENDING),
    ("G14", RS, "halvingDoubling", 44164, ASCENDING),
    ("G15", RS, "doubleBinaryTree", TREE, TREE_ORDER),
    ("G16", A2A, "ring", 125480, ASCENDING),
    ("G17", A2A, "direct", 28480, ASCENDING),
    ("G18", A2A, "direct2", 39840, ASCENDING),
    ("G19", A2A, "doubleBinaryTree", TREE, TREE_ORDER),
]


def _one(
    algorithms: str, network: dict[str, Any], kind: int = AR, size: int = MIB, attr: Any = None, **keys: Any
) -> Case:
    names = ("num_queues_per_dim", "injection_scale", "rendezvous")
    options: dict[str, Any] = {name: keys.pop(name) for name in names if name in keys}
    return Case(
        [[collective(0, kind, size, **(attr or {}))]],
        network,
        system_of(*algorithms.split(","), **keys),
        congestion="aware" if len(network["topology"]) == 1 else "unaware",
        options=options,
    )


def _own_groups() -> Case:
    case = _one("ring", RING)
    programs = [[collective(0, AR, MIB, group=str(1 + rank % 2))] for rank in range(8)]
    return case.with_(programs=programs, groups={1: [0, 2, 4, 6], 2: [1, 3, 5, 7]})


def _graph(policy: str) -> Case:
    nodes: list[Node] = [
        compute(0, 3),
        collective(1, AR, MIB),
        compute(2, 4, [0]),
        collective(3, RS, MIB // 2, [2]),
        {**compute(4, 2), "ctrl_deps": [1, 3]},
    ]
    return Case([nodes], RING, system_of("ring", scheduling_policy=policy))


def _pipeline() -> Case:
    programs: list[list[Node]] = [[compute(0, 5), send(1, 1, 100_000, 0, [0])]]
    for rank in (1, 2):
        programs.append([receive(0, rank - 1, 100_000), compute(1, 5, [0]), send(2, rank + 1, 100_000, 0, [1])])
    programs.append([receive(0, 2, 100_000), compute(1, 5, [0])])
    return Case(programs, network_of(("Ring", 4, 50.0, 500.0)))


def _roofline() -> Case:
    nodes = [compute(0, 0, num_ops=10**9, tensor_size=1 << 20), compute(1, 0, [0], num_ops=10**9, tensor_size=1 << 24)]
    system = system_of("ring", roofline_enabled=1, peak_perf=900)
    return Case([nodes], network_of(("Ring", 4, 50.0, 500.0)), system)


OTHER_FIGURES: dict[str, tuple[Case, Figures, list[int]]] = {
    "G20": (_one("ring", SWITCH), 126600, ASCENDING),
    "G21": (_one("direct", FULL), 9240, ASCENDING),
    "G22": (_one("ring", RING, active_chunks_per_dimension=2), 34680, [1, 2, 3, 4, 5, 6, 7, 0]),
    "G23": (
        _one("ring", RING, active_chunks_per_dimension=4, collective_optimization="baseline", num_queues_per_dim=4),
        17600,
        [1, 7, 2, 0, 3, 4, 5, 6],
    ),
    "G24": (_one("ring", RING, size=1_000_003), 78485, [6, 7, 0, 1, 2, 3, 4, 5]),
    "G25": (_one("ring,ring", U2), 24120, ASCENDING),
    "G26": (_one("ring,ring", U2, AG), 70329, HALVES),
    "G27": (_one("ring,ring", U2, RS), 12380, [3, 0, 1, 2, 7, 4, 5, 6]),
    "G28": (_one("ring,ring", U2, A2A), 28438, [2, 3, 0, 1, 6, 7, 4, 5]),
    "G29": (_one("ring,ring", U2, collective_optimization="baseline"), 54138, [2, 3, 0, 1, 6, 7, 4, 5]),
    "G30": (_one("ring,halvingDoubling", U2), 23880, ASCENDING),
    "G31": (_one("oneRing", U2), 22160, ASCENDING),
    "G32": (_one("ring,ring", U2, active_chunks_per_dimension=2, num_queues_per_dim=2), 24120, ASCENDING),
    "G33": (_one("ring,ring", U2, attr={"involved_dim": {"bool_list": [True, False]}}), 17560, ASCENDING),
    "G34": (
        _one("ring,direct,halvingDoubling", THREE, size=4 * MIB, active_chunks_per_dimension=3),
        49266,
        [8 * block + rank for block in range(4) for rank in (0, 6, 4, 2, 1, 7, 5, 3)],
    ),
    "G35": (_own_groups(), 84280, ASCENDING),
    "G36": (_one("ring", RING, model_shared_bus=1, L=1, o=2, g=3, G=0.01), 131408, ASCENDING),
    "G37": (_one("ring", RING, rendezvous=True), 100952, ASCENDING),
    "G38": (_one("ring", RING, injection_scale=2.5), 65340, ASCENDING),
    "G39": (_graph("LIFO"), 90140, HALVES),
    "G40": (_graph("FIFO"), 90140, HALVES),
    "G41": (_pipeline(), [7362, 14724, 22086, 27086], [0, 1, 2, 3]),
    "G42": (_roofline(), 11596, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize(
    ("name", "kind", "algorithm", "finish", "order"), RING_FIGURES, ids=[f[0] for f in RING_FIGURES]
)
def test_collectives_on_a_ring_of_8(
    name: str, kind: int, algorithm: str, finish: Figures, order: list[int], fold: bool
) -> None:
    _check(_one(algorithm, RING, kind), finish, order, fold)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("name", OTHER_FIGURES)
def test_other_figures_of_the_system_layer(name: str, fold: bool) -> None:
    _check(*OTHER_FIGURES[name], fold)


def _check(case: Case, finish: Figures, order: list[int], fold: bool) -> None:
    result = case.run(fold=fold)
    assert result.finish_ns.tolist() == (finish if isinstance(finish, list) else [finish] * case.ranks)
    assert result.finish_order.tolist() == order


@pytest.mark.parametrize(("mode", "finish"), [("aware", 153), ("unaware", 152)])
def test_a_halving_that_leaves_no_byte_for_the_last_bundle_on_the_bus(mode: str, finish: int) -> None:
    # Run on the reference: 1 byte becomes 4, in messages of 2 and 1; the last bundle has 0, which the bus counts as -1.
    bus = system_of(
        "halvingDoubling", endpoint_delay=20, preferred_dataset_splits=1, local_mem_bw=0,
        model_shared_bus=1, L=1, o=2, g=3, G=1.0,
    )  # fmt: skip
    case = Case([[collective(0, RS, 1)]], network_of(("Ring", 4, UNIT_BANDWIDTH, 20.0)), bus, congestion=mode)
    assert case.run().finish_ns.tolist() == [finish] * 4


RING_16 = network_of(("Ring", 16, 50.0, 500.0))
FULL_16 = network_of(("FullyConnected", 16, 50.0, 500.0))
SWITCH_16 = network_of(("Switch", 16, 50.0, 500.0))
MIXED_64 = network_of(("Ring", 2, 200.0, 50.0), ("FullyConnected", 8, 100.0, 500.0), ("Switch", 4, 50.0, 2000.0))
HGX_8 = network_of(("Switch", 8, 400.0, 936.25))
TPU_8 = network_of(("Ring", 8, 80.0, 1000.0))
MESSAGES: list[tuple[dict[str, Any], int, int, int, int, int | None]] = [
    # network, bytes, from, to, unaware ns, aware ns
    (RING_16, MIB, 1, 4, 21031, 60093),
    (FULL_16, MIB, 1, 4, 20031, 20031),
    (SWITCH_16, MIB, 1, 4, 20531, 40062),
    (MIXED_64, MIB, 0, 1, 4932, None),
    (MIXED_64, MIB, 37, 41, 10265, None),
    (MIXED_64, MIB, 26, 42, 23531, None),
    (RING_16, 1, 0, 1, 500, 500),
    (RING_16, 1000, 0, 4, 2018, 2072),
    (RING_16, 65536, 0, 4, 3220, 6880),
    (RING_16, MIB, 0, 4, 21531, 80124),
    (RING_16, MIB, 0, 8, 23531, 160248),
    (RING_16, 1 << 31, 0, 1, 40_000_500, 40_000_500),
    (HGX_8, 1, 0, 5, 1872, 1872),
    (HGX_8, 1000, 0, 5, 1874, 1876),
    (HGX_8, 65536, 0, 5, 2025, 2176),
    (HGX_8, MIB, 0, 5, 4313, 6754),
    (HGX_8, 33554432, 0, 5, 79997, 158122),
    (HGX_8, 1 << 31, 0, 5, 5_001_872, 10_001_872),
    (TPU_8, MIB, 0, 1, 13207, 13207),
    (TPU_8, MIB, 0, 4, 16207, 52828),
]


@pytest.mark.parametrize(("network", "size", "source", "target", "unaware", "aware"), MESSAGES)
def test_one_message_on_an_idle_network(
    network: dict[str, Any], size: int, source: int, target: int, unaware: int, aware: int | None
) -> None:
    programs: list[list[Node]] = [[compute(0, 0)] for _ in range(Case([], network).ranks)]
    programs[source] = [send(0, target, size, 5)]
    programs[target] = [receive(0, source, size, 5)]
    case = Case(programs, network, system_of(*["ring"] * len(network["topology"])))
    for mode, expected in (("unaware", unaware), ("aware", aware)):
        if expected is not None:
            finish = case.run(congestion=mode).finish_ns
            assert (finish[source], finish[target]) == (expected, expected)


@pytest.mark.parametrize(("network", "last"), [(RING_16, 704_116), (FULL_16, 20_031), (SWITCH_16, 586_930)])
def test_messages_between_all_pairs_at_once_queue_for_links(network: dict[str, Any], last: int, tmp_path: Path) -> None:
    # One comm slot per rank: only a custom collective posts many sends in one instant.
    for rank in range(16):
        others = [r for r in range(16) if r != rank]
        # The ids in the order in which the nodes will be issued: receives, then sends by ascending destination.
        ids = list(HashOrder(HashOrder(range(30))))
        nodes = [receive(id, r, MIB, 1) for id, r in zip(ids[:15], others, strict=True)]
        nodes += [send(id, r, MIB, 1) for id, r in zip(ids[15:], others, strict=True)]
        write_trace(tmp_path / f"plan.{rank}.et", trace_of(sorted(nodes, key=lambda node: node["id"])))
    system = system_of("ring", preferred_dataset_splits=1, all_to_all_implementation_custom=[str(tmp_path / "plan")])
    result = Case([[collective(0, A2A, MIB)]], network, system).run()
    assert result.finish_ns.max() == last
