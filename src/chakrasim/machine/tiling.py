"""What a matrix product loses to blocks that do not fill the processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.work import Work

_BYTES: Final = {
    "float64": 8,
    "float32": 4,
    "tfloat32": 4,
    "int8": 1,
    **dict.fromkeys(("float8", "float8_e4m3fn", "float8_e5m2"), 1),
}
"""Of an operand's element; other types have 2."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


SHORTEST: Final = 256
"""Steps of k below which a block is not divided among processors."""


@dataclass(frozen=True)
class Tiling:
    """The result of a product is computed in blocks, one processor for each at a time, wave after wave.

    The last wave, and blocks at the edge, leave processors with nothing to do (NVIDIA, Matrix Multiplication Background
    User's Guide: tile and wave quantization). A block costs ``ramp`` more steps than the ``k`` that it has, until its
    first operands are there; and when its products are done its result goes to memory (and comes from there, if it is
    added to), which the processor's only block leaves nothing to hide behind. GPUs that keep several blocks or results
    in flight, as Hopper's persistent kernels do, have no such loss.

    Attributes
    ----------
    processors: how many (streaming multiprocessors of an NVIDIA GPU).
    rows, columns: of a block, either way round.
    ramp: in steps of k.
    """

    processors: int
    rows: int
    columns: int
    ramp: int = 0

    def slowdown(self, work: Work, chosen: Ints) -> Floats:
        """How much longer the products ``chosen`` (int64[n]) compute than with all processors busy all the time: at
        least 1. Work without a shape loses nothing."""
        m, n, k, batch = (values[chosen].astype(np.float64) for values in (work.m, work.n, work.k, work.batch))
        batch = np.maximum(batch, 1.0)
        shaped = (m > 0) & (n > 0) & (k > 0)
        filled = np.where(shaped, batch * m * n, 1.0)
        best = np.full(len(chosen), np.inf)
        for rows, columns in ((self.rows, self.columns), (self.columns, self.rows)):
            blocks = batch * np.ceil(m / rows) * np.ceil(n / columns)
            waves = np.ceil(blocks / self.processors)
            # Blocks that are too few for the processors are made of several parts of k each.
            pieces = np.clip(np.floor(self.processors / np.maximum(blocks, 1.0)), 1.0, np.maximum(k / SHORTEST, 1.0))
            steps = waves * (k / pieces + self.ramp) / np.maximum(k, 1.0)
            best = np.minimum(best, steps * self.processors * rows * columns / filled)
        return np.where(shaped, best, 1.0)

    def result_bytes(self, work: Work, chosen: Ints) -> Floats:
        """What the products ``chosen`` (int64[n]) move beside their operands; 0 for work without a shape."""
        m, n, k, batch = (values[chosen].astype(np.float64) for values in (work.m, work.n, work.k, work.batch))
        size = np.array([_BYTES.get(dtype, 2) for dtype in work.dtype[chosen].tolist()], np.float64)
        operands = np.maximum(batch, 1.0) * (m + n) * k * size
        traffic = work.bytes_read[chosen].astype(np.float64) + work.bytes_written[chosen]
        shaped = (m > 0) & (n > 0) & (k > 0)
        return np.where(shaped, np.maximum(traffic - operands, 0.0), 0.0)
