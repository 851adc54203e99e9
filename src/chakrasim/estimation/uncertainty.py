"""How far off a predicted step may be: log-residuals of measured steps, each predicted without others of its group.

A residual is log(measured / predicted). Those of a kind of step are taken for draws from a t distribution with a mean
and a variance; the variance grows with the shares of communication and of the pipeline's bubble, which are harder to
predict than products of matrices. A device has a mean and a factor of the variance of its own, both drawn towards those
of all devices as long as few groups of its steps are measured. A device of which none is measured has neither, and the
variance of the means of devices on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError

if TYPE_CHECKING:
    from chakrasim.generator.spec.spec import Spec

Floats = NDArray[np.float64]

COVERED: Final = 0.9
ALL: Final = "all"
"""Instead of a kind of which too few groups are measured."""
FEWEST_GROUPS: Final = 6
DRAWN: Final = 4.0
"""A device's own figures weigh as its number of groups, those of all devices as so many."""
ASSUMED: Final = 0.02
"""Standard deviation, as a logarithm, for each thing that is assumed: not fitted, steps in tables leave little open."""
_SHIPPED: Final = Path(__file__).with_name("spread.yaml")
_ROUNDS: Final = 20
_LEAST: Final = 1e-4
"""Of a variance: 1 %."""
_MOST: Final = 1.0
"""Of what communication and bubbles add: as if they were all wrong. Few rows with long bubbles could say more."""


@dataclass(frozen=True)
class Doubts:
    """What the uncertainty of a prediction depends on: the kind of step ("dense", "experts", "lora"), the name of the
    device's profile, how many things were assumed, and the shares of communication and bubble in the step."""

    kind: str
    device: str
    assumed: int = 0
    communication: float = 0.0
    bubble: float = 0.0


@dataclass(frozen=True)
class Residual:
    """A measured step beside its prediction by constants fitted without its ``group``, such as a model on a device."""

    id: str
    group: str
    doubts: Doubts
    predicted_s: float
    measured_s: float

    @property
    def log(self) -> float:
        """log(measured / predicted). Raises InputError for times that have none."""
        if not (0 < self.predicted_s < float("inf") and 0 < self.measured_s < float("inf")):
            raise InputError("a time must be above 0", place=self.id, found=f"{self.predicted_s}, {self.measured_s}")
        return log(self.measured_s / self.predicted_s)


@dataclass(frozen=True)
class Own:
    """Of a device: mean residual beside that of the kind, and factor of the variance."""

    mean: float
    factor: float
    groups: int


@dataclass(frozen=True)
class Kind:
    """Residuals of one kind of step.

    Attributes
    ----------
    mean: of the residuals.
    variance: of a step without communication and bubble; ``communication``, ``bubble``: what the square of their share
        is multiplied by, on top.
    between: variance of the means of devices.
    groups, rows: how many were measured.
    devices: those with measured steps.
    """

    mean: float
    variance: float
    communication: float
    bubble: float
    between: float
    groups: int
    rows: int
    devices: Mapping[str, Own]

    def moments(self, doubts: Doubts) -> tuple[float, float]:
        """Mean and variance of a prediction's residual."""
        variance = self.variance + self.communication * doubts.communication**2 + self.bubble * doubts.bubble**2
        variance *= 1 + 1 / self.groups  # the mean is not known better
        own = self.devices.get(doubts.device)
        if own is None:
            return self.mean, variance + self.between + ASSUMED**2 * doubts.assumed
        drawn = self.between * DRAWN / (own.groups + DRAWN)
        return self.mean + own.mean, variance * own.factor + drawn + ASSUMED**2 * doubts.assumed


@dataclass(frozen=True)
class Spread:
    """What is known of residuals, by kind of step; ``known``: from what, in words."""

    known: str
    kinds: Mapping[str, Kind]

    def of(self, kind: str) -> Kind:
        """Those of a kind, or of all if too few of it are measured."""
        found = self.kinds.get(kind)
        return self.kinds[ALL] if found is None or found.groups < FEWEST_GROUPS else found

    def interval(self, predicted_s: float, doubts: Doubts) -> tuple[float, float]:
        """What nine measured times of ten lie between, and the prediction too."""
        of = self.of(doubts.kind)
        mean, variance = of.moments(doubts)
        far = t_quantile((1 + COVERED) / 2, max(of.groups - 1, 3)) * sqrt(variance)
        return predicted_s * exp(min(mean - far, 0.0)), predicted_s * exp(max(mean + far, 0.0))


def kind_of(spec: Spec) -> str:
    """The kind of step that a spec describes."""
    if getattr(spec, "lora", None) is not None:
        return "lora"
    return "dense" if spec.model.moe is None else "experts"


def t_quantile(share: float, degrees: float) -> float:
    """The quantile of Student's t distribution, for 3 degrees of freedom or more within 1 % from 0.05 to 0.95.

    Cornish and Fisher's expansion: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, 1))


@cache
def load_spread() -> Spread:
    """What ships with the package."""
    import yaml

    return spread_of(yaml.safe_load(_SHIPPED.read_text(encoding="utf-8")))


def spread_of(content: Mapping[str, Any]) -> Spread:
    """A spread from what `fit_spread` gives."""
    kinds = {
        name: Kind(**{**one, "devices": {device: Own(**own) for device, own in one["devices"].items()}})
        for name, one in content["kinds"].items()
    }
    return Spread(content["known"], kinds)


def fit_spread(rows: Sequence[Residual], known: str = "") -> dict[str, Any]:
    """The content of the data file: residuals by kind of step, and of all.

    ``known`` says in words from what: which table, which constants had been fitted to which of its rows. Raises
    InputError for fewer than two groups.
    """
    if len({row.group for row in rows}) < 2:
        raise InputError("too few groups of measured steps for an interval", found=len({row.group for row in rows}),
                         expected="2 or more")  # fmt: skip
    kinds = sorted({row.doubts.kind for row in rows})
    fits = {ALL: _fit(rows)}
    for kind in kinds:
        own = [row for row in rows if row.doubts.kind == kind]
        if len({row.group for row in own}) >= 2:
            fits[kind] = _fit(own)
    return {"known": known, "kinds": {name: _rounded(asdict(fit)) for name, fit in fits.items()}}


def coverage(rows: Sequence[Residual]) -> dict[str, float]:
    """The share of rows inside their interval by kind, each group's from a fit of the other groups; groups count the
    same. NaN where no fit is possible."""
    inside: dict[str, dict[str, list[float]]] = {}
    for group in sorted({row.group for row in rows}):
        others = [row for row in rows if row.group != group]
        if len({row.group for row in others}) < 2:
            continue
        spread = spread_of(fit_spread(others))
        for row in (row for row in rows if row.group == group):
            low, high = spread.interval(row.predicted_s, row.doubts)
            for kind in (ALL, row.doubts.kind):
                inside.setdefault(kind, {}).setdefault(group, []).append(low <= row.measured_s <= high)
    return {kind: float(np.mean([np.mean(found) for found in groups.values()])) for kind, groups in inside.items()}


def _fit(rows: Sequence[Residual]) -> Kind:
    """Rows of a group count as one, since what they have in common is wrong in all of them."""
    residuals = np.array([row.log for row in rows])
    weights = _weights([row.group for row in rows])
    mean = float(np.average(residuals, weights=weights))
    devices = sorted({row.doubts.device for row in rows})
    device = np.array([devices.index(row.doubts.device) for row in rows])
    count = np.bincount(device, weights, len(devices))
    own = np.bincount(device, weights * (residuals - mean), len(devices))
    shift, raw = own / (count + DRAWN), own / count
    off = residuals - mean - shift[device]
    shares = np.array([[1.0, row.doubts.communication**2, row.doubts.bubble**2] for row in rows])
    terms = _variances(shares, off**2, weights)
    expected = np.maximum(shares @ terms, _LEAST)
    factor = (np.bincount(device, weights * off**2 / expected, len(devices)) + DRAWN) / (count + DRAWN)
    between = float(np.average((raw - raw.mean()) ** 2)) if len(devices) > 1 else float(terms[0])
    return Kind(
        mean=mean,
        variance=max(float(terms[0]), _LEAST),
        communication=float(terms[1]),
        bubble=float(terms[2]),
        between=between,
        groups=len({row.group for row in rows}),
        rows=len(rows),
        devices={
            name: Own(float(shift[at]), float(factor[at]), round(float(count[at]))) for at, name in enumerate(devices)
        },
    )


def _weights(groups: Iterable[str]) -> Floats:
    _, which, counts = np.unique(list(groups), return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[which])


def _variances(shares: Floats, squares: Floats, weights: Floats) -> Floats:
    """Coefficients of at least 0 that make ``shares @ coefficients`` the variance of what was squared: the likelihood
    of normal residuals, by least squares with weights from the fit before."""
    terms = np.array([float(np.average(squares, weights=weights)), 0.0, 0.0])
    for _ in range(_ROUNDS):
        expected = np.maximum(shares @ terms, _LEAST)
        terms = _not_negative(shares, squares, weights / expected**2)
        terms[1:] = np.minimum(terms[1:], _MOST)
        left = squares - shares[:, 1:] @ terms[1:]
        terms[0] = max(float(np.average(left, weights=weights / expected**2)), 0.0)
    return terms


def _not_negative(columns: Floats, values: Floats, weights: Floats) -> Floats:
    """Weighted least squares with coefficients of at least 0: the best of all sets of columns."""
    best, least = np.zeros(columns.shape[1]), float("inf")
    root = np.sqrt(weights)
    for size in range(1, columns.shape[1] + 1):
        for chosen in combinations(range(columns.shape[1]), size):
            part = list(chosen)
            found = np.linalg.lstsq(columns[:, part] * root[:, None], values * root, rcond=None)[0]
            left = float(np.sum(weights * (columns[:, part] @ found - values) ** 2))
            if found.min() >= 0 and left < least - 1e-15:
                best, least = np.zeros(columns.shape[1]), left
                best[part] = found
    return best


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value
