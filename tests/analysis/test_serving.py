"""Iterations of inference servers: marks, kinds, the device, and the host's waits, which are no work."""

from __future__ import annotations

import gzip
import json
from dataclasses import astuple
from math import isnan, nan
from pathlib import Path
from typing import Any

import pytest
from hand_timelines import BASE_NS, Timeline
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.analysis import serving_iterations, serving_summary
from chakrasim.analysis.serving.marks import Stated, find_iterations
from chakrasim.analysis.table.host_waits import host_waits
from chakrasim.cli.main import main
from chakrasim.errors import InputError

DECODE_2 = "execute_context_0(0)_generation_2(2)"


def mark(line: Timeline, name: str, start: int, length: int, category: str = "user_annotation") -> None:
    line.add(category, name, start, length)


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("execute_context_2(6144)_generation_3(3)", Stated("mixed", 5, 2, 3, 6144, 3)),
        ("execute_context_1(70)_generation_0(0)", Stated("prefill", 1, 1, 0, 70, 0)),
        ("execute_context_0(0)_generation_0(0)", Stated("idle", 0, 0, 0, 0, 0)),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq32sk32785sqsq32sqsk32785)",
            Stated("decode", 8, 0, 8, 0, 32),
        ),
        ("execute_new_3_cached_0", Stated("prefill", 3, 3, 0, nan, 0)),
        ("execute_new_0_cached_0", Stated("idle", 0, 0, 0, 0, 0)),
        ("execute_new_1_cached_4", Stated("unknown", 5)),
        ("step[DECODE bs=32]", Stated("decode", 32, 0, 32, 0, 32)),
        ("step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]", Stated("decode", 64, 0, 64, 0, 128)),
        ("step[EXTEND bs=15 toks=15360]", Stated("prefill", 15, 15, 0, 15360, 0)),
        ("step[MIXED bs=2]", Stated("mixed", 2)),
        ("step[MIXED bs=3 c=1 g=2 c_sq=5 c_sk=8 g_sq=2]", Stated("mixed", 3, 1, 2, 5, 2)),
        ("step[IDLE bs=0]", Stated("idle", 0, 0, 0, 0, 0)),
        ("step[TARGET_VERIFY bs=4]", Stated("unknown", 4)),
        ("steps[DECODE bs=4]", None),
        pytest.param(f"step[DECODE bs={'9' * 5000}]", None, id="step of a number beyond all"),
        pytest.param(f"execute_new_1_cached_{'9' * 20}", None, id="requests beyond all"),
        pytest.param(f"execute_context_1({'9' * 5000})_generation_0(0)", None, id="tokens beyond all"),
        ("execute_diffusion_1_256x256", None),
    ],
)
def test_what_marks_state(tmp_path: Path, name: str, stated: Stated | None) -> None:
    line = Timeline()
    mark(line, name, 0, 10)
    found = find_iterations(line.open(tmp_path)[0].kineto)
    assert (found and plain(found.stated[0])) == (stated and plain(stated))


def plain(stated: Stated) -> list[object]:
    return [None if isinstance(value, float) and isnan(value) else value for value in astuple(stated)]


def server(line: Timeline) -> Timeline:
    """A prefill, then two decodes, in ns. Decodes wait for the device inside the mark, the prefill after it."""
    mark(line, "execute_context_1(70)_generation_0(0)", 1_000, 2_000)
    line.kernel("gemm", 1_500, 3_000, launch=(1_100, 200))
    line.kernel("ncclDevKernel_AllReduce", 4_000, 1_500, stream=8, launch=(1_400, 100))
    line.add("cuda_runtime", "cudaStreamSynchronize", 3_500, 2_100)  # until 5,600; the work ends at 5,500
    mark(line, DECODE_2, 6_000, 3_000)
    for number in range(3):  # a graph: one call, three kernels
        call = (6_500, 500) if not number else None
        line.kernel("gemm", 7_200 + 400 * number, 300, launch=call, call="cudaGraphLaunch", correlation=50)
    line.kernel("Memcpy DtoH (Device -> Pageable)", 8_400, 100, launch=(7_100, 1_500), call="cudaMemcpyAsync",
                category="gpu_memcpy")  # fmt: skip
    line.kernel("sample", 9_400, 100, launch=(9_200, 50))
    mark(line, DECODE_2, 10_000, 1_000)
    return line


def test_a_made_server_adds_up(tmp_path: Path) -> None:
    found = serving_iterations(server(Timeline()).open(tmp_path))
    rows = found.records()
    shown = ("kind", "prefill_tokens", "decode_tokens", "interval_ns", "latency_ns", "host_work_ns", "host_wait_ns",
             "after_wait_ns", "device_ns", "busy_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns",
             "host_bound_ns", "launches", "graph_launches")  # fmt: skip
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("prefill", 70, 0, 5_000, 4_500, 2_000, 0, 2_000, 4_000, 4_000, 3_000, 1_000, 0, 0, 0, 2, 0),
        # Idle: 1,700 until the graph starts (1,500 until its call returns), 100 twice in it, 100 and 900 after it.
        ("decode", 0, 2, 4_000, 3_500, 1_600, 1_400, 0, 2_300, 1_100, 1_000, 0, 100, 2_900, 1_500 + 100 + 750, 3, 1),
        ("decode", 0, 2, None, 1_000, 1_000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ]
    assert [row["start_ns"] - BASE_NS for row in rows] == [1_000, 6_000, 10_000]
    assert found.notes == (
        "rank 0: 1 pieces of device work were launched between marks and count with the iteration before",
    )


def test_a_made_server_by_kind(tmp_path: Path) -> None:
    prefill, decode, all_ = serving_summary(server(Timeline()).open(tmp_path)).records()
    assert (prefill["kind"], decode["kind"], all_["kind"]) == ("prefill", "decode", "all")
    assert (decode["iterations"], decode["decode_tokens"], decode["token_median_ns"]) == (2, 4, 4_000)
    assert (prefill["token_median_ns"], prefill["interval_median_ns"]) == (None, 5_000)
    assert decode["tokens_per_s"] == 2 / 4_000e-9
    assert all_["tokens_per_s"] == 72 / 9_000e-9
    assert decode["host_bound_pct"] == 100 * 2_350 / (1_100 + 2_900)
    assert decode["host_wait_pct"] == 100 * 1_400 / 4_000


def test_time_per_token_goes_on_through_prefills_and_has_quantiles(tmp_path: Path) -> None:
    line = Timeline()
    starts = [0, 100, 300, 400, 1_000]
    for number, start in enumerate(starts):
        mark(line, "step[EXTEND bs=1 toks=9]" if number == 1 else "step[DECODE bs=4]", start, 50)
    decode = next(row for row in serving_summary(line.open(tmp_path)).records() if row["kind"] == "decode")
    # 300, 100 and 600 ns between the four decodes.
    assert (decode["token_median_ns"], decode["token_p90_ns"], decode["token_p99_ns"]) == (300, 540, 594)


def test_waits_of_the_host(tmp_path: Path) -> None:
    def copy(line: Timeline, name: str, start: int, launch: tuple[int, int], stream: int, call: str) -> None:
        line.kernel(name, start, 100, launch=launch, stream=stream, call=call, category="gpu_memcpy")

    line = Timeline()
    line.kernel("gemm", 0, 1_000, launch=(-20, 10))
    line.add("cuda_runtime", "cudaDeviceSynchronize", 500, 520)  # returns 20 ns after the kernel
    line.add("cuda_runtime", "cudaEventSynchronize", 2_000, 60)  # nothing to wait for
    copy(line, "Memcpy DtoH (Device -> Pinned)", 3_010, (3_000, 200), 7, "cudaMemcpyAsync")  # merely quick
    copy(line, "Memcpy DtoH (Device -> Pageable)", 4_040, (4_000, 200), 7, "cudaMemcpyAsync")  # prepared for 40 ns
    copy(line, "Memcpy HtoD (Host -> Device)", 9_000, (5_000, 4_150), 9, "hipMemcpyWithStream")  # first of its stream
    line.kernel("gemm", 10_500, 500, launch=(10_000, 10))
    copy(line, "Memcpy DtoH (Device -> Pageable)", 11_000, (10_100, 1_010), 7, "cudaMemcpy")  # behind the kernel
    waits = host_waits(line.open(tmp_path)[0].work)
    found = [(start - BASE_NS, end - BASE_NS) for start, end in zip(waits.start_ns, waits.end_ns, strict=True)]
    assert found == [(500, 1_000), (4_040, 4_140), (5_000, 9_100), (10_100, 11_100)]
    assert waits.unseen_ns == 60


def test_marks_within_marks_count_once_and_waits_of_other_threads_do_not(tmp_path: Path) -> None:
    line = Timeline()
    mark(line, "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk9sqsq8sqsk9)", 0, 5_000)
    mark(line, "step[DECODE bs=8]", 100, 4_000)
    line.kernel("gemm", 200, 3_000, launch=(150, 10))
    line.add("cuda_runtime", "cudaStreamSynchronize", 500, 2_700, tid=2)
    found = serving_iterations(line.open(tmp_path))
    assert [(row["kind"], row["host_ns"], row["host_wait_ns"]) for row in found.records()] == [("decode", 5_000, 0)]
    assert found.notes == ("rank 0: 1 marks lie within others, which count once",)


def test_without_annotations_calls_of_the_runner_then_steps_are_taken_as_unknown(tmp_path: Path) -> None:
    line = Timeline()
    line.step(7, 0, 900)
    assert serving_iterations(line.open(tmp_path)).kind == ("unknown",)
    for number in range(3):
        mark(line, "vllm/v1/worker/gpu_model_runner.py(3380): execute_model", 100 * number, 50, "python_function")
    found = serving_iterations(line.open(tmp_path))
    assert found.kind == ("unknown",) * 3
    assert "3 iterations are calls of the model runner, which do not say what they compute" in found.notes[0]


def test_a_trace_without_marks_is_refused_with_what_to_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Timeline()
    line.kernel("gemm", 0, 10, launch=(0, 1))
    path = line.write(tmp_path / "plain.json")
    with pytest.raises(InputError, match="nothing in this trace marks iterations"):
        serving_iterations(path)
    assert main(["analyze", "serving", str(path)]) == 2
    assert "VLLM_TORCH_PROFILER_DIR" in capsys.readouterr().err


def test_a_rank_without_marks_is_left_out(tmp_path: Path) -> None:
    marked, plain = server(Timeline(0)), Timeline(1)
    plain.kernel("gemm", 0, 10, launch=(0, 1))
    found = serving_iterations([*marked.open(tmp_path), *plain.open(tmp_path)])
    assert set(found.rank.tolist()) == {0}
    assert "rank 1: nothing in the trace marks iterations; the rank is left out" in found.notes


def test_json_has_iterations_and_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = server(Timeline()).write(tmp_path / "server.json")
    assert main(["analyze", "serving", str(path), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["iterations"]["n"] == 3 and document["by_kind"]["n"] == 3
    assert document["iterations"]["records"][2]["interval_ns"] is None


# An independent computation: events as JSON has them, sets of nanoseconds as lists of intervals, loops.


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def within(intervals: list[tuple[int, int]], low: int, high: int) -> int:
    return sum(max(0, min(high, end) - max(low, start)) for start, end in merged(intervals))


def times(event: dict[str, Any]) -> tuple[int, int]:
    whole = [str(event[key]).partition(".") for key in ("ts", "dur")]
    start, length = (int(left) * 1000 + int(right.ljust(3, "0")[:3] or 0) for left, _, right in whole)
    return start, start + length


def independent(path: Path, prefix: str) -> list[dict[str, int]]:
    """Figures of the iterations whose annotation begins with ``prefix``."""
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    marks = sorted(times(event) for event in spans
                   if event["cat"] == "user_annotation" and event["name"].startswith(prefix))  # fmt: skip
    calls = {event["args"]["correlation"]: event for event in spans if event["cat"] in ("cuda_runtime", "cuda_driver")}
    work = sorted(
        (*times(event), event["cat"], event["args"]["correlation"], event["args"]["stream"], event["name"])
        for event in spans if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
    )  # fmt: skip
    waits, idle, reach = [], [], work[0][0]
    for start, end, category, correlation, stream, _ in work:
        idle.append((correlation, max(0, start - reach)))
        reach = max(reach, end)
        call = calls[correlation]
        called, returned = times(call)
        blocks = "Memcpy" in call["name"] and ("Async" not in call["name"]) and category == "gpu_memcpy"
        if blocks and end <= returned + 1000:
            before = [one for one in work if one[4] == stream and one[0] < start]
            running = any(one[0] <= called < one[1] for one in work)
            held = running or not before or max(one[1] for one in before) > called
            waits.append((called if held else start, min(end, returned)))
    for call in calls.values():
        low, high = times(call)
        ended = [end for _, end, *_ in work if low < end <= high + 1000]
        if "Synchronize" in call["name"] and ended:
            waits.append((low, min(max(ended), high)))
    rows = []
    for number, (low, high) in enumerate(marks):
        until = marks[number + 1][0] if number + 1 < len(marks) else 2**62
        mine = [one for one in work if low <= times(calls[one[3]])[0] < until]
        kernels = [(start, end) for start, end, category, *_ in mine if category == "kernel"]
        everything = [(start, end) for start, end, *_ in mine]
        launched = {one[3] for one in mine}
        wait = within(waits, low, high)
        rows.append({
            "host_ns": high - low, "host_wait_ns": wait, "host_work_ns": high - low - wait,
            "busy_ns": within(everything, 0, 2**62), "compute_ns": within(kernels, 0, 2**62),
            "device_ns": max(end for _, end in everything) - min(start for start, _ in everything),
            "latency_ns": max(high, *(end for _, end in everything)) - low,
            "idle_ns": sum(gap for correlation, gap in idle if correlation in launched),
            "launches": len(launched),
            "graph_launches": sum("GraphLaunch" in calls[one]["name"] for one in launched),
        })  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("name", "prefix", "kind", "requests"),
    [("sglang_qwen3_8b_decode", "execute_32", "decode", 32), ("vllm_decode_full_graph", "execute_32", "decode", 32),
     ("bert_small_h100", "ProfilerStep", "unknown", None)],
)  # fmt: skip
def test_recorded_servers_have_the_figures_of_an_independent_program(
    shared_dir: Path, name: str, prefix: str, kind: str, requests: int | None
) -> None:
    path = shared_dir / f"traces/wild/traces/{name}.json.gz"
    rows = serving_iterations(path).records()
    assert [(row["kind"], row["requests"]) for row in rows] == [(kind, requests)]
    expected = independent(path, prefix)
    assert [{key: row[key] for key in expected[0]} for row in rows] == expected


def test_a_server_that_stood_in_a_copy_hardly_worked(shared_dir: Path) -> None:
    (row,) = serving_iterations(shared_dir / "traces/wild/traces/sglang_qwen3_8b_decode.json.gz").records()
    # The copy was called at 361.7 us and ended at 463,409.0 us of the iteration, behind work that had been launched
    # before the iteration: the trace has nothing of it.
    assert (row["host_ns"], row["host_wait_ns"]) == (465_716_634, 463_047_341)


@pytest.mark.parametrize(("name", "kind"), [("sglang_qwen3_8b_decode", "sglang"), ("vllm_decode_full_graph", "vllm")])
def test_a_server_without_annotations_is_found_by_its_runner(
    shared_dir: Path, tmp_path: Path, name: str, kind: str
) -> None:
    document = json.loads(gzip.decompress((shared_dir / f"traces/wild/traces/{name}.json.gz").read_bytes()))
    document["traceEvents"] = [event for event in document["traceEvents"] if event.get("cat") != "user_annotation"]
    path = tmp_path / "stripped.json"
    path.write_text(json.dumps(document))
    (row,) = serving_iterations(path).records()
    assert row["kind"] == "unknown" and kind in row["mark"]


@settings(max_examples=12)
@given(data=st.data())
def test_iterations_add_up(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    line, now, device = Timeline(), 0, 0
    for _ in range(data.draw(st.integers(1, 4))):
        mark(line, DECODE_2, now, 1_000)
        for _ in range(data.draw(st.integers(0, 3))):
            at = now + data.draw(st.integers(0, 900))
            device = max(device, at) + data.draw(st.integers(0, 300))
            length = data.draw(st.integers(1, 600))
            line.kernel("gemm", device, length, launch=(at, 20))
            device += length
        low = data.draw(st.integers(0, 900))
        line.add("cuda_runtime", "cudaStreamSynchronize", now + low, data.draw(st.integers(1, 1_000 - low)))
        now += 1_000 + data.draw(st.integers(0, 500))
    found = serving_iterations(line.open(tmp_path_factory.mktemp("made")))
    rows = found.records()
    work = sorted((start, end) for start, end in _work(line))
    assert all(row["host_work_ns"] + row["host_wait_ns"] == row["host_ns"] == 1_000 for row in rows)
    assert all(0 <= row["host_bound_ns"] <= row["idle_ns"] for row in rows)
    assert sum(row["busy_ns"] for row in rows) == within(work, 0, 2**62)
    assert sum(row["idle_ns"] + row["busy_ns"] for row in rows) == (work[-1][1] - work[0][0] if work else 0)
    assert isnan(serving_summary(found).token_p99_ns[-1]) == (len(rows) < 2)


def _work(line: Timeline) -> list[tuple[int, int]]:
    spans = [event for event in line.events if event["cat"] == "kernel"]
    pairs = [(int(str(event["ts"]).strip("@")), int(str(event["dur"]).strip("@"))) for event in spans]
    return [(start, start + length) for start, length in pairs]
