"""What frameworks make of a device: factors, gaps, waits for the host; tokens that go to a node once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.estimation.dispatch import sent_once, share_sent
from chakrasim.estimation.recipes import Recipe, recipe_named, recipes, usual_recipe
from chakrasim.generator.layers.passes import ChunkPass
from chakrasim.generator.spec.file import load_spec
from chakrasim.machine import load_device, load_machine
from chakrasim.machine.site import Make
from chakrasim.trace.work import Work, WorkKind

H100 = load_device("h100")
MODEL = {"layers": 2, "hidden": 1024, "heads": 8, "vocabulary": 4096, "sequence": 1024}
EXPERTS = {**MODEL, "moe": {"experts": 16, "top_k": 4, "feed_forward": 512}}
AMPERE, HOPPER = Make(vendor="nvidia", capability=80), Make(vendor="nvidia", capability=90)
DENSE = load_spec({"model": MODEL})


def work(
    kind: WorkKind, *, n: int = 1024, k: int = 1024, batch: int = 1, kernels: int = 1, read: int = 1 << 24
) -> Work:
    """One piece of work."""
    one = {"kind": kind, "batch": batch, "m": 1024, "n": n, "k": k, "kernels": kernels}
    columns: dict[str, Any] = {name: np.array([value], np.int64) for name, value in one.items()}
    matrix = kind in (WorkKind.GEMM, WorkKind.ATTENTION)
    columns |= {"flops": np.array([2 * batch * 1024 * n * k if matrix else 0]), "bytes_read": np.array([read])}
    return Work(**columns, bytes_written=np.array([1 << 20]), causal=np.array([False]), dtype=np.array(["bfloat16"]))


def ratio(recipe: Recipe, one: Work, make: Make = AMPERE) -> float:
    times = recipe.durations_ns(H100, DENSE, make)(one)
    return float(times[0] / H100.durations_ns(one)[0])


@pytest.mark.parametrize(
    ("recipe", "one", "factor"),
    [
        (Recipe(other=2.0), work(WorkKind.ELEMENTWISE), 2.0),
        (Recipe(other=2.0), work(WorkKind.NORMALIZATION), 2.0),
        (Recipe(other=2.0), work(WorkKind.GEMM), 1.0),
        (Recipe(optimizer=3.0, other=2.0), work(WorkKind.OPTIMIZER), 3.0),
        (Recipe(attention=1.5, recent_attention=4.0), work(WorkKind.ATTENTION), 1.5),
        (Recipe(wide_experts=2.5), work(WorkKind.GEMM, batch=4), 2.5),
        (Recipe(unaligned=7.0), work(WorkKind.GEMM, k=1020), 7.0),
        (Recipe(unaligned=7.0), work(WorkKind.GEMM), 1.0),
    ],
)
def test_factors_are_of_their_kind_of_work(recipe: Recipe, one: Work, factor: float) -> None:
    assert ratio(recipe, one) == pytest.approx(factor, rel=1e-3)


def test_attention_of_recent_gpus_has_its_own_factor() -> None:
    recipe = Recipe(attention=1.5, recent_attention=4.0)
    assert ratio(recipe, work(WorkKind.ATTENTION), HOPPER) == pytest.approx(4.0, rel=1e-3)


def test_kernels_have_gaps_between_them_and_in_a_graph_smaller_ones() -> None:
    recipe, one = Recipe(gap_ns=1_000, full_gap_ns=10), work(WorkKind.ELEMENTWISE, kernels=5)
    alone = int(H100.durations_ns(one)[0])
    for graphs, gap in (("none", 5_000), ("partial", 5_000), ("full", 50)):
        spec = replace(DENSE, cuda_graphs=graphs)
        assert int(recipe.durations_ns(H100, spec, HOPPER)(one)[0]) == alone + gap


def test_the_device_waits_while_the_host_counts_tokens() -> None:
    recipe = Recipe(count_ns=1_000, partial_count_ns=500, full_count_ns=20, token_ns=2.0)
    spec = load_spec({"model": EXPERTS})
    one = work(WorkKind.OTHER, read=4 * 4 * 100)
    alone = int(H100.durations_ns(one)[0])
    for graphs, wait in (("none", 1_200), ("partial", 700), ("full", 20)):
        times = recipe.durations_ns(H100, replace(spec, cuda_graphs=graphs), HOPPER)(one)
        assert int(times[0]) == alone + wait
    quick = replace(recipe, arm_host=0.5).durations_ns(H100, spec, replace(HOPPER, cpu="arm"))(one)
    assert int(quick[0]) == alone + 700


def test_what_the_spec_says_of_the_host_comes_first() -> None:
    recipe = Recipe(host_ns=100, partial_host_ns=50, full_host_ns=1)
    found = [recipe.launch_ns(replace(DENSE, cuda_graphs=graphs)) for graphs in ("none", "partial", "full")]
    assert found == [100, 50, 1]
    assert recipe.launch_ns(replace(DENSE, launch_ns=7)) == 7


def test_recipes_have_names() -> None:
    assert recipe_named("plain") == Recipe()
    with pytest.raises(cs.InputError, match=r"no such recipe; found 'megatrom'.*did you mean megatron"):
        recipe_named("megatrom")
    usual = {
        "megatron": {}, "megatron-experts": {"model": EXPERTS}, "torch-eager": {"kernels": "eager"},
        "torch-compiled": {"kernels": "compiled"}, "plain": {"flash_attention": False},
    }  # fmt: skip
    for name, more in usual.items():
        assert usual_recipe(load_spec({"model": MODEL, **more})) == name
        assert name in recipes()


def test_tokens_go_to_a_node_once() -> None:
    split = {"dp": 16, "ep": 16, "zero": 1}
    spec = load_spec({"model": EXPERTS, "parallel": split, "batch": {"global_batch": 16}})
    near, far = load_machine("gb200", gpus=16), load_machine("h100", gpus=16)
    assert share_sent(spec, near) == 1.0
    # Of four experts on two nodes, 1 - 1/2^4 of the tokens have one on the other node; two copies each would go there.
    assert share_sent(spec, far) == pytest.approx((1 - 0.5**4) / 2)
    tape = ChunkPass(spec, 0, forward=True, last=False).write()
    sizes = [
        [row.values["comm_size"] for row in one.rows if row.values.get("pg_name") == "ep"]
        for one in (tape, sent_once(spec, near)(tape), sent_once(spec, far)(tape))
    ]
    assert sizes[0] == sizes[1]
    assert sizes[2] == [round(size * share_sent(spec, far)) for size in sizes[0]]
