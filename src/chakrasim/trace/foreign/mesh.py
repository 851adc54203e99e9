"""Process groups of ranks on a mesh, and numbers in text."""

from __future__ import annotations

import re
from typing import Final

from chakrasim.errors import InputError

MAX_RANKS: Final = 1 << 20
LARGEST: Final = (1 << 62) - 1
_WHOLE: Final = re.compile(r"[0-9]{1,20}(?:\.0{1,9})?", re.ASCII)

Groups = tuple[tuple[int, ...], ...]


def strided(ranks: int, stride: int, size: int) -> Groups:
    """All ranks in groups of ``size``, whose members are ``stride`` apart; ``stride * size`` divides ``ranks``."""
    block = stride * size
    return tuple(
        tuple(range(first + offset, first + offset + block, stride))
        for first in range(0, ranks, block)
        for offset in range(stride)
    )


def whole(text: str, source: str, place: str, what: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number in text, which may end in ``.0``. Raises InputError."""
    value = int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else -1
    if not least <= value <= most:
        expected = f"a whole number from {least} to {most}"
        raise InputError(f"{what} is out of range", file=source, place=place, found=repr(text[:40]), expected=expected)
    return value
