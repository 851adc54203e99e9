"""Random flows beside a plain solver in fractions, and the proof of rates in the middle of runs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flow_cases import exact_ends, fat_tree_case, golden_cases, golden_flows
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate import without_bottleneck
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.api import share_links
from chakrasim.simulator.flow.alone.flows import NO_CHANGES, CapacityChanges, Flows
from chakrasim.simulator.flow.alone.fold import folded
from chakrasim.simulator.flow.alone.solve import new_course
from chakrasim.simulator.flow.loop import DONE, NEEDS_ROOM, WANTED, run
from chakrasim.simulator.flow.state import ACTIVE, grown, new_sharing
from chakrasim.trace.chakra.graph import offsets_of

COEFFICIENTS = (Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(2), Fraction(3, 4))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Fraction], list[Any], list[Any]]:
    """Capacities, flows (start, size, weight, after, link to coefficient), changes; times on a coarse grid, so that
    events coincide."""
    links = draw(st.integers(1, 6))
    capacity = [Fraction(draw(st.integers(1, 12))) for _ in range(links)]
    flows = []
    for number in range(draw(st.integers(1, 10))):
        way = draw(st.lists(st.integers(0, links - 1), min_size=0, max_size=4, unique=True))
        flows.append(
            (
                Fraction(draw(st.integers(0, 4))),
                Fraction(draw(st.sampled_from([0, 1, 2, 3, 5, 8, 8, 8, 100]))),
                Fraction(draw(st.sampled_from([1, 1, 1, 2, 3]))),
                draw(st.integers(-1, number - 1)),
                {link: draw(st.sampled_from(COEFFICIENTS)) for link in way},
            )
        )
    changes = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, links - 1), st.integers(0, 12)), max_size=3))
    return capacity, flows, [(Fraction(time), link, Fraction(new)) for time, link, new in changes]


def as_arrays(capacity: list[Fraction], flows: list[Any], changes: list[Any]) -> tuple[Any, Flows, CapacityChanges]:
    routes = Routes(
        offsets_of(np.array([len(flow[4]) for flow in flows])),
        np.array([link for flow in flows for link in flow[4]], np.int32),
        np.array([float(part) for flow in flows for part in flow[4].values()]),
    )
    start, size, weight, after = ([float(flow[i]) for flow in flows] for i in range(4))
    columns = [[float(change[i]) for change in changes] for i in range(3)]
    return (
        np.array(list(map(float, capacity))),
        Flows(0, 0, size, start, np.array(after).astype(int), weight, routes=routes),
        CapacityChanges(*columns),
    )


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("all_above", [0.0, 0.3, 1.0])
@given(case=cases())
@settings(max_examples=60)
def test_ends_are_those_of_a_plain_solver_in_fractions(
    all_above: float, classes: bool, case: tuple[Any, Any, Any]
) -> None:
    expected = exact_ends(*case)
    result = share_links((), *as_arrays(*case)[:2], exact=True, changes=as_arrays(*case)[2],
                         all_above=all_above, classes=classes)  # fmt: skip
    for found, end in zip(result.finish_ns.tolist(), expected, strict=True):
        if end is None:
            assert np.isnan(found)
        else:
            assert found == pytest.approx(float(end), rel=1e-9, abs=1e-9)
    moved = sum(
        (flow[1] * part for flow, end in zip(case[1], expected, strict=True) if end is not None
         for part in flow[4].values()), Fraction()
    )  # fmt: skip
    if None not in expected:
        assert result.link_bytes.sum() == pytest.approx(float(moved), rel=1e-9)


@pytest.mark.parametrize("classes", [False, None])
@given(case=cases())
@settings(max_examples=100)
def test_whole_nanoseconds_are_those_of_a_plain_solver_in_fractions(
    classes: bool | None, case: tuple[Any, Any, Any]
) -> None:
    capacity, flows, changes = as_arrays(*case)
    result = share_links((), capacity, flows, changes=changes, classes=classes)
    expected = [np.nan if end is None else float(end) for end in exact_ends(*case, whole_ns=True)]
    np.testing.assert_array_equal(result.finish_ns, expected)


@given(case=cases(), copies=st.integers(2, 5))
@settings(max_examples=60)
def test_copies_of_a_case_side_by_side_are_one_class_each(case: tuple[Any, Any, Any], copies: int) -> None:
    """The same links and flows several times over: no more classes than in one, and the same ends."""
    capacity, flows, changes = case
    many = [
        (start, size, weight, after + copy * len(flows) if after >= 0 else -1,
         {link + copy * len(capacity): part for link, part in way.items()})
        for copy in range(copies)
        for start, size, weight, after, way in flows
    ]  # fmt: skip
    many_changes = [(time, link + copy * len(capacity), new) for copy in range(copies) for time, link, new in changes]
    caps, together, changed = as_arrays(capacity * copies, many, many_changes)
    alone = share_links((), *as_arrays(*case)[:2], exact=True, changes=as_arrays(*case)[2], classes=False)
    result = share_links((), caps, together, exact=True, changes=changed, classes=True)
    assert result.classes <= len(flows)
    np.testing.assert_allclose(result.finish_ns, np.tile(alone.finish_ns, copies), rtol=1e-9)


@pytest.mark.parametrize("all_above", [0.0, 0.05, 1.0])
def test_every_rate_has_its_proof_after_every_event(all_above: float) -> None:
    checked = 0
    for case in list(golden_cases())[::7]:
        capacity, flows, changes = golden_flows(case)
        assert flows.routes is not None
        course = new_course(flows, flows.routes, np.zeros(len(flows)), changes)
        sharing = new_sharing(capacity.copy(), 4, 4, 1)
        while (state := run(sharing, course, False, 0.0, all_above, 1)) != DONE:
            if state == NEEDS_ROOM:
                sharing = grown(sharing, int(course.at[WANTED]))
                continue
            slots = sharing.slots[sharing.active[: sharing.count[ACTIVE]]]
            bad = without_bottleneck(
                sharing.links.capacity, flows.routes.take(slots.flow.astype(np.int64)), slots.weight, slots.rate
            )
            assert not bad.size
            checked += 1
    assert checked > 300


def test_the_proof_finds_what_is_not_fair() -> None:
    routes = Routes(np.array([0, 1, 2]), np.array([0, 0], np.int32), np.ones(2))
    capacity, one = np.array([10.0]), np.ones(2)
    assert without_bottleneck(capacity, routes, one, np.array([5.0, 5.0])).size == 0
    assert without_bottleneck(capacity, routes, one, np.array([4.0, 6.0])).tolist() == [0]
    assert without_bottleneck(capacity, routes, one, np.array([4.0, 5.0])).tolist() == [0, 1]
    assert without_bottleneck(capacity, routes, one, np.array([6.0, 6.0])).tolist() == [0, 1]
    assert without_bottleneck(capacity, routes, np.array([1.0, 3.0]), np.array([2.5, 7.5])).size == 0


@pytest.mark.parametrize(("half", "classes"), [(False, 3), (True, 84)])
def test_classes_of_an_all_to_all(half: bool, classes: int) -> None:
    """Three: within an edge, a pod, and beyond; a link at half capacity makes more of them."""
    capacity, flows = fat_tree_case(1024 if half else 256, rounds=False, equal=True, half=half)
    assert flows.routes is not None
    found = folded(capacity, flows, flows.routes, np.zeros(len(flows)), NO_CHANGES, None)
    assert found is not None
    assert len(found.flows) == classes


def test_merged_ends_are_near_the_exact_ones() -> None:
    capacity, flows = fat_tree_case(64, rounds=False)
    exact = share_links((), capacity, flows, exact=True)
    merged = share_links((), capacity, flows, exact=True, merge=0.01)
    off = np.abs(merged.finish_ns / exact.finish_ns - 1)
    assert off.mean() < 0.001
    assert off.max() < 0.01
    assert merged.solves < exact.solves / 40
