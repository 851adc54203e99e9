"""Replays on two and three gloo ranks of this machine."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace as changed
from pathlib import Path

import numpy as np
import pytest

from chakrasim import InputError, StallError
from chakrasim.cli.main import main
from chakrasim.demo import TRACES
from chakrasim.generator.collective import collective_job
from chakrasim.replay import plan_replay, replay
from chakrasim.replay.execute import Settings
from chakrasim.replay.launch import run_processes
from chakrasim.replay.operators import OperatorCall, OperatorRunner
from chakrasim.replay.plan import Operation
from chakrasim.replay.received import Part, fill, received, sent, wrong_part
from chakrasim.trace import NodeType, Trace, TraceBuilder, write
from chakrasim.trace.job.job import Job
from chakrasim.trace.kineto.read import read_kineto
from made_jobs_chakra import Made

pytest.importorskip("torch")

EVERY_KIND = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter")


def every_kind(rank: int) -> Trace:
    """One of each, some at the same time, a message each way, compute between."""
    made = Made()
    for kind in EVERY_KIND:
        root = 1 if kind in ("reduce", "gather", "scatter", "broadcast") else None
        made.collective(kind, 1 << 12, after=[], root_rank=root)
    made.compute(micros=3000, num_ops=2000, after=range(8))
    made.collective("barrier", 0)
    other = 1 - rank
    if rank == 0:
        made.send(512, comm_src=0, comm_dst=other, after=[9])
        made.recv(256, comm_src=other, comm_dst=0, after=[9])
    else:
        made.recv(512, comm_src=other, comm_dst=1, after=[9])
        made.send(256, comm_src=1, comm_dst=other, after=[9])
    made.collective("all_reduce", 1 << 12, dtype="bfloat16")
    return made.build()


def job() -> Job:
    return Job((every_kind(0), every_kind(1)), np.arange(2))


def test_every_kind_runs_and_is_measured() -> None:
    result = replay(job(), warmup=1, iterations=3, compute="sleep", batch=5, check=True)
    rows = {(row.collective, row.dtype): row for row in result.collectives}
    assert {kind for kind, _ in rows} == {*EVERY_KIND, "barrier", "message"}
    for row in result.collectives:
        assert row.latency is not None
        assert row.latency.samples == 3 * row.count
        assert 0 < row.latency.min_ns <= row.latency.p50_ns <= row.latency.p99_ns <= row.latency.max_ns
        assert row.group_size == 2
    gather = rows["all_gather", "uint8"]
    assert gather.latency is not None
    assert gather.algbw_gb_s == pytest.approx(2 * 4096 / gather.latency.mean_ns)
    assert gather.busbw_gb_s == pytest.approx(4096 / gather.latency.mean_ns)
    assert rows["barrier", "uint8"].algbw_gb_s is None
    assert result.pipelined is not None
    assert result.pipelined.samples == 3
    assert result.pipelined.min_ns > 3_000_000, "the stand-in compute lasts 3 ms"
    assert all(not row.why for row in result.coverage)
    # 12 operations, 5 at a time: 3 batches.
    assert result.batches is not None
    assert (result.batch, result.batches.samples) == (5, 9)
    # Of all but the barrier 11 parts on each rank; one receives nothing of the reduce and of the gather; a message has
    # one side that receives.
    assert result.checked == 2 * 11 - 2 - 2
    assert (result.backend, result.device) == ("gloo", "cpu")
    assert result.to_json()["collectives"][0]["latency"]["samples"] > 0
    assert len(result.to_frame()) == len(result.collectives)


@pytest.mark.slow
def test_groups_messages_and_products_of_three_ranks() -> None:
    traces = []
    for rank in range(3):
        made = Made()
        if rank < 2:
            made.collective("all_reduce", 64, "pair", after=[])
        made.compute(m=8, n=8, k=8)
        if rank:
            made.collective("all_gather", 64, "late")
        if rank < 2:
            made.send(8, comm_src=rank, comm_dst=rank + 1)
        if rank:
            made.recv(8, comm_src=rank - 1, comm_dst=rank)
        made.collective("all_reduce", 128)
        traces.append(made.build())
    made_job = Job(tuple(traces), np.arange(3), {"pair": ((0, 1),), "late": ((1, 2),)})
    result = replay(made_job, warmup=0, iterations=2, compute="matmul")
    assert [(row.collective, row.group_size, row.count) for row in result.collectives] == [
        ("all_gather", 2, 1),
        ("all_reduce", 3, 1),
        ("all_reduce", 2, 1),
        ("message", 2, 2),
    ]
    assert result.pipelined is not None


@pytest.mark.slow
def test_the_command_writes_json_and_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "run", [every_kind(0), every_kind(1)])
    target, table = tmp_path / "replay.json", tmp_path / "latencies.csv"
    words = ["replay", str(tmp_path / "run"), "--backend", "gloo", "--ranks", "2", "--json", str(target)]
    assert main([*words, "--csv", str(table), "--blocking", "--iterations", "2", "--warmup", "0"]) == 0
    assert "Collectives, most bytes first" in capsys.readouterr().out
    content = json.loads(target.read_text())
    assert content["pipelined"] is None
    assert content["format"] == "chakrasim-replay-1"
    assert sum(row["latency"]["samples"] for row in content["collectives"]) == 2 * content["meetings"]
    rows = list(csv.DictReader(table.open()))
    assert {row["collective"] for row in rows} == {*EVERY_KIND, "barrier", "message"}
    assert all(float(row["mean_ns"]) > 0 for row in rows)


@pytest.mark.slow
def test_nothing_begins_earlier_than_in_the_trace_and_profiles_are_written(tmp_path: Path) -> None:
    traces = []
    for _ in range(2):
        made = TraceBuilder()
        for at in range(3):
            attrs = {"comm_type": 0, "comm_size": 8, "is_cpu_op": False, "start_ns": 5 + at * 40_000_000}
            made.add(at, "all_reduce", int(NodeType.COMM_COLL_NODE), attrs=attrs)
        traces.append(made.build())
    result = replay(Job(tuple(traces), np.arange(2)), warmup=0, iterations=2, timestamps=True, profile=tmp_path / "new")
    assert result.pipelined is not None and 80_000_000 <= result.pipelined.min_ns < 10_000_000_000
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == ["rank-0.json.gz", "rank-1.json.gz"]
    profile = read_kineto(tmp_path / "new/rank-1.json.gz", keep="all")
    assert profile.find("gloo:all_reduce") >= 0 and profile.find("replay") >= 0


def test_data_that_are_wrong_are_told() -> None:
    torch = pytest.importorskip("torch")
    for dtype, value, held in (("float32", 7, 7), ("bfloat16", 300, 300), ("uint8", 300, 44), ("int8", 140, -116)):
        whole = torch.zeros(6, dtype=getattr(torch, dtype))
        fill(whole[:3], [held])
        assert wrong_part(whole[:3], [value], 64) == ""
        assert wrong_part(whole, [value, value], 64).startswith("part 1 has [0")


@pytest.mark.parametrize(("dtype", "members"), [("bfloat16", 64), ("bfloat16", 300), ("float16", 1000)])
def test_right_sums_over_many_ranks_are_right_in_any_order(dtype: str, members: int) -> None:
    torch = pytest.importorskip("torch")
    for kind in ("all_reduce", "reduce_scatter"):
        operation = Operation(kind, 2 * members, dtype, 0)
        last = Part(members - 1, members, -1)
        given = [sent(operation, Part(place, members, -1))[-1] for place in range(members)]
        for order in (given, sorted(given), sorted(given, reverse=True)):
            total = torch.zeros(1, dtype=getattr(torch, dtype))
            for value in order:
                total += value
            assert wrong_part(total, received(operation, last), members) == ""
        assert wrong_part(torch.zeros(1, dtype=getattr(torch, dtype)), received(operation, last), members)


def test_operators_run_as_recorded_or_say_why_not() -> None:
    torch = pytest.importorskip("torch")
    runner = OperatorRunner(torch, torch.device("cpu"))
    two = ('[[1,2,0,6,4,"cpu"],[3,4,0,6,4,"cpu"]', "[[2,3],[3,2]", '["Tensor(float)","Tensor(float)"')
    mm = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    add = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    cat = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"
    index = "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1) -> Tensor"
    calls = [
        OperatorCall(mm, *(text + "]" for text in two)),
        OperatorCall(add, two[0] + ",2]", "[[4],[4],[]]", two[2] + ',"Int"]'),
        OperatorCall(cat, "[[[1],[2]],0]", "[[[2],[3]],[]]", '["GenericList[Tensor(double),Tensor(double)]","Int"]'),
        OperatorCall(index, "[1,2,-1]", "[[9,4],[5],[]]", '["Tensor(c10::BFloat16)","Tensor(long int)","Int"]'),
    ]  # fmt: skip
    made = [runner._prepare(call) for call in calls]
    assert [tuple(function(*given, **named).shape) for function, given, named in made] == [(2, 2), (4,), (5,), (5, 4)]
    assert made[1][2] == {"alpha": 2}
    for call in calls:
        runner.run(call)
    assert runner.lacking == {}
    runner.run(OperatorCall(mm, two[0] + "]", "[[2,3],[2,3]]", two[2] + "]"))
    runner.run(OperatorCall("nowhere::op(Tensor self) -> Tensor", "[[1]]", "[[1]]", '["Tensor(float)"]'))
    assert set(runner.lacking) == {"aten::mm", "nowhere::op"}


def test_operators_of_a_trace_do_no_harm(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    runner = OperatorRunner(torch, torch.device("cpu"))
    add = "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"
    runner.run(OperatorCall(add, f"[1,{2**70},1]", "[[4],[],[]]", '["Tensor(long int)","Int","Int"]'))
    target = tmp_path / "made"
    opens = "aten::from_file(str filename, bool? shared=None, int? size=0) -> Tensor"
    runner.run(OperatorCall(opens, json.dumps([str(target), True, 4]), "[[],[],[]]", '["String","Bool","Int"]'))
    assert set(runner.lacking) == {"aten::add.Scalar", "aten::from_file"} and not target.exists()
    # A table of indices that a call in place would move out of range.
    add = "aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)"
    runner.run(OperatorCall(add, "[1,50,1]", "[[4],[],[]]", '["Tensor(long int)","Int","Int"]'))
    assert runner._tensor([4], "int64", 0).tolist() == [0] * 4 and "aten::add_.Scalar" not in runner.lacking


@pytest.mark.slow
def test_the_operators_of_a_program_run_between_its_communication() -> None:
    result = replay(TRACES, 2, compute="operators", warmup=0, iterations=1)
    assert result.warnings == () and result.pipelined is not None
    assert {row.what: row.count for row in result.coverage if not row.why}["compute nodes"] == 468


@pytest.mark.slow
def test_a_rank_that_never_comes_is_named() -> None:
    plan = plan_replay(job())
    short = changed(plan, programs=(plan.programs[0], plan.programs[1][:-1]))
    with pytest.raises(StallError) as caught:
        run_processes(short, Settings("gloo", 0, 1, True, 3.0))
    assert len(caught.value.waits) == 2
    assert "rank 0 waits in all_reduce of 4,096 bytes of ranks 0, 1 (node 12, 'all_reduce')" in str(caught.value)


@pytest.mark.slow
def test_a_rank_that_dies_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rank whose process ends on its own: a wrapped interpreter that leaves for rank 1."""
    fake = tmp_path / "python"
    leave = 'for last in "$@"; do :; done; if [ "$last" = 1 ]; then echo out of luck >&2; exit 7; fi'
    fake.write_text(f'#!/bin/sh\n{leave}\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(fake))
    with pytest.raises(StallError, match=r"a rank failed.*rank 1 is starting \(ended with status 7\): out of luck"):
        run_processes(plan_replay(job()), Settings("gloo", 0, 1, True, 3.0))


@pytest.mark.slow
def test_modules_do_not_come_from_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files there with the names of modules that every rank imports are not run, nor by an empty place in a path."""
    for name in ("numpy", "pickle", "torch", "chakrasim"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}")
    assert len(run_processes(plan_replay(job()), Settings("gloo", 0, 1, True, 30.0))) == 2
    assert not (tmp_path / "mark").exists()


def test_a_missing_back_end_is_refused() -> None:
    with pytest.raises(InputError, match=r"this PyTorch has no back end 'mpi'.*expected .*gloo"):
        replay(job(), backend="mpi")


@pytest.mark.slow
def test_processes_of_a_launcher_join(tmp_path: Path) -> None:
    write(tmp_path / "run", [every_kind(0), every_kind(1)])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [sys.executable, "-m", "chakrasim", "replay", str(tmp_path / "run"), "--iterations", "1", "--warmup", "0"]
    started = []
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"}
        environment = os.environ | own | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        more = ["--json", str(tmp_path / "replay.json")]
        started.append(subprocess.Popen([*words, *more], env=environment, stdout=subprocess.PIPE, text=True))
    texts = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert "Collectives, most bytes first" in texts[0]
    assert texts[1] == ""
    assert json.loads((tmp_path / "replay.json").read_text())["ranks"] == 2


def test_only_pytorch_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"a replay needs PyTorch; pip install 'chakrasim\[torch\]'"):
        replay(job())


def test_a_rank_that_nobody_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "x"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    job = collective_job("all_reduce", 8, 2)
    with pytest.raises(InputError, match=r"MASTER_PORT is no port; found 'x'; expected 1 to 65535"):
        replay(job, timeout_s=1)
    monkeypatch.setenv("MASTER_PORT", str(port))
    with pytest.raises(StallError, match="rank 0 waits for the other ranks to join: Timed out"):
        replay(job, timeout_s=1)
