"""Process groups of ranks on a mesh."""

from __future__ import annotations

Groups = tuple[tuple[int, ...], ...]


def strided(ranks: int, stride: int, size: int) -> Groups:
    """All ranks in groups of ``size``, whose members are ``stride`` apart; ``stride * size`` divides ``ranks``."""
    block = stride * size
    return tuple(
        tuple(range(first + offset, first + offset + block, stride))
        for first in range(0, ranks, block)
        for offset in range(stride)
    )
