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
        self.top = at.HEADER_WORDS
        self._stretches: list[tuple[int, list[Block]]] = [(self.top, [])]
        """Blocks that follow one another, and where the first of them will stand."""
        self._copies: list[tuple[int, Block, int]] = []

    def add(self, words: Block | Sequence[int]) -> int:
        """Append a block; returns the index of its first word. An array of words may be filled in until `build`."""
        block = np.ascontiguousarray(words, dtype=np.int64).reshape(-1)
        start = self.top
        self._stretches[-1][1].append(block)
        self.top += len(block)
        return start

    def copies(self, block: Block, count: int) -> int:
        """Append so many copies of a block, which are only made by `build`."""
        start = self.top
        self._copies.append((start, block, count))
        self.top += count * len(block)
        self._stretches.append((self.top, []))
        return start

    def zeros(self, words: int) -> int:
        """Append so many zeros."""
        return self.add(np.zeros(words, np.int64))

    def build(self, spare_words: int) -> Block:
        """The arena, with room to grow behind the blocks."""
        arena = np.zeros(self.top + spare_words, np.int64)
        for start, blocks in self._stretches:
            if blocks:
                np.concatenate(blocks, out=arena[start : start + sum(map(len, blocks))])
        for start, block, count in self._copies:
            arena[start : start + count * len(block)].reshape(count, -1)[:] = block
        arena[at.TOP] = self.top
        return arena
