"""The work of a Kineto trace alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chakrasim.trace.kineto.columns import COLUMNS, HAS_CATEGORY, HAS_DUR, KinetoTrace, RareColumn


def only_work(kineto: KinetoTrace) -> KinetoTrace:
    """The rows that ``read_kineto(keep="work")`` keeps."""
    kept = kineto.has(HAS_DUR) & kineto.has(HAS_CATEGORY)
    kept &= ~kineto.where(kineto.category, "python_function")
    if kept.all():
        return kineto
    columns: dict[str, Any] = {name: getattr(kineto, name)[kept] for name in COLUMNS}
    place = np.cumsum(kept, dtype=np.int32) - 1
    rare = {}
    for name, column in kineto.rare.items():
        some = kept[column.rows]
        if some.any():
            rare[name] = RareColumn(place[column.rows[some]], column.kind[some], column.bits[some])
    return replace(kineto, rare=rare, **columns)
