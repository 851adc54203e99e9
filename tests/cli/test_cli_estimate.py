"""``chakrasim estimate``: options, tables, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim.cli.main import main

LARGE = "llama3-8b --machine h100 --gpus 8 --tp 1 --pp 1 --batch 8 --recompute none"
SPEC = "model: {layers: 4, hidden: 1024, heads: 8, vocabulary: 32000, sequence: 1024}\n"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "model.yaml"
    file.write_text(SPEC)
    return str(file)


def test_options_are_the_arguments_of_the_function(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "step.json"
    words = "--gpus 16 --nic 100G --tp 2 --pp 2 --vp 2 --dp-kind ddp --zero 1 --batch 32 --micro-batch 2 --seq 2048"
    more = "--recompute full --dtype fp16 --ep 1"
    assert main(["estimate", spec, "--machine", "a100", *words.split(), *more.split(), "--json", str(out)]) == 0
    expected = cs.estimate(
        spec, machine="a100", gpus=16, nic="100G", tp=2, pp=2, vp=2, ep=1, dp_kind="ddp", zero=1, batch=32,
        micro_batch=2, seq=2048, recompute="full", dtype="fp16",
    )  # fmt: skip
    told = {"format": "chakrasim-estimate/1", **expected.to_json()}
    assert json.loads(out.read_text()) == json.loads(json.dumps(told))
    shown = capsys.readouterr().out
    for word in ("90 % interval", "tokens", "MFU", "fits", "matrices", "tensor parallelism", "Assumed", "busiest link"):
        assert word in shown


def test_json_to_standard_output_is_all_there_is(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", spec, "--machine", "h100", "--gpus", "8", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low_s"] <= found["step_s"] <= found["high_s"]
    assert found["fits"] is True
    assert {"tokens_per_s_per_gpu", "mfu", "tflops_per_gpu", "memory_bytes", "parts_s", "assumed"} <= found.keys()
    assert main(["estimate", spec, "--machine", "h100", "--gpus", "8", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("nothing --machine h100 --gpus 8", "neither a model that is built in nor a spec's file"),
        ("llama3-8b --machine h100 --gpus 8 --strict --tp 1 --pp 1 --recompute none", "it does not fit in memory"),
        ("llama3-8b --machine h100 --gpus 24 --tp 8 --pp 2", "the GPUs do not make whole replicas"),
        ("llama3-8b --machine h100 --gpus 8 --tp 8 --pp 1 --batch 3 --micro-batch 2", "whole micro-batches"),
    ],
)
def test_what_cannot_be_ends_with_2(words: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *words.split()]) == 2
    shown = capsys.readouterr()
    assert why in shown.err
    assert shown.out == ""


def test_what_does_not_fit_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *LARGE.split()]) == 0
    shown = capsys.readouterr()
    assert "warning: it does not fit in memory" in shown.err
    assert "DOES NOT FIT" in shown.out


def test_simulate_prints_the_same_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "step.yaml"
    file.write_text(SPEC + "parallel: {tp: 2, dp: 4, zero: 1, sp: true}\nbatch: {global_batch: 8}\n")
    assert main(["generate", "transformer", "--spec", str(file), "-o", str(tmp_path / "step"), "--quiet"]) == 0
    assert main(["simulate", str(tmp_path / "step"), "--machine", "h100", "--gpus", "8"]) == 0
    simulated = capsys.readouterr().out
    assert main(["estimate", str(file), "--machine", "h100", "--gpus", "8"]) == 0
    estimated = capsys.readouterr().out
    for line in ("tokens", "MFU", "memory", "split"):
        (one,), (other,) = (
            [row for row in text.splitlines() if row.startswith(f"  {line} ")] for text in (simulated, estimated)
        )
        if line in ("memory", "split"):
            assert one == other
    assert main(["simulate", str(tmp_path / "step"), "--machine", "hgx-h100-8"]) == 0
    assert "MFU" not in capsys.readouterr().out
