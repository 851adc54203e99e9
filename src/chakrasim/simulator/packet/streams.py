"""Random numbers: those of the reference (packet-network.md, 9), and of a run with a seed of its own.

Marks and pause frames take one stream of MRG32k3a each, of which only the first number is used; errors of links draw
from streams of the same generator one number after another. PINT draws from the C library's `rand`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from chakrasim.jit import inner, leaf
from chakrasim.simulator.packet.state import RAND, Longs, Net

M1: Final = 4294967087
M2: Final = 4294944443
FOLD_1: Final = (1 << 32) - M1
FOLD_2: Final = (1 << 32) - M2
A1: Final = ((0, 1, 0), (0, 0, 1), (M1 - 810728, 1403580, 0))
A2: Final = ((0, 1, 0), (0, 0, 1), (M2 - 1370589, 0, 527612))
SCALE: Final = 1.0 / (M1 + 1)
STATE: Final = 6
"""Integers of a generator."""
LINKS: Final = (1 << 63) + 50
"""The stream of errors of links."""
RING: Final = 34
"""Words that `rand` goes by."""

Matrix = tuple[tuple[int, ...], ...]


def _product(a: Matrix, b: Matrix, m: int) -> Matrix:
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(3)) % m for j in range(3)) for i in range(3))


def _power(a: Matrix, exponent: int, m: int) -> Matrix:
    result: Matrix = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    while exponent:
        if exponent & 1:
            result = _product(result, a, m)
        a = _product(a, a, m)
        exponent >>= 1
    return result


def stream_state(stream: int, run: int = 1) -> Longs:
    """int64[6]: the generator at the start of a stream, ``run`` times 2^76 numbers behind it."""
    steps = (stream << 127) + (run << 76)
    first, second = _power(A1, steps, M1), _power(A2, steps, M2)
    return np.array([*(sum(row) % M1 for row in first), *(sum(row) % M2 for row in second)], np.int64)


_JUMP_1 = np.array(_power(A1, 1 << 127, M1), np.int64)
_JUMP_2 = np.array(_power(A2, 1 << 127, M2), np.int64)
JUMP: Final = np.stack([_JUMP_1 >> 16, _JUMP_1 & 0xFFFF, _JUMP_2 >> 16, _JUMP_2 & 0xFFFF])
"""The step from stream to stream; upper and lower halves, so that sums of products stay below 2^63."""


def rand_state(seed: int = 1) -> Longs:
    """int64[34]: the last words of the C library's `rand` after its start."""
    r = [seed]
    for i in range(1, 31):
        r.append(16807 * r[i - 1] % (2**31 - 1))
    for i in range(31, 34):
        r.append(r[i - 31])
    for i in range(34, 344):
        r.append((r[i - 31] + r[i - 3]) & 0xFFFFFFFF)
    return np.array(r[-RING:], np.int64)


@leaf
def c_rand(n: Net) -> int:
    """The next number of the C library's generator, whose words stand behind the others in a ring."""
    first = n.streams.size - RING
    at = n.g[RAND]
    value = n.streams[first + (at + RING - 31) % RING] + n.streams[first + (at + RING - 3) % RING]
    value &= 0xFFFFFFFF
    n.streams[first + at] = value
    n.g[RAND] = (at + 1) % RING
    return value >> 1


@leaf
def advance_state(n: Net, at: int) -> float:
    """One step of the generator that stands at a place; returns its number, from 0 to 1."""
    s = n.streams
    one = (1403580 * s[at + 1] - 810728 * s[at]) % M1
    two = (527612 * s[at + 5] - 1370589 * s[at + 3]) % M2
    if one < 0:
        one += M1
    if two < 0:
        two += M2
    s[at], s[at + 1], s[at + 2] = s[at + 1], s[at + 2], one
    s[at + 3], s[at + 4], s[at + 5] = s[at + 4], s[at + 5], two
    return (one - two if one > two else one - two + M1) * SCALE


@leaf
def first_number(n: Net) -> float:
    """The first number of the next stream, which stays where it is."""
    s = n.streams
    one = (1403580 * s[1] - 810728 * s[0]) % M1
    two = (527612 * s[5] - 1370589 * s[3]) % M2
    if one < 0:
        one += M1
    if two < 0:
        two += M2
    return (one - two if one > two else one - two + M1) * SCALE


@leaf
def folded(value: int, fold: int) -> int:
    """A number below 2^63 modulo 2^32 - fold, up to one multiple."""
    value = (value >> 32) * fold + (value & 0xFFFFFFFF)
    value = (value >> 32) * fold + (value & 0xFFFFFFFF)
    return (value >> 32) * fold + (value & 0xFFFFFFFF)


@inner
def next_stream(n: Net) -> None:
    """Go on to the next stream."""
    leap(n, 0, 0, FOLD_1, M1)
    leap(n, 3, 2, FOLD_2, M2)


@leaf
def leap(n: Net, at: int, half: int, fold: int, m: int) -> None:
    s = n.streams
    a, b, c = s[at], s[at + 1], s[at + 2]
    for row in range(3):
        high = JUMP[half, row, 0] * a + JUMP[half, row, 1] * b + JUMP[half, row, 2] * c
        low = JUMP[half + 1, row, 0] * a + JUMP[half + 1, row, 1] * b + JUMP[half + 1, row, 2] * c
        value = folded((folded(high, fold) << 16) + low, fold)
        s[at + row] = value - m if value >= m else value
