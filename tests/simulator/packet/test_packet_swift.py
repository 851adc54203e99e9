"""Swift: delays come to their target, flows share, and the page about it shows the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packet_cases import run_case, star

from chakrasim.notes import Notes
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.run import prepare
from chakrasim.simulator.packet.build import grown
from chakrasim.simulator.packet.control import swift
from chakrasim.simulator.packet.control.table import CONTROLS
from chakrasim.simulator.packet.faults import NO_FAULTS
from chakrasim.simulator.packet.loop import NEEDS_ROOM, run

FILE = Path(swift.__file__)
PAGE = Path(__file__).parents[3] / "docs" / "howto-add-a-congestion-control.md"


def watched(case: dict[str, Any], until_ns: int, step_ns: int = 2000) -> tuple[Any, Any]:
    """By time: the ns that a packet waits at the fullest port of the switch, and the bytes that each flow has sent."""
    packets = case_of(case, "case", NO_FAULTS, Notes())
    net = prepare(packets.network, packets.flows)
    waits, acked = [], []
    for until in range(step_ns, until_ns, step_ns):
        while run(net, until, net.starts.size, 1 << 20) == NEEDS_ROOM:
            net = grown(net)
        waits.append((net.ports.queued * 8e9 / np.maximum(net.ports.rate, 1)).max())
        acked.append(net.flows.una[1:].copy())
    return np.array(waits), np.array(acked)


def on_one_bottleneck(senders: int, **config: Any) -> dict[str, Any]:
    """Flows without an end from hosts of 100 Gb/s to one behind 25 Gb/s, each 400 us after the last."""
    flows = [[1 + sender, 0, 3, 100, 10**9, 400_000 * sender] for sender in range(senders)]
    case = star(senders + 1, flows, CC_MODE=20, HAS_WIN=0, ENABLE_QCN=0, **config)
    case["topology"]["links"][0][2] = "25Gbps"
    return case


@pytest.mark.parametrize("senders", [1, 2, 4])
def test_the_delay_comes_to_its_target_and_stays_there(senders: int) -> None:
    waits, acked = watched(on_one_bottleneck(senders), 20_000_000)
    late = waits[len(waits) // 2 :]
    assert abs(np.median(late) - swift.WAITING_NS) < 1500 and late.max() < 1.5 * swift.WAITING_NS
    rate = (acked[-1] - acked[len(acked) // 2]).sum() * 8 / 10_000_000
    assert rate > 0.99 * 25 * 1000 / 1044, "Gb/s of the 25, less headers"


@pytest.mark.parametrize("senders", [2, 4, 8])
def test_flows_that_begin_at_different_times_come_to_share(senders: int) -> None:
    _, acked = watched(on_one_bottleneck(senders), 40_000_000, 20_000)
    sent = (acked[-1] - acked[len(acked) // 2]).astype(float)
    assert sent.sum() ** 2 / (senders * (sent**2).sum()) > 0.98, "Jain's index of fairness"


def test_an_incast_waits_no_longer_than_its_target_after_a_while() -> None:
    flows = [[1 + sender, 0, 3, 100, 10**9, 0] for sender in range(16)]
    waits, _ = watched(star(17, flows, CC_MODE=20, ENABLE_QCN=0), 10_000_000)
    assert np.median(waits[len(waits) // 2 :]) < 1.5 * swift.WAITING_NS


def test_more_flows_than_packets_under_way_wait_for_their_turn() -> None:
    """200 flows on a short link: a window below one packet becomes a rate."""
    flows = [[1 + sender % 4, 0, 3, 100, 10**8, sender] for sender in range(200)]
    waits, acked = watched(star(5, flows, CC_MODE=20, ENABLE_QCN=0, MIN_RATE="1Mb/s"), 10_000_000, 20_000)
    assert np.median(waits[len(waits) // 2 :]) < 2 * swift.WAITING_NS
    sent = (acked[-1] - acked[len(acked) // 2]).astype(float)
    assert sent.sum() * 8 / 5_000_000 > 0.8 * 100 * 1000 / 1044
    assert sent.min() > 0


def test_a_packet_that_is_missing_cuts_the_window() -> None:
    case = star(2, [[0, 1, 3, 100, 3_000_000, 0]], CC_MODE=20, ERROR_RATE_PER_LINK=0.001)
    result = run_case(case, NO_FAULTS)
    assert not result.unfinished
    assert result.net.g[at.NACKS] and result.net.flows[1].bound < result.network.max_bdp


def test_with_the_faults_of_the_reference_its_number_is_no_control() -> None:
    flows = [[0, 2, 3, 100, 300_000, 0], [1, 2, 3, 100, 300_000, 0]]
    known, unknown = (run_case(star(3, flows, CC_MODE=mode)).to_dict() for mode in (20, 12))
    assert known == unknown


def test_the_page_about_controls_shows_its_file_which_is_small() -> None:
    text = FILE.read_text()
    assert len(text.splitlines()) <= 80
    assert re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0] == text
    assert CONTROLS[20] is swift.CONTROL
