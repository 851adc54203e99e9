"""A folded run says what the run of every rank says, above all where several things happen in one instant."""

from __future__ import annotations

from itertools import product

import pytest
from cases import UNIT_BANDWIDTH, Case, collective, compute, differences, memory, network_of, receive, send, system_of

AR, AG, BROADCAST, A2A, RS = 0, 2, 5, 6, 7
KINDS = (AR, AG, A2A, RS)


def _agree(case: Case) -> int:
    """Folded and not, the same figures; returns the number of classes simulated."""
    folded = case.run()
    single = case.run(fold=False)
    assert differences(folded, single) == [], (case, folded.fold_reason)
    assert len(single.class_ranks) == case.ranks
    return len(folded.class_ranks)


def _unit(kind: str, ranks: int, latency: float) -> tuple[str, int, float, float]:
    """A dimension in which a byte takes a ns, so that times coincide."""
    return kind, ranks, UNIT_BANDWIDTH, latency


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("topology", ["Ring", "Switch", "FullyConnected"])
def test_a_ring_collective_of_equal_ranks_needs_one_class(kind: int, topology: str) -> None:
    for latency, endpoint in product((0, 10, 20), (0, 10)):
        case = Case(
            [[collective(0, kind, 640)]],
            network_of(_unit(topology, 8, latency)),
            system_of("ring", endpoint_delay=endpoint),
        )
        for mode in ("aware", "unaware"):
            assert _agree(case.with_(congestion=mode)) == 1


@pytest.mark.parametrize("algorithm", ["direct", "direct1", "direct2"])
@pytest.mark.parametrize("topology", ["Ring", "Switch", "FullyConnected"])
def test_senders_that_reach_one_port_in_one_instant_keep_their_order(algorithm: str, topology: str) -> None:
    for latency, endpoint, kind in product((0, 10, 35), (0, 10), KINDS):
        system = system_of(
            algorithm, endpoint_delay=endpoint, preferred_dataset_splits=2, active_chunks_per_dimension=2
        )
        _agree(Case([[collective(0, kind, 80)]], network_of(_unit(topology, 8, latency)), system))


@pytest.mark.parametrize("topology", ["Ring", "Switch", "FullyConnected"])
def test_arrivals_and_sweeps_of_one_instant_keep_their_order(topology: str) -> None:
    # The wire takes as long as the endpoint, or a multiple of it: messages arrive as bundles end.
    for latency, size in product((0, 10, 20, 40), (8, 80, 160)):
        for active, queues in ((1, 1), (2, 2), (4, 2)):
            system = system_of("ring", active_chunks_per_dimension=active, local_mem_bw=0)
            case = Case([[collective(0, AR, 4 * size)]], network_of(_unit(topology, 8, latency)), system)
            _agree(case.with_(options={"num_queues_per_dim": queues}))


def test_messages_too_small_to_occupy_a_link() -> None:
    fast = [("Switch", 8, 400.0, latency) for latency in (0.0, 0.5, 10.0)]
    for dim, algorithm in product(fast, ("ring", "direct", "direct3", "halvingDoubling")):
        _agree(Case([[collective(0, AR, 100)]], network_of(dim), system_of(algorithm, endpoint_delay=10)))


def test_ranks_that_share_a_trace_are_as_ranks_with_equal_ones() -> None:
    nodes = [
        collective(0, BROADCAST, 64),
        collective(1, AG, 0, [0]),
        {**compute(2, 1), "type": 1},
        collective(3, AR, 640),
    ]
    shared = Case([nodes], network_of(_unit("Ring", 8, 10)))
    assert differences(shared.run(), shared.with_(programs=[nodes] * 8).run()) == []


@pytest.mark.parametrize("late", [0, 3, 7])
def test_one_straggler_makes_every_rank_different(late: int) -> None:
    programs = [[compute(0, 1 + (rank == late)), collective(1, AR, 640, [0])] for rank in range(8)]
    for topology in ("Ring", "Switch"):
        case = Case(programs, network_of(_unit(topology, 8, 10)))
        assert _agree(case) == 8
        assert case.run().fold_reason == "every rank simulated: no shift of the ranks is a symmetry"


def test_ranks_that_alternate_fold_onto_two_classes() -> None:
    programs = [[compute(0, 1 + rank % 2), collective(1, AR, 640, [0])] for rank in range(8)]
    assert _agree(Case(programs, network_of(_unit("Ring", 8, 10)))) == 2
    assert (
        _agree(Case(programs, network_of(_unit("Ring", 4, 10), _unit("Switch", 2, 10)), system_of("ring", "ring"))) == 2
    )


GROUPINGS = {
    "strided": [[0, 2, 4, 6], [1, 3, 5, 7]],
    "blocks": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "rotated": [[0, 2, 4, 6], [3, 5, 7, 1]],
    "reversed": [[6, 4, 2, 0], [7, 5, 3, 1]],
    "shuffled": [[0, 4, 2, 6], [1, 3, 5, 7]],
    "pairs": [[0, 4], [1, 5], [2, 6], [3, 7]],
    "uneven": [[0, 1, 2], [3, 4, 5, 6, 7]],
    "offset": [[0, 3, 4, 7], [1, 2, 5, 6]],
    "single": [[0], [1], [2], [3], [4], [5], [6], [7]],
}


@pytest.mark.parametrize("name", GROUPINGS)
def test_groups_fold_only_where_a_shift_maps_them_onto_each_other(name: str) -> None:
    groups = {g + 1: members for g, members in enumerate(GROUPINGS[name])}
    own = {rank: str(g) for g, members in groups.items() for rank in members}
    for topology, algorithm, kind in product(("Ring", "Switch"), ("ring", "direct"), (AR, A2A)):
        programs = [[collective(0, kind, 320, group=own[rank]), collective(1, AR, 64, [0])] for rank in range(8)]
        case = Case(programs, network_of(_unit(topology, 8, 10)), system_of(algorithm), groups=groups)
        classes = _agree(case)
        if name in ("uneven", "shuffled"):
            assert classes == 8
        if name in ("strided", "blocks", "pairs", "single") and algorithm == "ring":
            assert classes < 8


def test_tensor_and_data_parallel_groups_at_once() -> None:
    tensor = {1 + i: [4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3] for i in range(4)}
    data = {11 + i: [i, i + 4, i + 8, i + 12] for i in range(4)}
    programs = [
        [
            collective(0, AR, 640, group=str(1 + rank // 4)),
            compute(1, 1, [0]),
            collective(2, RS, 1280, [1], group=str(11 + rank % 4)),
            collective(3, AG, 160, [2], group=str(11 + rank % 4)),
        ]
        for rank in range(16)
    ]
    for dims in ([("Switch", 16)], [("Ring", 4), ("Switch", 4)], [("FullyConnected", 4), ("Ring", 4)]):
        network = network_of(*(_unit(kind, n, 10) for kind, n in dims))
        case = Case(programs, network, system_of(*["ring"] * len(dims)), groups={**tensor, **data})
        assert _agree(case) < 16


@pytest.mark.parametrize("distance", [1, 2, 3, 4])
def test_point_to_point_rotations(distance: int) -> None:
    for topology, latency in product(("Ring", "Switch", "FullyConnected"), (0, 10)):
        programs = [
            [receive(0, (rank - distance) % 8, 100), send(1, (rank + distance) % 8, 100), collective(2, AR, 320, [0])]
            for rank in range(8)
        ]
        case = Case(programs, network_of(_unit(topology, 8, latency)))
        # A rank's own message and the one it waits for arrive in one instant: the smaller sender goes first, so that
        # rank 0 sees another order than rank 1.
        assert _agree(case) == 8
        _agree(case.with_(options={"rendezvous": True}))


def test_messages_without_ties_fold() -> None:
    # Four pipelines of two stages: the ranks of a stage are equal.
    programs = [
        [send(0, rank + 4, 100)] if rank < 4 else [receive(0, rank - 4, 100), compute(1, 1, [0])] for rank in range(8)
    ]
    network = network_of(_unit("Ring", 4, 10), _unit("Switch", 2, 10))
    assert _agree(Case(programs, network, system_of("ring", "ring"))) == 2


@pytest.mark.parametrize("kind", ["MEMORY_POOL", "PER_NODE_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION"])
def test_memory_servers(kind: str) -> None:
    config = {"memory-type": kind, "remote-mem-latency": 10, "remote-mem-bw": 1, "num-nodes": 2, "num-npus-per-node": 4}
    nodes = [memory(0, 100), collective(1, AR, 320, [0]), memory(2, 0, [1], store=True)]
    case = Case([nodes], network_of(_unit("Ring", 8, 10)), memory=config)
    assert _agree(case) == (1 if kind == "PER_NPU_MEMORY_EXPANSION" else 8)


@pytest.mark.parametrize("algorithm", ["halvingDoubling", "doubleBinaryTree", "oneHalvingDoubling", "oneDirect2"])
def test_partner_maps_that_a_shift_does_not_keep(algorithm: str) -> None:
    for topology, ranks in product(("Ring", "Switch"), (4, 6, 8, 12)):
        _agree(Case([[collective(0, AR, 640)]], network_of(_unit(topology, ranks, 10)), system_of(algorithm)))


def test_three_dimensions_with_ties_across_them() -> None:
    for latency, active in product((0, 10, 20), (1, 2)):
        network = network_of(
            _unit("Ring", 2, latency), _unit("FullyConnected", 3, latency), _unit("Switch", 3, latency)
        )
        for algorithms in (("ring", "ring", "ring"), ("ring", "direct", "ring"), ("direct", "direct", "direct1")):
            system = system_of(*algorithms, active_chunks_per_dimension=active)
            for mode in ("aware", "unaware"):
                _agree(Case([[collective(0, AR, 1440)]], network, system, congestion=mode))


def test_folding_can_be_switched_off_and_says_why_it_did_what_it_did() -> None:
    case = Case([[collective(0, AR, 640)]], network_of(_unit("Ring", 8, 10)))
    assert case.run().fold_reason == "8 ranks in 1 class of 8 equal ranks"
    assert case.run().classes.tolist() == [0] * 8
    assert case.run(fold=False).fold_reason == "every rank simulated: folding is switched off"
    assert case.run(fold=False).classes.tolist() == list(range(8))
