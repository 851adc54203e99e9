"""Keeping the memory of large traces small."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

#: Below this many events it is not worth the time.
LARGE = 500_000
#: glibc: allocations from this size on are mapped one by one, so that what is freed is given back at once. Its own
#: rule, by which they may come out of the heap and leave holes there, takes a tenth more for a trace of a gigabyte.
_M_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 4 << 20


def give_back(rows: int) -> None:
    """Return freed memory to the system: columns of some megabytes leave holes that other sizes do not fill. Does
    nothing for few rows, or where the C library cannot."""
    trim = _trim() if rows > LARGE else None
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        trim = library.malloc_trim
        library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    except (OSError, AttributeError):
        return None
    return trim


def narrow(column: Any) -> Any:
    """The column as int32 if its values fit, else as it is."""
    if len(column) and column.min() >= -(2**31) and column.max() < 2**31:
        return column.astype(np.int32)
    return column
