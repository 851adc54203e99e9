"""FLOPs of operators: PyTorch's own registry first, then our formulas, and a list of what neither knows.

``torch.utils.flop_counter.register_flop_formula`` teaches both PyTorch and us an operator of one's own.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final


class FlopSource(IntEnum):
    """Where the FLOPs of an operator come from."""

    PYTORCH = 0
    """PyTorch's registry."""
    CONTRACTION = 1
    """A formula of `chakrasim.operators.contractions`."""
    ELEMENTS = 2
    """So many per element: `chakrasim.operators.kinds`, or 1 per element of the result."""
    UNKNOWN = 3
    """A matrix-like operator that nobody counts: 0, and reported."""


MATRIX_NAME: Final = re.compile(
    r"mm|matmul|conv(?!ert)|attention|attn|sdpa|einsum|(?<!bi)(?<!tri)linear(?!_combination)|tensordot|gemm|_mlp|moe|expert"
    r"|(?<!v)dot|rnn_|lstm_layer|linalg_(?!vector_norm|cross|diagonal|vecdot|_powsum)|cholesky|inverse|svd|triangular_solve"
    r"|fft|cdist|kron|bilinear|triton"
)
"""Names of operators that contract (or factor) matrices."""
_NO_MATRIX: Final = re.compile(
    r"upsample|slice_inverse|comm(?!_)|digamma|gamma|linspace|sparse_dim|common|quantize_weight|weight_norm"
)


@lru_cache(maxsize=1)
def registry() -> dict[Any, Any]:
    """PyTorch's FLOP formulas by operator packet (or higher-order operator)."""
    from torch.utils.flop_counter import flop_registry

    formulas: dict[Any, Any] = flop_registry
    return formulas


def registered_flops(func: Any, args: Any, kwargs: Any, result: Any) -> int | None:
    """FLOPs of a call by PyTorch's registry; None where it has no formula for the operator."""
    formula = registry().get(getattr(func, "_overloadpacket", func))
    if formula is None:
        return None
    try:
        return int(formula(*args, **kwargs, out_val=result))
    except (TypeError, ValueError, IndexError, AssertionError):
        # A formula for other arguments than the operator's: those of _slow_conv2d_forward, _flash_attention_forward.
        return None


def is_matrix_like(name: str, known: bool, float_inputs: int) -> bool:
    """Whether an operator without a formula may contract: by its name, or, where nothing else is known of the
    operator, because it takes several floating-point tensors of two and more dimensions."""
    if _NO_MATRIX.search(name):
        return False
    return bool(MATRIX_NAME.search(name)) or (not known and float_inputs >= 2)


def unknown_warning(name: str, calls: int) -> str:
    """What is said of a matrix-like operator that counts 0, and the way round."""
    operator = name.replace("::", ".")
    return (
        f"{name}: {calls:,} calls look like matrix products, but neither PyTorch nor chakrasim has a formula: they "
        f"count 0 FLOPs. Give one: @torch.utils.flop_counter.register_flop_formula(torch.ops.{operator})"
    )
