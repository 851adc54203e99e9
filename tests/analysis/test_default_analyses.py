"""The analyses' own definitions, on timelines made by hand: every figure is exact. Times are nanoseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_timelines import Timeline

import chakrasim.analysis as analysis
from chakrasim import InputError
from chakrasim.analysis.table.kernel_classes import CLASS_NAMES, class_of_name
from chakrasim.analysis.table.result import Result
from chakrasim.compat.hta.classes import hta_class_of_name, pinned_hta_class_of_name
from chakrasim.demo import TRACES
from chakrasim.errors import ChakrasimError
from chakrasim.linker.api import link
from chakrasim.notes import Notes


def records(result: Result) -> list[dict[str, Any]]:
    """The rows."""
    return result.records()


@pytest.mark.parametrize(
    ("name", "kind", "newest", "pinned"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "communication", "communication", "communication"),
        (
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "communication",
            "communication",
            "compute",
        ),
        ("void ncclDevKernel_ReduceScatter_Sum_bf16(x)", "communication", "compute", "compute"),
        ("rcclGenericKernel<4, true>", "communication", "compute", "compute"),
        ("nvshmemi_proxy_kernel", "communication", "compute", "compute"),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "communication", "compute", "compute"),
        ("mscclKernel_Sum_half", "communication", "compute", "compute"),
        ("void vllm::cross_device_reduce_1stage<__half, 4>(x)", "communication", "compute", "compute"),
        ("one_shot_all_reduce_kernel", "communication", "compute", "compute"),
        ("hcclAllReduce", "communication", "communication", "compute"),
        ("triton_poi_fused_all_gather_into_tensor_wait_tensor_3", "compute", "compute", "compute"),
        ("hipMemcpyAsync", "memory", "communication", "memory"),
        ("Memcpy HtoD (Pageable -> Device)", "memory", "memory", "memory"),
        ("Memset (Device)", "memory", "memory", "memory"),
        ("__amd_rocclr_copyBuffer", "memory", "compute", "compute"),
        ("dma_in", "memory", "memory", "compute"),
        ("Stream Wait Event", "wait", "other", "compute"),
        ("Event Sync", "wait", "other", "compute"),
        ("void cudaSyncFreeKernel()", "compute", "other", "compute"),
        ("volta_sgemm_128x32_nt", "compute", "compute", "compute"),
    ],
)
def test_classes_by_name(name: str, kind: str, newest: str, pinned: str) -> None:
    found = [CLASS_NAMES[rule(name)] for rule in (class_of_name, hta_class_of_name, pinned_hta_class_of_name)]
    assert found == [kind, newest, pinned]


def overlapping(folder: Path) -> Timeline:
    """A window of 1,000: compute 100-400, communication 300-600, a copy 550-700, waits all along."""
    line = Timeline()
    line.op("aten::mm", 0, 1000)
    line.kernel("gemm", 100, 300, launch=(50, 10))
    line.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300, 300, stream=20, launch=(60, 10))
    line.kernel("Memcpy DtoH (Device -> Pinned)", 550, 150, stream=30, launch=(70, 10), category="gpu_memcpy")
    line.sync("Stream Sync", 0, 1000, stream=7)
    line.sync("Event Sync", 0, 1000)
    return line


def test_l35_waits_are_no_work_and_hide_no_idle_time(tmp_path: Path) -> None:
    (row,) = records(analysis.temporal_breakdown(overlapping(tmp_path).open(tmp_path)))
    assert row == {
        "rank": 0, "device": 0, "step": -1, "window_ns": 1000, "before_ns": 100, "compute_ns": 300,
        "exposed_comm_ns": 200, "exposed_memory_ns": 100, "other_ns": 0, "idle_ns": 0, "after_ns": 300,
        "compute_pct": 30.0,
        "exposed_comm_pct": 20.0, "idle_pct": 0.0, "communication_ns": 300, "overlap_comm_compute_ns": 100,
        "busy_ns": 600, "span_ns": 600, "partial": False,
    }  # fmt: skip


#: Traces of other makers with interval figures that an independent program made.
WILD = ("bert_small_h100", "ddp_resnet_mi300_rank0", "mi210_gpu_only", "sglang_qwen3_8b_decode",
        "vllm_decode_full_graph")  # fmt: skip


@pytest.mark.parametrize("name", WILD)
def test_whole_traces_of_other_makers_have_the_figures_of_an_independent_program(shared_dir: Path, name: str) -> None:
    wild = shared_dir / "traces/wild"
    expected = json.loads((wild / f"expected/{name}.expected.json").read_bytes())["whole_trace"]
    (row,) = records(analysis.temporal_breakdown(wild / f"traces/{name}.json.gz", steps=False))
    found = {key: row[key] for key in expected if key != "counts"}
    assert found == {key: pytest.approx(value, abs=2) for key, value in expected.items() if key != "counts"}


@pytest.mark.parametrize(
    "name",
    [
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 4>",
        "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16>",
        "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIfEEvPPT_",
    ],
)
def test_collectives_that_people_write_are_communication_in_every_analysis(tmp_path: Path, name: str) -> None:
    line = Timeline()
    line.kernel("gemm", 0, 100, launch=(0, 1))
    line.kernel(name, 50, 250, stream=8, launch=(1, 1))
    (row,) = records(analysis.temporal_breakdown(line.open(tmp_path)))
    expected = {"compute_ns": 100, "communication_ns": 250, "overlap_comm_compute_ns": 50, "exposed_comm_ns": 200}
    assert {key: row[key] for key in expected} == expected
    (row,) = records(analysis.comm_overlap(line.open(tmp_path)))
    assert (row["communication_ns"], row["exposed_ns"]) == (250, 200)


def test_a_kernel_that_computes_and_communicates_is_compute_and_named_in_a_note(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("gemm_all_gather_dispatch<4>", 0, 100, launch=(0, 1))
    found = analysis.temporal_breakdown(line.open(tmp_path))
    assert records(found)[0]["compute_ns"] == 100
    assert found.notes == (
        "rank 0: 1 kernels compute and communicate in one and are taken as compute: gemm_all_gather_dispatch",
    )


@pytest.mark.parametrize("analysis_of", [analysis.temporal_breakdown, analysis.comm_overlap])
def test_a_negative_exposed_time_is_an_error(tmp_path: Path, analysis_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # What sets that are not disjoint would give: more overlap than communication.
    monkeypatch.setattr("chakrasim.analysis.temporal.time_by_state", lambda unions: np.array([0, 9, -200] + [0] * 13))
    monkeypatch.setattr("chakrasim.analysis.overlap.overlap", lambda a, b: a.total + 200)
    with pytest.raises(ChakrasimError, match=r"contradict each other.*exposed.comm\w* -200 ns"):
        analysis_of(overlapping(tmp_path).open(tmp_path))


def test_l35_and_l109_ncclDevKernel_is_communication_and_overlap_is_of_compute_alone(tmp_path: Path) -> None:
    (row,) = records(analysis.comm_overlap(overlapping(tmp_path).open(tmp_path)))
    assert (row["communication_ns"], row["overlapped_ns"], row["exposed_ns"]) == (300, 100, 200)
    assert row["overlap_pct"] == pytest.approx(100 / 3)


def test_l35_two_collectives_at_once_never_overlap_by_more_than_all(tmp_path: Path) -> None:
    line = Timeline()
    for stream in (20, 21):
        line.kernel("ncclDevKernel_AllGather_RING_LL", 100, 100, stream=stream)
    line.kernel("gemm", 0, 500)
    (row,) = records(analysis.comm_overlap(line.open(tmp_path)))
    assert row["overlap_pct"] == 100.0


def test_l35_without_communication_there_is_no_overlap_rather_than_not_a_number(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("gemm", 0, 500)
    found = analysis.comm_overlap(line.open(tmp_path))
    assert records(found)[0]["overlap_pct"] is None
    assert json.loads(found.to_json())["records"][0]["overlap_pct"] is None


def test_a_kernel_is_communication_if_a_record_of_communication_launches_it(tmp_path: Path) -> None:
    line = Timeline()
    line.op("c10d::allreduce_", 0, 100)
    line.op("record_param_comms", 10, 80)
    line.kernel("my_own_ring_kernel", 200, 50, launch=(20, 5))
    line.op("aten::copy_", 40, 20)
    line.kernel("flatten_kernel", 260, 30, launch=(45, 5))
    line.kernel("named_by_its_arguments", 300, 10, **{"Collective name": "allreduce"})
    found = records(analysis.kernel_breakdown(line.open(tmp_path)))
    assert {row["name"]: row["kind"] for row in found} == {
        "my_own_ring_kernel": "communication",
        "flatten_kernel": "compute",
        "named_by_its_arguments": "communication",
    }


def test_streams_of_two_devices_are_told_apart(tmp_path: Path) -> None:
    line = Timeline()
    for device, start in ((0, 0), (1, 100)):
        line.kernel("gemm", start, 100, device=device, launch=(start, 1))
        line.kernel("gemm", start + 300, 100, device=device, launch=(start, 1))
    traces = line.open(tmp_path)
    assert [(r["device"], r["compute_ns"], r["idle_ns"]) for r in records(analysis.temporal_breakdown(traces))] == [
        (0, 200, 200),
        (1, 200, 200),
    ]
    assert [(r["device"], r["stream"], r["max"]) for r in records(analysis.queue_summary(traces))] == [
        (0, 7, 2),
        (1, 7, 2),
    ]


def stepped(folder: Path, kernels: tuple[int, ...], lost: tuple[int, ...] = ()) -> Timeline:
    """Steps of 1,000 with kernels of 10; of step i the first ``lost[i]`` launches have no kernel in the trace."""
    line = Timeline()
    for i, count in enumerate(kernels):
        line.step(10 + i, 1000 * i, 1000)
        for k in range(count):
            line.kernel("gemm", 1000 * i + 100 + 20 * k, 10, launch=(1000 * i + 10 * k, 5))
        for k in range(lost[i] if lost else 0):
            line.add("cuda_runtime", "cudaLaunchKernel", 1000 * i + 500 + k, 1, correlation=5000 + 100 * i + k)
    return line


def test_every_step_has_its_row_the_last_too_and_their_mean(tmp_path: Path) -> None:
    found = records(analysis.temporal_breakdown(stepped(tmp_path, (3, 3, 3)).open(tmp_path)))
    assert [(row["step"], row["compute_ns"]) for row in found] == [(-1, 90), (10, 30), (11, 30), (12, 30), (-2, 30)]


def test_l38_a_step_without_its_first_kernels_is_flagged_and_left_out_of_the_mean(tmp_path: Path) -> None:
    found = analysis.temporal_breakdown(stepped(tmp_path, (1, 3, 3), (2, 0, 0)).open(tmp_path))
    assert [(row["step"], row["compute_ns"], row["partial"]) for row in records(found)] == [
        (-1, 70, False), (10, 10, True), (11, 30, False), (12, 30, False), (-2, 30, False),
    ]  # fmt: skip
    assert "rank 0, step 10: the work of 2 launches is missing; left out of the mean" in found.notes


def test_l38_a_window_of_the_cpu_alone_is_flagged(tmp_path: Path) -> None:
    found = analysis.temporal_breakdown(stepped(tmp_path, (0, 3, 3)).open(tmp_path))
    assert [row["partial"] for row in records(found)] == [False, True, False, False, False]
    assert records(found)[1]["before_ns"] == 1000
    assert "rank 0, step 10: no device work was recorded; left out of the mean" in found.notes


def test_a_trace_of_the_cpu_alone_is_all_before_the_first_work(tmp_path: Path) -> None:
    line = Timeline()
    line.op("aten::mm", 0, 700)
    (row,) = records(analysis.temporal_breakdown(line.open(tmp_path)))
    assert (row["device"], row["window_ns"], row["before_ns"], row["idle_pct"]) == (-1, 700, 700, 0.0)
    for make in (analysis.kernel_breakdown, analysis.idle_breakdown, analysis.queue_summary, analysis.launch_summary):
        assert len(make(line.open(tmp_path))) == 0
    assert records(analysis.comm_overlap(line.open(tmp_path)))[0]["overlap_pct"] is None


def test_l39_an_annotation_is_no_work(tmp_path: Path) -> None:
    line = Timeline()
    line.add("user_annotation", "Optimizer.step#SGD.step", 0, 950)
    line.add("gpu_user_annotation", "Optimizer.step#SGD.step", 0, 950, pid=0, tid=7)
    line.kernel("adam", 900, 100, launch=(10, 5))
    (row,) = records(analysis.temporal_breakdown(line.open(tmp_path)))
    assert (row["compute_ns"], row["before_ns"]) == (100, 900)


def test_idle_time_by_cause(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("a", 0, 100, launch=(0, 1))
    line.kernel("b", 300, 100, launch=(250, 1))  # launched after a ended: the host was late
    line.kernel("c", 410, 90, launch=(260, 1))  # 10 after b: what starting takes
    line.kernel("d", 50_000, 100, launch=(270, 1))  # a long gap although launched: something else
    line.sync("Stream Wait Event", 60_000, 10, stream=7)
    line.kernel("e", 90_000, 100, launch=(280, 1))  # the stream waited for an event
    line.kernel("f", 90_300, 100)  # nobody knows its launch
    found = [r for r in records(analysis.idle_breakdown(line.open(tmp_path))) if r["stream"] == 7]
    assert {(r["cause"], r["gaps"], r["idle_ns"]) for r in found} == {
        ("host_wait", 1, 200), ("kernel_wait", 1, 10), ("other", 1, 49_500), ("event_wait", 1, 39_900),
        ("unknown", 1, 200),
    }  # fmt: skip
    assert sum(r["pct"] for r in found) == pytest.approx(100)


def test_a_gap_follows_all_earlier_work_and_a_device_is_idle_when_no_stream_works(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("long", 0, 1000, launch=(0, 1))
    line.kernel("nested", 100, 100, launch=(0, 1))
    line.kernel("next", 1200, 100, launch=(0, 1))
    line.kernel("other stream", 900, 200, stream=8, launch=(0, 1))
    found = {r["stream"]: r["idle_ns"] for r in records(analysis.idle_breakdown(line.open(tmp_path)))}
    assert found == {7: 200, -2: 100}


def test_queue_lengths_over_time_with_one_graph_launch_of_three_kernels(tmp_path: Path) -> None:
    line = Timeline()
    line.add("cuda_runtime", "cudaGraphLaunch", 0, 10, correlation=900)
    for start in (100, 200, 300):
        line.kernel("graph kernel", start, 50, correlation=900)
    line.kernel("early", 400, 10, launch=(405, 5))  # starts before its launch: clocks
    traces = line.open(tmp_path)
    series = analysis.queue_series(traces)
    assert (series.ts_ns - series.ts_ns[0]).tolist() == [0, 0, 0, 100, 200, 300, 400, 400]
    assert series.length.tolist() == [1, 2, 3, 2, 1, 0, 1, 0]
    (row,) = records(analysis.queue_summary(traces, full=2))
    assert (row["launches"], row["max"], row["span_ns"], row["full_ns"]) == (4, 3, 400, 200)
    assert row["mean"] == pytest.approx((3 * 100 + 2 * 100 + 1 * 100) / 400)
    assert series.notes == ("rank 0: 1 pieces of work start before their launch; taken as launched then",)


def test_what_a_copy_waits_is_no_cost_of_its_launch(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("gemm", 100, 70_000, launch=(0, 10))
    where = {"call": "cudaMemcpyAsync", "category": "gpu_memcpy"}
    line.kernel("Memcpy DtoH (Device -> Pageable)", 70_100, 40, launch=(200, 70_000), **where)
    copy = records(analysis.launch_list(line.open(tmp_path)))[1]
    assert (copy["call_ns"], copy["wait_ns"], copy["delay_ns"]) == (60, 69_940, 0)
    summary = {row["call"]: row for row in records(analysis.launch_summary(line.open(tmp_path)))}["cudaMemcpyAsync"]
    assert (summary["call_max_ns"], summary["wait_mean_ns"], summary["long_calls"], summary["short"]) == (
        60,
        69_940,
        0,
        1,
    )


def test_launches_of_any_name_and_their_delays(tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("a", 100, 5, launch=(0, 10), call="cuLaunchKernelEx")
    line.kernel("b", 200_000, 50, launch=(20, 60_000), call="hipExtModuleLaunchKernel")
    line.kernel("c", 65_000, 50, launch=(64_999, 10), call="cuLaunchKernelEx")
    line.kernel("Memset (Device)", 70_000, 1, launch=(69_000, 10), call="cudaMemsetAsync", category="gpu_memset")
    traces = line.open(tmp_path)
    assert [(r["name"], r["call_ns"], r["work_ns"], r["delay_ns"]) for r in records(analysis.launch_list(traces))] == [
        ("a", 10, 5, 90), ("b", 60_000, 50, 139_980), ("c", 10, 50, 0), ("Memset (Device)", 10, 1, 990),
    ]  # fmt: skip
    summary = {r["call"]: r for r in records(analysis.launch_summary(traces, copies=False))}
    assert list(summary) == ["cuLaunchKernelEx", "hipExtModuleLaunchKernel"]
    assert (summary["cuLaunchKernelEx"]["count"], summary["cuLaunchKernelEx"]["short"]) == (2, 1)
    assert (summary["hipExtModuleLaunchKernel"]["long_calls"], summary["hipExtModuleLaunchKernel"]["long_delays"]) == (
        1,
        1,
    )


def test_bandwidth_is_bytes_over_busy_time(tmp_path: Path) -> None:
    line = Timeline()
    copy = {"category": "gpu_memcpy"}
    line.kernel("Memcpy HtoD (Pinned -> Device)", 0, 1000, bytes=4000, **copy)
    line.kernel("Memcpy HtoD (Pageable -> Device)", 500, 1000, stream=8, bytes=2000, **copy)
    line.kernel("transfer", 3000, 0, bytes=8, **copy)
    traces = line.open(tmp_path)
    rows = {r["copy"]: r for r in records(analysis.memory_bandwidth(traces))}
    one = rows["Memcpy HtoD"]
    assert (one["count"], one["bytes"], one["busy_ns"], one["rate_gbps"], one["min_gbps"], one["max_gbps"]) == (
        2,
        6000,
        1500,
        4,
        2,
        4,
    )
    assert (rows["Memcpy"]["unrated"], rows["Memcpy"]["rate_gbps"]) == (1, None)
    series = analysis.bandwidth_series(traces)
    assert (series.ts_ns - series.ts_ns[0]).tolist() == [0, 500, 1000, 1500]
    assert series.gbps.tolist() == [4, 6, 2, 0]


def test_work_belongs_to_the_innermost_annotation(tmp_path: Path) -> None:
    line = Timeline()
    line.add("user_annotation", "forward", 0, 100)
    line.add("user_annotation", "attention", 10, 20)
    line.add("gpu_user_annotation", "outer", 1000, 500, pid=0, tid=7)
    line.add("gpu_user_annotation", "inner", 1100, 100, pid=0, tid=7)
    line.kernel("a", 1010, 20, launch=(5, 1))
    line.kernel("b", 1110, 20, launch=(6, 1))
    line.kernel("c", 2000, 20, launch=(15, 1))
    line.kernel("d", 2100, 20)
    found = {r["name"]: (r["annotation"], r["source"]) for r in records(analysis.annotated_work(line.open(tmp_path)))}
    assert found == {"a": ("outer", "device"), "b": ("inner", "device"), "c": ("attention", "host"), "d": ("", "")}
    sides = {(r["side"], r["name"]): r["total_ns"] for r in records(analysis.annotation_breakdown(line.open(tmp_path)))}
    assert sides == {
        ("host", "forward"): 100,
        ("host", "attention"): 20,
        ("device", "outer"): 500,
        ("device", "inner"): 100,
    }


def linear(line: Timeline, start: int, tid: int = 1) -> None:
    """A linear layer: two kernels inside addmm, one beside it."""
    line.op("aten::linear", start, 100, tid=tid)
    line.op("aten::addmm", start + 10, 60, tid=tid)
    line.kernel("gemm", start + 200, 30, launch=(start + 20, 5), tid=tid)
    line.kernel("bias", start + 240, 10, launch=(start + 30, 5), tid=tid)
    line.kernel("relu", start + 260, 10, launch=(start + 80, 5), tid=tid)


def test_operators_and_the_work_they_launch_themselves(tmp_path: Path) -> None:
    line = Timeline()
    linear(line, 0)
    linear(line, 1000, tid=2)
    line.kernel("alone", 3000, 1, launch=(2500, 1))
    found = analysis.operator_kernels(line.open(tmp_path))
    columns = ("operator", "work", "count", "to_launch_ns", "to_start_ns", "work_ns")
    assert [tuple(r[column] for column in columns) for r in records(found)] == [
        ("aten::linear", "relu", 2, 80, 180, 20), ("aten::addmm", "gemm -> bias", 2, 10, 180, 80),
    ]  # fmt: skip
    assert found.notes == ("rank 0: 1 pieces of work are launched outside all operators",)


def test_sequences_of_the_outermost_matching_operators(tmp_path: Path) -> None:
    line = Timeline()
    linear(line, 0)
    linear(line, 1000, tid=2)
    traces = line.open(tmp_path)
    (row,) = records(analysis.kernel_sequences(traces, "aten::"))
    assert (row["operator"], row["work"], row["length"], row["count"]) == ("aten::linear", "gemm | bias | relu", 3, 2)
    assert (row["work_ns"], row["operator_ns"]) == (100, 200)
    assert records(analysis.kernel_sequences(traces, "addmm", least=2))[0]["work"] == "gemm | bias"
    nothing = analysis.kernel_sequences(traces, "softmax")
    assert nothing.notes == ("rank 0: no operator named 'softmax' launches 3 or more pieces of work",)


def test_comparison_per_complete_step(tmp_path: Path) -> None:
    before, after = stepped(tmp_path, (2, 2)), stepped(tmp_path, (3, 3, 3))
    after.rank = 1
    after.kernel("new", 500, 7, launch=(490, 1))
    a, b = before.open(tmp_path), after.open(tmp_path)
    found = analysis.compare_traces(a, b)
    assert found.TITLE == "Changes from the first trace to the second"
    rows = {r["name"]: r for r in records(found)}
    assert (rows["gemm"]["count_a"], rows["gemm"]["count_b"], rows["gemm"]["diff_ns"], rows["gemm"]["change"]) == (
        2,
        3,
        10,
        "+",
    )
    assert (rows["new"]["change"], rows["new"]["count_b"]) == ("added", pytest.approx(1 / 3))
    assert {r["change"] for r in records(analysis.compare_traces(a, a))} == {"="}
    (picked,) = records(analysis.compare_traces(a, b, step_a=10, step_b=12, side="device"))
    assert (picked["total_a_ns"], picked["total_b_ns"]) == (20, 30)
    with pytest.raises(InputError, match=r"the trace has no step 99; found 10, 11"):
        analysis.compare_traces(a, b, step_a=99)
    with pytest.raises(InputError, match=r"there is no such side; found 'gpu'; expected host, device or all"):
        analysis.compare_traces(a, b, side="gpu")


def test_as_often_but_not_as_long_is_slower_or_faster(tmp_path: Path) -> None:
    lines = Timeline(0), Timeline(1)
    for line, length in zip(lines, (20, 57), strict=True):
        line.kernel("gemm", 100, length, launch=(90, 1))
        line.kernel("relu", 200, 5, launch=(190, 1))
    a, b = (line.open(tmp_path) for line in lines)
    for pair, change, sign in (((a, b), "slower", 1), ((b, a), "faster", -1)):
        rows = [(r["name"], r["diff_ns"], r["change"]) for r in records(analysis.compare_traces(*pair, side="device"))]
        assert rows == [("gemm", 37 * sign, change), ("relu", 0, "=")]


def test_who_comes_last_to_collectives_whatever_the_clocks_say(tmp_path: Path) -> None:
    traces = []
    for rank, lengths in enumerate(((500, 300), (100, 300), (450, 320))):
        line = Timeline(rank, base_ns=10**18 * (rank + 1))
        at = 0
        for length in lengths:
            line.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at, length)
            at += 1000
        traces += line.open(tmp_path)
    found = {r["rank"]: r for r in records(analysis.find_stragglers(traces))}
    assert [found[rank]["last"] for rank in range(3)] == [1, 1, 0]
    assert [found[rank]["caused_ns"] for rank in range(3)] == [20, 750, 0]
    assert [found[rank]["waited_ns"] for rank in range(3)] == [400, 0, 370]
    alone = analysis.find_stragglers(traces[:1])
    assert alone.notes[0] == "one rank alone: nobody to compare it with"
    assert records(alone) == []


def test_collectives_of_the_host_tell_who_comes_last_where_no_device_communicates() -> None:
    """As `collective_split` has it, of gloo's ranks in the demo."""
    found = {row["rank"]: row for row in records(analysis.find_stragglers(str(TRACES)))}
    split = analysis.collective_split([link(None, TRACES / f"device.{rank}.json.gz", rank=rank) for rank in range(4)])
    expected = {row["rank"]: row for row in records(split.ranks)}
    pairs = ("collectives", "collectives"), ("caused_ns", "wait_caused_ns"), ("waited_ns", "wait_suffered_ns")
    for mine, theirs in (*pairs, ("last", "times_last")):
        assert {rank: row[mine] for rank, row in found.items()} == {rank: row[theirs] for rank, row in expected.items()}
    assert list(found) == [1, 0, 2, 3] and found[1]["caused_ns"] > 100_000_000
    by_step = [records(analysis.find_stragglers(str(TRACES), steps=[step])) for step in (2, 3, 4)]
    for rank in range(4):
        assert (
            sum(row["caused_ns"] for rows in by_step for row in rows if row["rank"] == rank)
            == (found[rank]["caused_ns"])
        )
    none = analysis.find_stragglers(str(TRACES), steps=[99])
    assert records(none) == [] and "nothing to compare" in none.notes[-1]


def test_ranks_by_record_by_name_and_by_place(tmp_path: Path) -> None:
    for rank, name in ((3, "x.json"), (None, "rank-5.json"), (None, "trace.json")):
        line = Timeline(rank)
        line.kernel("gemm", 0, 1)
        line.write(tmp_path / name)
    (tmp_path / "notes.json").write_text("[1, 2]")
    notes = Notes()
    traces = analysis.open_traces(tmp_path, notes=notes)
    assert [one.rank for one in traces] == [0, 3, 5]
    assert notes.warnings[0] == f"{tmp_path}: 1 JSON files are no Kineto traces and were left out"
    assert notes.warnings[1].endswith("trace.json: neither the trace nor its name says its rank; taken as rank 0")
    assert [one.rank for one in analysis.open_traces(tmp_path, rank=3)] == [3]
    with pytest.raises(InputError, match=r"there is no trace of rank 1; found ranks 0, 3, 5"):
        analysis.open_traces(tmp_path, rank=1)
    with pytest.raises(InputError, match=r"two traces are of rank 3; found .*x\.json; name one file of each rank"):
        analysis.open_traces([tmp_path / "x.json", tmp_path / "x.json"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"the folder holds no Kineto trace; expected files \*\.json or \*\.json\.gz"):
        analysis.open_traces(tmp_path / "empty")
    with pytest.raises(InputError, match="there is no trace to analyse"):
        analysis.open_traces([])


def test_nanoseconds_are_kept(tmp_path: Path) -> None:
    """users.md, 10.30: the gap between two kernels at 1.7e15 us is exactly 49 ns."""
    line = Timeline(base_ns=0)
    line.kernel("a", 1_732_107_142_997_066_682, 476_375_838)
    line.kernel("b", 1_732_107_143_473_442_569, 1000)
    assert records(analysis.temporal_breakdown(line.open(tmp_path)))[0]["idle_ns"] == 49


def test_a_result_is_a_frame_a_mapping_and_text(tmp_path: Path) -> None:
    found = analysis.comm_overlap(overlapping(tmp_path).open(tmp_path))
    frame = found.to_frame()
    assert list(frame.columns) == list(found.columns())
    assert frame["exposed_ns"].tolist() == [200]
    assert json.loads(found.to_json()) == found.to_mapping()
    assert found.rank.dtype == np.int64
