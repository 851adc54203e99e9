"""The scoreboard of training steps: rows, what they are simulated as, figures, the command."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.generator.spec.spec import Adapters
from chakrasim.report.tables.validation import steps_sections
from chakrasim.text.layout import plain_text
from chakrasim.validation.steps.api import CONSTANT, NEAREST, SHIPPED, StepsBoard, estimated, validate_steps
from chakrasim.validation.steps.describe import described
from chakrasim.validation.steps.rows import MEASURED, StepRow, read_steps
from chakrasim.validation.steps.scores import by, errors, in_order, inside, residuals

STORED: Final = Path(__file__).parents[1] / "data" / "steps-errors.json"
"""Errors that may not get worse; CHAKRASIM_UPDATE_SCOREBOARD=1 writes those of today."""
BASE: Final = {
    "id": "one", "model": "small", "class": "dense", "gpu": "H100-SXM-80GB", "gpus": "16", "gpus_per_node": "8",
    "nic_gbps_per_gpu": "400", "precision": "bf16", "seq_len": "2048", "global_batch": "64", "micro_batch": "2",
    "dp": "16", "tp": "1", "pp": "1", "zero_stage": "3", "recompute": "none", "hidden": "2048", "layers": "8",
    "heads": "16", "ffn": "8192", "gated_ffn": "0", "vocab": "50304", "gflops_per_token": "4", "active_params_b": "0.5",
    "step_time_s": "0.5", "tokens_per_s_per_gpu": "1", "notes": "fast",
}  # fmt: skip


def table(path: Path, *rows: dict[str, str]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(BASE))
        writer.writeheader()
        writer.writerows({**BASE, "id": f"row{at}", **row} for at, row in enumerate(rows))
    return path


def seconds(**more: str) -> float:
    return estimated(described(StepRow("one", "line 2", {**BASE, **more}))).step_s


def test_a_step_moves_as_what_it_is_made_of() -> None:
    base = seconds()
    assert seconds(seq_len="4096", global_batch="32", micro_batch="1") > base
    assert seconds(recompute="full") > 1.15 * base
    assert seconds(global_batch="128") == pytest.approx(2 * base, rel=0.15)
    assert seconds(nic_gbps_per_gpu="25") > 1.5 * base
    assert seconds(nic_gbps_per_gpu="800") <= base
    assert seconds(gpu="A100-SXM-80GB") > 1.5 * base
    assert seconds(dp="2", tp="8", zero_stage="1") != base
    assert seconds(dp="8", pp="2", zero_stage="1") != base


def test_what_is_not_said_is_assumed() -> None:
    one = described(StepRow("one", "line 2", {**BASE, "vocab": "50001", "dp": "2", "tp": "8", "nic_gbps_per_gpu": ""}))
    assert one.assumed == (
        "vocabulary padded to 50176", "learned positions and layer norms", "gradients are reduced in float32",
        "the board's usual NICs",
    )  # fmt: skip
    assert (one.spec.model.vocabulary, one.spec.model.norm, one.nic) == (50176, "layer", "")
    alone = described(StepRow("one", "line 2", {**BASE, "gpus": "8", "dp": "8", "gated_ffn": "1"}))
    assert alone.assumed == ("rotary positions and RMS norms", "gradients are reduced in float32")
    assert (one.recipe, alone.recipe) == ("megatron", "megatron")


@pytest.mark.parametrize(
    ("more", "balance", "assumed"),
    [
        ({"layers": "8"}, "even", ()),
        ({"layers": "10"}, "layers", ("stages share layers as evenly as it goes",)),
        ({"layers": "14"}, "ends", ("stages share layers, embedding and head evenly",)),
        ({"layers": "10", "stage_balance": "layers"}, "layers", ()),
        ({"layers": "14", "stage_balance": "layers and embeddings"}, "ends", ()),
    ],
)
def test_stages_share_layers_as_the_row_says(more: dict[str, str], balance: str, assumed: tuple[str, ...]) -> None:
    known = {"dp": "2", "pp": "8", "vp": "1", "zero_stage": "1", "grad_reduce_precision": "fp32"}
    one = described(StepRow("one", "line 2", {**BASE, **known, **more}))
    assert one.spec.parallel.balance == balance
    assert one.assumed[1:] == assumed


EXPERTS: Final = {"class": "experts", "experts": "16", "top_k": "2", "expert_ffn": "512", "gated_ffn": "1"}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"precision": "fp8", "quant": "mxfp8"}, {"matrix_dtype": "mxfp8", "dtype": "bfloat16"}),
        ({"precision": "fp4"}, {"matrix_dtype": "nvfp4"}),
        ({"recompute": "full", "recompute_detail": "first 3 layers of each stage"}, {"recompute_layers": 3}),
        ({"recompute": "selective", "recompute_detail": "layernorm moe_act"}, {"recompute": "norm,activation"}),
        ({"recompute": "selective"}, {"recompute": "attention"}),
        ({"recompute": "unknown"}, {"recompute": "none"}),
        ({"cuda_graph": "full_iteration"}, {"cuda_graphs": "full"}),
        ({"cuda_graph": "transformer_engine"}, {"cuda_graphs": "partial"}),
        ({"framework": "torchtitan (PyTorch FSDP2)", "compiled": "true"}, {"kernels": "compiled", "fused_loss": True}),
        ({"framework": "Megatron-DeepSpeed"}, {"flash_attention": False, "kernels": "fused"}),
        ({"task": "lora", "lora_rank": "8"}, {"lora": Adapters(8)}),
        ({"optimizer_precision": "bf16 moments, fp32 master"}, {"state_bytes": 8}),
    ],
)
def test_columns_become_what_they_mean(more: dict[str, str], found: dict[str, object]) -> None:
    spec = described(StepRow("one", "line 2", {**BASE, **more})).spec
    assert {name: getattr(spec, name) for name in found} == found


def test_experts_and_contexts_are_described() -> None:
    one = described(StepRow("one", "line 2", {**BASE, **EXPERTS, "ep": "8", "zero_stage": "1"}))
    assert one.spec.model.moe is not None
    assert (one.spec.model.moe.experts, one.spec.parallel.ep, one.spec.parallel.expert_tp) == (16, 8, 1)
    assert one.recipe == "megatron-experts"
    long = described(StepRow("one", "line 2", {**BASE, "dp": "8", "cp": "2"}))
    assert (long.spec.parallel.cp, long.spec.tokens) == (2, 2048)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"class": "diffusion"}, "the generator knows these classes of models; found class diffusion"),
        ({"precision": "int8"}, "the generator knows these precisions; found precision int8"),
        ({"cp": "2"}, "the split does not make so many GPUs; found 32 ranks; expected 16 GPUs"),
        ({"attention": "linear"}, "these kinds of attention; found attention linear"),
        ({"attention": "mla"}, "column mla_q_rank: this is no such number; found ''"),
        ({"offload": "optimizer"}, "keeps everything in the GPU's memory"),
        ({"recompute": "some"}, "these kinds of recomputation; found recompute some"),
        ({"recompute": "selective", "recompute_detail": "norms"}, "no such recomputation; found norms"),
        ({"task": "inference"}, "the generator knows training; found task inference"),
        ({"gpu": "Gaudi2"}, "no device profile of this GPU; found Gaudi2"),
        ({"dp": "8"}, "the split does not make so many GPUs; found 8 ranks; expected 16 GPUs"),
        ({"layers": "many"}, "line 2, column layers: this is no such number; found 'many'"),
        ({"layers": "9" * 5000}, "line 2, column layers: this is no such number; found '999"),
        ({"zero_stage": "3.0"}, "column zero_stage: this is no such number; found '3.0'; expected a whole number of 0"),
        ({"gpus_per_node": "0"}, "column gpus_per_node: this is no such number; found '0'; expected a whole number of"),
        ({"nic_gbps_per_gpu": "fast"}, "column nic_gbps_per_gpu: this is no such number; found 'fast'; expected Gb/s"),
        ({"dp": "2", "pp": "8", "layers": "4"}, "more pieces of the model than layers"),
    ],
)
def test_rows_that_cannot_be_simulated_say_why(tmp_path: Path, more: dict[str, str], why: str) -> None:
    columns = {**BASE, **more}
    with pytest.raises(cs.InputError) as caught:
        described(StepRow("one", "line 2", columns))
    assert why in str(caught.value)
    file = tmp_path / "two.csv"
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(columns))
        writer.writeheader()
        writer.writerows([{**BASE, "id": "good"}, columns])
    board = validate_steps(file)
    assert [one.row.id for one in board.predictions] == ["good"]
    assert [one.row.id for one in board.refused] == ["one"]


def test_measured_columns_are_not_looked_at(tmp_path: Path) -> None:
    nothing = {**dict.fromkeys(MEASURED, ""), "notes": ""}
    named = table(tmp_path / "a.csv", {}, {"layers": "4"})
    blank_columns = {name: "" for name in nothing if name in BASE}
    blank = table(tmp_path / "b.csv", blank_columns, {**blank_columns, "layers": "4"})
    with_times, without = validate_steps(named), validate_steps(blank)
    assert [one.predicted_s for one in with_times.predictions] == [one.predicted_s for one in without.predictions]
    assert [one.measured_s for one in without.predictions] == [None, None]
    assert not set(read_steps(named).rows[0].columns) & {*MEASURED, "notes"}
    assert [row["measured_s"] for row in without.to_json()["rows"]] == [None, None]


def test_errors_are_pooled_over_rows_that_count(tmp_path: Path) -> None:
    file = table(tmp_path / "a.csv", {}, {"layers": "4"}, {"layers": "16", "model": "other"})
    board = validate_steps(file)
    assert {name: one.rows for name, one in by(board, lambda one: one.row.get("model")).items()} == {
        "other": 1, "small": 2,
    }  # fmt: skip
    first = board.predictions[0]
    again = replace(first, described=replace(first.described, row=replace(first.row, columns={"reprint": "1"})))
    assert not board.counted(again)
    assert board.counted(first)
    assert set(board.baselines) == {CONSTANT, NEAREST}
    scaled = board.baselines[NEAREST]
    assert scaled[0] == pytest.approx(0.5)
    told = plain_text(steps_sections(board))
    assert "in the right order" in told
    assert "measured inside the 90 % interval: 0 of 3" in told
    wide = replace(board, predictions=tuple(replace(one, low_s=0.0, high_s=1e9) for one in board.predictions))
    assert inside(wide) == (3, 3)
    assert [one.group for one in residuals(board)] == [
        f"{name} on {BASE['gpu']}" for name in ("small", "small", "other")
    ]


def test_rows_without_work_are_no_neighbours(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", BASE, BASE | {"id": "two", "model": "other", "gflops_per_token": "0"})
    board = validate_steps(path)
    assert math.isnan(board.baselines[NEAREST][0])


def test_figures_of_errors() -> None:
    found = errors([1.1, 0.8, 2.0], [1.0, 1.0, 1.0])
    assert found is not None
    assert (found.rows, found.bias_pct, found.median_pct) == (3, pytest.approx(10), pytest.approx(20))
    assert found.ninth_pct == pytest.approx(84)
    assert errors([], []) is None


def test_pairs_that_lie_apart_are_to_be_in_order(tmp_path: Path) -> None:
    def board(*measured: str) -> StepsBoard:
        rows = [{"step_time_s": one, "layers": str(4 * (at + 1))} for at, one in enumerate(measured)]
        return validate_steps(table(tmp_path / "a.csv", *rows))

    assert in_order(board("1", "2", "3")) == (3, 3)
    assert in_order(board("3", "2", "1")) == (3, 0)
    assert in_order(board("1", "1.02", "2")) == (2, 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the file is empty"),
        ("id,gpu\na,b\n", "no column gpus"),
        ("\x00\x01", "this is not text"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(cs.InputError, match=why):
        validate_steps(file)
    assert main(["validate", "steps", "--data", str(file)]) == 2


def test_bad_values_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(cs.InputError, match="line 3, column id: ids must be there, each once"):
        validate_steps(table(tmp_path / "a.csv", {"id": "x"}, {"id": "x"}))
    with pytest.raises(cs.InputError, match="line 2, column step_time_s: this is no such number; found 'soon'"):
        validate_steps(table(tmp_path / "b.csv", {"step_time_s": "soon"}))
    with pytest.raises(cs.InputError, match=r"no row can be predicted.*no device profile of this GPU"):
        validate_steps(table(tmp_path / "c.csv", {"gpu": "Gaudi2"}))
    with pytest.raises(cs.InputError, match=r"nowhere.csv"):
        validate_steps(tmp_path / "nowhere.csv")


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = table(tmp_path / "a.csv", {}, {"class": "diffusion"}), tmp_path / "out.json"
    assert main(["validate", "steps", "--data", str(file), "--json", str(out)]) == 0
    told = json.loads(out.read_text())
    assert told["rows"][0].keys() >= {"id", "measured_s", "predicted_s", "low_s", "high_s", "assumed"}
    assert told["refused"][0]["id"] == "row1"
    shown = capsys.readouterr().out
    assert "By GPU" in shown
    assert "Rows that are not predicted" in shown
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    again = validate_steps(packed).predictions[0].predicted_s
    assert told["rows"][0]["predicted_s"] == pytest.approx(again, abs=1e-6)


def test_published_steps_do_not_get_worse(tmp_path: Path) -> None:
    """Every third of those that ship and have no pipeline; all of them take minutes."""
    lines = list(csv.DictReader(io.StringIO(SHIPPED.read_text())))
    few = [row for row in lines if row["pp"] == "1" and row["source"] in ("llm-foundry", "torchtitan")][::3]
    file = tmp_path / "few.csv"
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(lines[0]))
        writer.writeheader()
        writer.writerows(few)
    board = validate_steps(file)
    found = by(board, lambda one: f"{one.row.get('source')}, {one.row.get('gpu')}")
    now = {name: [one.rows, round(one.median_pct, 2), round(one.ninth_pct, 2)] for name, one in found.items()}
    if os.environ.get("CHAKRASIM_UPDATE_SCOREBOARD") == "1":
        STORED.write_text(json.dumps(now, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    assert now.keys() == stored.keys()
    for name, (rows, median, ninth) in stored.items():
        assert now[name][0] >= rows, name
        assert now[name][1] <= 1.02 * median + 0.2, name
        assert now[name][2] <= 1.02 * ninth + 0.2, name
