"""Captured steps against published formulas: FLOPs, collective bytes and model states of a GPT (`formula_program.py`).

Sources: Kaplan et al. 2020 (arXiv:2001.08361); Shoeybi et al. 2019, Megatron-LM (arXiv:1909.08053); Rajbhandari et al.
2020, ZeRO (arXiv:1910.02054); Narayanan et al. 2021 (arXiv:2104.04473); Korthikanti et al. 2022, sequence parallelism
(arXiv:2205.05198); Zhao et al. 2023, PyTorch FSDP (arXiv:2304.11277).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from formula_program import BATCH, SEQUENCE, VOCABULARY, WIDTH
from observed import ROOT, captured_collectives

from chakrasim.collect.capturing.api import capture

CPU = {"with_gpu": False, "verify": False, "workers": 1}
RANKS = 4
LAYERS = 2
FLOAT = 4
BLOCK = 12 * WIDTH**2 + 2 * WIDTH
"""Parameters of a layer: matrices and the weights of two norms."""
MODEL = LAYERS * BLOCK + 2 * VOCABULARY * WIDTH
ACTIVATION = BATCH * SEQUENCE * WIDTH * FLOAT
"""Bytes of a layer's input, b s h."""


@cache
def captured(plan: str, layers: int = LAYERS) -> Any:
    script = Path(__file__).with_name("formula_program.py")
    arguments = ["--plan", plan, "--layers", str(layers)]
    return capture(script, world_size=RANKS, arguments=arguments, **CPU)


def collectives(plan: str, layers: int = LAYERS) -> Counter[tuple[str, int]]:
    """How many of each type and size rank 0 makes."""
    return Counter((found.what, found.size_bytes) for found in captured_collectives(captured(plan, layers).job, 0))


def per_layer(plan: str) -> dict[tuple[str, int], int]:
    """What one more layer adds."""
    more, fewer = collectives(plan, LAYERS + 1), collectives(plan, LAYERS)
    return {key: more[key] - fewer[key] for key in more if more[key] != fewer[key]}


def summary(plan: str) -> Any:
    return captured(plan).captured.classes[0].result.summary


def test_flops_of_a_step() -> None:
    """Korthikanti et al. 2022, appendix A: 72 B L s h^2 (1 + s / (6 h) + V / (12 h L)) without recomputation."""
    gemm = (
        2 * BATCH * LAYERS * SEQUENCE * WIDTH * (36 * WIDTH + 6 * SEQUENCE) + 6 * BATCH * SEQUENCE * WIDTH * VOCABULARY
    )
    formula = 72 * BATCH * LAYERS * SEQUENCE * WIDTH**2
    formula *= 1 + SEQUENCE / (6 * WIDTH) + VOCABULARY / (12 * WIDTH * LAYERS)
    assert summary("ddp").flops["gemm"] == gemm == pytest.approx(formula)


def test_flops_are_six_per_parameter_and_token() -> None:
    """Kaplan et al. 2020, section 2.1 and table 1: C = 6 N per token for the matrices, N without embeddings, and
    forward 2 n_layer n_ctx d_attn for the scores, as much for their use, and twice as much backward."""
    matrices = LAYERS * 12 * WIDTH**2 + VOCABULARY * WIDTH
    tokens = BATCH * SEQUENCE
    attention = 3 * 4 * LAYERS * SEQUENCE * WIDTH * tokens
    assert summary("ddp").flops["gemm"] == 6 * matrices * tokens + attention


@pytest.mark.parametrize("plan", [pytest.param("zero2", marks=pytest.mark.slow), "zero3"])
def test_sharding_parameters_does_not_change_the_work(plan: str) -> None:
    assert summary(plan).flops["gemm"] == summary("ddp").flops["gemm"]


@pytest.mark.slow
def test_tensor_parallelism_divides_the_layers_work() -> None:
    """Shoeybi et al. 2019, section 3: every product of a layer is divided among the ranks."""
    layer = captured("tp", LAYERS + 1).captured.classes[0].result.summary.flops["gemm"] - summary("tp").flops["gemm"]
    whole = captured("ddp", LAYERS + 1).captured.classes[0].result.summary.flops["gemm"] - summary("ddp").flops["gemm"]
    assert layer * RANKS == whole


def test_collectives_of_tensor_parallelism() -> None:
    """Shoeybi et al. 2019, section 3: a layer has two all-reduces of b s h forward and two backward."""
    assert per_layer("tp") == {("all_reduce", ACTIVATION): 4}


@pytest.mark.slow
def test_collectives_of_sequence_parallelism() -> None:
    """Korthikanti et al. 2022, section 4.2.2: four all-gathers and four reduce-scatters of b s h in the place of the
    four all-reduces, which move as many bytes. (An all-gather's comm_size is one rank's part.) The norms' weights,
    whose gradients are sums over the ranks, are reduced on their own, in pieces of h."""
    layer = per_layer("sp")
    norms = layer.pop(("all_reduce", WIDTH * FLOAT))
    assert norms % 2 == 0
    assert layer == {("all_gather", ACTIVATION // RANKS): 4, ("reduce_scatter", ACTIVATION): 4}


def test_collectives_of_data_parallelism() -> None:
    """Rajbhandari et al. 2020, section 7.1: the gradients, as many as parameters, are all-reduced once."""
    assert collectives("ddp") == {("all_reduce", MODEL * FLOAT): 1}


def _total(plan: str, what: str) -> int:
    """Bytes of all ranks together that collectives of a type gather or reduce."""
    rest = {"all_gather": RANKS}.get(what, 1)
    return sum(size * rest * count for (name, size), count in collectives(plan).items() if name == what)


@pytest.mark.slow
def test_collectives_of_zero_2() -> None:
    """Rajbhandari et al. 2020, section 7.2.1: sharded gradients: a reduce-scatter and an all-gather of all parameters,
    as many bytes as data parallelism has."""
    assert _total("zero2", "reduce_scatter") == _total("zero2", "all_gather") == MODEL * FLOAT


@pytest.mark.slow
def test_collectives_of_zero_3() -> None:
    """Rajbhandari et al. 2020, section 7.2.2, and Zhao et al. 2023, section 3: sharded parameters are gathered for the
    forward and again for the backward pass, and gradients reduced and scattered once: 3 times all parameters."""
    assert _total("zero3", "all_gather") == 2 * MODEL * FLOAT
    assert _total("zero3", "reduce_scatter") == MODEL * FLOAT
    gathers = {("all_gather", BLOCK * FLOAT // RANKS): 2, ("reduce_scatter", BLOCK * FLOAT): 1}
    assert per_layer("zero3") == gathers


def test_optimizer_state() -> None:
    """Rajbhandari et al. 2020, section 3.1 and figure 1: Adam keeps two values for each parameter (here in 32 bits),
    divided among the ranks by ZeRO. Each parameter has a step count of 4 bytes besides."""
    parameters = LAYERS * 8 + 2
    for plan, share in (("ddp", 1), ("zero2", RANKS), ("zero3", RANKS)):
        assert summary(plan).peak["optimizer state"] == 2 * FLOAT * MODEL // share + FLOAT * parameters


@pytest.mark.slow
def test_messages_of_a_pipeline() -> None:
    """Narayanan et al. 2021, section 3.2: neighbours exchange b s h elements per micro-batch, forward and backward."""
    batches, stages = 6, 2
    arguments = ["--size", "tiny", "--steps", "3", "--micro-batches", str(batches)]
    found = capture(ROOT / "examples" / "train_pp.py", world_size=stages, arguments=arguments, **CPU)
    activation = 2 * 32 * 64 * FLOAT
    for rank in range(stages):
        messages = Counter((one.what, one.size_bytes, one.peer) for one in captured_collectives(found.job, rank))
        assert messages == {("send", activation, 1 - rank): batches, ("recv", activation, 1 - rank): batches}
