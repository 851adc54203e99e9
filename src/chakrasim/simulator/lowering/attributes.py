"""Attributes of nodes as checked numbers; whatever is wrong with one is said with the node's name."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace import Trace
from chakrasim.trace.chakra.graph import AttrColumn

Ints = NDArray[np.int64]

TOO_LARGE: Final = 1 << 62
"""Bytes, operations and the like must be below this, so that a few of them can be added up."""


def refuse(
    trace: Trace,
    node: int,
    message: str,
    *,
    found: object = None,
    expected: object = None,
    remedy: str | None = None,
) -> NoReturn:
    """Raise an InputError about the node at this position of the file."""
    raise InputError(message, file=trace.source, place=trace.place(node), found=found, expected=expected, remedy=remedy)


def required(column: AttrColumn, nodes: Ints, what: str, remedy: str | None = None) -> Ints:
    """An attribute that every one of the nodes must have, as int64[nodes] from 0 to 2^62 - 1.

    ``what`` needs it, for the message. Raises InputError at the first node without it.
    """
    missing = np.flatnonzero(~column.present[nodes])
    if len(missing):
        node = int(nodes[missing[0]])
        refuse(column.trace, node, f"{what} needs the attribute {column.name!r}, which is missing", remedy=remedy)
    return optional(column, nodes)


def optional(column: AttrColumn, nodes: Ints, default: int = 0) -> Ints:
    """An attribute as int64[nodes] from 0 to 2^62 - 1, ``default`` where it is missing. Raises InputError."""
    values = column.integers(default)[nodes]
    bad = np.flatnonzero((values < 0) | (values >= TOO_LARGE))
    if len(bad):
        refuse(
            column.trace,
            int(nodes[bad[0]]),
            f"attribute {column.name!r} is out of range",
            found=int(values[bad[0]]),
            expected="0 to 2^62 - 1",
        )
    return values


def scaled(values: Ints, factor: float) -> Ints:
    """Times or sizes times a factor, rounded to whole ones; what is too large then stays at 2^62."""
    if factor == 1.0:
        return values
    return np.minimum(np.rint(values * float(factor)), float(TOO_LARGE)).astype(np.int64)
