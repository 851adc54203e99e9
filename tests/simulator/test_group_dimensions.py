"""Process groups that are a product of coordinates run by dimension where that is asked for; others stay one ring."""

from __future__ import annotations

from itertools import product
from math import prod
from random import Random

import pytest
from cases import UNIT_BANDWIDTH, Case, collective, compute, differences, network_of, system_of

from chakrasim import InputError
from chakrasim.simulator.lowering.plans import Members, product_of

AR, REDUCE, AG, A2A, RS = 0, 1, 2, 6, 7
KINDS = (AR, AG, A2A, RS)
ALGORITHMS = ("ring", "direct", "direct2", "halvingDoubling", "doubleBinaryTree")
BARE = {"preferred_dataset_splits": 1, "local_mem_bw": 0, "endpoint_delay": 0}
"""Of a system in which only links take time."""


def _split(case: Case, groups: list[list[int]], kind: int, size: int) -> Case:
    """Each group runs the collective at the same time; ranks of none compute."""
    own = {rank: str(g + 1) for g, members in enumerate(groups) for rank in members}
    programs = [
        [collective(0, kind, size, group=own[rank]) if rank in own else compute(0, 1)] for rank in range(case.ranks)
    ]
    return case.with_(programs=programs, groups={g + 1: members for g, members in enumerate(groups)})


def test_half_of_the_ranks_take_what_their_dimensions_take() -> None:
    # Links of 8 bytes per ns in boards of 8, of 1 byte per ns between the 16 boards.
    network = network_of(("FullyConnected", 8, 8 * UNIT_BANDWIDTH, 0.0), ("FullyConnected", 16, UNIT_BANDWIDTH, 0.0))
    case = _split(
        Case([], network, system_of("ring", "ring", **BARE)), [list(range(64)), list(range(64, 128))], AR, 64_000
    )
    # On the board 7 steps of 8,000 bytes, between 8 boards 14 of 1,000 bytes, on the board 7 steps back.
    assert case.run(group_dimensions=True).finish_ns.tolist() == [7 * 1000 + 14 * 1000 + 7 * 1000] * 128
    # One ring: 126 messages of 1,000 bytes on each link between boards, and the way there at the begin and the end.
    one_ring = case.run()
    assert 126_000 <= one_ring.makespan_ns <= 126_000 + 7 * 125
    assert one_ring.makespan_ns / 28_000 > 4.5
    every_second = [[r for r in range(128) if r // 8 % 2 == half] for half in (0, 1)]
    apart = _split(case, every_second, AR, 64_000).run(group_dimensions=True)
    assert apart.finish_ns.tolist() == [28_000] * 128
    assert len(apart.class_ranks) == 1


@pytest.mark.parametrize(
    ("algorithm", "kind"), [*product(("ring", "direct"), KINDS), *((a, AR) for a in ALGORITHMS[2:])]
)
def test_a_group_of_all_ranks_is_the_whole_network(algorithm: str, kind: int) -> None:
    network = network_of(("Ring", 4, 100.0, 7.0), ("Switch", 2, 50.0, 30.0))
    whole = Case([[collective(0, kind, 1 << 20)]], network, system_of(algorithm, "ring"))
    listed = _split(whole, [[3, 1, 0, 2, 7, 6, 5, 4]], kind, 1 << 20)
    assert differences(whole.run(), listed.run(group_dimensions=True)) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_a_group_of_some_dimensions_is_a_smaller_network(kind: int, size: int) -> None:
    dims = [("Switch", 4, 200.0, 5.0), ("FullyConnected", 6, 100.0, 9.0), ("Switch", 3, 25.0, 300.0)]
    algorithms = ("direct2", "ring", "direct")
    case = Case([], network_of(*dims), system_of(*algorithms))
    for places in ([(2,), (1, 2, 5), (1,)], [(0, 1, 2, 3), (5,), (0, 2)], [(0, 3), (0, 2, 4), (0, 1)]):
        members = [a + 4 * b + 24 * c for c, b, a in product(*reversed(places))]
        group = _split(case, [members], kind, size).run(group_dimensions=True)
        kept = [d for d in range(3) if len(places[d]) > 1]
        network = network_of(*((dims[d][0], len(places[d]), *dims[d][2:]) for d in kept))
        system = system_of(*(algorithms[d] for d in kept))
        smaller = Case([[collective(0, kind, size)]], network, system).run()
        assert group.finish_ns[members].tolist() == smaller.finish_ns.tolist()
        assert group.message_bytes == smaller.message_bytes


def test_what_is_a_product() -> None:
    def along(count: int, stride: int, extent: int, *listed: int) -> Members:
        return Members(count, stride, extent, listed)

    assert product_of((0, 1, 2, 3), (4, 4)) == {0: along(4, 1, 4)}
    assert product_of((9, 8, 1, 0), (4, 4)) == {0: along(2, 1, 4, 0, 1), 1: along(2, 4, 4, 0, 2)}
    assert product_of((2, 6, 10, 14), (4, 4)) == {1: along(4, 4, 4)}
    assert product_of((0, 5), (4, 4)) is None
    assert product_of((0, 1, 2, 3, 4), (4, 4)) is None
    assert product_of((3, 4), (4, 4)) is None


def test_what_is_no_product_stays_one_ring_and_is_counted() -> None:
    network = network_of(("Ring", 4, 100.0, 7.0), ("Switch", 4, 50.0, 30.0))
    case = Case([], network, system_of("ring", "ring"))
    odd = _split(case, [[0, 5, 10, 15], [1, 6, 11], [2, 3]], AR, 4096)
    asked = odd.run(group_dimensions=True)
    assert asked.counts["process groups that stay one ring"] == 2
    assert asked.warnings == (
        "group 1 and 1 more stay one ring (group_dimensions): no product of coordinates of the network's dimensions, "
        "or with an algorithm that takes all ranks at once or names too few dimensions",
    )
    assert asked.finish_ns[[0, 5, 10, 15, 1, 6, 11]].tolist() == odd.run().finish_ns[[0, 5, 10, 15, 1, 6, 11]].tolist()
    for algorithms in (("oneRing", "ring"), ("ring",)):
        beyond = _split(case.with_(system=system_of(*algorithms)), [[0, 1, 4, 5]], AR, 4096)
        assert beyond.run(group_dimensions=True).finish_ns.tolist() == beyond.run().finish_ns.tolist()
        assert beyond.run(group_dimensions=True).counts["process groups that stay one ring"] == 1
    # With a root, the group of all ranks is one ring, too.
    rooted = _split(case, [[0, 1, 4, 5]], REDUCE, 4096)
    assert differences(rooted.run(), rooted.run(group_dimensions=True)) == []
    assert rooted.run(group_dimensions=True).warnings == ()


def test_the_unaware_network_warns_of_rings_across_dimensions_only() -> None:
    network = network_of(("Ring", 4, 100.0, 0.0), ("Ring", 4, 50.0, 0.0))
    case = _split(Case([], network, system_of("ring", "ring"), congestion="unaware"), [[0, 1, 4, 5]], AR, 4096)
    assert ["span" in text for text in case.run().warnings] == [True]
    assert case.run(group_dimensions=True).warnings == ()


def test_algorithms_are_named_by_dimension() -> None:
    network = network_of(("Ring", 4, 100.0, 7.0), ("Switch", 4, 50.0, 30.0))
    case = _split(Case([], network, system_of("ring", "direct")), [[0, 1, 4, 5], [8, 12]], AR, 4096)
    named = {figures.members: figures.algorithm for figures in case.run(group_dimensions=True).collectives}
    assert named == {4: "ring,direct", 2: "direct"}


def test_the_flow_network_has_no_dimensions() -> None:
    trace = [collective(0, AR, 4096)]
    case = Case([trace], network_of(("Ring", 4, 100.0, 7.0)))
    with pytest.raises(InputError, match="no dimensions to give to groups"):
        case.run(group_dimensions=True, congestion=None, network_model="flow")


def _random_split(random: Random) -> Case:
    """Groups that tile a network with copies of one product of coordinates, some moved, and collectives of theirs."""
    dims = random.choice(((4, 4), (2, 4, 3), (8, 2), (6, 4), (3, 2, 4), (8, 4)))
    kinds = [random.choice(("Ring", "Switch", "FullyConnected")) for _ in dims]
    network = network_of(
        *(
            (kind, n, UNIT_BANDWIDTH * random.choice((1, 4)), random.choice((0, 5, 10)))
            for kind, n in zip(kinds, dims, strict=True)
        )
    )
    # The coordinates of each dimension in parts of equal size: one after the other, or every so many.
    parts = []
    for n in dims:
        size = random.choice([k for k in range(1, n + 1) if n % k == 0])
        blocks = [list(range(at, at + size)) for at in range(0, n, size)]
        parts.append(random.choice((blocks, [list(range(at, n, n // size)) for at in range(n // size)])))
    strides = [prod(dims[:d]) for d in range(len(dims))]
    groups = [
        [sum(c * s for c, s in zip(place, strides, strict=True)) for place in product(*chosen)]
        for chosen in product(*parts)
    ]
    if random.random() < 0.2:
        a, b = random.choice(groups), random.choice(groups)
        a[0], b[-1] = b[-1], a[0]
    if random.random() < 0.3:
        for members in groups:
            random.shuffle(members)
    groups = [members for members in groups if len(set(members)) == len(members)]
    own = {rank: str(g + 1) for g, members in enumerate(groups) for rank in members}
    steps = [(random.choice((*KINDS, REDUCE)), random.choice((16, 96, 960)), random.random() < 0.3) for _ in range(2)]
    late = random.choice((1, 1, 2, dims[0]))
    programs = [
        [
            compute(0, 1 + rank % late),
            *(collective(i, k, size, [i - 1], "" if all_ else own[rank]) for i, (k, size, all_) in enumerate(steps, 1)),
        ]
        for rank in range(prod(dims))
    ]  # fmt: skip
    system = system_of(
        *(random.choice(ALGORITHMS[:3]) for _ in dims),
        all_reduce_implementation=[random.choice(ALGORITHMS) for _ in dims],
        endpoint_delay=random.choice((0, 10)),
        preferred_dataset_splits=random.choice((1, 3)),
        collective_optimization=random.choice(("baseline", "localBWAware")),
        active_chunks_per_dimension=random.choice((1, 4)),
    )
    groups_by_id = {g + 1: members for g, members in enumerate(groups)}
    return Case(programs, network, system, groups=groups_by_id, congestion=random.choice(("aware", "unaware")))


@pytest.mark.slow
def test_folded_groups_take_what_they_take_one_by_one() -> None:
    saved = 0
    for seed in range(50):
        case = _random_split(Random(seed))
        folded = case.run(group_dimensions=True)
        single = case.run(group_dimensions=True, fold=False)
        assert differences(folded, single) == [], (seed, folded.fold_reason)
        saved += len(folded.class_ranks) < case.ranks
    assert saved > 20
