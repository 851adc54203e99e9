"""Refusing a trace: whatever is wrong with a node is said with its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Trace


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


def refuse_where(
    wrong: NDArray[np.bool_],
    trace: Trace,
    message: str,
    *,
    nodes: NDArray[np.int64] | None = None,
    found: Callable[[int], object] | None = None,
    expected: object = None,
    remedy: str | None = None,
) -> None:
    """Raise an InputError about the first node that is ``wrong`` (bool[n]), if one is.

    ``nodes`` int64[n] are their positions in the file, where these are not all nodes; ``found`` says, by index into
    ``wrong``, what stands there.
    """
    if wrong.any():
        first = int(wrong.argmax())
        node = first if nodes is None else int(nodes[first])
        stands = None if found is None else found(first)
        refuse(trace, node, message, found=stands, expected=expected, remedy=remedy)
