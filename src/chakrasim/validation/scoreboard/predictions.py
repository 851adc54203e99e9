"""Rows of measurements beside what was predicted for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Described
from chakrasim.calibration.measurements.curves import Curve, MachineRow, Points
from chakrasim.collectives.libraries.model import Constants, Model, estimate, size_classes

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CLASSES: Final = ("<= 64 KiB", "to 4 MiB", "to 128 MiB", "beyond")
"""Names of size classes; 128 MiB itself is beyond."""
NODE, OTHER_NODE, INFINIBAND, OTHER_NETWORK = "one NVSwitch node", "one other node", "InfiniBand", "other networks"
SCOPES: Final = (NODE, OTHER_NODE, INFINIBAND, OTHER_NETWORK)
_ON_PURPOSE: Final = re.compile(r"socket|degraded|broken|on purpose", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Rows, as columns of one length n.

    ``curves``: those of the rows; ``curve`` int64[n] an index into it; ``place`` bool[n] (in place); ``bytes``
    int64[n]; the others float64[n] in us: measured (NaN: not known), predicted, and the ends of the 90 % interval (NaN:
    none).
    """

    curves: tuple[Described, ...]
    curve: Ints
    place: Bools
    bytes: Ints
    time_us: Floats
    predicted_us: Floats
    low_us: Floats
    high_us: Floats

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.curve)

    @property
    def known(self) -> Bools:
        """Whether both times of a row are there."""
        return ~np.isnan(self.time_us) & ~np.isnan(self.predicted_us)

    @property
    def error_pct(self) -> Floats:
        """How much longer the prediction is than the measurement, in per cent of the latter."""
        return np.asarray(100 * (self.predicted_us / self.time_us - 1))

    @property
    def inside(self) -> Bools:
        """Whether the interval holds the measured time."""
        return np.asarray((self.low_us <= self.time_us) & (self.time_us <= self.high_us))

    @property
    def half_width_pct(self) -> Floats:
        """Half the interval, in per cent of the prediction."""
        return np.asarray(50 * (self.high_us - self.low_us) / self.predicted_us)

    @property
    def sized(self) -> Ints:
        """The size class of each row."""
        return size_classes(self.bytes)

    def of_curves(self, values: Sequence[object]) -> NDArray[np.object_]:
        """Something said of each curve, for each row."""
        return np.array([*values, None], np.object_)[:-1][self.curve]

    def some(self, which: Bools) -> Predictions:
        """The same with some of the rows."""
        names = ("curve", "place", "bytes", "time_us", "predicted_us", "low_us", "high_us")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def instead(self, predicted_us: Floats) -> Predictions:
        """The same rows, predicted by something that has no intervals."""
        nothing = np.full(len(self), np.nan)
        return replace(self, predicted_us=predicted_us, low_us=nothing, high_us=nothing)


def pooled_curve(curve: Curve, machine: MachineRow | None) -> bool:
    """Whether a curve counts for pooled figures: not what is too coarse, of another library, or degraded on purpose."""
    said = f"{curve.env}\n{machine.basis if machine else ''}"
    return curve.source != "vidur" and curve.library.lower() != "oneccl" and _ON_PURPOSE.search(said) is None


def scope_of_curve(one: Described) -> str:
    """Where a curve was measured, one of `SCOPES`. A network that nothing is known of counts as InfiniBand."""
    site = one.site
    if site.merged().nodes > 1:
        return INFINIBAND if site.network in ("infiniband", "unknown") else OTHER_NETWORK
    return NODE if site.nodes == 1 and site.inside == "nvswitch" else OTHER_NODE


def unpredicted(curves: tuple[Described, ...], points: Points) -> Predictions:
    """The rows of points, whose curves they are an index of, with nothing predicted yet."""
    nothing = [np.full(len(points), np.nan) for _ in range(3)]
    return Predictions(curves, points.curve, points.place, points.bytes, points.time_us, *nothing)


def predict(
    rows: Predictions, which: Bools | None = None, model: Model | None = None, constants: Constants | None = None
) -> Predictions:
    """The rows, some of them predicted anew by a model (none: the shipped one) from descriptions and the constants of
    the machine, if there are any. Measured times are not looked at.

    Raises :class:`chakrasim.InputError` for an operation that its library has no way to do.
    """
    columns = np.stack([rows.predicted_us, rows.low_us, rows.high_us])
    for row in np.arange(len(rows)) if which is None else np.flatnonzero(which):
        one, size = rows.curves[rows.curve[row]], int(rows.bytes[row])
        terms = one.terms(size, bool(rows.place[row]))
        columns[:, row] = estimate(one.site, one.library, terms, size, constants, model).times_us
    return replace(rows, predicted_us=columns[0], low_us=columns[1], high_us=columns[2])
