"""Attributes of nodes as checked numbers; whatever is wrong with one is said with the node's name."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.graph import AttrColumn
from chakrasim.trace.chakra.refusal import refuse_where

Ints = NDArray[np.int64]

TOO_LARGE: Final = 1 << 62
"""Bytes, operations and the like must be below this, so that a few of them can be added up."""


def required(column: AttrColumn, nodes: Ints, what: str, remedy: str | None = None) -> Ints:
    """An attribute that every one of the nodes must have, as int64[nodes] from 0 to 2^62 - 1.

    ``what`` needs it, for the message. Raises InputError at the first node without it.
    """
    message = f"{what} needs the attribute {column.name!r}, which is missing"
    refuse_where(~column.present[nodes], column.trace, message, nodes=nodes, remedy=remedy)
    return optional(column, nodes)


def optional(column: AttrColumn, nodes: Ints, default: int = 0) -> Ints:
    """An attribute as int64[nodes] from 0 to 2^62 - 1, ``default`` where it is missing. Raises InputError."""
    values = column.integers(default)[nodes]
    wrong, message = (values < 0) | (values >= TOO_LARGE), f"attribute {column.name!r} is out of range"
    refuse_where(wrong, column.trace, message, nodes=nodes, found=values.item, expected="0 to 2^62 - 1")
    return values


def scaled(values: Ints, factor: float) -> Ints:
    """Times or sizes times a factor, rounded to whole ones; what is too large then stays at 2^62."""
    if factor == 1.0:
        return values
    return np.minimum(np.rint(values * float(factor)), float(TOO_LARGE)).astype(np.int64)
