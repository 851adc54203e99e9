"""Figures of ports and flows, and what the monitor sees: small cases whose figures are known."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

from packet_cases import golden, run_case, star

from chakrasim.notes import Notes
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.alone.case import case_of
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.alone.run import run_packets
from chakrasim.simulator.packet.faults import NO_FAULTS, Faults
from chakrasim.simulator.packet.figures.flows import percentiles
from chakrasim.simulator.packet.figures.pauses import pauses_of
from chakrasim.simulator.packet.observed import monitor as monitors
from chakrasim.simulator.packet.observed.monitor import Monitor

CASES = {case["name"]: case for case in golden()}
DATA_NS, ACK_NS, LINK_NS = 83, 4, 1000
"""A packet of 1036 bytes and an acknowledgement of 48 at 100 Gb/s, and a link."""


def watched(case: dict[str, Any], every_ns: int = 1000, faults: Faults = NO_FAULTS, **span: int) -> PacketResult:
    return run_packets(case_of(case, "case", faults, Notes()), monitor=Monitor(every_ns, **span))


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 5000, 100_000, 1_000_037])
def test_a_flow_alone_has_slowdown_1(size: int) -> None:
    figures = watched(star(3, [[0, 2, 3, 100, size, 700]])).flow_figures
    assert figures.slowdown.tolist() == [1.0]
    assert figures.ideal_ns.tolist() == figures.completion_ns.tolist()


@pytest.mark.parametrize("control", [1, 7, 8, 12])
@pytest.mark.parametrize("interval", [1, 1000, 4000, 10**6])
def test_the_headers_of_a_control_and_late_acknowledgements_belong_to_the_ideal(control: int, interval: int) -> None:
    """A lone flow is never held back by these controls. Its last packet is acknowledged, whatever the interval."""
    case = star(2, [[0, 1, 3, 100, 20_500, 0]], CC_MODE=control, L2_ACK_INTERVAL=interval, HAS_WIN=0)
    assert watched(case).flow_figures.slowdown.tolist() == [1.0]


@pytest.mark.parametrize("name", CASES)
def test_no_flow_is_faster_than_alone(name: str) -> None:
    slowdown = run_case(CASES[name]).flow_figures.slowdown
    assert np.nanmin(slowdown, initial=1.0) >= 1.0


def test_the_ideal_time_of_two_packets() -> None:
    """Two packets follow one another through both links; the acknowledgement of the second goes back."""
    figures = watched(star(2, [[0, 1, 3, 100, 2000, 0]])).flow_figures
    assert figures.ideal_ns.tolist() == [3 * DATA_NS + 2 * ACK_NS + 4 * LINK_NS]


@pytest.mark.parametrize("sizes", [(4000, 1), (3_000, 1_001), (1, 1)])
def test_lone_flows_on_unlike_links(sizes: tuple[int, int]) -> None:
    """Slow and fast links, long and short, with ways of their own: one after another, each takes its ideal time."""
    links = [[0, 3, "25Gbps", "1us", 0], [3, 4, "10Gbps", "3us", 0], [4, 1, "100Gbps", "10ns", 0]]
    case = star(2, [[0, 1, 3, 100, sizes[0], 0], [1, 0, 3, 100, sizes[1], 1_000_000]], ENABLE_QCN=0, HAS_WIN=0)
    case["topology"] = {"nodes": 5, "switches": [3, 4], "links": [*links, [2, 4, "100Gbps", "1us", 0]]}
    assert watched(case).flow_figures.slowdown.tolist() == [1.0, 1.0]


def test_a_window_slows_a_lone_flow() -> None:
    """The ideal knows no window: what it costs is seen."""
    links = [[0, 2, "100Gbps", "1us", 0], [2, 1, "100Gbps", "1us", 0]]
    case = star(2, [[0, 1, 3, 100, 1_000_000, 0]], GLOBAL_T=0, PACKET_PAYLOAD_SIZE=100)
    case["topology"] = {"nodes": 3, "switches": [2], "links": links}
    held = watched(case).flow_figures
    case["config"]["HAS_WIN"] = 0
    free = watched(case).flow_figures
    assert free.slowdown.tolist() == [1.0]
    assert held.ideal_ns.tolist() == free.ideal_ns.tolist()


PAIR = star(3, [[0, 2, 3, 100, 50_000, 0], [1, 2, 3, 100, 50_000, 0]], HAS_WIN=0)
"""Two flows of 50 packets into one port, whose packets come together."""


def test_two_flows_into_one_port_share_it() -> None:
    """Two packets come every 83 ns and one leaves: with packet k of both k + 1 wait, before one leaves."""
    result = watched(PAIR)
    ports, flows = result.port_figures, result.flow_figures
    row = next(row for row in range(ports.node.size) if ports.name(row) == "switch 3 port 3")
    assert ports.most_bytes[row] == 51 * 1036
    assert ports.sent_bytes.tolist() == [50 * 1036, 50 * 1036, 100 * 48, 50 * 48, 50 * 48, 100 * 1036]
    end = 2 * DATA_NS + 99 * DATA_NS + 2 * ACK_NS + 4 * LINK_NS
    assert flows.completion_ns.tolist() == [end - DATA_NS, end]
    alone = 51 * DATA_NS + 2 * ACK_NS + 4 * LINK_NS
    assert flows.ideal_ns.tolist() == [alone, alone]
    assert flows.slowdown.tolist() == [(end - DATA_NS) / alone, end / alone]
    assert flows.resent_bytes.tolist() == [0, 0] and flows.rate_bps.tolist() == [10**11, 10**11]
    assert ports.busy_share[row] == pytest.approx(100 * 82.88 / end)
    assert not ports.marked.any() and not ports.dropped.any() and not ports.paused_ns.any()


def test_the_monitor_sees_the_queue_grow_and_shrink() -> None:
    """A look for each packet: one packet more each time until both have sent, then one less."""
    samples = watched(PAIR, DATA_NS).samples
    assert samples is not None
    ((port, times, waiting),) = samples.queues.each()
    assert samples.port_name(port) == "switch 3 port 3"
    first = -(-(LINK_NS + DATA_NS) // DATA_NS) * DATA_NS
    assert times.tolist() == [first + DATA_NS * k for k in range(100)]
    assert waiting.tolist() == [1036 * packets for packets in (*range(1, 51), *range(49, -1, -1))]
    mean = 1036 * 50 * 50 * DATA_NS / samples.end_ns
    assert samples.queues.means(0, samples.end_ns)[port] == pytest.approx(mean)


def test_throughput_is_what_was_acknowledged() -> None:
    """Looks that come early or late see the same bytes in all; the control allows the speed of the link throughout."""
    for every in (83, 1000, 5000):
        samples = watched(PAIR, every).samples
        assert samples is not None
        for _, times, values in samples.throughput.each():
            looks = np.arange(0, samples.end_ns, every)
            held = values[np.searchsorted(times, looks, side="right") - 1]
            assert (held * every / 8e9).sum() == pytest.approx(50_000)
        for _, times, values in samples.rates.each():
            assert values.tolist() == [1e11, 0] and times[0] == every


@pytest.mark.slow
def test_looking_changes_nothing() -> None:
    for name in ("trace-two-hpcc", "drop-small-headroom"):
        plain = run_case(CASES[name])
        seen = run_packets(case_of(CASES[name], "case", plain.network.faults, Notes()), monitor=Monitor(77))
        assert seen.completions() == plain.completions() and seen.pause_frames() == plain.pause_frames()
        assert seen.end_ns == plain.end_ns
        queues = seen.samples
        assert queues is not None
        for port, _, waiting in queues.queues.each():
            switch, number = queues.port_names[port]
            row = (seen.port_figures.node == switch) & (seen.port_figures.port == number)
            assert waiting.max() > 0 and seen.port_figures.most_bytes[row] > 0


def test_the_monitor_from_one_time_to_another() -> None:
    samples = watched(PAIR, 100, from_ns=2000, until_ns=3000).samples
    assert samples is not None
    assert (samples.queues.time_ns.min(), samples.queues.time_ns.max()) == (2000, 3000)
    assert (samples.begin_ns, samples.end_ns) == (2000, 3000)


def test_a_monitor_that_sees_too_much_stops_and_says_so() -> None:
    with patch.object(monitors, "MOST_SAMPLES", 20):
        result = watched(PAIR, DATA_NS)
    assert result.completions() == watched(PAIR).completions()
    assert result.samples is not None and result.samples.end_ns < result.end_ns
    assert [text.partition(" at ")[0] for text in result.warnings] == ["the monitor stopped"]


def test_pauses_and_drops() -> None:
    """Many into one through a small buffer: senders are told to wait, and what is dropped is counted at the port that
    it was to leave through."""
    result = run_case(CASES["drop-small-headroom"])
    ports = result.port_figures
    assert ports.dropped.sum() == result.net.g[at.DROPPED] > 0
    assert ports.pauses.sum() > 0 and not ports.dropped[~ports.is_switch].any()
    for port, spans in result.pauses.items():
        frames = [(row[0], row[4]) for row in result.pause_frames() if row[1] == ports.node[port - 1]]
        assert spans[0][0] == frames[0][0] and frames[0][1] == 1
        assert all(start < end for start, end in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert ports.paused_ns[port - 1] == sum(end - start for start, end in spans)


def test_a_port_waits_while_one_of_its_priorities_does() -> None:
    """Overlapping pauses of two priorities are one span; a pause without an end lasts until the end of the run."""
    net = run_case(CASES["trace-two-hpcc"]).net
    rows = at.records(5, at.PAUSED)
    for row, values in zip(
        rows, [(10, 1, 1, 3), (20, 1, 1, 4), (30, 1, 0, 3), (50, 1, 0, 4), (60, 2, 1, 3)], strict=True
    ):
        row.time, row.port, row.stop, row.priority = values
    g = net.g.copy()
    g[at.PAUSES], g[at.NOW] = 5, 100
    assert pauses_of(net._replace(pauses=rows, g=g)) == {1: [(10, 50)], 2: [(60, 100)]}


def test_bytes_sent_again() -> None:
    """A lossy link: what is sent again is counted, and all else arrives once."""
    result = watched(star(2, [[0, 1, 3, 100, 200_000, 0]], ERROR_RATE_PER_LINK=0.01, HAS_WIN=0))
    again = int(result.flow_figures.resent_bytes[0])
    assert again > 0 and again % 1000 == 0
    assert result.port_figures.sent_bytes[0] == (200 + again // 1000) * 1036


def test_percentiles_and_classes_of_sizes() -> None:
    assert percentiles(np.arange(1, 1001)) == (500, 900, 990, 999, 1000)
    assert percentiles(np.array([])) == ()
    flows = [[0, 1, 3, 100, size, 100_000_000 * at] for at, size in enumerate((1, 1 << 14, (1 << 14) + 1, 1 << 23))]
    classes = watched(star(2, flows), 10**6).flow_figures.classes()
    assert {most: own.flows for most, own in classes.items()} == {None: 4, 1 << 14: 2, 1 << 18: 1, 1 << 62: 1}
    assert all(own.slowdown == (1.0,) * 5 for own in classes.values())


def test_flows_that_do_not_end() -> None:
    """They have no slowdown, and count in no percentile."""
    case = star(2, [[0, 1, 3, 100, 5000, 0], [1, 0, 3, 100, 0, 0]], ERROR_RATE_PER_LINK=1)
    result = watched(case)
    assert result.flow_figures.completion_ns[0] == -1 and np.isnan(result.flow_figures.slowdown[0])
    content = result.to_dict()
    assert content["flow_figures"]["slowdown"][0] is None
    assert content["size_classes"][0]["flows"] == content["finished"] == 1


def test_frames() -> None:
    pytest.importorskip("pandas")
    result = watched(PAIR)
    assert result.to_frame().slowdown.tolist() == result.flow_figures.slowdown.tolist()
    assert result.port_figures.to_frame().shape == (6, 11)
    assert result.samples is not None
    frame = result.samples.to_frame()
    assert set(frame.kind) == {"queue_bytes", "rate_bps", "throughput_bps"}
    assert frame[frame.kind == "queue_bytes"].value.max() == result.samples.queues.value.max()
