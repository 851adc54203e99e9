"""What nodes wait for, found from examples."""

from __future__ import annotations

import numpy as np
import pytest

from chakrasim.synthesis.reasons import Asking, Case, Lane, Rules, check_rule, find
from chakrasim.synthesis.roles import Role
from chakrasim.synthesis.search.work import Work
from chakrasim.trace.kinds import NodeType


def test_a_search_for_reasons_ends_where_there_are_none() -> None:
    random = np.random.default_rng(3)
    lane = Lane()
    for role in random.integers(0, 40, 2_000).tolist():
        lane.add(role, 0, (), ())
    cases = [Case(lane, Asking(at, 0, ()), tuple(random.integers(0, at, 3).tolist())) for at in range(1_000, 1_400)]
    roles = [Role(NodeType.COMP_NODE, f"work {number}", (), False) for number in range(40)]
    work = Work(left=0)
    assert find(0, cases, Rules(roles), work) == ([], 1_200 - sum(3 - len({*case.waits}) for case in cases))
    assert work.is_spent and work.own > -1_000_000


@pytest.mark.parametrize("loop", [0, 1, 2])
def test_a_node_may_wait_for_every_node_since_an_iteration_began(loop: int) -> None:
    """Steps (loop 1) of passes (loop 2) of sums, and an update at the end of each step."""
    summed, update = range(2)
    lane, cases, since = Lane(), [], 0
    for step, (passes, sums) in enumerate([(2, 3), (1, 2), (3, 4)]):
        for each in range(passes):
            for one in range(sums):
                begun = [2] * (not one) + [1] * (not one and not each) + [0] * (not lane.role)
                since = len(lane.role) if loop in begun else since
                lane.add(summed, 0, (), begun)
        at = len(lane.role)
        lane.add(update, 0, (), ())
        waits = tuple(place for place in range(since, at) if lane.role[place] == summed)
        cases.append(Case(lane, Asking(at, 0, (), {1: (step, 0)}), waits))
    rules = Rules([Role(NodeType.COMM_COLL_NODE, name, (), False) for name in ("sum", "update")])
    found, left = find(update, cases, rules, Work(1 << 30))
    assert not left
    assert [set().union(*(rules.answers(rule, update, case.node, lane) for rule in found)) for case in cases] == [
        {*case.waits} for case in cases
    ]


def test_what_finds_several_nodes_stands_in_no_other_rule() -> None:
    assert check_rule(["every", 0, 1], {0}, {"1"}) == ["every", 0, 1]
    assert check_rule(["sent", [0], [0], [1]], {0, 1}, set()) == ["sent", [0], [0], [1]]
    for wrong in (["every", 0, 2], ["every", [0], 1], ["else", ["every", 0, 1], ["stream", 0]], ["since", [0], [9]],
                  ["since", [0]], ["sent", [0], [0]], ["sent", [0], [0], [9]]):  # fmt: skip
        with pytest.raises(ValueError, match="no rule of waiting"):
            check_rule(wrong, {0}, {"1"})
