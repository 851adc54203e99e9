"""``calibrate steps``: a device's open constants from measured steps, in a table or recorded."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.demo import TRACES
from chakrasim.estimation.api import estimate_step
from chakrasim.machine import DeviceProfile, load_device, load_machine
from chakrasim.trace.work import WorkKind
from chakrasim.validation.steps.calibrate import calibrate_steps
from chakrasim.validation.steps.constants import constants_of, with_constants
from chakrasim.validation.steps.describe import described
from chakrasim.validation.steps.recorded import read_measured, recorded_step_s
from chakrasim.validation.steps.rows import StepRow

BASE = {
    "id": "one", "model": "small", "gpu": "H100-SXM-80GB", "gpus": "8", "seq_len": "2048", "global_batch": "16",
    "micro_batch": "2", "dp": "8", "tp": "1", "pp": "1", "precision": "bf16", "recompute": "none", "hidden": "2048",
    "layers": "4", "heads": "16", "ffn": "8192", "vocab": "50304", "framework": "NeMo", "step_time_s": "",
}  # fmt: skip
STEPS = (
    {},
    {"layers": "8"},
    {"micro_batch": "1", "global_batch": "8", "seq_len": "8192"},
    {"model": "wide", "hidden": "4096", "heads": "32", "ffn": "16384"},
    {"model": "wide", "hidden": "4096", "heads": "32", "ffn": "16384", "precision": "fp8"},
    {"model": "long", "seq_len": "16384", "micro_batch": "1", "global_batch": "8"},
)


def table(path: Path, seconds: list[float | None], steps: tuple[dict[str, str], ...] = STEPS) -> Path:
    """A table of steps with these times."""
    rows = [{**BASE, "id": f"row{at}", **more} for at, more in enumerate(steps)]
    for row, value in zip(rows, seconds, strict=True):
        row["step_time_s"] = "" if value is None else f"{value:.9f}"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(BASE))
        writer.writeheader()
        writer.writerows(rows)
    return path


def seconds_on(profile: DeviceProfile) -> list[float | None]:
    """What the steps take on a device."""
    found: list[float | None] = []
    for more in STEPS:
        one = described(StepRow("one", "line 2", {**BASE, **more}))
        machine = replace(load_machine(one.board, gpus=one.gpus), profile=profile)
        found.append(estimate_step(one.spec, machine, recipe=one.recipe).step_s)
    return found


@pytest.fixture(scope="module")
def truth() -> DeviceProfile:
    """An H100 whose products keep less of their speed, and whose memory is slower."""
    factors = {"sustained bfloat16": 0.8, "attention": 0.85, "bandwidth": 0.75}
    return with_constants(load_device("h100"), factors)


def test_constants_that_steps_were_made_with_are_found(truth: DeviceProfile, tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    found = calibrate_steps(
        table(tmp_path / "steps.csv", seconds_on(truth)), progress=lambda at, of, name: done.append((at, of))
    )
    assert found.device == "h100"
    after = {one.name: one.after for one in found.constants}
    assert after["sustained bfloat16"] == pytest.approx(truth.sustained["bfloat16"], rel=0.07)
    assert after["attention"] == pytest.approx(truth.efficiency[WorkKind.ATTENTION].compute, rel=0.08)
    assert found.errors["shipped"].bias_pct < -10
    assert found.errors["fitted"].median_pct < 1.5
    assert found.errors["held out"].median_pct < 0.4 * found.errors["shipped"].median_pct
    assert found.errors["fitted"].low < 1 < found.errors["fitted"].high
    assert done[-1][0] == done[-1][1] > len(STEPS)
    assert found.errors["fitted"].steps == len(found.steps)
    for name, of in (("shipped", "shipped_s"), ("fitted", "fitted_s"), ("held out", "held_out_s")):
        off = [100 * (getattr(one, of) / one.measured_s - 1) for one in found.steps]
        assert float(np.median(off)) == pytest.approx(found.errors[name].bias_pct, abs=1e-6), name
    assert found.plot().svg.count("<circle") == len(found.steps) == len(found.to_json()["steps"])


def test_nothing_is_changed_where_predictions_are_right(tmp_path: Path) -> None:
    found = calibrate_steps(table(tmp_path / "steps.csv", seconds_on(load_device("h100"))))
    for one in found.constants:
        assert one.after == pytest.approx(one.before, rel=1e-3), one.name


def test_one_wild_step_does_not_move_the_others(truth: DeviceProfile, tmp_path: Path) -> None:
    seconds = seconds_on(truth)
    seconds[1] = 10 * (seconds[1] or 0)
    found = calibrate_steps(table(tmp_path / "steps.csv", seconds))
    after = {one.name: one.after for one in found.constants}
    assert after["sustained bfloat16"] == pytest.approx(truth.sustained["bfloat16"], rel=0.15)


def test_shares_end_at_one() -> None:
    profile = load_device("h100")
    names = constants_of(profile, ["bfloat16", "mxfp8"])
    assert names == ("sustained bfloat16", "sustained float8", "attention", "bandwidth", "start")
    fast = with_constants(profile, dict.fromkeys(names, 9.0))
    assert set(fast.sustained.values()) <= {1.0, *profile.sustained.values()}
    assert fast.efficiency[WorkKind.ELEMENTWISE].bandwidth == fast.efficiency[WorkKind.ATTENTION].compute == 1.0
    assert fast.efficiency[WorkKind.GEMM].start_ns == 9 * profile.efficiency[WorkKind.GEMM].start_ns


def test_the_command_writes_a_profile_that_estimates_take(
    truth: DeviceProfile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = table(tmp_path / "steps.csv", seconds_on(truth))
    device, figures = tmp_path / "mine.yaml", tmp_path / "figures.json"
    assert main(["calibrate", "steps", str(data), "-o", str(device), "--json", str(figures)]) == 0
    shown = capsys.readouterr().out
    assert "sustained bfloat16" in shown
    assert "held out" in shown
    content: dict[str, Any] = json.loads(figures.read_text())
    profile = load_device(device)
    assert "fitted to 6 steps of steps.csv" in profile.source
    assert profile.sustained["bfloat16"] == pytest.approx(content["constants"]["sustained bfloat16"]["after"], rel=1e-5)
    slow, usual = (
        cs.estimate("llama3-8b", machine="h100", gpus=8, batch=8, device_profile=one).step_s for one in (device, None)
    )
    assert slow > 1.05 * usual


@pytest.mark.parametrize(
    ("steps", "device", "why"),
    [
        (({}, {"gpu": "A100-SXM-80GB"}), None, "steps of several devices; found a100, h100; expected one"),
        (({"gpu": "Gaudi2"},), None, "no step can be used; found line 2: no device profile of this GPU"),
        (({},), "h1000", "neither a shipped device nor a file; found 'h1000'"),
    ],
)
def test_what_cannot_be_fitted_says_why(
    steps: tuple[dict[str, str], ...], device: str | None, why: str, tmp_path: Path
) -> None:
    with pytest.raises(cs.InputError) as caught:
        calibrate_steps(table(tmp_path / "steps.csv", [1.0] * len(steps), steps), device=device)
    assert why in str(caught.value)


def test_steps_without_a_time_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(cs.InputError, match="no row with a time"):
        calibrate_steps(table(tmp_path / "steps.csv", [None], ({},)))
    found = calibrate_steps(table(tmp_path / "two.csv", [0.2, None], ({}, {"layers": "8"})), device="h100")
    assert found.errors["fitted"].steps == 1
    assert "held out" not in found.errors


def test_times_come_from_recordings(tmp_path: Path) -> None:
    shutil.copytree(TRACES, tmp_path / "row1")
    table(tmp_path / "steps.csv", [0.5, None], ({}, {}))
    measured = read_measured(tmp_path).measured_s
    # The slowest of four ranks took 115.8, 115.8 and 160.7 ms.
    assert measured == (0.5, pytest.approx(0.1158, abs=1e-4))
    with pytest.raises(cs.InputError, match="not one table; found none"):
        read_measured(tmp_path / "row1")
    assert recorded_step_s(str(tmp_path / "row1")) == measured[1]
