"""What ``chakrasim info`` counts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.analysis.info.workload import CollectiveCount, workload_info
from chakrasim.report.tables.info import info_sections
from chakrasim.text.layout import plain_text
from chakrasim.trace import TraceBuilder


def small():
    builder = TraceBuilder()
    builder.add(5, type=4, duration_micros=7, attrs={"is_cpu_op": False, "num_ops": 100})
    builder.add(6, type=4, duration_micros=9, attrs={"is_cpu_op": True})
    builder.add(7, type=7, data_deps=[5], attrs={"comm_type": 2, "comm_size": 1024, "pg_name": "3"})
    builder.add(8, type=7, ctrl_deps=[7], attrs={"comm_type": 0, "comm_size": 10, "pg_name": "0"})
    builder.add(9, type=5, attrs={"comm_size": 50})
    builder.add(10, type=6, attrs={"comm_size": 60})
    return builder.build()


def test_counts_over_all_ranks():
    info = workload_info([small()] * 1 + [small()] * 2)
    assert (info.ranks, info.distinct, info.nodes) == (3, 2, 18)
    assert info.nodes_by_type["COMM_COLL_NODE"] == 6
    assert info.compute_micros == (7, 7.0, 7) and info.compute_ops == 300
    assert info.collectives == (
        CollectiveCount("all-reduce", 10, "", 3, 30),
        CollectiveCount("all-gather", 1024, "3", 3, 3072),
    )
    assert (info.sends, info.send_bytes, info.receives, info.receive_bytes) == (3, 150, 3, 180)
    assert info.depth == 3
    assert (info.duplicate_ids, info.unknown_dependencies, info.nodes_in_cycles) == (0, 0, 0)


def test_faults_are_counted_and_shown():
    builder = TraceBuilder()
    builder.add(1, type=4, data_deps=[2])
    builder.add(2, type=4, data_deps=[1])
    builder.add(2, type=4, data_deps=[99])
    builder.add(3, type=9)
    info = workload_info([builder.build()])
    assert (info.duplicate_ids, info.unknown_dependencies) == (1, 1)
    assert info.nodes_in_cycles >= 2
    text = plain_text(info_sections(info))
    assert "1 dependencies name nodes that do not exist: a simulation will refuse this" in text
    assert "type 9" in text


def test_collectives_without_type_or_size():
    builder = TraceBuilder()
    builder.add(1, type=7)
    builder.add(2, type=7, attrs={"comm_type": 77, "comm_size": "big"})
    found = workload_info([builder.build()]).collectives
    assert [(c.type, c.size_bytes) for c in found] == [("no type", -1), ("type 77", -1)]


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(0, 11), max_size=3), max_size=12))
def test_depth_is_that_of_the_longest_chain(wishes):
    depth: list[int] = []
    builder = TraceBuilder()
    for number, wish in enumerate(wishes):
        parents = [p for p in wish if p < number]
        builder.add(number, type=4, data_deps=parents)
        depth.append(1 + max((depth[p] for p in parents), default=0))
    assert workload_info([builder.build()]).depth == max(depth, default=0)
