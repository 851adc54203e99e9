"""How long a collective takes as the library runs it: terms weighed and added up, with an interval.

The logarithm of a term's weight is the sum of what holds for all machines, for a generation of GPUs or a kind of
network, and for the machine at hand, if it was calibrated. Weights were fitted to published measurements
(`chakrasim.calibration.collectives.levels`); the constants of a machine, at most twelve, are fitted to its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import exp, sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import Terms, overlapped, sides_of
from chakrasim.collectives.libraries.versions import Library

SIZE_CLASSES: Final = (65536, 4 << 20, (128 << 20) - 1)
"""The largest sizes of the classes that errors are told by: up to 64 KiB, to 4 MiB, below 128 MiB, and beyond."""
COVERED: Final = 0.9
WIDE: Final = 1.645
"""Standard deviations to either side that nine cases of ten lie within."""
UNKNOWN_SPREAD: Final = 0.3
"""Of a constant that no machine of the fit had."""
SCOPES: Final = ("node", "network", "other")
"""Whose residuals are alike (`scope_of`): NVLink inside a node, several nodes, and the rest."""
ALL: Final = "all"
"""The level of everything."""
OLD_RULES: Final = (2, 12)
"""Versions before it share a level of their own: their LL and LL128 are slower."""


@dataclass(frozen=True)
class Constants:
    """What was fitted to one machine and library: logarithms of factors, by name in
    `chakrasim.collectives.libraries.terms.CONSTANTS`.

    ``covariance`` is of the constants in the order of ``values``; ``residual`` the standard deviation of what is left,
    by size class, as logarithms.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    covariance: tuple[tuple[float, ...], ...] = ()
    residual: tuple[float, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Model:
    """The weights.

    Attributes
    ----------
    weights: logarithm by term.
    offsets: by level (`levels_of`), then constant.
    spread: standard deviation of a constant between machines, as logarithms.
    residual: of what is left on a machine that was not measured, by scope (`scope_of`) and size class.
    basis: what it was fitted to.
    """

    weights: Mapping[str, float]
    offsets: Mapping[str, Mapping[str, float]]
    spread: Mapping[str, float]
    residual: Mapping[str, tuple[float, ...]]
    basis: str = ""

    def spread_of(self, constants: Iterable[str]) -> list[float]:
        """Of each of some constants, those that no machine of the fit had among them."""
        return [self.spread.get(name, UNKNOWN_SPREAD) for name in constants]

    def offset(self, constant: str, levels: tuple[str, str]) -> float:
        """What is added to the weights of a constant's terms at a group's levels."""
        known = (self.offsets.get(level, {}) for level in (ALL, level_of(constant, levels)))
        return sum(values.get(constant, 0.0) for values in known)

    def to_json(self) -> dict[str, Any]:
        """Plain values, rounded to what matters."""
        return {
            "basis": self.basis,
            "weights": {name: round(value, 4) for name, value in sorted(self.weights.items())},
            "offsets": {
                level: {name: round(value, 4) for name, value in sorted(values.items()) if abs(value) >= 5e-4}
                for level, values in sorted(self.offsets.items())
            },
            "spread": {name: round(value, 4) for name, value in sorted(self.spread.items())},
            "residual": {scope: [round(value, 4) for value in values] for scope, values in self.residual.items()},
        }


@dataclass(frozen=True)
class Estimate:
    """Times in ns, and the 90 % interval of their sum by its factors.

    ``moving_ns`` is how long bytes flow; what passes before they do, and is not over by then, is in ``fixed_ns``.
    """

    fixed_ns: float
    moving_ns: float
    low: float = 1.0
    high: float = 1.0

    @property
    def times_us(self) -> tuple[float, float, float]:
        """The sum, and the ends of its interval."""
        total = (self.fixed_ns + self.moving_ns) / 1e3
        return total, total * self.low, total * self.high


@cache
def shipped_model() -> Model:
    """The model that comes with the package."""
    data = json.loads(Path(__file__).with_name("model.json").read_bytes())
    data["residual"] = {scope: tuple(values) for scope, values in data["residual"].items()}
    return Model(**data)


def levels_of(site: Site, library: Library) -> tuple[str, str]:
    """The two levels that a group belongs to: generation of GPUs and kind of network."""
    generation = f"sm{site.capability // 10}" if site.vendor == "nvidia" else site.model or site.vendor
    return generation + ("-old" if library.rules < OLD_RULES and library.name == "nccl" else ""), site.network


def level_of(constant: str, levels: tuple[str, str]) -> str:
    """The level that counts for a constant."""
    return levels[constant.startswith("net.")]


def scope_of(site: Site) -> str:
    """Whose residuals are alike: ``node`` of NVLink, ``network``, and ``other``."""
    site = site.merged()
    if site.nodes > 1:
        return "network"
    return "node" if site.inside in ("nvswitch", "direct") else "other"


def size_class(size_bytes: int) -> int:
    """The index of a size's class."""
    return sum(size_bytes > last for last in SIZE_CLASSES)


def size_classes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[n]: the classes of many sizes."""
    return np.searchsorted(SIZE_CLASSES, sizes)


def constant_of(term: str) -> str:
    """The constant in a term's name."""
    return term.partition("/")[0]


def estimate(
    site: Site, library: Library, terms: Terms, size_bytes: int,
    constants: Constants | None = None, model: Model | None = None, *, interval: bool = True,
) -> Estimate:  # fmt: skip
    """What terms add up to, with the ``interval`` of a machine that was calibrated (``constants``), or that was not."""
    model = model or shipped_model()
    levels, own = levels_of(site, library), constants.values if constants else {}
    parts: list[dict[str, float]] = [{}, {}]
    for part, nominal in zip(parts, (terms.fixed, terms.moving), strict=True):
        for name, value in nominal.items():
            constant = constant_of(name)
            offset = model.offset(constant, levels) + own.get(constant, 0.0) + own.get(name, 0.0)
            part[name] = value * 1e3 * exp(model.weights.get(name, 0.0) + offset)
        for near, far in sides_of(names := list(part)):
            one, other = (sum(part[names[at]] for at in side) for side in (near, far))
            for at in near if one < other else far:
                del part[names[at]]
    sums = [sum(part.values()) for part in parts]
    whole = [float(part) for part in overlapped(sums[0], sums[1], terms.apart)]
    if not interval:
        return Estimate(sum(whole) - sums[1], sums[1])
    shares: dict[str, float] = {}
    for part, alone, together in zip(parts, sums, whole, strict=True):
        for name, time in part.items():
            for key in (name, constant_of(name)):
                shares[key] = shares.get(key, 0.0) + time * together / max(alone, 1e-30) / sum(whole)
    half = _half_width(site, model, constants, shares, size_class(size_bytes))
    return Estimate(sum(whole) - sums[1], sums[1], exp(-half), exp(half))


def _half_width(
    site: Site, model: Model, constants: Constants | None, shares: Mapping[str, float], sized: int
) -> float:
    """Of the 90 % interval, as a logarithm: constants that are uncertain by their share, and what no constant says.

    On a machine that was calibrated the residual has what constants that were not fitted leave, too.
    """
    if constants is not None and constants.residual:
        row = [shares.get(name, 0.0) for name in constants.values]
        pairs = (
            (a, b, c) for a, line in zip(row, constants.covariance, strict=True) for b, c in zip(row, line, strict=True)
        )
        return WIDE * sqrt(sum(a * b * c for a, b, c in pairs) + constants.residual[sized] ** 2)
    part = {name: share for name, share in shares.items() if name == constant_of(name)}
    variance = sum((one * each) ** 2 for one, each in zip(part.values(), model.spread_of(part), strict=True))
    return WIDE * sqrt(variance + model.residual[scope_of(site)][sized] ** 2)
