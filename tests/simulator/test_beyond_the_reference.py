"""Inputs on which the reference aborts, hangs or loops: the right answer here, or an error that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from cases import Case, collective, compute, memory, network_of, receive, send, system_of, trace_of

import chakrasim
from chakrasim import InputError, Limits, StallError

AR, AG, BROADCAST, A2A, RS, BARRIER = 0, 2, 5, 6, 7, 9
MIB = 1 << 20
IDLE = [compute(0, 0)]


def _ring(ranks: int) -> dict[str, Any]:
    return network_of(("Ring", ranks, 50.0, 500.0))


def _refused(case: Case, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        case.run(**options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_events_in_cycle_0_obey_the_ordinary_queue() -> None:
    # 14 steps and 15 endpoint delays per chunk: without the delays the all-reduce is 4 x 15 x 10 ns shorter.
    case = Case([[collective(0, AR, MIB)]], _ring(8), system_of("ring", endpoint_delay=0))
    assert case.run().makespan_ns == 64440 - 600
    tiny = Case([[send(0, 1, 1)], [receive(0, 0, 1)]], network_of(("FullyConnected", 2, 50.0, 500.0)))
    assert tiny.run().finish_ns.tolist() == [500, 500]
    free = Case([[send(0, 1, 1)], [receive(0, 0, 1)]], network_of(("FullyConnected", 2, 50.0, 0.0)))
    assert free.run().finish_ns.tolist() == [0, 0]


def test_a_roofline_time_of_zero_in_cycle_0() -> None:
    nodes = [compute(0, 0, num_ops=1, tensor_size=1), compute(1, 1, [0], num_ops=9 * 10**8, tensor_size=1)]
    system = system_of(roofline_enabled=1, peak_perf=900, local_mem_bw=10**9)
    assert Case([nodes], _ring(2), system).run().makespan_ns == 1000


def test_a_size_that_nothing_goes_by_may_be_of_any_type() -> None:
    assert Case([[compute(0, 7, tensor_size="large")]], _ring(4)).run().finish_ns.tolist() == [7000] * 4


def test_a_message_to_itself_that_a_common_start_leaves_out() -> None:
    node = send(0, 0, 1000)
    case = Case([[{**node, "attr": {**node["attr"], "is_start_offset": True}}], [compute(0, 1)]], _ring(2))
    assert case.run(common_start=True).finish_ns.tolist() == [0, 1000]
    assert "a rank sends a message to itself; found peer 0" in _refused(case)


def test_a_congestion_aware_ring_of_two() -> None:
    # Four chunks, each 2 steps of 131,072 bytes, a reduction of 3 x 81 ns and 3 endpoint delays.
    step, reduction = int(500 + 131072 / 53.6870912), 3 * int(131072 / 1600)
    assert Case([[collective(0, AR, MIB)]], _ring(2)).run().makespan_ns == 4 * (2 * step + reduction + 30)


def test_congestion_aware_networks_have_any_number_of_dimensions() -> None:
    network = network_of(("Ring", 4, 100.0, 50.0), ("Switch", 2, 25.0, 600.0))
    finish = Case(
        [[send(0, 5, MIB)], *[IDLE] * 4, [receive(0, 0, MIB)], *[IDLE] * 2], network, system_of("ring", "ring")
    )
    first, second = int(50 + MIB / (100 * 2**30 / 10**9)), int(600 + MIB / (25 * 2**30 / 10**9))
    assert finish.run(congestion="aware").finish_ns[5] == first + 2 * second


@pytest.mark.parametrize("size", [0, 1, 3])
def test_an_all_gather_smaller_than_its_splits_completes_at_once(size: int) -> None:
    result = Case([[collective(0, AG, size), compute(1, 2, [0])]], _ring(4)).run()
    assert result.makespan_ns == 2000
    assert any("completed at once" in text for text in result.counts)


def test_one_member_groups_and_empty_masks_complete_at_once() -> None:
    single = [[collective(0, AR, MIB, group=str(rank + 1)), compute(1, 1, [0])] for rank in range(4)]
    assert Case(single, _ring(4), groups={i + 1: [i] for i in range(4)}).run().makespan_ns == 1000
    masked = [collective(0, AR, MIB, involved_dim={"bool_list": [False]}), compute(1, 1, [0])]
    assert Case([masked], _ring(4)).run().makespan_ns == 1000


@pytest.mark.parametrize("type_number", [0, 1])
def test_children_of_skipped_nodes_run_and_the_skipped_are_counted(type_number: int) -> None:
    skipped = {"id": 0, "type": type_number, "attr": {"is_cpu_op": False}}
    result = Case([[skipped, compute(1, 3, [0])]], _ring(4)).run()
    assert result.finish_ns.tolist() == [3000] * 4
    assert [n for text, n in result.counts.items() if "skipped" in text] == [4]


def test_a_broadcast_is_replayed_unless_physics_is_asked_for() -> None:
    nodes = [{**collective(0, BROADCAST, MIB), "duration_micros": 7}]
    assert Case([nodes], _ring(8)).run().finish_ns.tolist() == [7000] * 8
    real = Case([nodes], _ring(8)).run(physics=True)
    assert real.messages > 0 and real.makespan_ns > 7 * 500


def test_switches_of_the_protocol_are_keywords_for_one_more_release() -> None:
    trace, machine = trace_of([collective(0, BROADCAST, 1000)]), "hgx-h100-8"
    text = r"simulate\(\.\.\., physics=True\) is simulate\(\.\.\., protocol=Protocol\(physics=True\)\)"
    with pytest.warns(DeprecationWarning, match=text):
        old = chakrasim.simulate(trace, ranks=8, machine=machine, physics=True)  # type: ignore[call-arg]
    new = chakrasim.simulate(trace, ranks=8, machine=machine, protocol=chakrasim.Protocol(physics=True))
    assert old.to_json() == new.to_json()
    assert old.message_bytes > 0


@pytest.mark.parametrize("kind", [1, 3, 4, 8, BARRIER])
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_collectives_that_the_reference_does_not_know_are_simulated(kind: int, algorithm: str) -> None:
    for network in (_ring(6), network_of(("Switch", 6, 50.0, 500.0))):
        result = Case([[collective(0, kind, MIB), compute(1, 1, [0])]], network, system_of(algorithm)).run()
        assert result.messages > 0 and result.makespan_ns > 1000


def test_a_size_that_nobody_sends_is_a_stall_that_names_the_other_size() -> None:
    case = Case([[send(0, 1, 10, 1)], [receive(0, 0, 20, 1)], IDLE, IDLE], _ring(4))
    with pytest.raises(StallError, match=r"rank 1 waits in node 0 .*from rank 0 \(tag 1, 20 bytes\).*has 10 bytes"):
        case.run()


def test_a_receive_without_a_send_is_a_stall_that_says_so() -> None:
    case = Case([[compute(0, 1)], [receive(0, 0, 20, 1)], IDLE, IDLE], _ring(4))
    with pytest.raises(StallError, match="rank 0 has finished and never posts it") as caught:
        case.run()
    assert caught.value.cycle == () and len(caught.value.waits) == 1


def test_ranks_that_wait_for_each_other_are_a_cycle() -> None:
    first = [receive(0, 1, 10, 1), send(1, 1, 10, 1, [0])]
    second = [receive(0, 0, 10, 1), send(1, 0, 10, 1, [0])]
    with pytest.raises(StallError) as caught:
        Case([first, second, IDLE, IDLE], _ring(4)).run()
    assert sorted(caught.value.cycle) == [0, 1]
    assert "2 of 4 ranks are stuck" in str(caught.value)


def test_a_message_nobody_receives_is_a_warning() -> None:
    result = Case([[send(0, 1, 10, 1)], IDLE, IDLE, IDLE], _ring(4)).run()
    assert result.finish_ns[0] == 500
    assert result.warnings == ("1 messages were never received, the first from rank 0 to rank 1 (tag 1, 10 bytes)",)


def test_collectives_in_opposite_orders_are_a_stall_that_names_both() -> None:
    one = [collective(0, AR, 100), collective(1, AG, 100, [0])]
    other = [collective(0, AG, 100), collective(1, AR, 100, [0])]
    with pytest.raises(StallError, match="rank 1 runs the all-gather of 100 bytes in its place"):
        Case([one, other], _ring(2)).run()


REFUSED = {
    "dependencies form a cycle: 0 -> 1 -> 0": [compute(0, 1, [1]), compute(1, 1, [0])],
    "dependencies form a cycle: 1 -> 2 -> 1": [compute(0, 1), compute(1, 1, [2]), compute(2, 1, [1])],
    "two nodes have the id 0": [compute(0, 1), compute(0, 1)],
    "depends on node 7, which does not exist": [compute(0, 1, [7])],
    "the duration is beyond the clock's range": [compute(5, 1 << 62)],
    "communicator group '9' is not known": [collective(0, AR, 100, group="9")],
    "marked as a CPU operation": [collective(0, AR, 100, is_cpu_op=True)],
    "accesses remote memory": [memory(0, 100)],
}


@pytest.mark.parametrize("message", REFUSED)
def test_nodes_that_make_no_sense_are_refused_with_their_place(message: str) -> None:
    text = _refused(Case([REFUSED[message]], _ring(4)))
    assert message in text and "node " in text


def test_times_that_add_up_past_the_clock_name_the_node() -> None:
    long = 4 * 10**15
    text = _refused(Case([[compute(5, long), compute(6, long, [5]), compute(7, long, [6])]], _ring(4)))
    assert "beyond the clock's range" in text and "node 7" in text


def test_messages_that_arrive_past_the_clock_s_range_are_no_stall() -> None:
    late = compute(0, 2**63 // 1000)
    network = network_of(("Ring", 2, 50.0, 5000.0))
    for mode in ("aware", "unaware"):
        message = Case([[late, send(1, 1, 100, 1, [0])], [receive(0, 0, 100, 1)]], network, congestion=mode)
        assert "beyond the clock's range" in _refused(message)
        assert "beyond the clock's range" in _refused(
            Case([[late, collective(1, AR, 1000, [0])]], network, congestion=mode)
        )


def test_groups_whose_members_run_different_collectives_are_refused_before_the_clock_starts() -> None:
    programs = [[collective(0, AR, 100 + 100 * (rank == 1))] for rank in range(4)]
    text = _refused(Case(programs, _ring(4)))
    assert "do not run the same collectives" in text and "rank 1" in text
    outside = Case([[collective(0, AR, 100, group="1")]] * 4, _ring(4), groups={1: [0, 1]})
    assert "rank 2 runs a collective of group 1, of which it is not a member" in _refused(outside)


def test_work_limits_end_absurd_inputs() -> None:
    case = Case([[collective(0, A2A, MIB)]], network_of(("Switch", 8, 50.0, 500.0)), system_of("direct"))
    assert "max_bytes" in _refused(case, fold=False, limits=Limits(max_bytes=100_000))
    assert "max_events" in _refused(case, fold=False, limits=Limits(max_events=100))
    nodes = [compute(i, 1) for i in range(50)]
    assert "max_nodes" in _refused(case.with_(programs=[nodes]), fold=False, limits=Limits(max_nodes=100))
    absurd = case.with_(
        system=system_of("direct", preferred_dataset_splits=2**31 - 1), programs=[[collective(0, A2A, 1 << 50)]]
    )
    assert "cut into 2147483648 chunks" in _refused(absurd)


def test_machine_and_network_together_are_refused() -> None:
    trace = trace_of([compute(0, 1)])
    with pytest.raises(InputError, match="machine cannot be combined"):
        chakrasim.simulate(trace, ranks=8, machine="hgx-h100-8", network=_ring(8))
    with pytest.raises(InputError, match="no system and network configuration"):
        chakrasim.simulate(trace, ranks=8)
    assert len(chakrasim.simulate(trace, ranks=8, machine="hgx-h100-8").finish_ns) == 8


def test_strict_turns_warnings_into_errors_and_check_runs_nothing() -> None:
    case = Case([[collective(0, AR, 0)]], _ring(4))
    assert case.run().warnings
    assert "1 warning in strict mode" in _refused(case, strict=True)
    assert case.run(check=True).makespan_ns == 0


def test_what_is_missing_or_false_in_the_system_file_is_said() -> None:
    nodes = [compute(0, 5, num_ops=10**9, tensor_size=MIB)]
    off = Case([nodes], _ring(4), system_of(roofline_enabled=False, peak_perf=900)).run()
    assert off.makespan_ns == 1111 and "roofline-enabled: false turns it on" in off.warnings[0]
    bare = {
        key: value for key, value in system_of().items() if key not in ("scheduling-policy", "collective-optimization")
    }
    assert [text.split("$.")[1] for text in Case([nodes], _ring(4), bare).run().warnings] == [
        "scheduling-policy: the key is missing, LIFO is assumed",
        "collective-optimization: the key is missing, baseline is assumed",
    ]
    del bare["preferred-dataset-splits"]
    assert "preferred-dataset-splits: the key is missing" in _refused(Case([nodes], _ring(4), bare))


def test_algorithm_lists_of_another_length_than_the_dimensions() -> None:
    network = network_of(("Ring", 4, 50.0, 500.0), ("Ring", 2, 50.0, 500.0))
    short = Case([[collective(0, AR, MIB)]], network, system_of("ring")).run()
    assert sum("covers 1 of 2 dimensions" in text for text in short.warnings) == 4
    assert "more algorithms than dimensions" in _refused(
        Case([[collective(0, AR, MIB)]], _ring(4), system_of("ring", "ring"))
    )


def test_exposed_communication_may_be_negative_in_replay_mode() -> None:
    nodes = [{**compute(0, 10), "attr": {"is_cpu_op": False}}, {**collective(1, AR, 100), "duration_micros": 10}]
    result = Case([nodes], _ring(4), system_of(replay_only=1)).run()
    assert result.finish_ns.tolist() == [10_000] * 4
    assert result.exposed_comm_ns.tolist() == [-10_000] * 4


def test_the_parts_of_every_rank_sum_to_the_makespan() -> None:
    programs = [[compute(0, 1 + rank), collective(1, AR, MIB, [0]), compute(2, 30)] for rank in range(4)]
    result = Case(programs, _ring(4)).run()
    assert (result.parts_ns.sum(axis=1) == result.makespan_ns).all()
    assert (result.parts_ns >= 0).all()
    assert result.gpu_ns.tolist() == [31_000 + 1000 * rank for rank in range(4)]
