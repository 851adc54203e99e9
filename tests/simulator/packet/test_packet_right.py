"""What the reference does wrong is right by default, and a named switch brings each fault back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packet_cases import right, run_case, star

from chakrasim.errors import InputError
from chakrasim.simulator.packet import state as at
from chakrasim.simulator.packet.faults import ALL_FAULTS, NO_FAULTS, Faults


def fct(case: dict[str, object], faults: Faults = NO_FAULTS) -> list[int]:
    found: list[int] = run_case(case, faults).fct_ns.tolist()
    return found


def test_a_message_of_one_packet_takes_what_its_bytes_and_links_take() -> None:
    """Two links of 1 us each way: 1,036 bytes twice, then an acknowledgement of 48."""
    assert fct(star(2, [[0, 1, 3, 100, 1000, 0]])) == [2 * 83 + 2000 + 2 * 4 + 2000]


def test_a_flow_without_bytes_takes_one_base_delay() -> None:
    case = star(2, [[0, 1, 3, 100, 0, 5]])
    assert fct(case) == [2000]
    assert fct(case, ALL_FAULTS) == [-1]


@pytest.mark.parametrize("size", [1, 999, 5_000, 123_456])
def test_a_flow_shorter_than_the_interval_of_acknowledgements_ends(size: int) -> None:
    case = star(2, [[0, 1, 3, 100, size, 0]], L2_ACK_INTERVAL=1_000_000, L2_CHUNK_SIZE=0)
    assert fct(case)[0] > 0
    assert fct(case, replace(NO_FAULTS, interval_from_start=True, no_retransmission_timer=True)) == [-1]


def test_the_interval_counts_from_the_last_acknowledgement() -> None:
    case = star(2, [[0, 1, 3, 100, 100_000, 0]], L2_ACK_INTERVAL=10_000, L2_CHUNK_SIZE=0)
    assert right(case).to_dict()["transmissions"] == 2 * 100 + 2 * 10
    assert run_case(case, replace(NO_FAULTS, interval_from_start=True)).to_dict()["transmissions"] == 2 * 100 + 2 * 91


def lossy(rate: float, seeds: int = 5) -> list[dict[str, object]]:
    flows = [[source, 3, 3, 100, 30_000, 1000 * source] for source in range(3)]
    return [
        {**star(4, flows, ERROR_RATE_PER_LINK=rate, L2_BACK_TO_ZERO=back, L2_CHUNK_SIZE=4000), "first_stream": stream}
        for stream in range(seeds)
        for back in (0, 1)
    ]


def test_what_is_lost_is_sent_again_until_all_has_come() -> None:
    for case in lossy(0.05):
        result = right(case)
        assert not result.unfinished
        assert result.to_dict()["lost_on_links"] > 0


def test_the_reference_never_ends_flows_whose_tail_is_lost() -> None:
    assert any(run_case(case).unfinished for case in lossy(0.05))


def test_a_link_that_loses_everything_is_given_up() -> None:
    result = right(star(2, [[0, 1, 3, 100, 5000, 0]], ERROR_RATE_PER_LINK=1))
    assert result.unfinished == [0]
    assert "was given up: nothing behind byte 0 came through" in result.stuck_text


def test_messages_of_more_than_2_gib_end() -> None:
    size = (1 << 31) + 4097
    case = star(2, [[0, 1, 3, 100, size, 0]], PACKET_PAYLOAD_SIZE=65000, HAS_WIN=0)
    packets = -(-size // 65000)
    assert fct(case)[0] == pytest.approx(packets * 65036 * 0.08, rel=1e-3)
    with pytest.raises(InputError, match="below 2 GiB: the reference goes wrong above"):
        fct(case, ALL_FAULTS)


def test_timers_have_fractions_of_a_microsecond() -> None:
    flows = [[source, 8, 3, 100, 300_000, 0] for source in range(8)]
    marks = {"KMIN_MAP": {10**11: 20}, "KMAX_MAP": {10**11: 20}, "PMAX_MAP": {10**11: 1}}
    config = {"CC_MODE": 1, "RATE_DECREASE_INTERVAL": 4.9, "ALPHA_RESUME_INTERVAL": 1, "RP_TIMER": 5, **marks}
    case = star(9, flows, **config)
    cut = star(9, flows, **{**config, "RATE_DECREASE_INTERVAL": 4})
    truncated = replace(NO_FAULTS, whole_microseconds=True)
    assert fct(case) != fct(cut)
    assert fct(case, truncated) == fct(cut, truncated) == fct(cut)


def test_timers_of_no_time_do_not_stop_the_clock() -> None:
    flows = [[source, 8, 3, 100, 300_000, 0] for source in range(8)]
    marks = {"KMIN_MAP": {10**11: 20}, "KMAX_MAP": {10**11: 20}, "PMAX_MAP": {10**11: 1}}
    assert min(fct(star(9, flows, CC_MODE=1, RP_TIMER=0, **marks))) > 0


def test_a_speed_without_a_threshold_is_refused_with_the_link() -> None:
    case = star(2, [[0, 1, 3, 100, 1000, 0]], KMAX_MAP={25_000_000_000: 400})
    with pytest.raises(
        InputError, match=r"KMAX_MAP: a link's speed has no threshold .* link 2-0 of 100000000000 bit/s"
    ):
        right(case)
    assert fct(case, ALL_FAULTS)[0] > 0
    case["config"]["ENABLE_QCN"] = 0
    assert right(case).to_dict()["ecn_marked"] == 0


def test_a_misspelt_key_is_refused_with_the_one_that_was_meant() -> None:
    case = star(2, [[0, 1, 3, 100, 1000, 0]], RATE_BOUNT=1)
    with pytest.raises(InputError, match=r"RATE_BOUNT: unknown key; .*did you mean RATE_BOUND"):
        right(case)
    assert fct(case, ALL_FAULTS)[0] > 0


def test_a_port_that_waits_for_one_pair_wakes_for_the_other() -> None:
    """Two flows of one host, one of which the window holds: the other, slowed down, is not forgotten."""
    flows = [[0, 1, 3, 100, 400_000, 0], [0, 2, 3, 100, 400_000, 0], [1, 2, 3, 100, 400_000, 0]]
    marks = {"KMIN_MAP": {10**11: 5}, "KMAX_MAP": {10**11: 5}, "PMAX_MAP": {10**11: 1}}
    case = star(3, flows, CC_MODE=1, RP_TIMER=50, **marks)
    oversleeping = replace(NO_FAULTS, wakes_for_all=True)
    assert sum(fct(case)) < sum(fct(case, oversleeping))


def test_round_trips_are_stamped() -> None:
    case = star(3, [[0, 2, 3, 100, 300_000, 10**9], [1, 2, 3, 100, 300_000, 10**9]], CC_MODE=7, MIN_RATE="100Mb/s")
    assert 5 * fct(case)[0] < fct(case, replace(NO_FAULTS, no_time_stamps=True))[0]


def test_longer_ways_than_five_switches_are_controlled() -> None:
    """Two flows share the last link behind seven switches; without control their window fills it for ever."""
    links = [[8 + i, 9 + i, "100Gbps", "1us", 0] for i in range(6)]
    hosts = [[0, 8, "100Gbps", "1us", 0], [1, 8, "100Gbps", "1us", 0], [2, 14, "100Gbps", "1us", 0]]
    extra = [[3 + i, 8, "100Gbps", "1us", 0] for i in range(5)]
    case = star(2, [[0, 2, 3, 100, 10**6, 0], [1, 2, 3, 100, 10**6, 0]], CC_MODE=3, VAR_WIN=1, GLOBAL_T=0)
    case["topology"] = {"nodes": 15, "switches": list(range(8, 15)), "links": [*hosts, *extra, *links]}
    most = {fault: max(port[2] for port in run_case(case, fault).to_dict()["ports"]) for fault in (NO_FAULTS, FIVE)}
    assert most[NO_FAULTS] < most[FIVE]


FIVE = replace(NO_FAULTS, five_hops=True)


def test_hpcc_without_a_window_is_refused() -> None:
    with pytest.raises(InputError, match="HAS_WIN: HPCC divides by its window"):
        right(star(2, [[0, 1, 3, 100, 1000, 0]], CC_MODE=3, HAS_WIN=0))


def test_pauses_last_whatever_their_time_says() -> None:
    flows = [[source, 8, 3, 100, 300_000, 0] for source in range(8)]
    case = star(9, flows, HAS_WIN=0, BUFFER_SIZE=1, PAUSE_TIME=0, HEADROOM_FACTOR=6)
    assert right(case).to_dict()["dropped"] == 0
    assert run_case(case, replace(NO_FAULTS, pause_time_zero_resumes=True)).to_dict()["dropped"] > 0


def test_a_buffer_smaller_than_its_headrooms_is_refused() -> None:
    flows = [[source, 8, 3, 100, 300_000, 0] for source in range(8)]
    case = star(9, flows, HAS_WIN=0, BUFFER_SIZE=0)
    assert run_case(case, replace(NO_FAULTS, thresholds_wrap=True)).to_dict()["pfc"] == []
    found = "the buffer of switch 9 is too small for its 9 ports; found 0 MiB; expected 1 MiB, of which 337,500 bytes"
    with pytest.raises(InputError, match=f"BUFFER_SIZE: {found}"):
        right(case)


def test_a_buffer_that_admits_no_packet_is_refused() -> None:
    """Beside 1,025,000 bytes kept for a long link, an eighth of 11,288 bytes is no packet of 1,536."""
    case = star(3, [[0, 1, 3, 100, 1000, 0]], HEADROOM_FACTOR=41, BUFFER_SIZE=1)
    delays = ("2us", "0ns", "0ns")
    case["topology"]["links"] = [[3, host, "100Gbps", delay, 0] for host, delay in enumerate(delays)]
    assert not right(case).unfinished
    case["config"]["PACKET_PAYLOAD_SIZE"] = 1500
    with pytest.raises(InputError, match="the buffer of switch 3 is too small for its 3 ports"):
        right(case)


def test_a_rate_so_low_that_the_next_packet_is_later_than_the_timer() -> None:
    """Marks cut the rate to 1 Mb/s: 8 ms from packet to packet, while a timer runs out in 1."""
    flows = [[source, 4, 3, 100, 200_000, 0] for source in range(4)]
    marks = {"KMIN_MAP": {10**11: 1}, "KMAX_MAP": {10**11: 2}, "PMAX_MAP": {10**11: 1.0}}
    case = star(5, flows, CC_MODE=1, MIN_RATE="1Mb/s", RP_TIMER=10_000, **marks)
    result = right(case)
    assert not result.unfinished and result.net.g[at.EVENTS] < 100_000


def test_what_waits_in_a_long_queue_is_not_sent_twice() -> None:
    flows = [[source, 8, 3, 100, 4_000_000, 0] for source in range(8)]
    case = star(9, flows, HAS_WIN=0, ENABLE_QCN=0, BUFFER_SIZE=32)
    result = right(case)
    assert result.fct_ns.max() > 2_000_000, "longer than the timer"
    assert result.to_dict()["transmissions"] == 4 * 8 * 4000 + result.to_dict()["pfc"].__len__()


def test_an_interval_longer_than_the_window_is_the_window() -> None:
    case = star(2, [[0, 1, 3, 100, 1_000_000, 0]], L2_ACK_INTERVAL=10_000_000, L2_CHUNK_SIZE=0)
    assert fct(case)[0] < 2 * fct(star(2, [[0, 1, 3, 100, 1_000_000, 0]]))[0]


def test_two_hosts_that_pause_each_other_go_on() -> None:
    """Their frames do not wait behind acknowledgements that the other one has paused."""
    flows = [[at, 1 - at, 3, 100, 50_000, 0] for at in (0, 1)] * 2
    case = star(1, flows, NIC_TOTAL_PAUSE_TIME=2)
    case["topology"] = {"nodes": 2, "switches": [], "links": [[0, 1, "100Gbps", "500ns", 0]]}
    result = right(case)
    assert not result.unfinished and len(result.to_dict()["pfc"]) == 4
    assert run_case(case, replace(NO_FAULTS, pauses_are_held=True)).unfinished


def test_errors_of_links_do_not_take_pauses_away() -> None:
    flows = [[source, 8, 3, 100, 100_000, 0] for source in range(8)]
    case = star(9, flows, HAS_WIN=0, BUFFER_SIZE=1, ENABLE_QCN=0, HEADROOM_FACTOR=8, ERROR_RATE_PER_LINK=0.02)
    result = right(case)
    assert not result.unfinished and result.to_dict()["pfc"] and result.to_dict()["lost_on_links"]


def test_a_window_below_a_chunk_does_not_hold_a_flow_that_is_acknowledged_by_chunks() -> None:
    for vary in (0, 1):
        case = star(2, [[0, 1, 3, 100, 30_000, 0]], L2_BACK_TO_ZERO=1, L2_CHUNK_SIZE=100_000, VAR_WIN=vary, CC_MODE=1)
        assert not right(case).unfinished
        assert run_case(case, replace(NO_FAULTS, chunked_end=True)).unfinished


def test_flows_behind_a_link_that_went_down_are_told_to_have_no_way() -> None:
    case = star(2, [[0, 1, 3, 100, 1000, 2_000_010_000]], LINK_DOWN="1 2 1")
    assert right(case).stuck_text == "1 flow did not finish: flow 0 has no way from host 0 to host 1"


def test_a_cut_link_gives_its_bytes_back() -> None:
    """Eight flows fill the ports of two spines, one link goes down; all flows end the other way."""
    links = [[8 if host < 4 else 9, host, "100Gbps", "1us", 0] for host in range(8)]
    spines = [[leaf, spine, "100Gbps", "1us", 0] for leaf in (8, 9) for spine in (10, 11)]
    flows = [[host, 4 + host, 3, 100, 500_000, 2_000_000_000] for host in range(4)]
    case = star(2, flows, LINK_DOWN="20 8 10")
    case["topology"] = {"nodes": 12, "switches": [8, 9, 10, 11], "links": [*links, *spines]}
    result = right(case)
    assert not result.unfinished
    assert all(node.shared == 0 for node in result.net.nodes)
    case["config"]["LINK_DOWN"] = "20 8 9"
    with pytest.raises(InputError, match="LINK_DOWN: there is no such link; found 8 9"):
        right(case)


def test_a_circle_of_pauses_is_named_by_its_ports() -> None:
    """Five switches in a ring, hosts that send two switches on: each port waits for the next one's buffer."""
    links = [[10 + host // 2, host, "100Gbps", "1us", 0] for host in range(10)]
    ring = [[10 + i, 10 + (i + 1) % 5, "100Gbps", "1us", 0] for i in range(5)]
    flows = [[host, (host + 4) % 10, 3, 100, 1_000_000, 0] for host in range(10)]
    case = star(2, flows, HAS_WIN=0, BUFFER_SIZE=1, ENABLE_QCN=0)
    case["topology"] = {"nodes": 15, "switches": list(range(10, 15)), "links": [*links, *ring]}
    result = right(case)
    assert result.unfinished == list(range(10))
    assert "flow 0 waits for host 0 port 1, which is told to pause priority 3" in result.stuck_text
    circle = result.stuck_text.split("in a circle: ")[1].split(";")[0].split(", ")
    assert sorted(circle) == [f"switch {10 + i} port {3 if i == 0 else 4}" for i in range(5)]


def test_a_flow_that_is_always_sent_back_to_its_start_is_given_up() -> None:
    """Chunks of 4,000 bytes in packets of 3: hardly one comes through whole."""
    flows = [[0, 2, 3, 100, 40_000, 0], [1, 2, 3, 100, 20_000, 0]]
    case = star(3, flows, PACKET_PAYLOAD_SIZE=3, ERROR_RATE_PER_LINK=0.02, L2_BACK_TO_ZERO=1, GLOBAL_T=0)
    result = right(case)
    assert result.unfinished == [0, 1]
    assert "was given up: nothing behind byte 0 came through" in result.stuck_text


def test_a_timer_that_would_stop_the_reference_s_clock_is_refused() -> None:
    case = star(2, [[0, 1, 3, 100, 1000, 0]], CC_MODE=1, RP_TIMER=0.5)
    with pytest.raises(InputError, match=r"RP_TIMER: cut to whole us this timer comes again .* found 0.5"):
        run_case(case)
    assert fct(case)[0] > 0
