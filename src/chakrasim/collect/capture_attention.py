"""How DTensor splits attention: PyTorch knows it of a GPU's fused attention, not of the CPU's, which stands for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

BATCH, HEADS = 0, 1


@cache
def teach_attention_to_dtensor() -> None:
    """Accept queries, keys and values that are replicated, or split by batch or by heads, for the rest of this process.

    The choices are those of `aten._scaled_dot_product_flash_attention`.
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
