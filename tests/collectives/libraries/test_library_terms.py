"""Terms of collectives, by hand: hops, bytes, and what is proportional to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collectives.libraries.sites import a100, h100

from chakrasim.collectives.libraries.choice import Choice
from chakrasim.collectives.libraries.course import course_of
from chakrasim.collectives.libraries.model import Constants, Model, estimate, shipped_model, size_class, size_classes
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import CONSTANTS, Operation, Terms, node_GBps, overlapped, terms_of
from chakrasim.collectives.libraries.versions import library_of

NEWEST = library_of("nccl")
MIB = 1 << 20
KINDS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "message",
)


TIMES = st.just(0.0) | st.floats(1e-6, 1e9)


def chosen(algorithm: str, protocol: str, channels: int = 24, per_peer: int = 4) -> Choice:
    return Choice(algorithm, protocol, channels, 512, 524288, 1, 0.0, per_peer)


def test_a_ring_passes_on_the_others_parts_and_copies_its_own() -> None:
    found = terms_of(h100(), chosen("ring", "Simple"), Operation("all_gather", 512 * MIB))
    wire = 512 * MIB * 7 / 8 / 450 / 1e3
    assert found.moving == pytest.approx({"Simple.wire/all_gather.Simple": wire, "copy/Simple": 512 * MIB / 8e6})
    near = {"Simple.hop/base": 1, "Simple.hop/near": 7, "ramp/all_gather.Simple": sqrt(10 * wire)}
    assert {name: value for name, value in found.fixed.items() if value} == pytest.approx({"launch/": 1, **near})
    in_place = terms_of(h100(), chosen("ring", "Simple"), Operation("all_gather", 512 * MIB, in_place=True))
    assert set(found.moving) - set(in_place.moving) == {"copy/Simple"}


def test_an_all_reduce_goes_around_twice_and_bytes_add_up_slower() -> None:
    found = terms_of(a100(), chosen("ring", "LL128"), Operation("all_reduce", 8 * MIB, item_bytes=1))
    assert found.moving["LL128.wire/all_reduce.LL128"] == pytest.approx(8 * MIB * 14 / 8 * 16 / 15 / 300 / 1e3)
    assert found.fixed["LL128.hop/near"] == 14
    assert "reduce/bytes" in found.moving
    assert "reduce/bytes" not in terms_of(a100(), chosen("ring", "LL128"), Operation("all_reduce", 8 * MIB)).moving


def test_low_latency_takes_a_step_until_each_thread_has_more_than_a_line() -> None:
    short = terms_of(h100(), chosen("ring", "LL", channels=4), Operation("all_gather", 8 * 4 * 4096))
    assert short.moving["LL.wire/lines"] == 0
    longer = terms_of(h100(), chosen("ring", "LL", channels=4), Operation("all_gather", 8 * 4 * 4096 * 3))
    assert longer.moving["LL.wire/lines"] == pytest.approx(7 * 2)


def test_only_ports_near_the_ranks_count() -> None:
    assert node_GBps(h100(8, 2)) == pytest.approx(400)
    assert node_GBps(h100(1, 2, gpus_per_node=8)) == pytest.approx(50)
    assert node_GBps(h100()) == 0
    found = terms_of(h100(1, 2, gpus_per_node=8), chosen("ring", "Simple"), Operation("all_gather", 64 * MIB))
    assert found.moving["net.wire/parts.Simple"] == pytest.approx(32 * MIB * math.hypot(1 / 50, 1 / (24 * 38.7)) / 1e3)


def test_two_nodes_send_half_of_each_tree_and_more_send_twice_as_much() -> None:
    tree = chosen("tree", "Simple")
    two, four = (terms_of(h100(8, n), tree, Operation("all_reduce", 64 * MIB)).moving for n in (2, 4))
    ns = math.hypot(1 / 400, 1 / (24 * 38.7))
    assert two["net.wire/tree.Simple"] == pytest.approx(64 * MIB * ns / 1e3)
    assert four["net.wire/tree.Simple"] == pytest.approx(2 * 64 * MIB * 3 / 4 * ns / 1e3)
    assert "net.crowd/tree." in four
    assert "net.crowd/tree." not in two


def test_a_ring_over_nodes_hides_hops_behind_what_its_ports_send() -> None:
    ring, operation = chosen("ring", "Simple"), Operation("all_gather", 64 * MIB)
    assert terms_of(h100(), ring, operation).apart == 1
    assert terms_of(h100(1, 4, gpus_per_node=8), ring, operation).apart == 1
    assert terms_of(h100(8, 4), ring, operation).apart == 1 / 8


@given(TIMES, TIMES, st.floats(0, 1))
def test_what_overlaps_takes_at_least_the_longer_and_at_most_both(fixed: float, moving: float, apart: float) -> None:
    first, second = overlapped(fixed, moving, apart)
    assert first <= fixed * (1 + 1e-9)
    assert second <= moving * (1 + 1e-9)
    assert max(moving, fixed + apart * moving) * (1 - 1e-9) <= first + second <= (fixed + moving) * (1 + 1e-9)


def test_messages_of_a_step_wait_for_those_of_other_channels() -> None:
    ring = chosen("ring", "Simple", channels=4)
    one = terms_of(h100(8, 2), ring, Operation("all_gather", 16 * 4 * 32768)).fixed["net.post/Simple"]
    two = terms_of(h100(8, 2), ring, Operation("all_gather", 16 * 4 * 32768 + 64)).fixed["net.post/Simple"]
    assert (one, two) == (3, 7)


def test_pairs_send_to_each_other_and_to_themselves() -> None:
    found = terms_of(h100(), chosen("p2p", "Simple"), Operation("all_to_all", 64 * MIB)).moving
    assert found["p2p.wire/"] == pytest.approx(64 * MIB * 7 / 8 / 450 / 1e3)
    assert found["p2p.copy/"] == pytest.approx(8 * MIB / 1e6)
    far = terms_of(h100(8, 2), chosen("p2p", "Simple"), Operation("all_to_all", 64 * MIB)).moving
    channels = 8 * max(chosen("p2p", "Simple").per_peer, 1) * 14
    assert far["net.p2p.wire/"] == pytest.approx(4 * MIB * 8 * math.hypot(8 / 400, 1 / channels) / 1e3)


@given(
    st.sampled_from(KINDS), st.integers(1, 1 << 34), st.sampled_from([(8, 1), (2, 1), (8, 2), (1, 4), (8, 16)]),
    st.booleans(), st.sampled_from([0, 1, 4]),
)  # fmt: skip
def test_every_term_has_a_constant_and_every_course_a_time(
    kind: str, size: int, shape: tuple[int, int], in_place: bool, item: int
) -> None:
    site = h100(shape[0], shape[1], gpus_per_node=8)
    course = course_of(site, NEWEST, kind, size, in_place=in_place, item_bytes=item)
    assert 0 < course.startup_ns < 1e9
    assert course.rate > 0
    assert course.low < 1 < course.high
    terms = terms_of(site, course.choice, Operation(kind, size, in_place, item))
    assert {name.partition("/")[0] for name in (*terms.fixed, *terms.moving)} <= set(CONSTANTS)
    assert all(value >= 0 for value in (*terms.fixed.values(), *terms.moving.values()))


@given(st.integers(1, 30), st.sampled_from(["all_gather", "all_to_all", "all_reduce"]))
def test_larger_sizes_take_no_less_while_the_choice_stays(power: int, kind: str) -> None:
    site, half, whole = h100(), 1 << power, 1 << (power + 1)
    courses = [course_of(site, NEWEST, kind, size) for size in (half, whole)]
    alike = [(one.choice.algorithm, one.choice.protocol, one.choice.channels) for one in courses]
    if alike[0] == alike[1]:
        first, second = (one.startup_ns + size / one.rate for one, size in zip(courses, (half, whole), strict=True))
        assert first <= second * (1 + 1e-9)


SPEEDS_GBPS = st.floats(1, 800)


@given(
    st.sampled_from(KINDS), st.integers(1, 1 << 34), st.sampled_from(["ring", "tree", "nvlstree"]),
    st.sampled_from(["LL", "LL128", "Simple"]), st.sampled_from([a100, h100]),
    st.sampled_from([(8, 2), (4, 3), (1, 4), (8, 16)]), SPEEDS_GBPS, SPEEDS_GBPS,
)  # fmt: skip
def test_with_the_same_choice_a_faster_network_is_never_slower(
    kind: str, size: int, algorithm: str, protocol: str, board: Callable[..., Site], shape: tuple[int, int],
    one: float, other: float,
) -> None:  # fmt: skip
    choice, operation = chosen(algorithm, protocol), Operation(kind, size)
    slow, fast = (
        estimate(site, NEWEST, terms_of(site, choice, operation), size).times_us[0]
        for site in (board(*shape, nic_GBps=GBps, gpus_per_node=8) for GBps in sorted([one, other]))
    )
    assert fast <= slow * (1 + 1e-9)


def test_of_what_passes_inside_nodes_and_between_them_the_longer_counts_after_weights() -> None:
    choice, operation = chosen("nvlstree", "Simple"), Operation("all_reduce", 512 * MIB)
    times = {}
    for GBps in (50.0, 400.0):
        terms = terms_of(h100(8, 2, nic_GBps=GBps), choice, operation)
        assert {"nvls.wire/", "net.wire/nvls"} == set(terms.moving)
        for inside in (0.1, 1.0, 10.0):
            model = Model({"nvls.wire/": log(inside)}, {}, {}, {"network": (0.1,) * 4})
            times[GBps, inside] = estimate(h100(8, 2), NEWEST, terms, 512 * MIB, model=model).moving_ns
            ways = (terms.moving["nvls.wire/"] * inside, terms.moving["net.wire/nvls"])
            assert times[GBps, inside] == pytest.approx(1e3 * max(ways))
    assert times[50.0, 0.1] == times[50.0, 1.0] < times[50.0, 10.0] == times[400.0, 10.0]


def test_an_estimate_is_the_weighed_sum_of_its_terms() -> None:
    model = Model(
        {"launch/": log(5.0), "copy/Simple": log(2.0)},
        {"all": {"launch": 0.1}, "sm9": {"copy": 0.2}, "none": {"copy": 9.0}},
        {"launch": 0.5, "copy": 0.5}, {"node": (0.0, 0.0, 0.0, 0.0)},
    )  # fmt: skip
    terms = Terms({"launch/": 1.0}, {"copy/Simple": 10.0})
    found = estimate(h100(), NEWEST, terms, 512 * MIB, model=model)
    assert found.fixed_ns == pytest.approx(5e3 * exp(0.1))
    assert found.moving_ns == pytest.approx(20e3 * exp(0.2))
    own = estimate(h100(), NEWEST, terms, 512 * MIB, Constants({"copy": -0.2}, ((0.0,),), (0.1,) * 4), model)
    assert own.moving_ns == pytest.approx(20e3)
    assert log(own.high) == pytest.approx(1.645 * 0.1)
    assert own.low * own.high == pytest.approx(1)
    launch, total = found.fixed_ns, found.fixed_ns + found.moving_ns
    assert log(found.high) == pytest.approx(
        1.645 * sqrt((0.5 * launch / total) ** 2 + (0.5 * (1 - launch / total)) ** 2)
    )


def test_the_shipped_model_knows_the_constants_and_the_classes() -> None:
    model = shipped_model()
    assert {name.partition("/")[0] for name in model.weights} <= set(CONSTANTS)
    assert set(model.spread) <= set(CONSTANTS)
    assert all(len(values) == 4 for values in model.residual.values())
    sizes = (1, 65536, 65537, 4 * MIB, 4 * MIB + 1, 128 * MIB - 1, 128 * MIB)
    assert [size_class(size) for size in sizes] == [0, 0, 1, 1, 2, 2, 3]
    assert size_classes(np.array(sizes)).tolist() == [0, 0, 1, 1, 2, 2, 3]
