"""The front question: what moves an estimate, and that it is the simulation of the generated step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import chakrasim as cs
from chakrasim.estimation.alone import groups_inside
from chakrasim.estimation.api import estimate_step
from chakrasim.generator.spec.file import load_spec
from chakrasim.machine import load_machine
from chakrasim.machine.slow import parse_slow

SMALL = {"model": {"layers": 8, "hidden": 2048, "heads": 16, "vocabulary": 32000, "sequence": 2048, "gated": True}}


def step(**asked: Any) -> cs.StepEstimate:
    """Of a small model on two nodes, split in every way."""
    usual: dict[str, Any] = {"machine": "h100", "gpus": 16, "tp": 4, "pp": 2, "batch": 16}
    return cs.estimate(SMALL, **{**usual, **asked})


@pytest.fixture(scope="module")
def base() -> cs.StepEstimate:
    return step()


@pytest.mark.parametrize(
    "parallel",
    [
        {"tp": 4, "pp": 2, "dp": 2, "sp": True, "zero": 1},
        {"tp": 8, "dp": 2, "sp": True},
        {"dp": 16, "zero": 3},
        {"tp": 2, "cp": 2, "dp": 4, "sp": True, "zero": 1},
    ],
)
def test_it_is_what_simulate_says_of_the_generated_step(parallel: dict[str, int]) -> None:
    spec = load_spec({**SMALL, "parallel": parallel, "batch": {"global_batch": 16}})
    machine = load_machine("h100", gpus=16)
    kernel_by_kernel = cs.simulate(cs.transformer_job(spec), machine=machine).makespan_ns / 1e9
    found = estimate_step(spec, machine, recipe="plain")
    # Nodes take whole microseconds, and here fewer of them round.
    assert found.step_s == pytest.approx(kernel_by_kernel, rel=3e-3)


def test_collectives_inside_nodes_may_be_known_beforehand() -> None:
    parallel = {"tp": 8, "pp": 2, "dp": 1, "sp": True}
    spec = load_spec({**SMALL, "parallel": parallel, "batch": {"global_batch": 8, "micro_batch": 1}})
    machine = load_machine("h100", gpus=16)
    assert groups_inside(spec, machine) == {"tp": tuple(range(8))}
    found, plain = estimate_step(spec, machine, recipe="plain"), cs.simulate(cs.transformer_job(spec), machine=machine)
    assert found.step_s == pytest.approx(plain.makespan_ns / 1e9, rel=3e-3)
    assert found.link is not None
    # The mean over stages, of which the last has the head, beside the link of the busiest.
    assert found.link.busy_share == pytest.approx(plain.graph_links[0].busy_share, rel=0.1)
    assert found.parts_s["comm_tp"] > 0
    assert found.parts_s["bubble"] > 0


@pytest.mark.parametrize(
    ("parallel", "machine"),
    [
        ({"tp": 8, "dp": 2}, replace(load_machine("h100", gpus=16), slow=parse_slow(["3=2"]))),
        ({"dp": 16, "zero": 3}, load_machine("h100", gpus=16)),
    ],
)
def test_collectives_that_meet_others_are_simulated(parallel: dict[str, int], machine: cs.machine.Machine) -> None:
    spec = load_spec({**SMALL, "parallel": parallel})
    assert groups_inside(spec, machine) == {}


def test_the_figures_go_together(base: cs.StepEstimate) -> None:
    assert base.tokens == 16 * 2048
    assert base.tokens_per_s_per_gpu == pytest.approx(base.tokens / base.step_s / 16)
    assert base.mfu == pytest.approx(base.tflops_per_gpu / 989.4)
    assert base.low_s <= base.step_s <= base.high_s
    assert base.low_s < base.high_s
    assert base.fits
    assert sum(base.parts_s.values()) == pytest.approx(base.step_s, rel=1e-9)
    assert min(base.parts_s.values()) >= 0
    for name in ("matrices", "attention", "other_compute", "optimizer", "comm_tp", "comm_dp", "bubble"):
        assert base.parts_s[name] > 0, name
    content = json.loads(json.dumps(base.to_json()))
    assert content["energy_low_j"] < content["energy_j"] < content["energy_high_j"] < 970 * 16 * base.step_s
    assert content["energy_j"] == pytest.approx(16 * content["energy_j_per_gpu"])
    assert replace(base, power=None).to_json()["energy_j"] is None
    assert content["step_s"] == pytest.approx(base.step_s)
    assert content["parts_s"].keys() == base.parts_s.keys()
    assert content["link"]["busy_share"] > 0
    assert "step" in repr(base) and "MFU" in base._repr_html_()


@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [
        ({"machine": "a100"}, 1.5, 4.0),
        ({"nic": "25G"}, 1.05, 50.0),
        ({"nic": "1600G"}, 0.5, 1.0),
        ({"batch": 32}, 1.4, 2.0),
        ({"seq": 4096}, 1.5, 4.0),
        ({"recompute": "full"}, 1.15, 1.6),
        ({"dtype": "fp32"}, 3.0, 20.0),
        ({"pp": 4}, 1.0, 2.0),
        ({"micro_batch": 2}, 0.5, 1.1),
        ({"tp": 8}, 1.0, 2.0),
        ({"pp": 1}, 0.7, 1.3),
        ({"vp": 4}, 0.7, 0.999),
        ({"dtype": "fp8"}, 0.5, 1.0),
        ({"compile": True}, 0.8, 1.4),
        ({"compile": False}, 1.05, 3.0),
        ({"recompute": "norm,activation"}, 1.0, 1.15),
        ({"cp": 2, "batch": 8}, 0.7, 1.5),
    ],
)
def test_what_is_asked_for_moves_it_the_right_way(
    base: cs.StepEstimate, asked: dict[str, Any], low: float, high: float
) -> None:
    assert low <= step(**asked).step_s / base.step_s <= high


def test_links_and_slow_ranks_of_the_machine_count() -> None:
    machine = load_machine("h100", gpus=16)
    dragged = replace(machine, slow=parse_slow(["3=2"]))
    found = step(machine=dragged, gpus=None)
    assert found.step_s > 1.2 * step(machine=machine, gpus=None).step_s
    assert found.rank == 3


def test_memory_follows_what_is_sharded() -> None:
    asked = {"tp": 1, "pp": 1, "gpus": 8}
    whole, states, gradients, all_of_it = (step(**asked, zero=zero).memory_bytes for zero in range(4))
    assert whole > states > gradients > all_of_it
    assert step(**asked, dp_kind="fsdp").memory_bytes == all_of_it
    assert step(**asked, dp_kind="ddp").memory_bytes == whole
    assert step(tp=1, pp=1, dp_kind="hsdp").split == "dp 16 (zero 3, fsdp 8), tp 1, pp 1"


def test_what_is_left_open_is_chosen_so_that_it_fits_and_told() -> None:
    large = cs.estimate("llama3-70b", machine="h100", gpus=64, batch=64)
    assert large.fits
    assert large.assumed[:2] == ("tp 8", "pp 2")
    small = cs.estimate(SMALL, machine="h100", gpus=8)
    assert small.assumed == (
        "tp 1",
        "pp 1",
        "optimizer states are sharded over replicas (zero 1)",
        "micro-batches of 1 sequence",
        "a batch of 256 sequences",
        "run as by Megatron-LM with Transformer Engine",
    )
    long = cs.estimate("llama3-8b", machine="h100", gpus=8, seq=1 << 17, batch=8, pp=1)
    assert long.fits
    assert long.assumed[-2] == "all of each layer is computed again"
    assert "the loss is one kernel each way" in large.assumed
    sharded = cs.estimate("mpt-1b", machine="h100", gpus=8, dp_kind="fsdp", batch=64)
    assert sharded.assumed[-1] == "run as by PyTorch, operator by operator"
    odd = {"model": {**SMALL["model"], "layers": 7, "vocabulary": 32001}}
    found = cs.estimate(odd, machine="h100", gpus=8, tp=2, pp=4, batch=4)
    assert "stages share layers as evenly as it goes" in found.assumed
    assert "vocabulary padded to 32,256" in found.assumed
    experts = cs.estimate("mixtral-8x7b", machine="h100", gpus=16, batch=16, seq=1024)
    assert any(text.startswith("ep ") for text in experts.assumed)
    assert experts.parts_s["comm_ep"] > 0
    assert experts.parts_s["matrices"] > experts.parts_s["attention"]


def test_a_file_says_what_is_not_asked_for(base: cs.StepEstimate, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "model: {num_layers: 8, hidden_size: 2048, num_attention_heads: 16, vocab_size: 32000, seq_length: 2048,\n"
        "  swiglu: true}\n"
        "parallelism: {tensor_parallel: 4, pipeline_parallel: 2, sequence_parallel: true, zero: 1}\n"
        "batch: {global_batch_size: 16, micro_batch_size: 1}\n"
    )
    own = cs.estimate(file, machine="h100", gpus=16)
    assert own.step_s == base.step_s
    assert own.assumed == ("run as by Megatron-LM with Transformer Engine",)
    assert cs.estimate(file, machine="h100", gpus=16, tp=2).split == "dp 4 (zero 1), tp 2 with sp, pp 2"
    assert cs.estimate(file, machine="h100", gpus=16, batch=32).step_s > 1.4 * base.step_s


@pytest.mark.parametrize(
    ("model", "asked", "why"),
    [
        ("lama3-70b", {"gpus": 8}, "neither a model that is built in nor a spec's file; found 'lama3-70b'"),
        ("lama3-70b", {"gpus": 8}, "did you mean llama3-70b?"),
        (SMALL, {"gpus": 24, "tp": 4, "pp": 4}, "do not make whole replicas; found 24; expected a multiple of tp 4 x"),
        (SMALL, {"gpus": 12}, "h100 has 8 GPUs on a board; found 12 GPUs"),
        (SMALL, {"gpus": 8, "batch": 13, "tp": 1, "pp": 1}, "not divisible by dp; found 13; expected a multiple of 8"),
        (SMALL, {"gpus": 8, "tp": 3}, "the GPUs do not make whole replicas"),
        (SMALL, {"gpus": 24, "tp": 3, "pp": 1}, "tp does not divide heads (16); found 3"),
        (SMALL, {"gpus": 8, "dp_kind": "zdp"}, "no such kind of data parallelism; found 'zdp'; expected ddp, fsdp"),
        (SMALL, {"gpus": 8, "dp_kind": "fsdp", "zero": 1}, "zero does not go with fsdp; found 1; expected 2 to 3"),
        (SMALL, {"gpus": 8, "recompute": "some"}, "$.recompute: no such recomputation; found 'some'"),
        (SMALL, {"gpus": 8, "tp": 0}, "tp: out of range; found 0; expected a whole number of 1 or more"),
        (SMALL, {"gpus": 8, "dtype": 8}, "dtype: not a data type; found 8; expected a name: bfloat16"),
        (SMALL, {"machine": "tpu-v3-8"}, "the machine has no device profile"),
        ({"model": [1]}, {"gpus": 8}, "$.model.preset: not a string"),
        *(
            ({**SMALL, "parallel": {key: value}}, {"gpus": 8}, f"$.parallel.{key}: not a valid number; found")
            for key, value in {"tp": "x", "pp": [1], "cp": {}, "virtual_stages": 0.5, "fsdp": "y", "dp": None}.items()
        ),
        ({**SMALL, "batch": {"micro_batch": 0.5}}, {"gpus": 8}, "$.batch.micro_batch: not a valid number; found 0.5"),
    ],
)
def test_what_does_not_go_together_says_why(model: Any, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(cs.InputError) as caught:
        cs.estimate(model, **{"machine": "h100", **asked})
    assert why in str(caught.value)


def test_what_does_not_fit_is_told_or_refused() -> None:
    notes = cs.Notes()
    found = cs.estimate("llama3-70b", machine="h100", gpus=8, batch=8, notes=notes)
    assert not found.fits
    assert len(notes.warnings) == 1 and "it does not fit in memory" in notes.warnings[0]
    with pytest.raises(cs.InputError, match="strict mode: it does not fit in memory"):
        cs.estimate("llama3-70b", machine="h100", gpus=8, batch=8, strict=True)


def test_an_argument_that_is_none_is_no_input_error() -> None:
    with pytest.raises(TypeError, match="no argument 'batches'"):
        cs.estimate(SMALL, machine="h100", gpus=8, batches=3)
