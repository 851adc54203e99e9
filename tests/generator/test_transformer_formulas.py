"""Generated steps against published formulas."""

from __future__ import annotations

from typing import Any

import pytest
from step_machines import communication, simulate

from chakrasim.generator.formulas import parameter_count
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.spec.spec import Spec
from chakrasim.generator.transformer import Generated, generate_transformer

GPT: dict[str, Any] = {
    "layers": 4,
    "hidden": 64,
    "heads": 4,
    "vocabulary": 96,
    "sequence": 32,
    "bias": True,
    "norm": "layer",
    "position": "learned",
    "dropout": True,
    "tied_embeddings": True,
}


def make(model: Any = GPT, **more: Any) -> Generated:
    return generate_transformer({"model": model, **more})


# --- parameters and operations ---


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # The number of elements of the published checkpoints.
        ("llama-7b", 6_738_415_616),
        ("llama-13b", 13_015_864_320),
        ("llama-70b", 68_976_648_192),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        # 1,557,611,200 with the vocabulary of 50,257, here padded by 47 rows.
        ("gpt2-xl", 1_557_611_200 + 47 * 1600),
    ],
)
def test_parameters_of_published_models(name: str, published: int) -> None:
    assert parameter_count(load_spec({"model": name}).model) == published


@pytest.mark.parametrize("name", ["gpt3-175b", "megatron-22b", "megatron-530b", "megatron-1t"])
def test_parameters_of_gpt(name: str) -> None:
    """Narayanan et al. 2021, equation 2: 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)), and the last norm."""
    model = load_spec({"model": name}).model
    layers, hidden = model.layers, model.hidden
    formula = 12 * layers * hidden**2 + 13 * layers * hidden + (model.vocabulary + model.sequence) * hidden
    assert parameter_count(model) == formula + 2 * hidden


def test_operations_of_narayanan() -> None:
    """Narayanan et al. 2021, equation 3, with full recomputation: 96 B s L h^2 (1 + s / (6 h) + V / (16 L h))."""
    made = make("gpt3-175b", recompute="full", batch={"global_batch": 3})
    batch, sequence, layers, hidden, vocabulary = 3, 2048, 96, 12_288, 51_200
    whole = 96 * batch * sequence * layers * hidden**2
    expected = whole + whole * sequence // (6 * hidden) + whole * vocabulary // (16 * layers * hidden)
    assert made.totals.flops == expected


def test_operations_of_korthikanti() -> None:
    """Korthikanti et al. 2022, equations 7 and 8: 72 B L s h^2 (1 + s / 6h + V / 12hL) of the model; with selective
    recomputation s / 3h in place of s / 6h of forward and backward together, which is 4 B L s^2 h more."""
    made = make("megatron-22b", recompute="selective", flash_attention=False, batch={"global_batch": 5})
    batch, sequence, layers, hidden, vocabulary = 5, 2048, 48, 6144, 51_200
    whole = 72 * batch * sequence * layers * hidden**2
    model = whole + whole * sequence // (6 * hidden) + whole * vocabulary // (12 * layers * hidden)
    assert made.totals.model_flops == model
    assert made.totals.recomputed_flops == 4 * batch * layers * sequence**2 * hidden


@pytest.mark.parametrize("name", ["llama-7b", "llama-70b", "mixtral-8x7b"])
def test_six_times_parameters_times_tokens(name: str) -> None:
    """Kaplan et al. 2020 (arXiv:2001.08361), section 2.1: 6 N operations for each token, N without embeddings, and
    attention beside. Exact for the parameters of matrices, the head's included."""
    made = make(name, batch={"global_batch": 2})
    model = made.spec.model
    embedding = model.vocabulary * model.hidden
    norms = (2 * model.layers + 1) * model.hidden
    matrices = made.totals.active_parameters - embedding - norms
    attention = 3 * 4 * model.layers * model.sequence * model.heads * model.head_size
    assert made.totals.model_flops == (6 * matrices + attention) * made.totals.tokens


def test_full_recomputation_repeats_the_layers_once() -> None:
    none, full = make("llama-7b"), make("llama-7b", recompute="full")
    head = 6 * 4096 * 4096 * 32_000
    assert full.totals.recomputed_flops * 3 == none.totals.model_flops - head
    assert full.totals.model_flops == none.totals.model_flops == none.totals.flops


# --- bytes ---

HIDDEN_STATE = 32 * 64 * 2
"""Bytes of b s h values."""


@pytest.mark.parametrize(("recompute", "sums"), [("none", 4), ("full", 6)])
def test_tensor_parallel_bytes_of_a_layer(recompute: str, sums: int) -> None:
    """Shoeybi et al. 2019, section 3: two all-reduces of b s h forward, two backward; two more to recompute."""
    trace = make(parallel={"tp": 2}, recompute=recompute).job.traces[0]
    assert communication(trace, "layer 2 ") == {("all_reduce", "tp"): sums * HIDDEN_STATE}


def test_sequence_parallel_bytes_of_a_layer() -> None:
    """Korthikanti et al. 2022, section 4.2.2: an all-reduce is a reduce-scatter and an all-gather, so there are two of
    each forward and backward; and the input of both first matrices is gathered once more. A part is b s h / t."""
    trace = make(parallel={"tp": 2, "sp": True}).job.traces[0]
    forward = communication(trace, "layer 2 forward")
    assert forward == {("all_gather", "tp"): 2 * HIDDEN_STATE // 2, ("reduce_scatter", "tp"): 2 * HIDDEN_STATE}
    backward = communication(trace, "layer 2 backward")
    assert backward == {("all_gather", "tp"): 4 * HIDDEN_STATE // 2, ("reduce_scatter", "tp"): 2 * HIDDEN_STATE}


LAYER = 12 * 64**2 + 13 * 64
"""Parameters of a layer."""


def test_fsdp_bytes() -> None:
    """Zhao et al. 2023 (arXiv:2304.11277), section 3.2; Rajbhandari et al. 2020 (arXiv:1910.02054), section 7.2.2: each
    micro-batch gathers all parameters twice and scatters all gradients once."""
    made = make({**GPT, "tied_embeddings": False}, parallel={"dp": 4, "fsdp": True}, batch={"micro_batches": 3})
    found = communication(made.job.traces[0])
    assert found["all_gather", "fsdp"] == 2 * 3 * made.totals.parameters * 2 // 4
    assert found["reduce_scatter", "fsdp"] == 3 * made.totals.parameters * 4
    assert set(found) == {("all_gather", "fsdp"), ("reduce_scatter", "fsdp")}
    assert communication(made.job.traces[0], "forward: layer 1 weights") == {("all_gather", "fsdp"): 3 * LAYER * 2 // 4}


def test_replicas_of_fsdp_groups_reduce_their_parts() -> None:
    """Hybrid sharding (Zhao et al. 2023, section 3.2.2)."""
    made = make(parallel={"dp": 8, "fsdp": 4})
    found = communication(made.job.traces[0])
    assert made.job.process_groups["fsdp"] == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert made.job.process_groups["dp"] == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert found["all_reduce", "dp"] * 4 == found["reduce_scatter", "fsdp"] == made.totals.parameters * 4


@pytest.mark.parametrize(
    ("zero", "expected"),
    [
        (0, {("all_reduce", "dp"): 4}),
        (1, {("reduce_scatter", "dp"): 4, ("all_gather", "dp"): 2 / 4}),
        (2, {("reduce_scatter", "dp"): 3 * 4, ("all_gather", "dp"): 2 / 4}),
    ],
)
def test_data_parallel_bytes(zero: int, expected: dict[tuple[str, str], float]) -> None:
    """Rajbhandari et al. 2020, section 7: gradients (float32) once a step, or with ZeRO 2 once a micro-batch; weights
    (bfloat16) gathered behind the optimizer. Bytes for each parameter."""
    made = make(parallel={"dp": 4, "zero": zero}, batch={"micro_batches": 3})
    found = communication(made.job.traces[0])
    assert {key: size / made.totals.parameters for key, size in found.items()} == expected


def test_gradients_are_reduced_in_buckets_during_the_last_backward_pass() -> None:
    spec = {"parallel": {"dp": 2}, "batch": {"micro_batches": 2}, "overlap": {"bucket": 2 * LAYER * 4}}
    trace = make({**GPT, "tied_embeddings": False}, **spec).job.traces[0]
    names = [trace.name(node) for node in range(len(trace)) if trace.attr("pg_name").string(node) == "dp"]
    assert names == [
        "backward: head to layer 2 gradients",
        "backward: layer 1 to layer 0 gradients",
        "backward: embedding gradients",
    ]


def test_messages_between_stages_are_divided_with_sequence_parallelism() -> None:
    whole = communication(make(parallel={"tp": 2, "pp": 2}).job.traces[0])
    parts = communication(make(parallel={"tp": 2, "pp": 2, "sp": True}).job.traces[0])
    assert whole["comm_send_node", "pp"] == HIDDEN_STATE == 2 * parts["comm_send_node", "pp"]


def test_all_to_all_bytes_of_experts() -> None:
    """Lepikhin et al. 2020 (arXiv:2006.16668), section 3: top_k copies of each token go out and back in both passes."""
    model = {**GPT, "moe": {"experts": 4, "top_k": 2}}
    trace = make(model, parallel={"dp": 2, "ep": 2}).job.traces[0]
    assert communication(trace, "layer 0 ")["all_to_all", "ep"] == 4 * 2 * HIDDEN_STATE


# --- pipelines ---

BUBBLE_MODEL = {"layers": 16, "hidden": 4096, "heads": 32, "vocabulary": 8, "sequence": 2048}
"""Ends that cost next to nothing."""


@pytest.mark.parametrize(
    ("pp", "virtual", "micro_batches", "schedule"),
    [
        *((2, 1, 2, "1f1b"), (4, 1, 4, "1f1b"), (4, 1, 16, "1f1b"), (8, 1, 12, "1f1b"), (4, 1, 8, "gpipe")),
        *((4, 2, 8, "interleaved"), (4, 4, 8, "interleaved"), (2, 4, 4, "interleaved"), (8, 2, 16, "interleaved")),
    ],
)
def test_pipeline_bubble(pp: int, virtual: int, micro_batches: int, schedule: str) -> None:
    """Narayanan et al. 2021, section 2.2: without communication the bubble is (p - 1) / m of the ideal time, and
    (p - 1) / (m v) interleaved."""
    parallel = {"pp": pp, "virtual_stages": virtual}
    made = make(BUBBLE_MODEL, parallel=parallel, schedule=schedule, batch={"micro_batches": micro_batches})
    ideal_ns = made.totals.executed_flops / pp / 100e12 * 1e9
    bubble = simulate(made.job).makespan_ns / ideal_ns - 1
    assert bubble == pytest.approx((pp - 1) / (micro_batches * virtual), rel=0.01)


# --- memory ---


def activations(spec: Spec, stage: int = 0) -> int:
    """Of the layers alone, as the published figures count: kept at the peak."""
    from chakrasim.generator.memory import layer_activations
    from chakrasim.generator.schedule import turns

    live = most = 0
    for turn in turns(spec, stage):
        kept = sum(layer_activations(spec, layer) for layer in spec.layers_of(turn.chunk))
        live += kept if turn.forward else -kept
        most = max(most, live)
    return most


def test_activations_of_a_layer() -> None:
    """Korthikanti et al. 2022, table 2: s b h (10 + 24 / t + 5 a s / (h t)), with sequence parallelism s b h (34 +
    5 a s / h) / t, without core attention s b h 34 / t, and 2 s b h where all is recomputed."""
    from chakrasim.generator.memory import layer_activations

    def kept(recompute: str, sp: bool) -> int:
        spec = {"model": GPT, "parallel": {"tp": 4, "sp": sp}, "recompute": recompute, "flash_attention": False}
        return layer_activations(load_spec(spec), 0)

    sequence, hidden, heads, tp = 32, 64, 4, 4
    unit, scores = sequence * hidden, 5 * heads * sequence**2
    assert kept("none", False) == 10 * unit + (24 * unit + scores) // tp
    assert kept("none", True) == (34 * unit + scores) // tp
    assert kept("selective", True) == 34 * unit // tp
    assert kept("full", False) == 2 * unit


@pytest.mark.parametrize(("pp", "virtual", "expected"), [(4, 1, 4), (4, 2, 8 + 3), (2, 4, 8 + 1)])
def test_activations_in_flight(pp: int, virtual: int, expected: int) -> None:
    """Korthikanti et al. 2022, section 4.2.3: the first stage keeps p micro-batches of its layers, interleaved
    L (1 + (p - 1) / (p v)) layers in all."""
    model = {**GPT, "layers": 8}
    spec = load_spec(
        {"model": model, "parallel": {"pp": pp, "virtual_stages": virtual}, "batch": {"micro_batches": 16}}
    )
    layer = activations(load_spec({"model": {**model, "layers": 1}}))
    assert activations(spec) == expected * layer * (8 // (pp * virtual))


MEGATRON = {
    "megatron-22B": ("megatron-22b", 8, 1, 1, 4, 4),
    "gpt3-175B": ("gpt3-175b", 8, 8, 3, 64, 1),
    "turing-530B": ("megatron-530b", 8, 35, 3, 280, 1),
    "megatron-1T": ("megatron-1t", 8, 64, 1, 512, 1),
}


def megatron(name: str, mode: str) -> Spec:
    model, tp, pp, virtual, batch, micro = MEGATRON[name]
    parallel = {"tp": tp, "pp": pp, "sp": mode in ("seq", "seqsel"), "virtual_stages": virtual}
    recompute = {"sel": "selective", "seqsel": "selective", "full": "full"}.get(mode, "none")
    rest = {"recompute": recompute, "flash_attention": False, "dtype": "float16"}
    return load_spec(
        {"model": model, "parallel": parallel, "batch": {"global_batch": batch, "micro_batch": micro}, **rest}
    )


def test_memory_of_megatron(shared_dir: Any) -> None:
    """Korthikanti et al. 2022, figure 1, whose bars are of layers alone: exact. What the ends add is at most 2.4 % of
    activations in the first stage, and up to 11 % of weights and states."""
    import csv

    from chakrasim.generator.memory import stage_memory

    with open(shared_dir / "validation" / "megatron" / "megatron_memory_gib.csv") as file:
        for row in csv.DictReader(file):
            spec = megatron(row["model"], row["mode"])
            kept, weights = float(row["activations_gib"]) * 2**30, float(row["params_and_optimizer_gib"]) * 2**30
            assert activations(spec) == pytest.approx(kept, rel=1e-6)
            matrices = 12 * spec.model.layers * spec.model.hidden**2 // (spec.parallel.tp * spec.parallel.pp)
            assert matrices * (2 + spec.gradient_bytes + spec.state_bytes) == weights
            memory = stage_memory(spec, 0)
            assert kept <= memory.activations < 1.025 * kept
            assert weights <= memory.parameters + memory.gradients + memory.optimizer < 1.12 * weights


def test_relative_activations_of_megatron(shared_dir: Any) -> None:
    """Korthikanti et al. 2022, figure 7, in percent of no recomputation: within 1.1 points."""
    import csv

    with open(shared_dir / "validation" / "megatron" / "megatron_activation_relative_pct.csv") as file:
        for row in csv.DictReader(file):
            whole = activations(megatron(row["model"], "none"))
            for mode in ("seq", "sel", "seqsel", "full"):
                share = 100 * activations(megatron(row["model"], mode)) / whole
                assert share == pytest.approx(float(row[mode]), abs=1.1), (row["model"], mode)
