"""TF32 on a GPU where a program allows it: products do not by default, convolutions do."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from captures import attribute, capture, program

from chakrasim.machine import load_device

PROGRAM = """
import torch
SETTING
weight = torch.randn(512, 512, device="cuda", requires_grad=True)
kernel = torch.randn(64, 64, 3, 3, device="cuda", dtype=torch.float32, requires_grad=True)
(torch.randn(512, 512, device="cuda") @ weight).sum().backward()
torch.nn.functional.conv2d(torch.randn(8, 64, 56, 56, device="cuda"), kernel).sum().backward()
(weight.bfloat16() @ weight.bfloat16())
(weight.double() @ weight.double())
"""
SETTINGS = [
    ("", "conv"),
    ("torch.backends.cuda.matmul.allow_tf32 = True", "matmul conv"),
    ("torch.set_float32_matmul_precision('high')", "matmul conv"),
    ("torch.set_float32_matmul_precision('medium')", "matmul conv"),
    ("torch.set_float32_matmul_precision('highest')", "conv"),
    ("torch.backends.cudnn.allow_tf32 = False", ""),
    ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", ""),
    ("torch.backends.fp32_precision = 'tf32'", "matmul conv"),
    ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", "matmul conv"),
    ("import os; os.environ['NVIDIA_TF32_OVERRIDE'] = '0'", ""),
]


def types(folder: Path, setting: str, **options: bool) -> dict[str, set[str]]:
    """The types that each operator is computed in."""
    text = PROGRAM.replace("SETTING", setting)
    trace = capture(program(folder, text), world_size=1, step=0, **options).job.traces[0]  # type: ignore[arg-type]
    found: dict[str, set[str]] = {}
    for node, dtype in attribute(trace, "dtype").items():
        found.setdefault(trace.name(node), set()).add(dtype)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("setting", "allowed"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_float32_runs_in_what_the_program_allows(tmp_path: Path, setting: str, allowed: str) -> None:
    found = types(tmp_path, setting)
    assert found["aten::mm"] == {"tfloat32" if "matmul" in allowed else "float32", "bfloat16", "float64"}
    convolution = {"tfloat32" if "conv" in allowed else "float32"}
    assert found["aten::convolution"] == found["aten::convolution_backward"] == convolution
    assert found["aten::sum"] == {"float32"}


def test_without_a_gpu_there_is_none(tmp_path: Path) -> None:
    text = PROGRAM.replace('device="cuda"', 'device="cpu"').replace("SETTING", "")
    trace = capture(program(tmp_path, text), world_size=1, step=0, with_gpu=False).job.traces[0]
    assert "tfloat32" not in set(attribute(trace, "dtype").values())


def test_how_many_is_said_and_the_device_takes_that_peak(tmp_path: Path) -> None:
    done = {}
    for setting in ("", "torch.backends.cudnn.allow_tf32 = False"):
        text = PROGRAM.replace("SETTING", setting)
        done[setting] = capture(program(tmp_path, text), world_size=1, step=0, device_profile="a100")
    line = "float32 operators in TF32, which torch.backends.cudnn.conv allows: 2"
    assert [line in entry.assumptions for entry in done.values()] == [True, False]
    times = []
    for entry in done.values():
        trace = entry.job.traces[0]
        durations = attribute(trace, "duration_ns")
        times.append(sum(durations[node] for node in durations if "convolution" in trace.name(node)))
    assert times[0] < times[1] / 2


@pytest.mark.parametrize(("device", "other"), [("a100", 156e12), ("h100", 494.7e12), ("v100", 15.7e12)])
def test_the_peak_of_tf32_is_that_of_float32_where_there_is_none(device: str, other: float) -> None:
    assert load_device(device).peak_of("tfloat32") == other


def test_the_peak_of_float32_stands_in_on_matrix_units_too() -> None:
    profile = load_device("mi250")
    assert profile.peak_of("tfloat32") == profile.peak_of("float32") != profile.vector
