"""Symmetric flows solved as few: the ends are those of all, and the work is a quarter at most."""

from __future__ import annotations

import numpy as np
import pytest
from symmetric_cases import Case, network, perturbed, symmetric_case

import chakrasim as cs
from chakrasim.machine.graph.routing import Routing
from chakrasim.simulator.flow.alone.result import FlowResult


def folded_beside_all(case: Case, exact: bool) -> FlowResult:
    """The result with classes, whose ends are those of every flow solved by itself."""
    how = {"routing": case.routing, "changes": case.changes, "exact": exact}
    every = cs.run_flows(case.graph, case.flows, classes=False, **how)  # type: ignore[arg-type]
    few = cs.run_flows(case.graph, case.flows, **how)  # type: ignore[arg-type]
    assert every.classes == len(case.flows)
    if exact:
        np.testing.assert_allclose(few.finish_ns, every.finish_ns, rtol=1e-9, err_msg=case.text)
        np.testing.assert_allclose(few.link_bytes, every.link_bytes, rtol=1e-9, atol=1e-6, err_msg=case.text)
    else:
        np.testing.assert_array_equal(few.finish_ns, every.finish_ns, err_msg=case.text)
    return few


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 5))])
def test_symmetric_cases_are_solved_with_a_quarter_of_their_flows(block: int) -> None:
    few = 0
    for seed in range(200 * block, 200 * (block + 1)):
        case = symmetric_case(seed)
        results = [folded_beside_all(case, exact) for exact in (False, True)]
        few += all(4 * result.classes <= len(case.flows) for result in results)
    assert few >= 180


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 5))])
def test_what_is_not_quite_symmetric_ends_as_without_classes(block: int) -> None:
    for seed in range(200 * block, 200 * (block + 1)):
        folded_beside_all(perturbed(symmetric_case(seed), seed), seed % 2 == 0)


def test_chains_of_rounds_are_classes_from_end_to_end() -> None:
    """200 rounds of a ring of 8 are 200 classes, whatever order the flows are listed in."""
    ranks, rounds = 8, 200
    graph = network({"one-switch": {"bandwidth": "50 GB/s", "latency": "3 ns"}}, ranks=ranks)
    rank, number = (part.ravel() for part in np.mgrid[0:ranks, 0:rounds])
    for order in (np.arange(rank.size), np.random.default_rng(1).permutation(rank.size)):
        place = np.empty(rank.size, np.int32)
        place[order] = np.arange(rank.size)
        after = np.where(number > 0, place[np.maximum(np.arange(rank.size) - 1, 0)], -1)
        flows = cs.Flows(rank[order], ((rank + 1) % ranks)[order], 5_000, after=after[order])
        result = cs.run_flows(graph, flows)
        assert result.classes == rounds
        assert result.end_ns == rounds * (6 + 100)


def test_thirds_added_in_another_order_are_the_same_thirds() -> None:
    """Sprayed over routers in threes, parts of a flow come together as 1/6 + 1/3 or 1/3 + 1/6."""
    part = {"hosts": 1, "routers": 2, "global-links": 2, "arrangement": "relative", "bandwidth": "10 GB/s"}
    graph = network({"dragonfly": part})
    source, by = (part.ravel() for part in np.mgrid[0:10, 1:10])
    result = cs.run_flows(graph, cs.Flows(source, (source + by) % 10, 10**6), routing=Routing("spray"))
    assert result.classes <= 18
    assert result.finish_ns.tolist() == cs.run_flows(
        graph, result.flows, routing=Routing("spray"), classes=False
    ).finish_ns.tolist()  # fmt: skip
