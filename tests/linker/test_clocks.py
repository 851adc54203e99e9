"""Ranks on one clock, and collectives split into waiting and transfer."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.errors import InputError
from chakrasim.linker.across_ranks.agreement import check_agreement, check_ranks
from chakrasim.linker.across_ranks.clocks import align
from chakrasim.linker.across_ranks.meetings import meet
from chakrasim.linker.api import link
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.linked.columns import Communication, LinkedTrace, ProcessGroup
from made_traces import SEND_RECV, MadeTrace

GLOO = Path(__file__).resolve().parents[1] / "data" / "torch" / "gloo4"


def skewed(linked: LinkedTrace, ns: int) -> LinkedTrace:
    """The same trace by a clock that is ``ns`` ahead."""
    found = linked.communication
    moved = replace(found, start_ns=found.start_ns + ns, end_ns=found.end_ns + ns)
    return replace(linked, start_ns=linked.start_ns + ns, communication=moved)


def splits(aligned: list[LinkedTrace]) -> list[tuple[list[int], list[int]]]:
    return [(t.communication.wait_ns.tolist(), t.communication.transfer_ns.tolist()) for t in aligned]


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> LinkedTrace:
    """Any linked trace, to put collectives into."""
    made = MadeTrace()
    made.all_reduce(10, 5)
    return made.link(tmp_path_factory.mktemp("blank"))


def rank_of(
    blank: LinkedTrace,
    rank: int,
    times: list[tuple[int, int]],
    *,
    groups: tuple[ProcessGroup, ...] = (ProcessGroup("0", "default_pg", (0, 1), 2),),
    group: list[int] | None = None,
    operation: int = CollectiveType.ALL_REDUCE,
    peer: int = -1,
) -> LinkedTrace:
    """A rank with collectives at these (start, end), the first row starting at 0."""
    count = len(times)
    ones = np.ones(count, np.int64)
    start, end = np.array(times, np.int64).reshape(-1, 2).T
    index = np.array(group if group is not None else [0] * count, np.int32)
    ordinal = [int((index[:at] == index[at]).sum()) for at in range(count)]
    found = Communication(
        row=np.arange(count, dtype=np.int32),
        operation=np.full(count, operation, np.int32),
        size_bytes=ones * 8,
        in_bytes=ones * 8,
        out_bytes=ones * 8,
        group=index,
        sequence=-ones,
        ordinal=np.array(ordinal, np.int32),
        peer=np.full(count, peer, np.int32),
        start_ns=start,
        end_ns=end,
        dtype=np.zeros(count, np.int32),
        evidence=np.zeros(count, np.int32),
        wait_ns=-ones,
        transfer_ns=-ones,
    )
    zero = np.zeros(len(blank), np.int64)
    size = max(max(one.ranks, default=0) for one in groups) + 1
    return replace(
        blank, rank=rank, world_size=size, groups=groups, communication=found, start_ns=zero, header={}, counts={}
    )


# -- exact answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [0, 3777, -12_345.678])
def test_two_ranks_by_hand(tmp_path: Path, clock: float) -> None:
    """Rank 1 comes 150 us late to the first all-reduce, rank 0 comes 30 us late to the second."""
    early, late = MadeTrace(0), MadeTrace(1, clock=clock)
    early.all_reduce(100, 200)
    late.all_reduce(250, 50)
    early.all_reduce(530, 70)
    late.all_reduce(500, 100)
    aligned = align([early.link(tmp_path), late.link(tmp_path)])
    assert splits(aligned) == [([150_000, 0], [50_000, 70_000]), ([0, 30_000], [50_000, 70_000])]
    assert [trace.clock_shift_ns for trace in aligned] == [0, -round(clock * 1000)]
    assert [trace.start_offset_ns for trace in aligned] == [0, 150_000]
    assert aligned[1].counts["clock_residual_ns"] == 0


def test_one_rank_alone_is_not_split(tmp_path: Path) -> None:
    made = MadeTrace()
    made.all_reduce(100, 200)
    (aligned,) = align([made.link(tmp_path)])
    assert splits([aligned]) == [([-1], [-1])]
    assert (aligned.start_offset_ns, aligned.clock_shift_ns) == (0, 0)
    assert aligned.counts["communications_not_compared"] == 1
    assert align([]) == []


def test_a_broadcast_waits_for_its_root_only(blank: LinkedTrace) -> None:
    times = [[(0, 100)], [(50, 100)], [(80, 130)]]
    groups = (ProcessGroup("0", "", (0, 1, 2), 3),)

    def ranks(operation: int, peer: int) -> list[LinkedTrace]:
        return [
            rank_of(blank, rank, own, groups=groups, operation=operation, peer=peer) for rank, own in enumerate(times)
        ]

    assert splits(align(ranks(CollectiveType.BROADCAST, 1))) == [([50], [50]), ([0], [50]), ([0], [50])]
    # Of a reduce only the root waits; without a known root all wait for all.
    assert splits(align(ranks(CollectiveType.REDUCE, 0))) == [([80], [20]), ([0], [50]), ([0], [50])]
    assert splits(align(ranks(CollectiveType.BROADCAST, -1))) == [([80], [20]), ([30], [20]), ([0], [50])]


def test_messages_under_one_kernel_wait_for_the_last_peer(tmp_path: Path) -> None:
    world: list[LinkedTrace] = []
    for rank, start in ((0, 100.0), (1, 130.0), (2, 160.0)):
        made = MadeTrace(rank, 3)
        made.all_reduce(1000 + start, 1000 - start)
        for number, peer in enumerate({0: [1], 1: [0, 2], 2: [1]}[rank]):
            made.record("send", start - 40 + 4 * number, 1, **{"Dst Rank": peer})
            made.record("recv", start - 38 + 4 * number, 1, **{"Src Rank": peer})
        made.kernel(start, 200 - start, start - 5, SEND_RECV)
        world.append(made.link(tmp_path))
    waits = [trace.communication.wait_ns[:-1].tolist() for trace in align(world)]
    assert waits == [[30_000] * 2, [30_000] * 4, [0] * 2]


def test_ranks_that_share_nothing_are_tied_by_those_between(blank: LinkedTrace) -> None:
    """Ranks 0 and 1 share a group, 1 and 2 another; the clocks of 1 and 2 are ahead by 5 and 7 ms."""
    left, right = ProcessGroup("1", "", (0, 1), 2), ProcessGroup("2", "", (1, 2), 2)
    ranks = [
        rank_of(blank, 0, [(0, 100)], groups=(left,)),
        skewed(rank_of(blank, 1, [(40, 100), (200, 300)], groups=(left, right), group=[0, 1]), 5_000_000),
        skewed(rank_of(blank, 2, [(260, 300)], groups=(right,)), 7_000_000),
    ]
    aligned = align(ranks)
    assert [trace.clock_shift_ns for trace in aligned] == [0, -5_000_000, -7_000_000]
    assert splits(aligned) == [([40], [60]), ([0, 60], [60, 40]), ([0], [40])]


def test_ranks_without_any_tie_keep_their_clocks_and_it_is_said(blank: LinkedTrace) -> None:
    ranks = [
        rank_of(blank, 0, [(0, 100)], groups=(ProcessGroup("1", "", (0, 5), 2),)),
        rank_of(blank, 1, [(0, 100)], groups=(ProcessGroup("2", "", (1, 6), 2),)),
    ]
    aligned = align(ranks)
    assert [trace.clock_shift_ns for trace in aligned] == [0, 0]
    assert aligned[0].counts["ranks_on_another_clock"] == 1


def test_ends_that_come_before_the_last_arrival_are_put_right(blank: LinkedTrace) -> None:
    """The medians of two ends say 0; but rank 0 would end the third before rank 1 has come."""
    ranks = [
        rank_of(blank, 0, [(0, 100), (200, 300), (400, 500)]),
        rank_of(blank, 1, [(0, 100), (200, 300), (520, 600)]),
    ]
    aligned = align(ranks)
    assert aligned[1].clock_shift_ns <= -20
    assert all(min(trace.communication.transfer_ns.tolist()) >= 0 for trace in aligned)


@pytest.mark.parametrize(("skew", "shift"), [(0, 0), (6_000_000, -6_000_000)])
def test_ranks_of_one_host_share_its_clock_unless_they_show_otherwise(
    blank: LinkedTrace, skew: int, shift: int
) -> None:
    """Ends differ by milliseconds at random (a busy CPU): the clock of the host is better than their median."""
    ends = [0, 900_000, -300_000, 1_200_000] if not skew else [0, 0, 0, 0]
    times = [(10_000_000 * at, 10_000_000 * at + 4_000_000) for at in range(4)]
    ranks = [
        rank_of(blank, 0, times),
        rank_of(blank, 1, [(start, end + late) for (start, end), late in zip(times, ends, strict=True)]),
    ]
    ranks = [replace(trace, header={"host_name": "node7"}) for trace in ranks]
    assert align([ranks[0], skewed(ranks[1], skew)])[1].clock_shift_ns == shift


# -- matching ----------------------------------------------------------------------------------------------------------


def test_sequence_numbers_match_what_ordinals_would_not(blank: LinkedTrace) -> None:
    one, two = rank_of(blank, 0, [(0, 10), (20, 30), (40, 50)]), rank_of(blank, 1, [(25, 30), (45, 50)])
    one = replace(one, communication=replace(one.communication, sequence=np.array([7, 8, 9])))
    two = replace(two, communication=replace(two.communication, sequence=np.array([8, 9])))
    assert splits(align([one, two])) == [([-1, 5, 5], [-1, 5, 5]), ([0, 0], [5, 5])]


def test_a_lost_beginning_is_seen_where_operations_differ(blank: LinkedTrace) -> None:
    one, two = rank_of(blank, 0, [(0, 10), (20, 30), (40, 50)]), rank_of(blank, 1, [(25, 30), (45, 50)])
    gather, reduce = CollectiveType.ALL_GATHER, CollectiveType.ALL_REDUCE
    one = replace(one, communication=replace(one.communication, operation=np.array([gather, reduce, gather], np.int32)))
    two = replace(two, communication=replace(two.communication, operation=np.array([reduce, gather], np.int32)))
    assert splits(align([one, two])) == [([-1, 5, 5], [-1, 5, 5]), ([0, 0], [5, 5])]


def test_what_ranks_differ_about_is_not_split_but_listed(tmp_path: Path) -> None:
    one, two = MadeTrace(0), MadeTrace(1)
    one.all_reduce(100, 50)
    one.record("broadcast", 200, 6)
    one.kernel(210, 40, 203, "ncclDevKernel_Broadcast_RING_LL(...)")
    one.all_reduce(300, 50, 500)
    one.all_reduce(400, 50)
    two.all_reduce(100, 50)
    two.all_reduce(210, 40)
    two.all_reduce(300, 50, 250)
    linked = [one.link(tmp_path), two.link(tmp_path)]
    aligned = align(linked)
    assert aligned[0].communication.transfer_ns.tolist() == [50_000, -1, 50_000, -1]
    found = {finding.what: finding for finding in check_agreement(linked)}
    assert sorted(found) == ["count", "kind", "size"]
    assert found["count"].ranks == (1,)
    assert found["count"].text == (
        "rank 1 recorded 3 of the 4 collectives of group 0; the first that it lacks is number 3 (all_reduce)"
    )
    assert (found["kind"].number, found["kind"].times) == (1, 1)
    assert "rank 0 broadcast, rank 1 all_reduce" in found["kind"].text
    assert found["size"].number == 2
    assert "rank 0 2000 bytes, rank 1 1000 bytes" in found["size"].text


def test_the_same_collectives_in_another_order(tmp_path: Path) -> None:
    one, two = MadeTrace(0), MadeTrace(1)
    for made, names in ((one, ("allreduce", "broadcast")), (two, ("broadcast", "allreduce"))):
        for at, name in zip((0, 100), names, strict=True):
            made.record(name, at, 6)
            kind = "AllReduce_Sum_f32" if name == "allreduce" else "Broadcast"
            made.kernel(at + 10, 40, at + 3, f"ncclDevKernel_{kind}_RING_LL(...)")
    (finding,) = check_agreement([one.link(tmp_path), two.link(tmp_path)])
    assert (finding.what, finding.group, finding.times) == ("order", "0", 2)


def test_messages_that_one_side_lacks(tmp_path: Path) -> None:
    one, two = MadeTrace(0), MadeTrace(1)
    for at in (0, 100):
        one.record("send", at, 6, **{"Dst Rank": 1})
        one.kernel(at + 10, 5, at + 3, SEND_RECV)
    two.record("recv", 0, 6, **{"Src Rank": 0})
    two.kernel(10, 5, 3, SEND_RECV)
    (finding,) = check_agreement([one.link(tmp_path), two.link(tmp_path)])
    assert (finding.what, finding.ranks, finding.text) == (
        "message",
        (1,),
        "rank 0 sends 1 message that rank 1 does not receive",
    )


def test_missing_doubled_and_nameless_ranks(tmp_path: Path) -> None:
    linked = [MadeTrace(rank, 4) for rank in (0, 2, 2)]
    for made in linked:
        made.all_reduce(10, 5)
    traces = [made.link(tmp_path) for made in linked]
    assert [(finding.what, finding.ranks) for finding in check_agreement(traces)] == [
        ("duplicate rank", (2,)),
        ("missing rank", (1, 3)),
    ]
    with pytest.raises(InputError, match="two traces are of the same rank"):
        align(traces)
    nameless = replace(traces[0], rank=-1)
    assert check_ranks([nameless, traces[1]])[0].what == "unknown rank"
    with pytest.raises(InputError, match="the rank of a trace is not known"):
        align([traces[1], nameless])
    assert check_agreement(traces[:1]) == []


def test_groups_of_one_name_with_other_members(blank: LinkedTrace) -> None:
    one = rank_of(blank, 0, [(0, 10)], groups=(ProcessGroup("1", "", (0, 1), 2),))
    two = rank_of(blank, 1, [(0, 10)], groups=(ProcessGroup("1", "", (1, 2), 2),))
    found = check_agreement([one, two])
    assert ("group", (1,)) in [(finding.what, finding.ranks) for finding in found]
    assert meet([one, two]).count == 2


# -- properties --------------------------------------------------------------------------------------------------------

MOMENTS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), st.integers(-50, 50)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(moments=MOMENTS, clocks=st.tuples(st.integers(-(10**10), 10**10), st.integers(-(10**10), 10**10)))
def test_the_parts_make_the_whole_whatever_the_clocks(
    blank: LinkedTrace, moments: list[tuple[int, int, int, int]], clocks: tuple[int, int]
) -> None:
    times: list[list[tuple[int, int]]] = [[], []]
    for number, (first, second, transfer, apart) in enumerate(moments):
        base = 3_000_000 * number
        end = base + max(first, second) + transfer
        times[0].append((base + first, end))
        times[1].append((base + second, max(end + apart, base + second)))
    ranks = [rank_of(blank, rank, own) for rank, own in enumerate(times)]
    aligned = align(ranks)
    for trace in aligned:
        found = trace.communication
        assert (found.wait_ns + found.transfer_ns == found.end_ns - found.start_ns).all()
        assert (found.wait_ns >= 0).all() and (found.transfer_ns >= 0).all()
    moved = align([skewed(trace, clock) for trace, clock in zip(ranks, clocks, strict=True)])
    assert splits(moved) == splits(aligned)
    assert [trace.start_offset_ns for trace in moved] == [trace.start_offset_ns for trace in aligned]


# -- real traces -------------------------------------------------------------------------------------------------------


def test_gloo_of_four_ranks_on_one_host() -> None:
    linked = [link(GLOO / f"host.{rank}.json.gz", GLOO / f"device.{rank}.json.gz") for rank in range(4)]
    assert check_agreement(linked) == []
    aligned = align(linked)
    assert [trace.clock_shift_ns for trace in aligned] == [0] * 4
    assert all((trace.communication.transfer_ns >= 0).all() for trace in aligned)


@pytest.fixture(scope="module")
def dlrm(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[LinkedTrace]:
    folder = tmp_path_factory.mktemp("dlrm")
    for name in ("dlrm_kineto", "dlrm_pytorch_et"):
        with tarfile.open(shared_dir / "traces" / "param" / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    hosts = {json.loads(path.read_text())["pid"]: path for path in folder.rglob("dlrm_eg_*.json")}
    devices = sorted(folder.rglob("worker*.json"))
    return [link(hosts[59811 + rank], path) for rank, path in enumerate(devices)]


def test_the_split_of_dlrm_on_8_v100(dlrm: list[LinkedTrace]) -> None:
    assert check_agreement(dlrm) == []
    aligned = align(dlrm)
    wait = np.array([trace.communication.wait_ns for trace in aligned])
    transfer = np.array([trace.communication.transfer_ns for trace in aligned])
    duration = np.array([t.communication.end_ns - t.communication.start_ns for t in aligned])
    assert wait.shape == (8, 8)
    assert (wait + transfer == duration).all()
    assert 0.96 < wait.sum() / duration.sum() < 0.97
    assert np.abs(transfer - duration.min(axis=0)).max() <= 8_000
    assert max(abs(trace.clock_shift_ns) for trace in aligned) < 5_000
    assert max(trace.counts["clock_residual_ns"] for trace in aligned) < 2_000
    assert min(trace.start_offset_ns for trace in aligned) == 0


def test_dlrm_with_clocks_milliseconds_apart_has_the_same_split(dlrm: list[LinkedTrace]) -> None:
    clocks = [0, 3_300_017, -8_000_001, 12_345_678, -2_500_000, 40_000_003, 7, -999_999]
    moved = align([skewed(trace, clock) for trace, clock in zip(dlrm, clocks, strict=True)])
    aligned = align(dlrm)
    assert splits(moved) == splits(aligned)
    assert [trace.start_offset_ns for trace in moved] == [trace.start_offset_ns for trace in aligned]
    shifts = [a.clock_shift_ns - m.clock_shift_ns for a, m in zip(aligned, moved, strict=True)]
    assert shifts == clocks
