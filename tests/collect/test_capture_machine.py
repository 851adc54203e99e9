"""`chakrasim capture --machine`: the captured step on a machine, with the head of an estimate."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from captures import EXAMPLES

from chakrasim import InputError
from chakrasim.cli.main import main
from chakrasim.estimation.simulated import estimate_job
from chakrasim.machine import load_machine
from chakrasim.machine.device.file import device_text, load_device
from chakrasim.trace.job.file import read_job
from chakrasim.trace.job.job import Job

LLAMA = "--model small --tp 2 --pp 2 --micro-batches 2 --checkpoint"
WORLD = 16


def capture(script: str, world: int, folder: Path, options: str, arguments: str) -> int:
    """The command's exit code; the traces are FOLDER/step."""
    head = ["capture", str(EXAMPLES / script), "--world-size", str(world), "--output", str(folder / "step")]
    return main([*head, *options.split(), "--", *arguments.split()])


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a step of two stages on two boards: traces, and what was said of them in JSON."""
    folder = tmp_path_factory.mktemp("captured")
    options = f"--machine h100 --no-verify --quiet --json {folder / 'said.json'}"
    assert capture("train_llama.py", WORLD, folder, options, LLAMA) == 0
    return folder


@pytest.fixture(scope="module")
def job(captured: Path) -> Job:
    return read_job(captured / "step")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An H100 with a megabyte of memory."""
    file = tmp_path / "small.yaml"
    text = device_text("h100")
    assert text.count("\nmemory: 80 GB\n") == 1
    file.write_text(text.replace("\nmemory: 80 GB\n", "\nmemory: 1 MB\n"))
    return file


@pytest.mark.slow
def test_the_figures_agree(captured: Path, job: Job) -> None:
    said: dict[str, Any] = json.loads((captured / "said.json").read_text())
    step = said["step"]
    assert step["gpus"] == said["ranks"] == WORLD
    assert step["run_flops"] == said["total_flops"]
    assert step["tflops_per_gpu"] == pytest.approx(said["total_flops"] / step["step_s"] / WORLD / 1e12)
    assert step["hfu"] == pytest.approx(step["tflops_per_gpu"] * 1e12 / load_device("h100").peak_of("bfloat16"))
    assert step["memory_bytes"] == max(entry["memory"]["peak_bytes"] for entry in said["classes"])
    assert step["fits"] and all(entry["memory"]["fits"] for entry in said["classes"])
    assert sum(step["parts_s"].values()) == pytest.approx(step["step_s"])
    assert {"compute", "comm_tp", "comm_pp", "comm_dp", "bubble"} <= step["parts_s"].keys()
    assert step["split"] == "captured: 16 ranks, groups: pp of 2, dp of 4, tp of 2"
    assert [step[name] for name in ("tokens", "tokens_per_s_per_gpu", "mfu", "model_flops", "low_s")] == [None] * 5
    assert "nobody said how many tokens a step has (capture --tokens)" in step["assumed"]
    assert set(said["assumptions"]) <= set(step["assumed"])
    assert json.loads(json.dumps(estimate_job(job, load_machine("h100", gpus=WORLD)).to_json())) == {
        **step, "assumed": step["assumed"][: -len(said["assumptions"])],
    }  # fmt: skip


@pytest.mark.slow
def test_what_is_computed_again_is_told(job: Job) -> None:
    flops = again = 0
    for trace, ranks in zip(job.traces, (8, 8), strict=True):
        phase = trace.attr("phase")
        for node in range(len(trace)):
            own = ranks * int(trace.attr("num_ops").integers()[node]) if trace.attr("num_ops").present[node] else 0
            flops += own
            again += own * (phase.value(node) == "recompute")
    (line,) = (text for text in estimate_job(job, load_machine("h100", gpus=WORLD)).assumed if "computed again" in text)
    assert f"{100 * again / flops:.1f}% of them computed again" in line


def test_more_bandwidth_exposes_less(job: Job) -> None:
    slow, fast = (estimate_job(job, load_machine("h100", gpus=WORLD, nic=nic)) for nic in ("100G", "200G"))
    assert fast.step_s < slow.step_s
    assert fast.parts_s["comm_pp"] < 0.6 * slow.parts_s["comm_pp"]
    assert fast.parts_s["compute"] == slow.parts_s["compute"]


def test_simulate_prints_the_head(captured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(captured / "step"), "--machine", "h100", "--gpus", str(WORLD)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A training step of train_llama.py on 16 GPUs of h100-16\n")
    head = shown.partition("\n\n")[0]
    assert "HFU" in head and "all operations as they run" in head and "fits" in head
    assert "MFU" not in head and "tokens" not in head


def test_simulate_strict_refuses_what_does_not_fit(
    captured: Path, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", str(captured / "step"), "--machine", "h100", "--gpus", str(WORLD), "--device-profile"]
    assert main([*words, str(small)]) == 0
    shown = capsys.readouterr()
    assert "DOES NOT FIT" in shown.out and "warning: it does not fit in memory" in shown.err
    assert main([*words, str(small), "--strict"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("chakrasim: error: 1 warning in strict mode: it does not fit in memory: 0.1 GB")
    assert shown.out == ""


def test_capture_strict_refuses_what_does_not_fit(
    tmp_path: Path, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = f"--machine h100 --device-profile {small} --no-verify --tokens 128"
    assert capture("train_ddp.py", 2, tmp_path, f"{options} --strict", "--size tiny") == 2
    shown = capsys.readouterr()
    assert "1 warning in strict mode: it does not fit in memory: 0.0 GB at the peak, the device has 0.0 GB" in shown.err
    assert shown.out == "" and not list(tmp_path.glob("step*"))
    assert capture("train_ddp.py", 2, tmp_path, options, "--size tiny") == 0
    shown = capsys.readouterr()
    assert "warning: it does not fit in memory" in shown.err
    assert "tokens         128 a step" in shown.out and "DOES NOT FIT" in shown.out and "OUT OF MEMORY" in shown.out
    assert "Assumed" in shown.out and "nobody said" not in shown.out
    found = estimate_job(read_job(tmp_path / "step"), load_machine("h100", gpus=2))
    assert found.tokens_per_s_per_gpu == 128 / found.step_s / 2
    assert math.isnan(found.mfu) and found.hfu > 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--machine h100 --ranks 0,1", "--ranks: a step is that of all ranks; found '0,1'"),
        ("--machine hgx-h100-8", "the machine has another size than the job; found 8 GPUs; expected 16"),
        ("--machine nosuch", "neither a preset nor a machine file"),
        ("--machine h100 --device-profile nosuch", "nosuch"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(
    options: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert capture("nosuch.py", WORLD, tmp_path, options, "") == 2
    assert why in capsys.readouterr().err


def test_a_machine_without_a_device(job: Job) -> None:
    machine = replace(load_machine("h100", gpus=WORLD), profile=None)
    with pytest.raises(InputError, match="this job on this machine is no step of training"):
        estimate_job(job, machine)
