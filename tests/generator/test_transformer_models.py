"""Latent attention, windows, experts as Megatron-core has them, state spaces, prediction layers, adapters: by hand."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from step_machines import communication, kinds_of, matrix_operations, simulate

from chakrasim import InputError
from chakrasim.generator import formulas
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.spec import Hybrid, Model
from chakrasim.generator.transformer import Generated, generate_transformer
from chakrasim.trace import Trace

TINY: dict[str, Any] = {
    "layers": 4, "hidden": 16, "heads": 8, "head_size": 4, "feed_forward": 24, "vocabulary": 40, "sequence": 8,
}  # fmt: skip
LATENTS = {"query_rank": 6, "key_value_rank": 5, "rotary_size": 2}
MOE: dict[str, Any] = {"experts": 8, "top_k": 2, "feed_forward": 12}
HYBRID = {
    "mamba_layers": 2, "attention_layers": 1, "expert_layers": 1, "heads": 8, "head_size": 4, "state": 6, "groups": 4,
    "chunk": 4,
}  # fmt: skip


def made(model: dict[str, Any], **more: Any) -> Generated:
    return generate_transformer({"model": {**TINY, **model}, **more})


def products(trace: Trace, where: str) -> dict[str, tuple[int, ...]]:
    """Shapes of the products whose nodes' names begin with ``where``, by the rest of the name."""
    shape = [trace.attr(name).integers() for name in ("batch", "m", "n", "k")]
    nodes = np.flatnonzero(kinds_of(trace) == "gemm").tolist()
    named = {node: trace.name(node) for node in nodes}
    return {
        name.removeprefix(where): tuple(int(column[node]) for column in shape)
        for node, name in named.items()
        if name.startswith(where)
    }


def operations(trace: Trace, where: str) -> int:
    """num_ops of products and attention whose nodes' names begin with ``where``."""
    flops = trace.attr("num_ops").integers()
    nodes = np.flatnonzero(np.isin(kinds_of(trace), ("gemm", "attention"))).tolist()
    return sum(int(flops[node]) for node in nodes if trace.name(node).startswith(where))


# --- published models ---


def steps_model(row: dict[str, str]) -> dict[str, Any]:
    """The model of a row of the table of training steps."""

    def of(**columns: str) -> dict[str, int]:
        return {key: int(row[column] or 0) for key, column in columns.items()}

    model: dict[str, Any] = of(
        layers="layers", hidden="hidden", feed_forward="ffn", heads="heads", kv_heads="kv_heads", head_size="head_dim",
        vocabulary="vocab", sequence="seq_len", window="window", prediction_layers="mtp",
    )  # fmt: skip
    model |= {"gated": row["gated_ffn"] == "1", "tied_embeddings": row["tied_embeddings"] == "true", "position": "none"}
    if int(row["mla_q_rank"] or 0):
        model["latents"] = of(query_rank="mla_q_rank", key_value_rank="mla_kv_rank", rotary_size="mla_rope_dim")
    if int(row["experts"] or 0):
        model["moe"] = of(experts="experts", top_k="top_k", feed_forward="expert_ffn", shared_feed_forward="shared_ffn",
                          dense_layers="dense_layers", latent="moe_latent")  # fmt: skip
    if int(row["mamba_layers"] or 0):
        model["hybrid"] = of(mamba_layers="mamba_layers", attention_layers="attn_layers", expert_layers="moe_layers",
                             heads="mamba_heads", head_size="mamba_head_dim", state="mamba_state",
                             groups="mamba_groups")  # fmt: skip
    return model


def halved_operations(spec: Any) -> float:
    """Operations of a token in a step, of causal attention half."""
    model: Model = spec.model
    rotary = model.latents.rotary_size if model.latents is not None else 0
    whole = [n for n in range(model.layers + model.prediction_layers) if model.keys(n) == model.sequence]
    attention = sum("attention" in model.kinds(n) for n in whole) * model.heads * (2 * model.head_size + rotary)
    return formulas.model_operations(spec) / model.sequence - 3 * attention * model.sequence


def test_the_models_of_published_steps(shared_dir: Path) -> None:
    """Parameters within 2 %, of all and of those of matrices that a token meets; operations within 3 %."""
    with open(shared_dir / "validation" / "training" / "steps.csv") as file:
        rows = {(row["model"], row["seq_len"], row["mtp"], row["task"], row["heads"]): row
                for row in csv.DictReader(file) if row["hidden"]}  # fmt: skip
    assert len(rows) > 90
    for row in rows.values():
        lora = {"lora": {"rank": int(row["lora_rank"])}} if row["lora_rank"] else {}
        spec = load_spec({"model": steps_model(row), **lora})
        found = formulas.parameter_count(spec.model), formulas.active_matrices(spec.model), halved_operations(spec)
        published = (float(row[name]) for name in ("total_params_b", "active_params_b", "gflops_per_token"))
        for value, expected, tolerance in zip(found, published, (0.02, 0.02, 0.03), strict=True):
            assert value / 1e9 == pytest.approx(expected, rel=tolerance), row["id"]


@pytest.mark.parametrize(
    ("name", "published", "beside"),
    [
        # The number of elements of the published checkpoints, and of them what is not modelled: the norm behind BLOOM's
        # embedding; a sink for each head, and biases of routers, of GPT-OSS.
        ("bloom-176b", 176_247_271_424, 2 * 14_336),
        ("qwen3-30b-a3b", 30_532_122_624, 0),
        ("qwen3-235b-a22b", 235_093_634_560, 0),
        ("gpt-oss-20b", 20_914_757_184, 24 * (64 + 32)),
        ("gpt-oss-120b", 116_829_156_672, 36 * (64 + 128)),
    ],
)
def test_parameters_of_published_checkpoints(name: str, published: int, beside: int) -> None:
    assert formulas.parameter_count(load_spec({"model": name}).model) == published - beside


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        # What the sources that stand with the presets say, in the digits that they have.
        ("kimi-k2", 1040, 32.6),
        ("qwen3-30b-a3b", 30.5, 3.3),
        ("qwen3-235b-a22b", 235, 22),
        ("nemotron-3-nano", 31.6, 3.6),
    ],
)
def test_parameters_that_a_token_meets(name: str, billions: float, active: float) -> None:
    model = load_spec({"model": name}).model
    assert formulas.parameter_count(model) / 1e9 == pytest.approx(billions, rel=0.015)
    assert formulas.active_parameter_count(model) / 1e9 == pytest.approx(active, rel=0.02)


# --- attention ---


def test_latent_attention_by_hand() -> None:
    """With tp 2 and sequence parallelism: 4 heads and 4 own tokens of 8 on a rank; queries of 4 + 2 elements."""
    spec = {"latents": LATENTS}
    trace = made(spec, parallel={"tp": 2, "sp": True}).job.traces[0]
    assert products(trace, "layer 1 forward: ") == {
        "queries latents down": (1, 4, 6, 16),
        "keys and values latents down": (1, 4, 5 + 2, 16),
        "queries latents up": (1, 8, 4 * 6, 6),
        "keys and values latents up": (1, 8, 4 * 8, 5),
        "attention output": (1, 8, 16, 16),
        "up": (1, 8, 12, 16),
        "down": (1, 8, 16, 12),
    }
    gathers = communication(trace, "layer 1 forward")["all_gather", "tp"]
    assert gathers == 2 * 4 * (6 + 5 + 2 + 16)  # latents, what keys share, and the feed-forward part's input
    attention = operations(trace, "layer 1 forward: attention") - operations(trace, "layer 1 forward: attention output")
    assert attention == 2 * 4 * 8 * 8 * (6 + 4)
    count = 16 * (6 + 7) + 6 * 8 * 6 + 5 * 8 * 8 + 8 * 4 * 16 + 6 + 5
    rest = 4 * (2 * 16 + 2 * 16 * 24) + 16 + 2 * 40 * 16
    assert made(spec).totals.parameters == 4 * count + rest


def test_a_window_narrows_every_other_layer() -> None:
    trace = made({"window": 3}).job.traces[0]
    flops, causal, keys = (trace.attr(name).integers() for name in ("num_ops", "causal", "n"))
    seen = {}
    for node in np.flatnonzero(kinds_of(trace) == "attention").tolist():
        seen[trace.name(node)] = (int(keys[node]), int(flops[node]), int(causal[node]) == 1)
    for layer, width in ((0, 3), (1, 8), (2, 3), (3, 8)):
        forward = 2 * 2 * 8 * 8 * width * 4
        assert seen[f"layer {layer} forward: attention"] == (width, forward, width == 8)
        assert seen[f"layer {layer} backward: attention gradient"] == (width, forward * 5 // 2, width == 8)
    assert made({"window": 100}).totals.model_flops == made({}).totals.model_flops


def test_a_mask_leaves_out_half_of_what_ranks_of_a_sequence_attend_to() -> None:
    """4 ranks with 2 of 8 tokens each: a block of own keys, and three of others', each half left out."""
    trace = made({}, parallel={"cp": 4}).job.traces[0]
    shape = [trace.attr(name).integers() for name in ("batch", "m", "n", "causal")]
    found = {trace.name(n): tuple(int(column[n]) for column in shape) for n in range(len(trace))}
    assert found["layer 1 forward: attention of own keys"] == (8, 2, 2, 1)
    assert found["layer 1 forward: attention of others' keys"] == (3 * 8, 2, 2, 1)
    narrow = made({"window": 3}, parallel={"cp": 4}).job.traces[0]
    keys = {narrow.name(n): int(narrow.attr("n").integers()[n]) for n in range(len(narrow))}
    assert (keys["layer 0 forward: attention of own keys"], keys["layer 0 forward: attention of others' keys"]) == (
        2,
        1,
    )


def test_alibi_has_neither_rotation_nor_parameters() -> None:
    learned, alibi, none = (made({"position": position}) for position in ("learned", "alibi", "none"))
    assert learned.totals.parameters - alibi.totals.parameters == 8 * 16
    assert alibi.totals.parameters == none.totals.parameters
    assert not any("rotary" in alibi.job.traces[0].name(node) for node in range(len(alibi.job.traces[0])))


def test_norms_of_heads() -> None:
    plain, normed = (made({"kv_heads": 4, "head_norms": given}) for given in (False, True))
    assert normed.totals.parameters - plain.totals.parameters == 4 * 2 * 4
    trace = normed.job.traces[0]
    read = trace.attr("bytes_read").integers()
    found = {trace.name(n): int(read[n]) for n in range(len(trace)) if "heads norm" in trace.name(n)}
    assert len(found) == 8
    assert found["layer 1 forward: heads norm"] == 8 * (32 + 16) * 2
    assert found["layer 1 backward: heads norm gradient"] == 2 * 8 * (32 + 16) * 2
    assert normed.totals.memory[0].activations - plain.totals.memory[0].activations == 4 * 8 * (32 + 16) * 2


# --- experts ---


def test_whole_experts_over_the_ranks_of_a_stage() -> None:
    """Two replicas of tp 4 in each of two stages: 8 ranks, of which 4 neighbours share experts, 2 of them on each."""
    split = {"dp": 2, "tp": 4, "pp": 2, "sp": True, "ep": 4, "expert_tp": 1}
    generated = made({"moe": MOE}, parallel=split)
    groups = generated.job.process_groups
    assert groups["ep"] == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
    assert groups["expert_dp"] == tuple((n, n + 4) for n in (0, 1, 2, 3, 8, 9, 10, 11))
    trace = generated.job.traces[0]
    # 2 own tokens of 8, each to 2 experts; 2 local experts share the 4 copies that come in.
    shapes = products(trace, "layer 1 forward: ")
    assert shapes["router"] == (1, 2, 8, 16)
    assert (shapes["experts up"], shapes["experts down"]) == ((2, 2, 12, 16), (2, 2, 16, 12))
    assert communication(trace, "layer 1 forward") == {
        ("all_gather", "tp"): 2 * 2 * 16,
        ("reduce_scatter", "tp"): 2 * 8 * 16,
        ("all_to_all", "ep"): 2 * (2 * 2 * 16 * 2),
    }
    assert communication(trace)["all_reduce", "expert_dp"] == 2 * (2 * 2 * 16 * 12) * 4
    assert communication(trace)["all_reduce", "dp"] == sum(
        4 * part for part in (40 * 16 // 4, 2 * (16 * 3 * 8 + 8 * 16) * 4 // 4, 2 * (2 * 16 + 16 * 8))
    )


def test_a_larger_group_of_experts_than_of_replicas() -> None:
    split = {"dp": 2, "tp": 4, "sp": True, "ep": 8, "expert_tp": 1}
    generated = made({"moe": MOE}, parallel=split)
    assert generated.job.process_groups["ep"] == (tuple(range(8)),)
    assert "expert_dp" not in generated.job.process_groups
    assert ("all_reduce", "expert_dp") not in communication(generated.job.traces[0])


def test_experts_on_a_reduced_width() -> None:
    moe = {**MOE, "latent": 6, "shared_feed_forward": 4}
    generated = made({"moe": moe}, parallel={"dp": 2, "ep": 2}, batch={"micro_batch": 1})
    shapes = products(generated.job.traces[0], "layer 1 forward: ")
    assert (shapes["latent down"], shapes["latent up"]) == ((1, 8, 6, 16), (1, 8, 16, 6))
    assert (shapes["experts up"], shapes["experts down"]) == ((4, 4, 12, 6), (4, 4, 6, 12))
    assert shapes["shared up"] == (1, 8, 4, 16)
    assert communication(generated.job.traces[0], "layer 1 forward") == {("all_to_all", "ep"): 2 * (8 * 2 * 6 * 2)}
    plain = made({"moe": {**moe, "latent": 0}})
    less = 4 * (8 * 2 * 12 * (16 - 6) - 2 * 16 * 6)
    assert plain.totals.parameters - generated.totals.parameters == less


def test_leading_layers_without_experts_and_a_router_in_float32() -> None:
    trace = made({"moe": {**MOE, "dense_layers": 1, "router_dtype": "float32"}}).job.traces[0]
    assert "down" in products(trace, "layer 0 forward: ") and "router" not in products(trace, "layer 0 forward: ")
    assert all("router" in products(trace, f"layer {layer} forward: ") for layer in (1, 2, 3))
    dtypes = {trace.attr("dtype").string(n) for n in range(len(trace)) if ": router" in trace.name(n)}
    assert dtypes == {"float32"}


# --- state spaces ---


def test_layers_of_a_hybrid_are_spread_evenly() -> None:
    hybrid = Hybrid(4, 2, 2, 8, 4, 6, 4)
    assert hybrid.kinds(8) == ("mamba", "attention", "experts", "mamba", "mamba", "attention", "experts", "mamba")
    nano = load_spec({"model": "nemotron-3-nano"}).model
    kinds = [nano.kinds(layer) for layer in range(nano.layers)]
    assert {kind: kinds.count((kind,)) for kind in ("mamba", "experts", "attention", "feed_forward")} == {
        "mamba": 23, "experts": 23, "attention": 6, "feed_forward": 0,
    }  # fmt: skip
    attention = [layer for layer, kind in enumerate(kinds) if kind == ("attention",)]
    assert {after - before for before, after in pairwise(attention)} <= {7, 8, 9, 10}


def test_a_state_space_by_hand() -> None:
    """tp 2: 4 heads of 4 elements and 2 groups of 6 states on a rank; 8 tokens in 2 chunks of 4."""
    hybrid = {**HYBRID, "mamba_layers": 4, "attention_layers": 0, "expert_layers": 0}
    generated = made({"hybrid": hybrid}, parallel={"tp": 2})
    entered = 2 * 16 + 2 * 2 * 6 + 4
    assert products(generated.job.traces[0], "layer 1 forward: ") == {
        "mamba in": (1, 8, entered, 16),
        "chunk products": (2 * 2, 4, 4, 6),
        "chunk states": (2 * 4, 6, 4, 4),
        "chunk scan": (2 * 4, 4, 4, 4 + 6),
        "mamba out": (1, 8, 16, 16),
    }
    inner, groups = 32, 2 * 4 * 6
    layer = 16 * (2 * inner + groups + 8) + (inner + groups) * (4 + 1) + 3 * 8 + inner + inner * 16 + 16
    assert generated.totals.parameters == 4 * layer + 16 + 2 * 40 * 16
    # Dao and Gu 2024, section 6: products within chunks, states, and what comes of both.
    scan = 2 * 8 * (4 * 4 * 6 + 4 * inner + 2 * inner * 6)
    forward = 4 * (2 * 8 * 16 * (2 * inner + groups + 8 + inner) + scan) + 2 * 8 * 16 * 40
    assert generated.totals.model_flops == 3 * forward
    assert generated.totals.flash_flops == 4 * 2 * 8 * (4 * 4 * 6 + inner * 6)


def test_a_scan_over_a_shared_sequence_exchanges_tokens_for_heads() -> None:
    hybrid = {**HYBRID, "mamba_layers": 4, "attention_layers": 0, "expert_layers": 0}
    trace = made({"hybrid": hybrid}, parallel={"cp": 2}).job.traces[0]
    entered = 2 * 32 + 2 * 4 * 6 + 8
    assert communication(trace, "layer 1 forward") == {("all_to_all", "cp"): 2 * 4 * (entered + 32)}
    assert products(trace, "layer 1 forward: ")["chunk scan"] == (2 * 8 // 2, 4, 4, 10)


# --- prediction layers ---


def test_a_prediction_layer_by_hand() -> None:
    """A projection, norms, a layer with experts, and the head once more, on the last stage, with its embedding."""
    model = {"moe": {**MOE, "dense_layers": 2}}
    plain, more = (made({**model, "prediction_layers": n}, parallel={"pp": 2}) for n in (0, 1))
    layer = 2 * 16 + 4 * 16 * 32 + 16 * 8 + 8 * 2 * 16 * 12
    assert more.totals.parameters - plain.totals.parameters == layer + 2 * 16 * 16 + 3 * 16
    matrices = 4 * 16 * 32 + 16 * 8 + 2 * 2 * 16 * 12 + 2 * 16 * 16 + 16 * 40
    assert more.totals.model_flops - plain.totals.model_flops == 6 * 8 * matrices + 3 * 4 * 8 * 8 * 32
    assert products(more.job.traces[1], "prediction 0 forward: ") == {
        "projection": (1, 8, 16, 32),
        "head": (1, 8, 40, 16),
    }
    assert "router" in products(more.job.traces[1], "layer 4 forward: ")
    assert "embedding" in more.job.process_groups and "embedding" not in plain.job.process_groups
    held = more.totals.memory[1].parameters - plain.totals.memory[1].parameters
    assert held == 2 * (layer + 2 * 16 * 16 + 3 * 16 + 40 * 16)


# --- adapters ---


def test_adapters_by_hand() -> None:
    """tp 2: matrices of rank 4 beside 2 x 48 columns of queries, keys and values, and beside the output matrix."""
    split = {"dp": 2, "tp": 2, "sp": True, "zero": 1}
    model = {"kv_heads": 4, "gated": True}
    generated = made(model, parallel=split, lora={"rank": 4}, batch={"micro_batch": 1})
    trace = generated.job.traces[0]
    backward = products(trace, "layer 1 backward: ")
    assert {name: shape for name, shape in backward.items() if "weight" in name} == {
        "output adapter up weight gradient": (1, 4, 8, 8),
        "output adapter down weight gradient": (1, 16, 4, 8),
        "qkv adapter up weight gradient": (1, 4, 32, 8),
        "qkv adapter down weight gradient": (1, 16, 2, 8),
    }
    adapters = 4 * 4 * (16 + 64 + 32 + 16)
    whole = made(model)
    assert generated.totals.parameters == whole.totals.parameters + adapters
    assert communication(trace)["reduce_scatter", "dp"] == adapters // 2 * 4
    assert ("all_reduce", "tp") not in communication(trace, "optimizer")
    memory = generated.totals.memory[0]
    assert (memory.gradients, memory.optimizer) == (adapters // 2 * 4, adapters // 4 * 12)
    # Each layer keeps no inputs of the frozen feed-forward matrices, but what is between those of adapters.
    trained = made(model, parallel=split, batch={"micro_batch": 1}).totals.memory[0]
    assert trained.activations - memory.activations == 4 * (4 * 16 * 2 + 8 * 12 * 2 - 2 * 8 * 4 * 2)
    matrices = formulas.active_matrices(generated.spec.model)
    attention = 3 * 4 * 4 * 8 * 8 * 32
    assert generated.totals.model_flops == 2 * (8 * (4 * matrices + 6 * adapters) + attention)


# --- all of them ---


@pytest.mark.parametrize(
    "model",
    [
        {"latents": LATENTS},
        {"window": 3},
        {"moe": {**MOE, "latent": 6, "shared_feed_forward": 4}},
        {"hybrid": HYBRID, "moe": MOE},
    ],
)
def test_backward_is_twice_forward(model: dict[str, Any]) -> None:
    trace = made(model).job.traces[0]
    repeated = made(model).totals.flash_flops
    forward, backward = (
        sum(operations(trace, f"layer {layer} {way}") for layer in range(4)) for way in ("forward", "backward")
    )
    assert backward == 2 * forward + repeated


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Small models of every kind, split in ways that go together."""
    tp, pp, cp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    dp, whole = draw(st.sampled_from([1, 2])), draw(st.booleans())
    model: dict[str, Any] = {**TINY, "gated": draw(st.booleans()), "bias": draw(st.booleans())}
    model["tied_embeddings"] = draw(st.booleans())
    parallel: dict[str, Any] = {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "sp": tp > 1, "zero": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        model["moe"] = {**MOE, "dense_layers": draw(st.integers(0, 2)), "latent": draw(st.sampled_from([0, 6]))}
        model["moe"]["shared_feed_forward"] = draw(st.sampled_from([0, 4]))
        parallel |= {"expert_tp": 1, "ep": draw(st.sampled_from([1, dp * cp * tp]))} if whole else {"ep": dp * cp}
        parallel["ep"] = min(parallel["ep"], 8)
    attention = draw(st.sampled_from(["grouped", "latent", "window", "adapted", "hybrid"]))
    if attention == "latent":
        model["latents"] = LATENTS
    if attention == "window":
        model["window"] = 3
    if attention == "hybrid" and tp * cp <= 4:
        model["hybrid"] = {**HYBRID, "expert_layers": int("moe" in model)}
    model["prediction_layers"] = draw(st.integers(0, 2))
    spec = {
        "model": model,
        "parallel": parallel,
        "batch": {"micro_batch": 1, "micro_batches": pp},
        "recompute": draw(st.sampled_from(["none", "full", "norm,activation", "experts,latents"])),
        "matrix_dtype": draw(st.sampled_from(["none", "mxfp8"])),
        "overlap": {key: draw(st.booleans()) for key in ("tp", "dp", "pp", "fsdp")} | {"bucket": "1 kB"},
    }
    return spec | ({"lora": {"rank": 4}} if attention == "adapted" else {})


@settings(max_examples=40)
@given(specs())
def test_totals_do_not_depend_on_the_split(spec: dict[str, Any]) -> None:
    split, parallel = generate_transformer(spec), spec["parallel"]
    batch = {"micro_batch": 1, "micro_batches": parallel["pp"] * parallel["dp"]}
    whole = generate_transformer({**spec, "parallel": {}, "batch": batch})
    for name in ("model_flops", "flops", "executed_flops", "parameters", "active_parameters", "tokens"):
        assert getattr(split.totals, name) == getattr(whole.totals, name), name
    assert split.totals.executed_flops == matrix_operations(split.job)


@settings(max_examples=25)
@given(specs())
def test_every_split_runs_to_its_end(spec: dict[str, Any]) -> None:
    job = generate_transformer(spec).job
    assume(job.ranks > 1)
    assert (simulate(job, topology="Ring", gb_per_s=10, latency_ns=500).finish_ns > 0).all()


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ({"latents": LATENTS}, {"parallel": {"tp": 2}}, r"\.latents: latent attention under tensor parallelism needs"),
        ({"latents": LATENTS, "kv_heads": 4}, {}, r"kv_heads: latent attention has as many heads .*found 4"),
        ({"latents": LATENTS}, {"lora": {"rank": 4}}, r"\$\.lora: adapters are those of grouped-query attention"),
        ({"latents": LATENTS}, {"recompute": "half_of_matrices"}, r"recompute: half of the matrices are those"),
        ({"latents": LATENTS, "head_norms": True}, {}, r"head_norms: latent attention normalises its latents"),
        ({"latents": {"query_rank": 4}}, {}, r"\.latents\.key_value_rank: the key is missing"),
        ({"window": 3}, {"flash_attention": False}, r"\.window: attention that writes its scores to memory"),
        ({}, {"flash_attention": False, "recompute": "attention"}, r"recompute: scores that are written to memory are"),
        ({"moe": {**MOE, "dense_layers": 4}}, {}, r"\.moe\.dense_layers: no layer of 4 has experts; found 4"),
        (
            {"moe": MOE},
            {"parallel": {"tp": 4, "expert_tp": 2}},
            r"expert_tp: an expert is shared by all ranks of tp, or by none; found 2; expected 4 or 1",
        ),
        ({}, {"parallel": {"tp": 2, "expert_tp": 1}}, r"expert_tp: there are no experts to be whole; found 1"),
        ({"moe": MOE}, {"parallel": {"tp": 2, "expert_tp": 1}}, r"expert_tp: whole experts .* need sequence"),
        (
            {"moe": MOE},
            {"parallel": {"tp": 2, "sp": True, "expert_tp": 1, "ep": 4}},
            r"ep: ep does not divide dp x cp x tp \(2\); found 4; whole experts are spread over the ranks of a stage",
        ),
        ({"hybrid": {**HYBRID, "mamba_layers": 4}}, {}, r"\.hybrid: its layers are more than the model's; found 6"),
        ({"hybrid": HYBRID}, {}, r"\.hybrid\.expert_layers: there are no experts; found 1; write model: moe"),
        ({"hybrid": {**HYBRID, "expert_layers": 0}, "moe": MOE}, {}, r"expert_layers: no layer of 4 has experts"),
        ({"hybrid": {**HYBRID, "groups": 3}, "moe": MOE}, {}, r"hybrid\.groups: groups does not divide heads \(8\)"),
        ({"hybrid": {**HYBRID, "chunk": 3}, "moe": MOE}, {}, r"hybrid\.chunk: the chunk does not divide the sequence"),
        (
            {"hybrid": HYBRID, "moe": {**MOE, "feed_forward": 8}},
            {"parallel": {"tp": 8}},
            r"tp does not divide the state space's groups \(4\); found 8; tp x cp ranks have a part of them each",
        ),
        ({"state": 4}, {}, r"\.state: unknown key; .*write it under model: hybrid"),
        ({"q_lora_rank": 4}, {}, r"\.q_lora_rank: unknown key; .*write it under model: latents, as query_rank"),
        ({}, {"lora": {"rank": 3}, "parallel": {"tp": 2}}, r"\.tp: tp does not divide the adapters' rank \(3\)"),
        (
            {"hybrid": {**HYBRID, "mamba_layers": 4, "attention_layers": 0, "expert_layers": 0}},
            {"lora": {"rank": 4}},
            r"\$\.lora: no layer has attention, which adapters are beside",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(model: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_spec({"model": {**TINY, **model}, **more})


def test_what_is_behind_the_last_layer_counts_as_layers_of_the_last_piece() -> None:
    """DeepSeek V3 has a head of 927 million parameters, used twice, and a prediction layer: as much as four layers."""
    spec = load_spec(
        {"model": "deepseek-v3", "parallel": {"pp": 16, "balance": "ends"}, "batch": {"micro_batches": 16}}
    )
    assert spec.parallel.end_layers == formulas.end_layers(spec.model) == 4
    assert [len(spec.layers_of(chunk)) for chunk in (0, 1, 7, 14, 15)] == [3, 4, 5, 4, 1]
    assert sum(len(spec.layers_of(chunk)) for chunk in range(16)) == 61
    plain = load_spec({"model": "llama3-405b", "parallel": {"pp": 16, "balance": "ends"}})
    assert plain.parallel.end_layers == 1
    own = load_spec({"model": "llama3-405b", "parallel": {"pp": 16, "balance": "ends", "end_layers": 8}})
    assert len(own.layers_of(15)) < len(plain.layers_of(15))
