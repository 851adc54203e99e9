"""What nodes wait for, found from examples."""

from __future__ import annotations

import numpy as np

from chakrasim.synthesis.reasons import Asking, Case, Lane, Rules, find
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
