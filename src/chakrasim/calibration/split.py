"""Which layers the data show not to be split over the devices of a tensor-parallel group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.measured import Series

SAME: Final = 1.2
"""A layer whose time grows on one device less than so many times what it grows on each of several is the same layer.
That of a layer split over two grows about half as much; noise is a few per cent."""
GROWS: Final = 0.5
"""A layer whose time grows by less than this share of what it is with the fewest tokens is bound by its weights or by
starting a kernel: its times do not say whether it is split."""


def unsplit_layers(measured: Sequence[Series]) -> frozenset[tuple[str, str]]:
    """(model, layer) of the layers whose time grows with the tokens on each of several devices as it does on one.

    Compared are the fewest and the most devices. A layer that was measured with one number of devices, or whose time
    hardly depends on the tokens, counts as split. What the times on one device show holds for the model on all, for
    splitting is the program's.
    """
    ratios: dict[tuple[str, str], list[float]] = {}
    for device in sorted({series.device for series in measured}):
        own = [series for series in measured if series.device == device]
        for key in sorted({(series.model, series.layer) for series in own}):
            same = sorted((s for s in own if (s.model, s.layer) == key), key=lambda series: series.parts)
            ratio = _ratio(same[0], same[-1]) if same[0].parts < same[-1].parts else None
            if ratio is not None:
                ratios.setdefault(key, []).append(ratio)
    return frozenset(key for key, found in ratios.items() if max(found) < SAME)


def _ratio(few: Series, many: Series) -> float | None:
    """How much more the time grows on few devices than on many, or None where it hardly grows."""
    tokens, at_few, at_many = np.intersect1d(few.tokens, many.tokens, return_indices=True)
    if len(tokens) < 2:
        return None
    low_few, growth_few = _growth(tokens, few.time_ns[at_few])
    _, growth_many = _growth(tokens, many.time_ns[at_many])
    if growth_few < GROWS * low_few:
        return None
    return growth_few / growth_many if growth_many > 0 else float("inf")


def _growth(tokens: NDArray[np.int64], time_ns: NDArray[np.float64]) -> tuple[float, float]:
    """The time with the fewest tokens, and how much more it is with many (the mean of the upper quarter)."""
    low = float(time_ns[0])
    return low, float(time_ns[tokens >= 0.75 * tokens[-1]].mean()) - low
