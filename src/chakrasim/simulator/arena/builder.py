"""Laying out the arena: blocks of words, written once, then taken by the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.kernels import layout as at

Block = NDArray[np.int64]


class ArenaBuilder:
    """Collects blocks and hands out the index at which each will stand. Index 0 stays unused."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self.top = at.HEADER_WORDS

    def add(self, words: Block | Sequence[int]) -> int:
        """Append a block; returns the index of its first word. An array of words may be filled in until `build`."""
        block = np.ascontiguousarray(words, dtype=np.int64).reshape(-1)
        start = self.top
        self._blocks.append(block)
        self.top += len(block)
        return start

    def zeros(self, words: int) -> int:
        """Append so many zeros."""
        return self.add(np.zeros(words, np.int64))

    def build(self, spare_words: int) -> Block:
        """The arena, with room to grow behind the blocks."""
        arena = np.zeros(self.top + spare_words, np.int64)
        np.concatenate(self._blocks, out=arena[at.HEADER_WORDS : self.top])
        arena[at.TOP] = self.top
        return arena
