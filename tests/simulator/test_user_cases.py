"""What users of the reference ran into: the same inputs here, with the right outcome."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cases import Case, collective, compute, network_of, receive, send, system_of, trace_of

import chakrasim
from chakrasim import InputError, Limits, StallError

AR, AG, BROADCAST, A2A, RS = 0, 2, 5, 6, 7
MIB = 1 << 20


def _ring(ranks: int) -> dict[str, list[object]]:
    return network_of(("Ring", ranks, 50.0, 500.0))


SWITCH_8 = network_of(("Switch", 8, 50.0, 500.0))
NESTED = {1: list(range(8)), 2: [4, 5, 6, 7]}


def test_t339_ranks_in_two_groups_do_not_upset_the_collectives_of_the_others() -> None:
    only = [collective(0, AG, 1024, group="1")]
    both = [collective(0, AR, 1024, group="2"), collective(1, AG, 1024, [0], group="1")]
    alone = Case([only] * 8, _ring(8), groups=NESTED).run().makespan_ns
    first = Case([[compute(0, 1)]] * 4 + [both[:1]] * 4, _ring(8), groups=NESTED).run().finish_ns[4:].max()
    for fold in (True, False):
        finish = Case([only] * 4 + [both] * 4, _ring(8), groups=NESTED).run(fold=fold).finish_ns
        # The all-gather cannot end before the last of ranks 4 to 7 has come from its all-reduce.
        assert finish.min() > first
        assert finish.max() <= first + alone


def test_t339_opposite_orders_are_reported_as_a_deadlock_with_its_cycle() -> None:
    only = [collective(7, AG, 1024, group="1")]
    gather_first = [collective(7, AG, 1024, group="1"), collective(8, AR, 1024, [7], group="2")]
    reduce_first = [collective(8, AR, 1024, group="2"), collective(7, AG, 1024, [8], group="1")]
    programs = [only] * 4 + [gather_first] * 2 + [reduce_first] * 2
    for fold in (True, False):
        with pytest.raises(StallError) as caught:
            Case(programs, _ring(8), groups=NESTED).run(fold=fold)
        error = caught.value
        assert error.exit_code == 3
        assert set(error.cycle) & {4, 5} and set(error.cycle) & {6, 7}
        text = str(error)
        assert "8 of 8 ranks are stuck" in text and "they wait in a cycle" in text
        assert re.search(
            r"rank 4 waits in node 7 .* all-gather of 1024 bytes of group 1.*ranks 6, 7 never entered", text
        )
        assert re.search(
            r"rank 6 waits in node 8 .* all-reduce of 1024 bytes of group 2.*ranks 4, 5 never entered", text
        )
        assert len(error.waits) == 8


def test_t383_messages_of_one_tag_meet_their_receives_in_order() -> None:
    early = [receive(0, 0, MIB, 5), receive(1, 0, 2 * MIB, 5)]
    late = [compute(2, 200), receive(0, 2, MIB, 5, [2]), receive(1, 2, 2 * MIB, 5, [0])]
    programs = [
        [send(0, 1, MIB, 5), send(1, 1, 2 * MIB, 5, [0])],
        early,
        [send(0, 3, MIB, 5), send(1, 3, 2 * MIB, 5, [0])],
        late,
    ]
    first, second = int(500 + MIB / 53.6870912), int(500 + 2 * MIB / 53.6870912)
    result = Case(programs, _ring(4)).run()
    assert result.finish_ns.tolist() == [first + second, first + second, first + second, 200_000]
    assert result.messages == 4
    ends = result.records[int(result.classes[1])].end_ns
    assert ends.tolist() == [first, first + second]


def test_t205_faster_memory_is_never_slower_where_nothing_queues() -> None:
    spans = [_direct_all_reduce(bandwidth, "unaware") for bandwidth in (15, 50, 100)]
    assert spans == [39208, 20860, 16924]


def test_t205_where_messages_queue_the_numbers_are_the_reference_s() -> None:
    # Between 50 and 100 the port's queue fills in another order: run on the reference to make sure.
    assert [_direct_all_reduce(bandwidth, "aware") for bandwidth in (15, 50, 100)] == [58728, 47700, 48644]


def _direct_all_reduce(bandwidth: int, mode: str) -> int:
    case = Case([[collective(0, AR, MIB)]], SWITCH_8, system_of("direct", local_mem_bw=bandwidth), congestion=mode)
    return case.run().makespan_ns


@pytest.mark.parametrize("kind", range(10))
@pytest.mark.parametrize("physics", [True, False])
def test_t102_a_collective_of_zero_bytes_lets_its_children_run(kind: int, physics: bool) -> None:
    nodes = [collective(0, kind, 0), compute(1, 1, [0])]
    result = Case([nodes], _ring(4), options={"physics": physics}).run()
    assert (result.finish_ns >= 1000).all()
    if kind != BROADCAST or physics:
        assert result.gpu_ns.tolist() == [1000] * 4
    said = " ".join([*result.warnings, *result.counts])
    if kind in (AR, A2A, RS):
        assert "a collective of 0 bytes takes the time of ASTRA-sim's minimum size" in said
        assert result.makespan_ns > 1000
    if kind == AG:
        assert "completed at once" in said
        assert result.makespan_ns == 1000


@pytest.mark.parametrize(("files", "ranks"), [(32, 1), (8, 16), (8, 2)])
def test_t318_other_rank_counts_than_the_network_s_name_both_numbers(files: int, ranks: int, tmp_path: Path) -> None:
    chakrasim.write(tmp_path / "w", [trace_of([compute(0, 1)])] * files)
    network = network_of(("Ring", ranks, 50.0, 500.0)) if ranks > 1 else {**_ring(2), "npus_count": [2]}
    with pytest.raises(InputError) as caught:
        chakrasim.simulate(tmp_path / "w", system=system_of(), network=network)
    count = max(ranks, 2)
    assert f"has {files} ranks" in str(caught.value) and f"has {count} NPUs" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_t318_a_missing_rank_file_is_named(tmp_path: Path) -> None:
    chakrasim.write(tmp_path / "w", [trace_of([compute(0, 1)])] * 4)
    (tmp_path / "w.2.et").unlink()
    with pytest.raises(InputError, match=r"w\.2\.et"):
        chakrasim.simulate(tmp_path / "w", system=system_of(), network=_ring(4))


def test_t217_the_roofline_s_slope_is_intensity_times_bandwidth() -> None:
    # 10 FLOP per byte at 1,600 GB/s: 16 TFLOP/s of the 312 that the peak allows.
    node = compute(0, 0, num_ops=16 * 10**9, tensor_size=16 * 10**8)
    system = system_of(roofline_enabled=1, peak_perf=312, local_mem_bw=1600)
    assert Case([[node]], _ring(2), system).run().makespan_ns == 1_000_000
    bound = compute(0, 0, num_ops=312 * 10**9, tensor_size=1000)
    assert Case([[bound]], _ring(2), system).run().makespan_ns == 1_000_000


def test_t285_memory_does_not_grow_with_the_messages_ever_sent() -> None:
    def fits(collectives: int, limit_bytes: int) -> bool:
        nodes = [collective(i, AR, MIB, [i - 1] if i else []) for i in range(collectives)]
        case = Case([nodes], network_of(("Switch", 64, 50.0, 500.0)), system_of("direct", preferred_dataset_splits=1))
        try:
            return case.run(fold=False, limits=Limits(max_bytes=limit_bytes)).messages == 64 * 63 * 2 * collectives
        except InputError as error:
            assert "memory" in str(error)
            return False

    limit = next(limit for limit in (1 << k for k in range(20, 31)) if fits(1, limit))
    assert fits(12, 2 * limit)


def test_groups_file_of_the_reference_is_read_from_disk(tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text(json.dumps({"1": [0, 1], "2": [2, 3]}))
    programs = [[collective(0, AR, MIB, group=str(1 + rank // 2))] for rank in range(4)]
    by_file = Case(programs, _ring(4)).run(comm_groups=tmp_path / "groups.json")
    by_mapping = Case(programs, _ring(4), groups={1: [0, 1], 2: [2, 3]}).run()
    assert by_file.finish_ns.tolist() == by_mapping.finish_ns.tolist()
