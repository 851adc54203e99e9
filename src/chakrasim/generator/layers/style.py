"""What element-wise work costs in memory traffic and kernels, as a program is run.

``fused``: Megatron-LM with Transformer Engine, one kernel for what belongs together. ``compiled``: torch.compile, which
fuses the same. ``eager``: a kernel for each operator of PyTorch, every result written to memory and read again; RMS
norms, rotary positions and the loss convert to float32 and back, as the public Llama programs do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chakrasim.generator.spec.spec import Spec


@dataclass(frozen=True)
class Passes:
    """Traffic of an element: values of the spec's type and float32 values read and written; and how many kernels."""

    reads: float
    writes: float
    wide_reads: int = 0
    wide_writes: int = 0
    kernels: int = 1

    def read(self, elements: int, value_bytes: int) -> int:
        """Bytes read."""
        return round(elements * (self.reads * value_bytes + 4 * self.wide_reads))

    def written(self, elements: int, value_bytes: int) -> int:
        """Bytes written."""
        return round(elements * (self.writes * value_bytes + 4 * self.wide_writes))


_FUSED: Final = {
    "norm": Passes(1, 1),
    "norm gradient": Passes(2, 1, kernels=2),
    "rotary": Passes(1, 1, kernels=2),
    "activation": Passes(1, 1),
    "activation gradient": Passes(2, 1),
    "gated activation": Passes(2, 1),
    "gated activation gradient": Passes(3, 2),
    # As Megatron-Core has it: each expert's bias times its tokens' weights in float32, sum, all experts put together,
    # conversion; back, two conversions, the tokens put together, and gradients of bias and weights before their sums.
    "experts bias": Passes(1, 1, 3, 3, 4),
    "experts bias gradient": Passes(2, 2, 5, 3, 7),
}
_EAGER: Final = {
    # pow, mean, rsqrt and product in float32, between two conversions, then the weight.
    "rms norm": Passes(2, 2, 4, 3, 8),
    "rms norm gradient": Passes(5, 3, 9, 5, 14),
    # Conversion, complex product, conversion, for queries and for keys.
    "rotary": Passes(1, 1, 2, 2, 8),
    "gated activation": Passes(3, 2, kernels=2),
    "gated activation gradient": Passes(6, 3, kernels=3),
}
UPDATE: Final = {"fused": 1.0, "compiled": 1.0, "eager": 2.5}
"""How often an optimizer's step reads and writes what a fused one does once: torch's AdamW of several passes."""


def passes_of(spec: Spec, what: str) -> Passes:
    """The traffic of ``what``: "norm", "rotary", "activation", or the first or last of these with " gradient"."""
    own = f"{spec.model.norm} {what}" if what.startswith("norm") else what
    if what.startswith("activation") and spec.model.gated:
        own = f"gated {what}"
    if spec.kernels == "eager" and own in _EAGER:
        return _EAGER[own]
    return _FUSED.get(own) or _FUSED[what]
