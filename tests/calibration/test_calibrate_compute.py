"""Fitting devices to measured times: what is found again, what is held out, and what is refused."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chakrasim.calibration import calibrate_compute, calibration_json
from chakrasim.calibration.compute import Calibration
from chakrasim.calibration.errors import pooled
from chakrasim.calibration.fit import Samples, fit_efficiency
from chakrasim.calibration.layers import layer_work, work_for
from chakrasim.calibration.models import ModelConfig
from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.machine import DeviceProfile, load_device
from chakrasim.machine.device.profile import Efficiency
from chakrasim.trace.work import WorkKind

SAMPLE = Path(__file__).parents[1] / "data" / "layer-times"
TOKENS = np.unique(np.geomspace(1, 4096, 60).astype(np.int64))
TINY = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4}
WIDE = {"hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40}
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def made_profile(**changes: float) -> DeviceProfile:
    """An H100 whose matrix products have the efficiency that a fit has to find."""
    h100 = load_device("h100")
    truth = replace(Efficiency(4000.0, 0.5, 0.65, 0.75, 2.0, 3.0), **changes)
    return replace(h100, efficiency={**h100.efficiency, WorkKind.GEMM: truth}, sustained={})


def write_times(
    folder: Path,
    name: str,
    config: Mapping[str, int],
    parts: int,
    layers: tuple[str, ...] = LAYERS,
    split: bool = True,
    profile: DeviceProfile | None = None,
) -> Path:
    """Layer times of a made device, DEVICE/ORGANISATION/MODEL/tpN/layers.csv; returns the file."""
    profile = profile or made_profile()
    heads = config["num_attention_heads"]
    model = ModelConfig(
        name=name,
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config["hidden_size"] // heads,
        vocabulary=32000,
        experts=0,
        fused_norm=False,
        source="",
    )
    file = folder / "H100" / name / f"tp{parts}" / "layers.csv"
    file.parent.mkdir(parents=True)
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["layer_name", "input", "kv_cache", "tp_size", "latency(ns)"])
        for layer in layers:
            work = layer_work(layer, model, parts if split else 1, 2)
            assert work is not None
            for tokens, time_ns in zip(TOKENS, profile.durations_ns(work_for(work, TOKENS, "float16")), strict=True):
                writer.writerow([layer, tokens, 0, parts, time_ns])
    return file


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Times of two models that nobody knows, on one and two devices."""
    for parts in (1, 2):
        write_times(tmp_path, "lab/Tiny-1B", TINY, parts)
        write_times(tmp_path, "lab/Wide-13B", WIDE, parts)
    return tmp_path


CONFIGS = {"lab/Tiny-1B": TINY, "Wide-13B": WIDE}


def test_a_fit_finds_the_efficiency_that_made_the_times(made: Path) -> None:
    found = calibrate_compute(made, model_config=CONFIGS)
    (device,) = found.devices
    gemm = device.profile.efficiency[WorkKind.GEMM]
    assert (gemm.compute, gemm.bandwidth) == pytest.approx((0.65, 0.75), rel=0.03)
    assert gemm.start_ns == pytest.approx(4000, rel=0.1)
    assert all(error.mape_percent < 7 for error in found.errors)
    mean = pooled(found.errors)
    assert mean is not None and mean.mape_percent < 2.5
    assert {error.held_out for error in found.errors} == {True}
    assert [fold.held_out for fold in device.folds] == [("lab/Tiny-1B",), ("lab/Wide-13B",)]
    assert device.profile.name == "h100-fitted"


def test_a_held_out_model_is_not_fitted_to(made: Path) -> None:
    # The held-out model runs on a device twice as slow: a fit that had seen it would not be half off.
    shutil.rmtree(made / "H100" / "lab" / "Wide-13B")
    write_times(made, "lab/Wide-13B", WIDE, 1, profile=made_profile(compute=0.325, bandwidth=0.375, start_ns=8000))
    found = calibrate_compute(made, model_config=CONFIGS, holdout=["wide-13b"])
    assert {error.model for error in found.errors} == {"lab/Wide-13B"}
    mean = pooled(found.errors)
    assert mean is not None and mean.mape_percent == pytest.approx(50, abs=3)
    assert found.devices[0].folds[0].trained_on == ("lab/Tiny-1B",)


def test_layers_that_are_not_split_are_found(tmp_path: Path) -> None:
    for parts in (1, 2):
        write_times(tmp_path, "lab/Tiny-1B", TINY, parts)
        write_times(tmp_path, "lab/Experts", WIDE, parts, layers=("expert.w1", "expert.w2"), split=False)
    found = calibrate_compute(tmp_path, model_config={"Tiny-1B": TINY, "Experts": {**WIDE, "num_local_experts": 8}})
    assert found.unsplit == {"lab/Experts": ("expert.w1", "expert.w2")}
    assert all(error.mape_percent < 5 for error in found.errors if error.model == "lab/Experts")


def test_outliers_do_not_move_the_fit() -> None:
    rng = np.random.default_rng(1)
    compute = 10 ** rng.uniform(2, 7, 400)
    memory = 10 ** rng.uniform(2, 6, 400)
    truth = Efficiency(3000.0, 1.0, 0.7, 0.8, 3.0, 2.0)
    steps, kernels = np.full(400, 4096.0), np.ones(400)
    work = compute, memory, steps, kernels, 1000 * memory
    times = truth.times_ns(*work)
    times[::20] *= 7
    found = fit_efficiency(Samples(*work, times), Efficiency(2000.0, 1.0, 0.8, 0.9, 3.0, 2.0))
    assert (found.compute, found.bandwidth) == pytest.approx((0.7, 0.8), rel=0.05)


def test_what_the_data_leave_open_stays_usual() -> None:
    # Tiny work: neither the peak nor the bandwidth ever counts.
    few = Samples(np.full(5, 1e-3), np.full(5, 1e-3), np.zeros(5), np.ones(5), np.ones(5), np.full(5, 5000.0))
    usual = Efficiency(2000.0, 1.5, 0.8, 0.9, 3.0, 2.0)
    found = fit_efficiency(few, usual)
    assert found.start_ns == pytest.approx(5000, rel=0.05)
    assert (found.compute, found.bandwidth, found.step_ns) == pytest.approx((0.8, 0.9, 1.5), rel=1e-3)


def test_the_sample_meets_the_bar() -> None:
    found = calibrate_compute(SAMPLE)
    mean = pooled([error for error in found.errors if error.projection])
    assert mean is not None
    assert mean.mape_percent < 8
    assert mean.roofline_mape_percent > 30
    assert set(found.unsplit["mistralai/Mixtral-8x7B-v0.1"]) >= {"expert.w1", "expert.w2"}
    assert {error.layer for error in found.errors if not error.projection} == {
        *("lm_head", "act_fn", "input_layernorm", "embedding")
    }
    assert any("layer 'gate' is not modelled" in warning for warning in found.warnings)


@pytest.fixture(scope="module")
def fitted(shared_dir: Path) -> Calibration:
    """All devices."""
    return calibrate_compute(shared_dir / "validation" / "gpu-kernels-v0")


def test_the_whole_data_meet_the_bar(fitted: Calibration) -> None:
    """The bar of the H100: 10 % pooled on models left out; every other device is well below a plain roofline."""
    products = [error for error in fitted.errors if error.projection and error.held_out]
    for device, bar in (("H100", 6.0), ("A6000", 11.0), ("RTX3090", 11.0)):
        mean = pooled([error for error in products if error.device == device])
        assert mean is not None and mean.mape_percent < bar, device
        assert mean.mape_percent < 0.6 * mean.roofline_mape_percent


def test_small_kernels_of_an_unseen_model_on_an_h100(fitted: Calibration) -> None:
    """Those that caches make faster: normalizations, rotary positions, activations."""
    errors = [error for error in fitted.errors if error.held_out and error.device == "H100"]
    for layer, bar in (("layernorm", 4.0), ("rope", 3.0), ("act_fn", 7.0)):
        mean = pooled([error for error in errors if layer in error.layer])
        assert mean is not None and mean.mape_percent < bar, layer


def test_shipped_profiles_are_what_the_fit_gives(fitted: Calibration) -> None:
    (own,) = [one.profile for one in fitted.devices if one.device == "H100"]
    kinds = {WorkKind.GEMM: ("start_ns", "step_ns", "compute", "bandwidth", "knee", "tail")}
    kinds |= dict.fromkeys((WorkKind.ELEMENTWISE, WorkKind.NORMALIZATION, WorkKind.ROTARY),
                           ("start_ns", "bandwidth", "cached", "cache_bytes"))  # fmt: skip
    for kind, names in kinds.items():
        found, shipped = (one.efficiency[kind] for one in (own, load_device("h100")))
        for name in names:
            assert getattr(shipped, name) == pytest.approx(getattr(found, name), rel=0.02), (kind, name)


@pytest.mark.parametrize("part", ["", "H100", "H100/lab", "H100/lab/Tiny-1B", "H100/lab/Tiny-1B/tp1"])
def test_any_folder_of_the_tree_will_do(made: Path, part: str) -> None:
    found = calibrate_compute(made / part, model_config=CONFIGS)
    assert {error.device for error in found.errors} == {"H100"}
    assert {error.model for error in found.errors} >= {"lab/Tiny-1B"}


def test_links_are_followed(made: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    (linked / "H100" / "lab").mkdir(parents=True)
    for model in ("Tiny-1B", "Wide-13B"):
        (linked / "H100" / "lab" / model).symlink_to(made / "H100" / "lab" / model, target_is_directory=True)
    (linked / "H100" / "itself").symlink_to(linked, target_is_directory=True)
    found = calibrate_compute(linked, model_config=CONFIGS)
    assert found.errors == calibrate_compute(made / "H100", model_config=CONFIGS).errors


def test_without_an_organisation(made: Path) -> None:
    shutil.move(made / "H100" / "lab" / "Tiny-1B", made / "H100" / "Tiny-1B")
    shutil.rmtree(made / "H100" / "lab")
    assert {error.model for error in calibrate_compute(made, model_config=CONFIGS).errors} == {"Tiny-1B"}


def test_gzip_other_columns_and_units(made: Path) -> None:
    expected = calibrate_compute(made, model_config=CONFIGS).devices[0].profile
    for file in made.rglob("layers.csv"):
        rows = list(csv.DictReader(file.open()))
        lines = [
            "layer,tokens,time_us",
            *(f"{r['layer_name']},{r['input']},{float(r['latency(ns)']) / 1000}" for r in rows),
        ]
        file.with_name("layers.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        file.unlink()
    assert calibrate_compute(made, model_config=CONFIGS).devices[0].profile == expected


def test_one_model_has_nothing_to_hold_out(tmp_path: Path) -> None:
    write_times(tmp_path, "lab/Tiny-1B", TINY, 1)
    found = calibrate_compute(tmp_path, model_config=TINY)  # names no model: that of the only one
    assert {error.held_out for error in found.errors} == {False}
    assert any("nothing was held out" in warning for warning in found.warnings)


def test_times_below_the_data_sheet_are_not_fitted_to(made: Path) -> None:
    file = made / "H100" / "lab" / "Wide-13B" / "tp1" / "layers.csv"
    rows = file.read_text().splitlines()
    file.write_text("\n".join([row.rpartition(",")[0] + ",50" if row.startswith("down_proj") else row for row in rows]))
    found = calibrate_compute(made, model_config=CONFIGS, holdout=["Tiny-1B"])
    assert any("layer 'down_proj' of lab/Wide-13B (tp 1) is not fitted" in warning for warning in found.warnings)
    assert found.devices[0].profile.efficiency[WorkKind.GEMM].compute == pytest.approx(0.65, rel=0.05)


def test_attention_is_fitted_from_its_own_file(made: Path) -> None:
    file = made / "H100" / "lab" / "Tiny-1B" / "tp1" / "attention.csv"
    head = "prefill_chunk_size,kv_cache_size,batch_size,is_prefill,p50_ns"
    rows = [f"{m},{n},1,True,{5000 + 30 * n}" for m in (32, 512) for n in range(512, 4096, 256)]
    file.write_text("\n".join([head, *rows, "1,100,8,False,1"]))
    found = calibrate_compute(made, model_config=CONFIGS)
    attention = found.devices[0].profile.efficiency[WorkKind.ATTENTION]
    assert attention.step_ns == pytest.approx(30, rel=0.1)
    assert any("1 rows are not used" in warning for warning in found.warnings)


def refused(data: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        calibrate_compute(data, **{"model_config": CONFIGS, **options})
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("q_proj,16,0,1,nan", "line 3: latency(ns) is no time; found 'nan'; expected a number above 0"),
        ("q_proj,16,0,1,-5", "line 3: latency(ns) is no time; found '-5'"),
        ("q_proj,16,0,1,0", "line 3: latency(ns) is no time; found '0'"),
        ("q_proj,16,0,1,inf", "line 3: latency(ns) is no time; found 'inf'"),
        ("q_proj,16,0,1,fast", "line 3: latency(ns) is no time; found 'fast'"),
        ("q_proj,1.5,0,1,100", "line 3: input is no number; found '1.5'; expected an integer of 1 or more"),
        ("q_proj,0,0,1,100", "line 3: input is no number; found '0'"),
        ("q_proj,16,0,-1,100", "line 3: tp_size is no number; found '-1'"),
        ("q_proj,16,0,1", "line 3: the row has another number of fields than the header; found 4; expected 5"),
    ],
)
def test_rows_refused(made: Path, line: str, expected: str) -> None:
    file = made / "H100" / "lab" / "Tiny-1B" / "tp1" / "layers.csv"
    file.write_text(f"layer_name,input,kv_cache,tp_size,latency(ns)\nq_proj,8,0,1,100\n{line}\n")
    assert f"layers.csv: {expected}" in refused(made)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("layer_name,input,kv_cache,tp_size", "no column with the time; found layer_name, input"),
        ("layer_name,kv_cache,latency(ns)", "no column with the number of tokens"),
        ("what,input,latency(ns)", "no column with the layer; found what, input"),
    ],
)
def test_missing_columns(made: Path, header: str, expected: str) -> None:
    file = made / "H100" / "lab" / "Tiny-1B" / "tp1" / "layers.csv"
    file.write_text(f"{header}\n" + ",".join("1" * len(header.split(","))) + "\n")
    assert f"layers.csv: line 1: {expected}" in refused(made)


def test_files_refused(made: Path) -> None:
    file = made / "H100" / "lab" / "Tiny-1B" / "tp1" / "layers.csv"
    text = file.read_text()
    file.write_text(text.splitlines()[0] + "\n")
    assert refused(made).endswith("layers.csv: no rows")
    file.unlink()
    packed = file.with_name("layers.csv.gz")
    packed.write_bytes(gzip.compress(text.encode())[:-40])
    assert "layers.csv.gz: after 7552 uncompressed bytes: the gzip data are damaged" in refused(made)
    packed.write_bytes(b"no gzip")
    assert refused(made).endswith("layers.csv.gz: no rows")  # what is in it tells whether it is compressed
    packed.write_bytes(gzip.compress(b"\xff\xfe\xfa"))
    assert "layers.csv.gz: byte 0: not text" in refused(made)
    packed.unlink()
    (made / "H100" / "lab" / "Tiny-1B" / "tp1").rename(made / "H100" / "lab" / "Tiny-1B" / "one")
    file = made / "H100" / "lab" / "Tiny-1B" / "one" / "layers.csv"
    file.write_text("layer,tokens,time_ns\nq_proj,1,10\n")
    assert "nothing says over how many devices the layers are split" in refused(made)


def test_folders_and_names_refused(made: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "empty: no measurements below this folder; expected files DEVICE/" in refused(empty)
    assert "none: no such folder" in refused(tmp_path / "none")
    assert "the model to be held out is not in the data; found GPT-5; expected lab/Tiny-1B or lab/Wide-13B" in refused(
        made, holdout=["GPT-5"]
    )
    assert "nothing is left to fit: all models are held out" in refused(made, holdout=["Tiny-1B", "Wide-13B"])
    assert "no such device in the data; found A100; expected H100" in refused(made, gpu="A100")
    assert "unknown type; found 'int4'" in refused(made, dtype="int4")
    assert "the dimensions of lab/Wide-13B are not known" in refused(made, model_config={"Tiny-1B": TINY})
    (made / "H100").rename(made / "L20")
    assert "no shipped device is called 'L20'" in refused(made)
    assert calibrate_compute(made, model_config=CONFIGS, device_profile="a6000").devices[0].device == "L20"


def test_from_the_command_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, figures, profile = tmp_path / "models.json", tmp_path / "errors.json", tmp_path / "fitted.yaml"
    config.write_text(json.dumps(CONFIGS))
    argv = ["calibrate", "compute", "--data", str(made), "--model-config", str(config), "--holdout", "Wide-13B"]
    assert main([*argv, "--json", str(figures), "--output", str(profile)]) == 0
    printed = capsys.readouterr().out
    assert "Matrix products: mean absolute error of the predicted time" in printed
    assert "lab/Wide-13B" in printed and str(config) in printed
    content = json.loads(figures.read_text())
    assert content["pooled"]["mape_percent"] < 2
    assert [(row["model"], row["tp"]) for row in content["per_model_tp"]] == [("lab/Wide-13B", 1), ("lab/Wide-13B", 2)]
    assert set(content["per_model_tp"][0]["layers"]) == set(LAYERS)
    assert content["per_device"]["H100"]["folds"] == [{"trained_on": ["lab/Tiny-1B"], "held_out": ["lab/Wide-13B"]}]
    assert load_device(profile).efficiency[WorkKind.GEMM].compute == pytest.approx(0.65, rel=0.03)
    assert main([*argv, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == content
    assert main(["calibrate", "compute", "--data", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_one_output_for_one_device(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(made / "H100", made / "A100")
    config = tmp_path / "models.json"
    config.write_text(json.dumps(CONFIGS))
    argv = ["calibrate", "compute", "--data", str(made), "--model-config", str(config), "--quiet"]
    out = tmp_path / "fitted.yaml"
    assert main([*argv, "--output", str(out)]) == 2
    assert "--output takes one profile, but several devices were fitted; found A100, H100" in capsys.readouterr().err
    assert not out.exists()
    assert main([*argv, "--output", str(out), "--gpu", "a100"]) == 0
    assert load_device(out).memory_bytes == load_device("a100").memory_bytes


def test_the_same_data_give_the_same_fit(made: Path) -> None:
    one, two = (calibration_json(calibrate_compute(made, model_config=CONFIGS)) for _ in range(2))
    assert one == two
