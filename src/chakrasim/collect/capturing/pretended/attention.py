"""Attention as on a GPU: which kernel stands for which, and how DTensor splits it."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import torch
from torch.nn.attention import SDPBackend, flex_attention
from torch.utils import checkpoint

from chakrasim.collect.capturing.pretended.device import DeviceTensor, program_place
from chakrasim.collect.capturing.pretended.patches import Patches

BATCH, HEADS = 0, 1

_FOR_CPU: Final = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_ON_GPU: Final = {
    SDPBackend.FLASH_ATTENTION: torch.ops.aten._scaled_dot_product_flash_attention.default,
    SDPBackend.EFFICIENT_ATTENTION: torch.ops.aten._scaled_dot_product_efficient_attention.default,
    SDPBackend.CUDNN_ATTENTION: torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}
"""What PyTorch runs on a GPU, in the order in which it tries."""
_FLEXIBLE: Final = tuple(
    getattr(torch.ops.higher_order, name)
    for name in ("flex_attention", "inductor_compiled_code")
    if hasattr(torch.ops.higher_order, name)
)
"""What policies name where a program calls flex_attention, as it is or compiled."""
_SAVING: Final = (True, checkpoint.CheckpointPolicy.MUST_SAVE, checkpoint.CheckpointPolicy.PREFER_SAVE)
_flexible_now: Final[list[Any]] = []


def install_attention(made: Patches, with_gpu: bool) -> None:
    """Every fused attention of a GPU is the CPU's one until the patches are undone, and DTensor can split it.

    With a GPU, policies of selective checkpointing find the GPU's operator."""
    asked = list(_ON_GPU)

    def choose(original: Any, backends: Any, set_priority: bool = False) -> None:
        given = [backends] if isinstance(backends, SDPBackend) else list(backends)
        asked[:] = [way for way in (given if set_priority else _ON_GPU) if way in given and way in _ON_GPU]
        _fused(original, given, set_priority)

    def keep(original: Any, self: Any, policy: Any, *args: Any, **kwargs: Any) -> None:
        original(self, policy and _policy_on_gpu(policy, asked), *args, **kwargs)

    made.around(torch.nn.attention, "_sdpa_kernel", choose)
    made.around(flex_attention, "flex_attention", _flexible)
    made.around(flex_attention, "flex_attention", _as_one_operator)
    if with_gpu:
        made.around(checkpoint._CachingTorchDispatchMode, "__init__", keep)
        made.around(checkpoint._CachedTorchDispatchMode, "__init__", keep)
    _teach_dtensor()


def _policy_on_gpu(policy: Any, asked: list[Any]) -> Any:
    """A policy of selective checkpointing that is asked about the operator that a GPU would run for the CPU's one."""

    def ask(context: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if func is not _FOR_CPU:
            return policy(context, func, *args, **kwargs)
        if _flexible_now:
            answers = [policy(context, operator, *args, **kwargs) for operator in _FLEXIBLE]
            return next((answer for answer in answers if answer in _SAVING), answers[0])
        flash = args[0].dtype in (torch.float16, torch.bfloat16) and kwargs.get("attn_mask") is None
        able = [way for way in asked if flash or way is not SDPBackend.FLASH_ATTENTION]
        return policy(context, _ON_GPU[able[0] if able else SDPBackend.EFFICIENT_ATTENTION], *args, **kwargs)

    return ask


def without_dropout(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `scaled_dot_product_attention` without dropout: a GPU's flash attention has it, the CPU's has
    not, and PyTorch would write the scores to memory."""
    if args[4] if len(args) > 4 else kwargs.get("dropout_p"):
        DeviceTensor.fake_mode.placeholders[f"attention's dropout = 0 at {program_place()}"] += 1
    if len(args) > 4:
        return (*args[:4], 0.0, *args[5:]), kwargs
    return args, {**kwargs, "dropout_p": 0.0}


def _fused(original: Any, asked: list[Any], set_priority: bool) -> None:
    here = [way if way is SDPBackend.MATH else SDPBackend.FLASH_ATTENTION for way in asked]
    original(list(dict.fromkeys(here)), set_priority)


def _as_one_operator(original: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
    """For policies of selective checkpointing."""
    _flexible_now.append(True)
    try:
        return original(query, *args, **kwargs)
    finally:
        _flexible_now.pop()


def _flexible(
    original: Any,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: Any = None,
    enable_gqa: bool = False,
    **more: Any,
) -> Any:
    """Which scores a function leaves out hangs on values: all count."""
    DeviceTensor.fake_mode.placeholders[f"flex_attention of all scores at {program_place()}"] += 1
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=enable_gqa)
    asked = more.get("return_aux")
    if asked is not None:
        lse = _PerQuery.apply(out) if asked.lse else None
        return out, flex_attention.AuxOutput(lse, _PerQuery.apply(out).detach() if asked.max_scores else None)
    return (out, _PerQuery.apply(out)) if more.get("return_lse") else out


class _PerQuery(torch.autograd.Function):  # type: ignore[misc]
    """A number for each query and head that the attention's kernel gives along with its output.

    Its gradient goes into the attention's backward kernel, which runs once for both.
    """

    @staticmethod
    def forward(context: Any, out: Any) -> Any:
        return torch.empty_like(out[..., 0], dtype=torch.float32)

    @staticmethod
    def backward(context: Any, gradient: Any) -> None:
        return None


@cache
def _teach_dtensor() -> None:
    """Queries, keys and values may be replicated, or split by batch or by heads, for the rest of this process.

    PyTorch knows these choices of `aten._scaled_dot_product_flash_attention`, not of the CPU's.
    """
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    placements = (Replicate(), Shard(BATCH), Shard(HEADS))

    def forward(query: Any, key: Any, value: Any, *others: Any, **_: Any) -> list[Any]:
        rest = [None] * len(others)
        return [([place] * 2, [place] * 3 + rest) for place in placements]

    def backward(*arguments: Any, **_: Any) -> list[Any]:
        # grad_out, query, key, value, out, logsumexp; then a probability and a flag
        rest = [None] * (len(arguments) - 6)
        return [([place] * 3, [place] * 6 + rest) for place in placements]

    aten = torch.ops.aten
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu.default)(forward)
    register_sharding(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)(backward)
