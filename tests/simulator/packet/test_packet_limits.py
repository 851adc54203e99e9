"""Networks of packets that are too large, too slow or in pieces are refused before anything is laid out for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from packet_cases import right, run_case, star

from chakrasim.errors import InputError
from chakrasim.report.tables.flows import packet_sections
from chakrasim.simulator.packet.faults import NO_FAULTS
from chakrasim.text.layout import plain_text

FLOW = [0, 1, 3, 100, 1000, 0]


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"nodes": 5}, r"links: a node has no link; found node 3 and 1 more; expected links of all nodes, 0 to 4"),
        ({"nodes": 4}, "found node 3; expected"),
        ({"links": [[2, 0, "999kbps", "1us", 0], [2, 1, "1Gbps", "1us", 0]]}, r"links\[0\]: .*a rate of 1Mbps or more"),
        (
            {"nodes": 9000, "links": [[2, i, "1Gbps", "1us", 0] for i in range(9000) if i != 2]},
            "the network is too large",
        ),
    ],
)
def test_topologies_that_are_refused(topology: dict[str, Any], message: str) -> None:
    case = star(2, [FLOW])
    case["topology"] = {**case["topology"], **topology}
    with pytest.raises(InputError, match=message):
        right(case)


@pytest.mark.parametrize("key", ["ALPHA_RESUME_INTERVAL", "RATE_DECREASE_INTERVAL", "RP_TIMER"])
def test_timers_that_the_reference_takes_for_0_are_refused_with_its_faults_only(key: str) -> None:
    case = star(2, [FLOW], CC_MODE=1, **{key: 0.5})
    assert not right(case).unfinished
    with pytest.raises(InputError, match=f"{key}: cut to whole us this timer comes again at once, for ever; found 0.5"):
        run_case(case, replace(NO_FAULTS, whole_microseconds=True))


@pytest.mark.parametrize(("delay", "rate"), [("1000s", "17000Gbps"), ("1000s", "1Mbps")])
def test_what_is_under_way_on_the_longest_links_is_counted(delay: str, rate: str) -> None:
    case = star(2, [FLOW], ENABLE_QCN=0)
    case["topology"] = {"nodes": 2, "switches": [], "links": [[0, 1, rate, delay, 0]]}
    result = right(case)
    bps, ns = result.network.topology.links[0].rate, 10**12
    trip = 2 * ns + 8000 * 10**9 // bps
    assert result.network.max_bdp == trip * bps // 10**9 // 8
    assert result.fct_ns[0] >= 2 * ns


def test_a_flow_that_ended_before_its_link_went_down_has_no_time_alone() -> None:
    """It has a completion, and the JSON has no figure that is none."""
    case = star(2, [[0, 1, 3, 100, 1000, 0]], LINK_DOWN="1 2 1")
    case["flows"].append([1, 0, 3, 100, 1000, 2_000_500_000])
    result = right(case)
    assert result.unfinished == [1] and result.fct_ns[0] > 0
    found = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert found["slowdown_percentiles"] == {} and found["fct_percentiles_ns"]["50"] == result.fct_ns[0]
    assert "x)" not in plain_text(packet_sections(result))
