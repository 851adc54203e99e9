"""The hash that chooses among equal next links: 64 bits, the same on every machine.

``mix`` is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64-bit numbers. All sums and products
are modulo 2**64. A flow's key is ``mix(mix(mix(mix(seed) + source) + destination) + label)``; at a vertex it chooses
link number ``mix(key + G * (vertex + 1)) mod n`` of n, with G = 0x9E3779B97F4A7C15; polarised, ``mix(key) mod n``.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel, leaf

Word = TypeVar("Word", np.uint64, NDArray[np.uint64])
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)


def mix_array(x: Word) -> Word:
    """``mix`` of each number."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


mix = leaf(mix_array)


@kernel
def flow_keys(
    seed: NDArray[np.uint64],
    source: NDArray[np.int32],
    destination: NDArray[np.int32],
    label: NDArray[np.int64],
    key: NDArray[np.uint64],
) -> None:
    """Fill ``key`` [f]; ``seed`` is an array of one."""
    base = mix(seed[0])
    for flow in range(source.size):
        x = mix(base + np.uint64(source[flow]))
        x = mix(x + np.uint64(destination[flow]))
        key[flow] = mix(x + np.uint64(label[flow]))


def keys_of(
    seed: int, source: NDArray[np.int32], destination: NDArray[np.int32], label: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """uint64[f]: each flow's part of the hash."""
    key = np.empty(source.size, np.uint64)
    with np.errstate(over="ignore"):  # uncompiled, a product that wraps warns
        flow_keys(np.array([seed], np.uint64), source, destination, label, key)
    return key


def salts(vertices: int, polarised: bool) -> NDArray[np.uint64]:
    """uint64[v]: each vertex's part of the hash, none if ``polarised``."""
    numbers = np.zeros(vertices, np.uint64) if polarised else np.arange(1, vertices + 1, dtype=np.uint64)
    return numbers * GOLDEN


def drawn(
    seed: int,
    source: NDArray[np.int32],
    destination: NDArray[np.int32],
    label: NDArray[np.int64],
    turn: int,
    count: int,
) -> NDArray[np.int64]:
    """int64[f]: a number below ``count`` for each flow, another for each ``turn``: ``mix(key + G * (-1 - turn))``."""
    key = keys_of(seed, source, destination, label) + (~np.array([turn], np.uint64)) * GOLDEN
    return (mix_array(key) % np.uint64(count)).astype(np.int64)
