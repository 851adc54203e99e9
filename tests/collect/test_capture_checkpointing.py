"""What is computed twice under checkpointing is what PyTorch computes twice, by its own counter on real tensors."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from captures import capture
from torch.nn.attention import SDPBackend, flex_attention, sdpa_kernel
from torch.utils import flop_counter
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

aten = torch.ops.aten
PACKET = aten._scaled_dot_product_flash_attention_for_cpu
HERE = PACKET.default
FLASH = aten._scaled_dot_product_flash_attention.default
EFFICIENT = aten._scaled_dot_product_efficient_attention.default
CUDNN = aten._scaled_dot_product_cudnn_attention.default
PRODUCTS = [aten.mm.default, aten.addmm.default]


def _forward(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_flop_count(query, key, value))


def _backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(flop_counter.sdpa_backward_flop_count(gradient, query, key, value))


COUNTED = {PACKET: _forward, aten._scaled_dot_product_flash_attention_for_cpu_backward: _backward}


class Block(torch.nn.Module):  # type: ignore[misc]
    """Attention with what is before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        parts = self.qkv(x).view(2, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        found = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return x + self.out(found.transpose(1, 2).reshape(2, 16, 32))


def step(device: str, dtype: Any, backend: Any = None, **how: Any) -> None:
    """Two blocks, each a checkpoint, forward and backward."""
    x = torch.randn(2, 16, 32, device=device, dtype=dtype, requires_grad=True)
    with nullcontext() if backend is None else sdpa_kernel(backend):
        for block in (Block(), Block()):
            x = checkpoint(block.to(device, dtype), x, **how)
        x.sum().backward()


def saving(operators: list[Any], form: str) -> Any:
    """Contexts that save what these operators give."""
    if form == "list":
        return functools.partial(create_selective_checkpoint_contexts, operators)

    def policy(context: Any, func: Any, *_: Any, **__: Any) -> Any:
        return CheckpointPolicy.MUST_SAVE if func in operators else CheckpointPolicy.PREFER_RECOMPUTE

    return functools.partial(create_selective_checkpoint_contexts, policy)


def eager(**how: Any) -> dict[str, int]:
    """FLOPs by operator of a step on real tensors, by PyTorch's counter."""
    with flop_counter.FlopCounterMode(display=False, custom_mapping=COUNTED) as counter:
        step("cpu", torch.float32, **how)
    total = counter.get_flop_counts()["Global"]
    return {str(operator).replace("aten.", "aten::"): count for operator, count in total.items()}


def captured(dtype: Any = torch.float32, with_gpu: bool = True, **how: Any) -> dict[str, int]:
    """FLOPs by operator of a captured step."""
    device = "cuda" if with_gpu else "cpu"
    done = capture(functools.partial(step, device, dtype, **how), world_size=1, step=1, with_gpu=with_gpu)
    found = done.captured.classes[0].result.summary.matrix_flops
    return {**found["pytorch"], **found["formula"]}


@pytest.mark.slow
@pytest.mark.parametrize("is_reentrant", [True, False])
def test_whole_blocks_computed_again(is_reentrant: bool) -> None:
    assert captured(use_reentrant=is_reentrant) == eager(use_reentrant=is_reentrant)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("products", [pytest.param([], marks=pytest.mark.slow), PRODUCTS])
@pytest.mark.parametrize(
    ("dtype", "backend", "listed", "is_saved"),
    [
        (torch.bfloat16, None, [FLASH], True),
        (torch.bfloat16, None, [EFFICIENT], False),
        (torch.float32, None, [FLASH, EFFICIENT], True),
        (torch.float32, None, [FLASH], False),
        (torch.bfloat16, SDPBackend.CUDNN_ATTENTION, [CUDNN], True),
        (torch.bfloat16, SDPBackend.EFFICIENT_ATTENTION, [FLASH], False),
    ],
)
def test_attention_that_a_policy_saves_is_not_computed_again(
    dtype: Any, backend: Any, listed: list[Any], is_saved: bool, products: list[Any]
) -> None:
    form = "list" if products else "policy"
    how = {"use_reentrant": False, "backend": backend, "context_fn": saving([*listed, *products], form)}
    real = saving([*([HERE] if is_saved else []), *products], form)
    assert captured(dtype, **how) == eager(use_reentrant=False, context_fn=real)


@pytest.mark.parametrize("is_saved", [True, False])
def test_flexible_attention_that_a_policy_saves_is_not_computed_again(is_saved: bool) -> None:
    saved = [torch.ops.higher_order.flex_attention] if is_saved else [FLASH]

    def flexible() -> None:
        x = torch.randn(2, 4, 16, 8, device="cuda", requires_grad=True)
        call = functools.partial(checkpoint, flex_attention.flex_attention, use_reentrant=False)
        call(x, x, x, context_fn=saving(saved, "policy")).sum().backward()

    summary = capture(flexible, world_size=1, step=1).captured.classes[0].result.summary
    forward = flop_counter.sdpa_flop_count(*[(2, 4, 16, 8)] * 3)
    assert summary.matrix_flops["formula"][str(HERE).replace("aten.", "aten::").removesuffix(".default")] == (
        forward if is_saved else 2 * forward
    )


def test_without_a_gpu_the_operator_is_the_cpus() -> None:
    how = {"use_reentrant": False, "context_fn": saving([HERE], "list")}
    assert captured(with_gpu=False, **how) == eager(**how)
