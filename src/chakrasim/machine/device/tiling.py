"""What a matrix product loses to blocks that do not fill the processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.work import BITS, Work

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


SHORTEST: Final = 256
"""Steps of k below which a block is not divided among processors."""

SMALLEST: Final = 64
"""No side of a block is halved below this: cuBLAS has blocks of 256 x 128 down to 64 x 64 (the guide named below)."""


@dataclass(frozen=True, eq=False)
class _Products:
    """``batch`` products of m x k by k x n each, float64[n], at least 1 but for ``k``."""

    batch: Floats
    m: Floats
    n: Floats
    k: Floats

    @property
    def elements(self) -> Floats:
        return self.batch * self.m * self.n

    def blocks(self, rows: Floats | int, columns: Floats | int) -> Floats:
        return np.asarray(self.batch * np.ceil(self.m / rows) * np.ceil(self.n / columns))


@dataclass(frozen=True)
class Tiling:
    """The result of a product is computed in blocks, one processor for each at a time, wave after wave.

    The last wave, and blocks at the edge, leave processors with nothing to do (NVIDIA, Matrix Multiplication Background
    User's Guide: tile and wave quantization). A library therefore has smaller blocks too, here the largest with its
    sides halved: a side is halved if the half still reaches over the result, and where the largest are fewer than the
    processors, those are taken that are done first. A block costs the time of ``ramp`` steps of the largest beside
    that of its ``k`` steps, until its first operands are there, so that small blocks are not always better. When its
    products are done its result goes to memory (and comes from there, if it is added to), which the processor's only
    block leaves nothing to hide behind. GPUs that keep several blocks or results in flight, as Hopper's persistent
    kernels do, have no such loss.

    Attributes
    ----------
    processors: how many (streaming multiprocessors of an NVIDIA GPU).
    rows, columns: of the largest block, either way round.
    ramp: in steps of k of the largest block.
    """

    processors: int
    rows: int
    columns: int
    ramp: int = 0

    def slowdown(self, work: Work, chosen: Ints) -> Floats:
        """How much longer the products ``chosen`` (int64[n]) compute than with all processors busy all the time: at
        least 1. Work without a shape loses nothing."""
        m, n, k, batch = (values[chosen].astype(np.float64) for values in (work.m, work.n, work.k, work.batch))
        shaped = (m > 0) & (n > 0) & (k > 0)
        products = _Products(np.maximum(batch, 1.0), np.where(shaped, m, 1.0), np.where(shaped, n, 1.0), k)
        best = np.full(len(chosen), np.inf)
        fewest = np.full(len(chosen), np.inf)
        for rows, columns in ((self.rows, self.columns), (self.columns, self.rows)):
            best = np.minimum(best, self._cost(products, _within(rows, products.m), _within(columns, products.n)))
            fewest = np.minimum(fewest, products.blocks(rows, columns))
        few = fewest < self.processors
        for rows, columns in self.sizes():
            best = np.where(few, np.minimum(best, self._cost(products, rows, columns)), best)
        return np.where(shaped, best, 1.0)

    def sizes(self) -> list[tuple[int, int]]:
        """Rows and columns of the blocks there are, the largest first."""
        found = {(rows, columns) for rows in _halves(self.rows) for columns in _halves(self.columns)}
        return sorted(found | {(columns, rows) for rows, columns in found}, key=lambda size: (-size[0] * size[1], size))

    def _cost(self, products: _Products, rows: Floats | int, columns: Floats | int) -> Floats:
        """The slowdown with blocks of one size."""
        blocks = products.blocks(rows, columns)
        waves = np.ceil(blocks / self.processors)
        # Blocks that are too few for the processors are made of several parts of k each.
        pieces = np.clip(np.floor(self.processors / blocks), 1.0, np.maximum(products.k / SHORTEST, 1.0))
        ramp = self.ramp * (self.rows * self.columns) / (rows * columns)
        steps = waves * (products.k / pieces + ramp) / np.maximum(products.k, 1.0)
        return np.asarray(steps * self.processors * rows * columns / products.elements)

    def result_bytes(self, work: Work, chosen: Ints) -> Floats:
        """What the products ``chosen`` (int64[n]) move beside their operands; 0 for work without a shape."""
        m, n, k, batch = (values[chosen].astype(np.float64) for values in (work.m, work.n, work.k, work.batch))
        size = np.array([BITS.get(dtype, 16.0) / 8 for dtype in work.dtype[chosen].tolist()], np.float64)
        operands = np.maximum(batch, 1.0) * (m + n) * k * size
        traffic = work.bytes_read[chosen].astype(np.float64) + work.bytes_written[chosen]
        shaped = (m > 0) & (n > 0) & (k > 0)
        return np.where(shaped, np.maximum(traffic - operands, 0.0), 0.0)


def _halves(side: int) -> list[int]:
    """A side of a block, and as often halved as it stays whole and no less than `SMALLEST`."""
    found = [side]
    while found[-1] % 2 == 0 and found[-1] // 2 >= SMALLEST:
        found.append(found[-1] // 2)
    return found


def _within(side: int, result: Floats) -> Floats:
    """A side of a block, halved as long as the half still reaches over the result's."""
    found = np.full(len(result), float(side))
    for half in _halves(side):
        found[half >= result] = half
    return found
