"""Specs as YAML: what is read, what is completed, and what is refused, where and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.models import MODELS
from chakrasim.generator.spec.spec import Batch, Experts, Parallel, Spec

TINY = {"layers": 4, "hidden": 64, "heads": 4, "vocabulary": 128, "sequence": 16}


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "step.yaml"
    path.write_text(
        "model: {preset: llama-7b, layers: 16, moe: {experts: 8, top_k: 2, every: 2}}\n"
        "parallel: {dp: 4, tp: 2, pp: 2, sp: true, ep: 2, fsdp: true, virtual_stages: 2}\n"
        "batch: {global_batch: 64, micro_batch: 2}\n"
        "recompute: full\ndtype: float16\noptimizer: {kind: sgd, state_bytes: 8}\nflash_attention: false\n"
        "overlap: {tp: false, bucket: 40 MB}\n"
    )
    spec = load_spec(path)
    assert (spec.model.layers, spec.model.hidden, spec.model.name) == (16, 4096, "llama-7b")
    assert spec.model.moe == Experts(8, 2, 2, 11_008, 0)
    assert spec.parallel == Parallel(4, 2, 2, 1, True, 2, 3, 4, 2)
    assert spec.parallel.ranks == 16
    assert spec.batch == Batch(64, 2, 8)
    assert (spec.schedule, spec.recompute, spec.dtype) == ("interleaved", "full", "float16")
    assert (spec.optimizer, spec.state_bytes, spec.flash_attention) == ("sgd", 8, False)
    assert (spec.overlap.tp, spec.overlap.dp, spec.overlap.bucket_bytes) == (False, True, 40_000_000)


@pytest.mark.parametrize("name", MODELS)
def test_every_preset_makes_a_spec(name: str) -> None:
    assert isinstance(load_spec({"model": name}), Spec)


def test_what_is_left_out_is_completed() -> None:
    spec = load_spec({"model": TINY})
    assert (spec.model.feed_forward, spec.model.kv_heads, spec.model.head_size) == (256, 4, 16)
    assert spec.parallel == Parallel()
    assert spec.batch == Batch(1, 1, 1)
    assert (spec.state_bytes, load_spec({"model": TINY, "dtype": "float32"}).state_bytes) == (12, 8)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (4, 1, 1)),
        ({"global_batch": 24}, (24, 1, 6)),
        ({"global_batch": 24, "micro_batch": 3}, (24, 3, 2)),
        ({"global_batch": 24, "micro_batches": 3}, (24, 2, 3)),
        ({"micro_batch": 5, "micro_batches": 2}, (40, 5, 2)),
        ({"global_batch": 24, "micro_batch": 3, "micro_batches": 2}, (24, 3, 2)),
    ],
)
def test_two_sizes_of_a_batch_give_the_third(given: dict[str, int], expected: tuple[int, int, int]) -> None:
    batch = load_spec({"model": TINY, "parallel": {"dp": 4}, "batch": given}).batch
    assert (batch.global_batch, batch.micro_batch, batch.micro_batches) == expected


def test_names_of_other_programs_are_understood() -> None:
    model = {"num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128, "seq_length": 16}
    parallel = {"tensor_model_parallel_size": 2, "pipeline_parallel": 2, "sequence_parallel": True}
    batch = {"global_batch_size": 8, "micro_batch_size": 2}
    own = load_spec(
        {"model": TINY, "parallel": {"tp": 2, "pp": 2, "sp": True}, "batch": {"global_batch": 8, "micro_batch": 2}}
    )
    assert load_spec({"model": model, "parallel": parallel, "batch": batch}) == own


def test_sections_and_models_have_other_names_too() -> None:
    own = load_spec({"model": "llama3-8b", "parallel": {"dp": 2, "tp": 4}, "dtype": "float16", "recompute": "full"})
    other = {"model": "Llama-3.1-8B", "parallelism": {"dp": 2, "tp": 4}, "precision": "fp16", "recomputation": "full"}
    assert load_spec(other) == own
    hub = ("meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-70B", "mistralai/Mixtral-8x7B-v0.1")
    assert [load_spec({"model": name}).model.name for name in hub] == ["llama-7b", "llama3-70b", "mixtral-8x7b"]
    gpt2 = {"n_layer": 4, "n_embd": 64, "n_head": 4, "vocab": 128, "seq": 16}
    assert load_spec({"model": gpt2}) == load_spec({"model": TINY})


def test_values_in_any_case_and_under_usual_names() -> None:
    model = {**TINY, "norm": "LayerNorm", "position": "RoPE"}
    given = {"schedule": "1F1B", "dtype": "BF16", "gradient_dtype": "fp32", "optimizer": "AdamW", "recompute": "Full"}
    spec = load_spec({"model": model, **given})
    assert (spec.schedule, spec.dtype, spec.gradient_dtype, spec.optimizer) == ("1f1b", "bfloat16", "float32", "adamw")
    assert load_spec({"model": "GPT3-175B"}).model == load_spec({"model": {"preset": "gpt3-175b"}}).model
    assert (spec.recompute, spec.model.norm, spec.model.position) == ("full", "layer", "rotary")


@pytest.mark.parametrize("fsdp", [True, 4])
def test_fsdp_is_zero_3(fsdp: Any) -> None:
    parallel = load_spec({"model": TINY, "parallel": {"dp": 4, "fsdp": fsdp}}).parallel
    assert (parallel.zero, parallel.fsdp) == (3, 4)
    assert parallel == load_spec({"model": TINY, "parallel": {"dp": 4, "zero": 3}}).parallel


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modle": 1}, r"\$\.modle: unknown key; .*did you mean model"),
        ({"tp": 2}, r"\$\.tp: unknown key; .*write it under parallel"),
        ({"num_layers": 2}, r"\$\.num_layers: unknown key; .*write it under model, as layers"),
        ({"micro_batches": 2}, r"\$\.micro_batches: unknown key; .*write it under batch"),
        ({"model": {**TINY, "num_experts": 8}}, r"\.num_experts: unknown key; .*write it under model: moe, as experts"),
        ({"model": {**TINY, "tp": 8}}, r"\$\.model\.tp: unknown key; .*write it under parallel"),
        ({"model": {**TINY, "max_position_embeddings": 8}}, r"\.max_position_embeddings: .*write .*: sequence"),
        ({"parallel": {"cp": 3}}, r"\$\.parallel\.cp: cp does not divide sequence \(16\); found 3"),
        ({"parallel": {"cp": 2}, "flash_attention": False}, r"flash_attention: context parallelism needs attention"),
        (
            {"recompute": "norms"},
            r"\$\.recompute: no such recomputation; found 'norms'; expected none, .*or some of norm",
        ),
        ({"parallel": {}, "parallelism": {}}, r"\$\.parallelism: this is another name of parallel, which is there too"),
        ({"model": {**TINY, "hiden": 1}}, r"\$\.model\.hiden: unknown key; .*did you mean hidden"),
        ({"model": {**TINY, "hidden_size": 64}}, r"\$\.model\.hidden_size: this is another name of hidden"),
        ({"model": "lama-7b"}, r"\$\.model: no such model; .*did you mean llama-7b"),
        ({"model": {"preset": "gpt5"}}, r"\$\.model\.preset: unknown value; found 'gpt5'"),
        ({"model": {"layers": 2}}, r"\$\.model\.hidden: the key is missing"),
        ({"model": {**TINY, "layers": 0}}, r"\$\.model\.layers: not a valid number; found 0"),
        ({"model": {**TINY, "layers": True}}, r"\$\.model\.layers: not a valid number; found true"),
        ({"model": {**TINY, "gated": 1}}, r"\$\.model\.gated: not a switch; found 1; expected true or false"),
        ({"model": {**TINY, "heads": 3}}, r"\$\.model\.heads: hidden is not divisible by heads"),
        ({"model": {**TINY, "kv_heads": 3}}, r"\$\.model\.kv_heads: kv_heads does not divide heads \(4\); found 3"),
        ({"model": {**TINY, "moe": {"experts": 2}}}, r"\$\.model\.moe\.top_k: the key is missing"),
        ({"model": {**TINY, "moe": {"experts": 2, "top_k": 3}}}, r"\$\.model\.moe\.top_k: top_k is more than"),
        (
            {"model": {**TINY, "moe": {"experts": 2, "top_k": 1, "every": 9}}},
            r"\.moe\.every: no layer of 4 has experts",
        ),
        ({"model": {**TINY, "vocabulary": 127}, "parallel": {"tp": 2}}, r"\.vocabulary: .*pad it .*here to 256"),
        ({"parallel": {"tp": 3}}, r"\$\.parallel\.tp: tp does not divide heads \(4\); found 3"),
        ({"parallel": {"tp": 8}}, r"\$\.parallel\.tp: tp does not divide heads"),
        ({"parallel": {"pp": 3}}, r"pp: pp does not divide layers \(4\); found 3; write balance: layers, or ends"),
        (
            {"parallel": {"pp": 8, "balance": "layers"}},
            r"more pieces of the model than layers; found 8; expected at most 4",
        ),
        ({"parallel": {"pp": 2, "balance": "odd"}}, r"\$\.parallel\.balance: unknown value; found 'odd'"),
        ({"parallel": {"pp": 2, "virtual_stages": 3}}, r"virtual_stages does not divide the layers of a stage"),
        ({"parallel": {"virtual_stages": 2}}, r"\$\.parallel\.virtual_stages: virtual stages need pipeline stages"),
        (
            {"parallel": {"pp": 2, "virtual_stages": 2}},
            r"\$\.batch\.micro_batches: .*in multiples of pp \(2\); found 1",
        ),
        ({"schedule": "interleaved"}, r"virtual_stages: the interleaved schedule, and it alone"),
        ({"schedule": "zigzag"}, r"\$\.schedule: unknown value; found 'zigzag'"),
        ({"parallel": {"sp": True}}, r"\$\.parallel\.sp: sequence parallelism needs tensor parallelism"),
        (
            {"model": {**TINY, "sequence": 15}, "parallel": {"tp": 2, "sp": True}},
            r"tp does not divide a rank's part of the sequence",
        ),
        ({"parallel": {"ep": 2}}, r"\$\.parallel\.ep: expert parallelism needs a model with experts"),
        ({"parallel": {"dp": 2, "zero": 4}}, r"\$\.parallel\.zero: no such stage; found 4"),
        ({"parallel": {"dp": 4, "fsdp": 3}}, r"\$\.parallel\.fsdp: fsdp does not divide dp .*; dp counts all replicas"),
        ({"parallel": {"dp": 4, "fsdp": True, "zero": 1}}, r"\$\.parallel\.zero: fsdp shards parameters"),
        (
            {"parallel": {"dp": 3}, "batch": {"global_batch": 32}},
            r"global_batch: the global batch is not divisible by dp",
        ),
        ({"batch": {"global_batch": 5, "micro_batch": 2}}, r"\$\.batch\.global_batch: .*whole micro-batches"),
        (
            {"batch": {"global_batch": 4, "micro_batch": 2, "micro_batches": 3}},
            r"global_batch: global_batch is not .* \(6\); found 4",
        ),
        ({"overlap": {"bucket": "25 XB"}}, r"\$\.overlap\.bucket: not a size; found '25 XB'"),
        ({"optimizer": "lion"}, r"\$\.optimizer: unknown value; found 'lion'"),
        ({"model": {**TINY, "layers": 2_000_000}}, r"\$\.model\.layers: layers x micro-batches \(1\) are more than"),
        ({"parallel": {"dp": 2_000_000}}, r"\$\.parallel\.dp: there are too many ranks"),
        ({"dtype": "int4"}, r"\$\.dtype: unknown value"),
        ({"parallel": 4}, r"\$\.parallel: not a mapping; found 4"),
    ],
)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_spec({"model": TINY, **change})


def test_experts_over_ranks_that_do_not_divide_dp() -> None:
    model = {**TINY, "moe": {"experts": 8, "top_k": 2}}
    with pytest.raises(InputError, match=r"ep does not divide dp x cp \(6\); found 4; experts are spread over ranks"):
        load_spec({"model": model, "parallel": {"dp": 6, "ep": 4}})
    with pytest.raises(InputError, match=r"\.fsdp: with expert parallelism, FSDP shards over all of dp"):
        load_spec({"model": model, "parallel": {"dp": 8, "ep": 4, "fsdp": 4}})


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("model: llama-7b\nparallel: {dp: 2\n")
    with pytest.raises(InputError, match=r"s\.yaml: line \d+ column \d+: not YAML"):
        load_spec(path)
    path.write_text("model: llama-7b\nmodel: llama-7b\n")
    with pytest.raises(InputError, match="the key 'model' is there twice"):
        load_spec(path)
    with pytest.raises(InputError, match="no such file"):
        load_spec(tmp_path / "none.yaml")


def test_a_number_of_a_file_is_told_as_a_number(tmp_path: Path) -> None:
    path = tmp_path / "step.yaml"
    path.write_text("model: {preset: llama-7b}\nparallel: {dp: 0}\n")
    with pytest.raises(InputError, match=r"\$\.parallel\.dp: not a valid number; found 0; expected an integer from 1"):
        load_spec(path)


@pytest.mark.parametrize(
    ("balance", "layers", "pp", "virtual", "shared"),
    [
        ("even", 8, 4, 1, [2, 2, 2, 2]),
        ("layers", 10, 4, 1, [2, 3, 2, 3]),
        ("ends", 10, 4, 1, [2, 3, 3, 2]),
        ("ends", 126, 16, 1, [7, *[8] * 14, 7]),
        ("ends", 6, 2, 4, [0, 1, 1, 1, 1, 1, 1, 0]),
        ("layers", 8, 4, 1, [2, 2, 2, 2]),
    ],
)
def test_layers_are_shared_as_the_balance_says(
    balance: str, layers: int, pp: int, virtual: int, shared: list[int]
) -> None:
    spec = load_spec({
        "model": {**TINY, "layers": layers},
        "parallel": {"pp": pp, "virtual_stages": virtual, "balance": balance},
        "batch": {"micro_batches": pp},
    })  # fmt: skip
    pieces = [spec.layers_of(chunk) for chunk in range(spec.chunks)]
    assert [len(piece) for piece in pieces] == shared
    assert [layer for piece in pieces for layer in piece] == list(range(layers))
