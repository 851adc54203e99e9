"""Captured programs with the durations of recorded runs: what is found, what is moved, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.converter.binding.calls import recorded_calls
from chakrasim.converter.binding.matching import Matching
from chakrasim.converter.binding.measure import measured_step
from chakrasim.converter.binding.rows import rows_of_linked
from chakrasim.converter.binding.sequences import aligned
from chakrasim.demo import TRACES
from chakrasim.trace.job.job import Job
from linker.kineto_maker import KinetoMaker

PAIR = Path(__file__).parents[1] / "data" / "chakra-tools" / "evsync"
#: One step of the demo's program, captured: operators, operations and bytes written ("c10d": a collective).
DEMO = (
    "convolution 14450688 3211264,relu 802816 3211264,max_pool2d_with_indices 802816 2408448,convolution 115605504 "
    "1605632,relu 401408 1605632,max_pool2d_with_indices 401408 1204224,addmm 51380224 65536,relu 16384 65536,addmm "
    "327680 2560,_log_softmax 3200 2560,nll_loss_forward 1 8,ones_like 0 4,nll_loss_backward 640 2560,"
    "_log_softmax_backward_data 2560 2560,mm 327680 65536,mm 327680 10240,sum 640 40,mul 10 40,mul 2560 10240,"
    "threshold_backward 16384 65536,mm 51380224 401408,mm 51380224 1605632,sum 16384 1024,mul 256 1024,mul 401408 "
    "1605632,c10d 0 0,max_pool2d_with_indices_backward 401408 1605632,threshold_backward 401408 1605632,"
    "convolution_backward 231211008 821376,mul 4608 18432,mul 32 128,max_pool2d_with_indices_backward 802816 3211264,"
    "threshold_backward 802816 3211264,convolution_backward 14450688 640,mul 144 576,mul 16 64,c10d 0 0,copy_ 0 40,"
    "copy_ 0 10240,copy_ 0 1024,copy_ 0 1605632,copy_ 0 18432,copy_ 0 128,copy_ 0 576,copy_ 0 64,add_ 144 576,"
    "add_ 16 64,add_ 4608 18432,add_ 32 128,add_ 401408 1605632,add_ 256 1024,add_ 2560 10240,add_ 10 40"
)
STEPS_NS = (104_072_912, 107_583_604, 160_002_675)
"""As recorded on rank 0."""


def captured(calls: Sequence[str], ranks: int) -> Job:
    """A job as a capture makes it."""
    builder = cs.TraceBuilder()
    before: list[int] = []
    for number, call in enumerate(calls):
        name, flops, written = call.split()
        attrs: dict[str, object] = {"is_cpu_op": False, "stream": 0}
        if name == "c10d":
            attrs |= {"comm_type": 0, "comm_size": 1000, "pg_name": ""}
            builder.add(number, name="c10d::allreduce_", type=7, ctrl_deps=before, attrs=attrs)
        else:
            attrs |= {"num_ops": int(flops), "tensor_size": 2 * int(written), "bytes_written": int(written)}
            builder.add(number, name=f"aten::{name}", type=4, ctrl_deps=before, attrs=attrs)
            before = [number]
    return Job((builder.build(),), np.zeros(ranks, np.int64))


def demo(ranks: int = 16) -> Job:
    return captured(DEMO.split(","), ranks)


def longest(a: list[int], b: list[int]) -> int:
    """Length of the longest common subsequence, by the table."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = row[:]
        for at, other in enumerate(b, 1):
            row[at] = before[at - 1] + 1 if one == other else max(before[at], row[at - 1])
    return row[-1]


def test_alignments_are_longest_common_subsequences() -> None:
    random = np.random.default_rng(5)
    for _ in range(150):
        words = int(random.integers(1, 6))
        a, b = (random.integers(0, words, random.integers(0, 25)) for _ in range(2))
        pairs = aligned(a, b)
        assert pairs is not None and (np.diff(pairs, axis=0) > 0).all()
        assert (a[pairs[:, 0]] == b[pairs[:, 1]]).all() and len(pairs) == longest(a.tolist(), b.tolist())


def test_what_has_too_little_in_common_is_not_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chakrasim.converter.binding.sequences.MOST_EDITS", 50)
    a = np.arange(80)
    assert aligned(a, a[::-1].copy()) is None
    assert aligned(a, a + 80).tolist() == []  # type: ignore[union-attr]


def test_four_recorded_ranks_give_sixteen_their_durations() -> None:
    made = cs.bind(demo(), TRACES)
    (one,) = made.traces
    assert (made.recorded_ranks, made.steps, one.recorded) == (4, (2, 3, 4), (0, 1, 2, 3))
    assert (one.matched, one.computing, one.transfers, one.samples) == (51, 51, 2, 12)
    trace = made.job.traces[0]
    ns = trace.attr("duration_ns").integers()
    assert abs(int(trace.duration_micros.sum()) * 1000 - ns.sum()) < 1000
    computing = trace.types == 4
    assert ns[computing].sum() == pytest.approx(one.work_ns, abs=100)
    assert trace.attr("is_recorded").present.tolist() == computing.tolist()
    found = cs.replay_recorded([trace] * 16, "recorded")
    assert found.makespan_ns == pytest.approx(np.median(STEPS_NS), rel=0.15)


def test_chakra_traces_give_what_the_recorded_files_give(tmp_path: Path) -> None:
    cs.trace_directory(TRACES, tmp_path / "out")
    first, second = (cs.bind(demo(), source).to_json() for source in (TRACES, tmp_path / "out"))
    assert first["traces"] == second["traces"]


def test_nodes_put_in_and_left_out_are_counted_and_the_rest_is_found() -> None:
    calls = DEMO.split(",")
    calls[10:10] = ["erfinv 5 5", "mm 7 7"]
    del calls[30]
    made = cs.bind(captured(calls, 2), TRACES, steps=[3])
    assert made.traces[0].matched == 50
    assert [*made.traces[0].captured.values()] == [50, 1, 1]
    assert "2 x" not in made.warnings[0] and made.warnings[0].startswith("4 compute nodes")
    assert sum(made.traces[0].recorded_calls.values()) == 53


def test_of_the_same_operators_with_other_sizes_nothing_is_taken() -> None:
    calls = [call if call.startswith("c10d") else call.replace(" ", " 1") for call in DEMO.split(",")]
    with pytest.raises(cs.InputError, match="not one of the captured program, or not of these sizes"):
        cs.bind(captured(calls, 2), TRACES)


def test_nodes_of_a_device_take_their_kernels_and_are_launched_when_the_host_is_there() -> None:
    job = captured(["fill_ 4 4", "sum 4 4", "gt 1 1"], 2)
    made = cs.bind(job, cs.link(PAIR / "host.0.json.gz", PAIR / "device.0.json.gz"))
    trace = made.job.traces[0]
    assert trace.attr("duration_ns").integers().tolist() == [1000, 11000, 1000]
    launched = trace.attr("launch_ns").integers()
    assert (np.diff(launched) > 0).all() and launched[0] > 2_000_000
    assert made.traces[0].left_ns == 38_000 and "0.038 ms" in made.warnings[-1]


def fused(tmp_path: Path, copy: str = "aten::copy_") -> KinetoMaker:
    """A step on a GPU whose library does in two kernels of one operator what a capture sees as three operators, and
    copies once more."""
    made = KinetoMaker(tmp_path).op("aten::mm", 0, 30).launch("gemm", 10, 100, 200, 1)
    made.op("aten::rms_norm", 40, 100).op("aten::_fused_rms_norm", 45, 90)
    made.launch("norm", 50, 300, 60, 2).launch("scale", 80, 360, 20, 3)
    made.op("aten::silu", 150, 30).launch("silu", 160, 380, 50, 4).op(copy, 190, 20).launch("copy", 195, 430, 7, 5)
    return made.op("aten::mm", 220, 30).launch("gemm", 230, 437, 100, 6)


WHOLE = ["mm 8 8", "pow 4 300", "rsqrt 1 100", "mul 4 400", "silu 4 4", "mm 8 8", "copy_ 0 4"]


def test_what_a_device_does_by_other_operators_is_shared_at_its_place(tmp_path: Path) -> None:
    made = cs.bind(captured(WHOLE, 2), fused(tmp_path).write(), least_share=0.5)
    (one,), trace = made.traces, made.job.traces[0]
    ns = trace.attr("duration_ns").integers_or(-1).tolist()
    assert ns[:1] + ns[4:] == [200_000, 57_000, 100_000, -1], "the copy is one more, for the operator before it"
    shares = np.array(ns[1:4]) / 80_000
    assert shares.tolist() == pytest.approx([300 / 800, 100 / 800, 400 / 800], rel=0.01) and sum(ns[1:4]) == 80_000
    assert one.captured["measured with their neighbours: a device did the same by other operators"] == 3
    assert (one.matched, one.left_ns, one.work_ns) == (6, 0, 437_000)
    launched = trace.attr("launch_ns").integers()
    assert (np.diff(launched[:6]) >= 0).all() and launched[1] < launched[3]


def test_work_at_a_place_without_nodes_of_operators_that_are_nowhere_captured_is_left_out(tmp_path: Path) -> None:
    made = cs.bind(captured(WHOLE, 2), fused(tmp_path, "aten::roll").write(), least_share=0.5)
    assert made.traces[0].left_ns == 7_000 and "0.007 ms" in made.warnings[-1]


def test_what_is_found_by_place_counts_up_to_what_is_found_by_name(tmp_path: Path) -> None:
    more = [*WHOLE[:4], *["erf 1 1"] * 20, *WHOLE[4:]]
    with pytest.raises(cs.InputError, match=r"found 22.2% of 27 compute nodes .*23 measured with their neighbours"):
        cs.bind(captured(more, 2), fused(tmp_path).write())


def test_of_a_device_on_which_nothing_is_found_all_work_is_left_out(tmp_path: Path) -> None:
    rows = rows_of_linked(cs.link(device=fused(tmp_path).write()))
    every = np.ones(len(rows), np.bool_)
    calls = recorded_calls(rows, every, {"aten::mm", "aten::silu"}, {})
    none = Matching(np.zeros((0, 2), np.int64), np.zeros(60, np.int64), np.zeros(len(calls), np.int64))
    sample = measured_step(rows, -1, every, calls, none, np.ones(60, np.bool_), np.ones(60))
    assert sample.left_ns == 437_000 and np.isnan(sample.work_ns).all() and not sample.placed.any()


def test_large_places_are_no_detail_of_an_operator(tmp_path: Path) -> None:
    more = [*WHOLE[:4], *["erf 1 1"] * 50, *WHOLE[4:]]
    made = cs.bind(captured(more, 2), fused(tmp_path).write(), least_share=0)
    assert made.traces[0].matched == 3 and made.traces[0].left_ns == 80_000


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cs.write_job(tmp_path / "pre", demo())
    words = ["bind", str(tmp_path / "pre"), "--measured", str(TRACES), "-o", str(tmp_path / "new" / "bound")]
    assert main([*words, "--step", "3", "--json", str(tmp_path / "said.json")]) == 0
    assert "matched by name and size" in capsys.readouterr().out
    said = json.loads((tmp_path / "said.json").read_text())
    assert said["format"] == "chakrasim-bind/1" and said["steps"] == [3]
    assert cs.read_job(tmp_path / "new" / "bound").ranks == 16


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--step", "9"], "was not recorded"),
        (["--least", "2"], "no share"),
        (["-o", "pre"], "would replace the input"),
        (["--measured", "nowhere/run"], "cannot be listed"),
        (["--measured", "pre"], "no recorded run"),
        (["--measured", "pre.class-0.et"], "no trace of a recorded run"),
        (["--measured", "."], "no traces of the PyTorch profiler"),
    ],
)
def test_what_is_refused(
    more: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cs.write_job("pre", demo(2))
    there = sorted(tmp_path.iterdir())
    assert main(["bind", "pre", "--measured", str(TRACES), "-o", "bound", *more]) == 2
    assert expected in capsys.readouterr().err and sorted(tmp_path.iterdir()) == there
