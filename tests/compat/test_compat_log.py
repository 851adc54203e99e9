"""The lines that the reference printed for the same input; the expected text is the C++ program's output."""

from __future__ import annotations

from chakrasim.compat.astra_sim.log import _memory_text, compat_log


def comp(number, micros, deps=(), **attrs):
    attrs = {"is_cpu_op": False, **attrs}
    return {"id": number, "type": 4, "data_deps": deps, "duration_micros": micros, "attrs": attrs}


def coll(number, size, deps=()):
    return {
        "id": number,
        "type": 7,
        "data_deps": deps,
        "attrs": {"is_cpu_op": False, "comm_type": 0, "comm_size": size},
    }


STEP = [comp(1, 20), coll(2, 1 << 20, [1]), comp(3, 30, [1]), comp(4, 5, [2, 3])]
ROOFLINE = [
    comp(1, 0, num_ops=10**9, tensor_size=1 << 20),
    comp(2, 0, [1], num_ops=10**6, tensor_size=1 << 20),
    coll(3, 1 << 16, [2]),
]


def lines(run, nodes, **settings):
    return list(compat_log(run(nodes, ranks=4, congestion="aware", **settings)))


def test_lines_of_a_step_with_overlap(run):
    expected = [
        "sys[0] finished, 84012 cycles, exposed communication 29012 cycles.",
        "sys[0]. Post statistics processing start.",
        "sys[0]. Post statistics processing end.",
        "sys[0], Wall time: 84012",
        "sys[0], GPU time: 55000",
        "sys[0], Comm time: 59012",
        "sys[0], Total compute-communication overlap: 30000",
    ]
    got = lines(run, STEP)
    assert got[:7] == expected
    assert got[7:14] == [line.replace("sys[0]", "sys[1]") for line in expected]
    assert len(got) == 4 * 7


def test_roofline_averages_and_hash_order_of_types(run):
    assert lines(run, ROOFLINE, extra={"roofline-enabled": 1, "peak-perf": 10})[:10] == [
        "sys[0] finished, 119907 cycles, exposed communication 9422 cycles.",
        "sys[0]. Post statistics processing start.",
        "sys[0]. Post statistics processing end.",
        "sys[0], Wall time: 119907",
        "sys[0], Comm time: 9422",
        "sys[0], GPU time: 110485",
        "sys[0], Compute bound percentage: 90.509%",
        "sys[0], Average compute utilization: 90.600%",
        "sys[0], Average memory utilization: 18.980%",
        "sys[0], Average operation intensity: 863.254",
    ]


def test_negative_exposed_time_wraps_as_in_the_reference(run):
    got = lines(run, STEP, extra={"replay-only": 1})
    assert got[0] == "sys[0] finished, 55000 cycles, exposed communication 18446744073709551615 cycles."
    assert got[6] == "sys[0], Total compute-communication overlap: 1"


def test_replayed_nodes_have_no_roofline_figures(run):
    got = lines(run, ROOFLINE, extra={"replay-only": 1, "roofline-enabled": 1, "peak-perf": 10})
    assert got[6:10] == [
        "sys[0], Compute bound percentage: 0.000%",
        "sys[0], Average compute utilization: 0.000%",
        "sys[0], Average memory utilization: 0.000%",
        "sys[0], Average operation intensity: 0.000",
    ]


def test_statistics_end_early_where_a_cpu_operation_ran(run):
    cpu = {"id": 2, "type": 4, "data_deps": [1], "duration_micros": 3, "attrs": {"is_cpu_op": True}}
    assert lines(run, [comp(1, 20), cpu])[:3] == [
        "sys[0] finished, 23000 cycles, exposed communication 3000 cycles.",
        "sys[0]. Post statistics processing start.",
        "sys[1] finished, 23000 cycles, exposed communication 3000 cycles.",
    ]


def test_statistics_end_early_where_an_invalid_node_ran(run):
    got = lines(run, [comp(1, 20), {"id": 2, "type": 0, "data_deps": [1], "attrs": {}}, comp(3, 1, [1])])
    assert len(got) == 8


def test_ranks_follow_in_the_order_of_finishing(run):
    result = run([comp(1, 5)], [comp(1, 2)], [comp(1, 9)])
    finished = [line for line in compat_log(result) if "finished" in line]
    assert [line[:6] for line in finished] == ["sys[1]", "sys[0]", "sys[2]"]


def test_folded_and_unfolded_lines_are_equal(run):
    assert lines(run, STEP) == lines(run, STEP, fold=False)


def test_peak_memory_line(run):
    attrs = {"is_cpu_op": False, "inputs": [], "outputs": ["a", "1536"]}
    node = {"id": 1, "type": 4, "duration_micros": 5, "attrs": attrs}
    node["attrs"]["inputs"] = ["b", "0"]
    got = lines(run, [node], extra={"track-local-mem": 1})
    assert got[5] == "sys[0] peak memory usage: 1.50 KB"


def test_memory_units():
    assert _memory_text(0) == "0.00 B"
    assert _memory_text(1023) == "1023.00 B"
    assert _memory_text(3 << 40) == "3.00 TB"
    assert _memory_text(3 << 50) == "3072.00 TB"
