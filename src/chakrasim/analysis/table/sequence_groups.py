"""Grouping equal sequences of numbers, without a loop over them."""

from __future__ import annotations

import numpy as np

from chakrasim.analysis.table.statistics import group_keys, in_order_of_appearance
from chakrasim.trace.kineto.columns import Ints

_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


def equal_sequences(values: Ints, offsets: Ints, label: Ints) -> tuple[Ints, Ints]:
    """Which of ``k`` sequences are equal: ``values[offsets[i]:offsets[i + 1]]`` with ``label[i]``, none of them empty.

    Returns ``group[k]`` and the first sequence of each group, groups in order of appearance. Sequences are compared by
    two 64-bit hashes, and then in full: should hashes ever collide, they are compared one by one.
    """
    count = np.diff(offsets)
    if not len(count):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.arange(len(values)) - np.repeat(offsets[:-1], count)
    hashes = [np.add.reduceat(_mixed(values, place, m), offsets[:-1]).view(np.int64) for m in _MULTIPLIERS]
    group, first = in_order_of_appearance(*group_keys(label, count, *hashes))
    like = np.repeat(offsets[:-1][first[group]], count) + place
    if bool(np.all(values == values[like])):
        return group, first
    return _one_by_one(values, offsets, label)


def _mixed(values: Ints, place: Ints, multiplier: np.uint64) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A number for each pair of value and place that looks random, so that their sum tells sequences apart."""
    mixed = (values.astype(np.uint64) + np.uint64(1)) * multiplier
    mixed ^= (place.astype(np.uint64) + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93)
    for shift in (np.uint64(32), np.uint64(29), np.uint64(32)):
        mixed ^= mixed >> shift
        mixed *= multiplier
    return mixed


def _one_by_one(values: Ints, offsets: Ints, label: Ints) -> tuple[Ints, Ints]:
    seen: dict[tuple[int, bytes], int] = {}
    first: list[int] = []
    group = np.empty(len(label), np.int64)
    for i in range(len(label)):
        key = (int(label[i]), values[offsets[i] : offsets[i + 1]].tobytes())
        if key not in seen:
            seen[key] = len(first)
            first.append(i)
        group[i] = seen[key]
    return group, np.array(first, np.int64)
