"""Values that follow although an operand's are unknown: of "or true", "and false" and "times zero".

A loop over tokens that ends when all sequences are done asks such a value: whether a sequence has ended is unknown,
that it has all its tokens is known, and one of them suffices.
"""

from __future__ import annotations

from typing import Any, Final

import torch

ELEMENTS: Final = 1 << 16
"""Of a flag for each sequence, at most."""

_OR: Final = ("bitwise_or", "__or__")
_LOGICAL: Final = {"logical_or": 1, "logical_and": 0}
_ABSORBING: Final = frozenset({*_OR, *_LOGICAL, "bitwise_and", "__and__", "mul"})


def absorbs(func: Any) -> bool:
    """Whether an operator has operands that settle the result whatever the other one is."""
    return func.namespace == "aten" and func._overloadpacket.__name__ in _ABSORBING


def known_result(func: Any, real: list[Any], result: Any) -> Any:
    """The values of ``result``, a device tensor that ``func`` gave, as a real tensor; None if they are not known.

    ``real`` are the operands whose values are known.
    """
    name = func._overloadpacket.__name__
    kind = result.dtype
    if result.dim() > 1 or result.numel() > ELEMENTS or kind.is_floating_point or kind.is_complex:
        return None
    for operand in real:
        if name in _LOGICAL:
            value, operand = _LOGICAL[name], operand.bool()
        elif name in _OR:
            value = 1 if kind is torch.bool else -1
        else:
            value = 0
        if bool((operand.to(kind) == value).all()):
            return torch.full(result.shape, value, dtype=kind)
    return None
