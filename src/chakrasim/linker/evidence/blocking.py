"""Which calls of a runtime keep the host waiting for the device: by their names and by when they returned."""

from __future__ import annotations

import numpy as np

from chakrasim.linker.evidence.nesting import TOLERANCE_NS
from chakrasim.trace.kineto.columns import Indices, Ints, KinetoTrace, Mask


def calls_with(kineto: KinetoTrace, rows: Ints | Indices, *parts: str) -> Mask:
    """bool[k]: rows whose name contains one of ``parts`` (lower case)."""
    return kineto.strings.each(kineto.name[rows], lambda text: any(part in text.lower() for part in parts))


def blocking_copies(
    kineto: KinetoTrace, call: Ints | Indices, copy: Ints | Indices, late_ns: Ints
) -> tuple[Mask, Mask]:
    """bool[k], bool[k]: calls that surely, and that probably, waited for the copies they launched. ``call`` and
    ``copy`` are rows; ``late_ns``: how much later than its call each copy ended.

    A copy of an asynchronous call that ended before its call returned was waited for, unless its memory is pinned or
    the device's own: then it was merely quick.
    """
    blocking, asynchronous = calls_with(kineto, call, "memcpy"), calls_with(kineto, call, "async")
    quick = kineto.strings.each(kineto.name[copy], lambda text: "Pinned" in text or "Device -> Device" in text)
    sure = blocking & ~asynchronous & (late_ns <= TOLERANCE_NS)
    likely = blocking & asynchronous & ~quick & (late_ns <= 0)
    return np.asarray(sure), np.asarray(likely)
