"""Patterns of traffic by name: ``incast:16x1MiB``, ``permutation:4MiB``, ``all-to-all:1MiB``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from chakrasim.errors import InputError, near
from chakrasim.simulator.flow.alone.flows import Flows
from chakrasim.text.amounts import amount_of

EXAMPLES: Final = {"incast": "incast:16x1MiB", "permutation": "permutation:4MiB", "all-to-all": "all-to-all:1MiB"}
MOST_FLOWS: Final = 1 << 27
"""What is more takes more memory than a machine has."""


def pattern_flows(pattern: str, ranks: int, seed: int = 1) -> Flows:
    """The flows of a pattern among ranks 0 to ``ranks`` - 1, all at time 0.

    - ``incast:KxSIZE``: ranks 1 to K each send SIZE to rank 0.
    - ``permutation:SIZE``: each rank sends to another one and each gets from one: a random circle of all ranks, drawn
      by ``seed`` (NumPy's RandomState, whose numbers stay what they are).
    - ``all-to-all:SIZE``: each rank sends SIZE to each other one. Flow ``i (ranks - 1) + k - 1`` goes from i to
      (i + k) mod ranks.

    KiB is 1,024 and kB 1,000 bytes. Raises :class:`chakrasim.InputError`.
    """
    name, colon, amount = pattern.partition(":")
    makers: dict[str, Callable[[str, int, int], Flows]] = {
        "incast": _incast,
        "permutation": _permutation,
        "all-to-all": _all_to_all,
    }
    if name not in makers or not colon:
        raise _refused("unknown pattern" if colon else "a pattern has a name and a size", pattern, name)
    if ranks < 2:
        raise InputError("a pattern needs two ranks or more", file="pattern", found=f"{ranks} ranks")
    return makers[name](amount, ranks, seed)


def size_bytes(text: str, pattern: str) -> float:
    """A size such as ``1MiB`` in bytes. Raises InputError for what is none."""
    size = amount_of(text)
    if size is None:
        raise _refused("this is no size", text, pattern)
    if size.denominator != 1 or size >= 2**62:
        raise _refused("the size is no whole number of bytes in range", text, pattern)
    return float(size)


def _refused(message: str, found: str, name: str) -> InputError:
    expected = EXAMPLES.get(name) or f"one of {', '.join(EXAMPLES.values())}"
    remedy = None if name in EXAMPLES else near(name, EXAMPLES) or None
    return InputError(message, file="pattern", found=repr(found[:40]), expected=expected, remedy=remedy)


def _incast(amount: str, ranks: int, _: int) -> Flows:
    count, x, size = amount.partition("x")
    if not x or not re.fullmatch("[0-9]{1,9}", count) or int(count) == 0:
        raise _refused("an incast has a number of senders and a size", amount, "incast")
    senders = int(count)
    if senders >= ranks:
        raise InputError(
            "an incast has fewer senders than there are ranks",
            file="pattern",
            found=f"{senders} senders, {ranks} ranks",
            expected=f"at most {ranks - 1} senders",
        )
    return Flows(np.arange(1, senders + 1), 0, np.full(senders, size_bytes(size, "incast")))


def _permutation(amount: str, ranks: int, seed: int) -> Flows:
    size = size_bytes(amount, "permutation")
    circle = np.random.RandomState(seed % 2**32).permutation(ranks)
    destination = np.zeros(ranks, np.int32)
    destination[circle] = np.roll(circle, -1)
    return Flows(np.arange(ranks), destination, np.full(ranks, size))


def _all_to_all(amount: str, ranks: int, _: int) -> Flows:
    size = size_bytes(amount, "all-to-all")
    if ranks * (ranks - 1) > MOST_FLOWS:
        raise InputError("too many flows", file="pattern", found=f"{ranks * (ranks - 1):,}", expected=f"{MOST_FLOWS:,}")
    source = np.repeat(np.arange(ranks, dtype=np.int32), ranks - 1)
    destination = (source + np.tile(np.arange(1, ranks, dtype=np.int32), ranks)) % ranks
    return Flows(source, destination, np.full(source.size, size))
