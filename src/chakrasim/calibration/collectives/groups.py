"""Curves that share the constants of a machine, and whose constants stand in for those of a group without points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.design import Described, describe
from chakrasim.calibration.collectives.hardware import site_like
from chakrasim.calibration.measurements.curves import Measurements
from chakrasim.collectives.libraries.site import Site
from chakrasim.errors import InputError
from chakrasim.notes import Notes

Bools = NDArray[np.bool_]
LEAST_US: Final = 0.01
MOST_US: Final = 86400e6
"""What a collective may take: 10 ns to a day."""
LEAST_GBPS: Final = 1e-3
MOST_GBPS: Final = 1e5
Key = tuple[str, str, str]
"""Machine, library with its version, and environment."""


def described(
    measured: Measurements, bases: Mapping[str, Site] | None = None
) -> tuple[list[Described], dict[str, str]]:
    """The curves that can be described, and of the others the reason by their name. ``bases``: see `bases_of`."""
    refused: dict[str, str] = {}
    curves: list[Described] = []
    for curve in measured.curves:
        try:
            base = (bases or {}).get(curve.machine)
            site = None if base is None else site_like(base, curve)
            found = describe(curve, measured.machines, site=site)
            _check(found)
            curves.append(found)
        except InputError as error:
            refused[curve.name] = str(error)
    return curves, refused


def _check(one: Described) -> None:
    """Raise InputError for bandwidths that no machine has."""
    speeds = {"of a GPU": one.site.inside_GBps, "of a port": one.site.nic_GBps if one.site.nics_per_node else 1.0}
    for name, speed in speeds.items():
        if not LEAST_GBPS <= speed <= MOST_GBPS:
            raise InputError(f"no machine has such a bandwidth {name}", file="machines.csv", place=one.curve.machine,
                             found=f"{speed:g} GB/s", expected=f"{LEAST_GBPS:g} to {MOST_GBPS:g} GB/s")  # fmt: skip


def grouped(curves: Iterable[Described]) -> dict[Key, list[Described]]:
    """The curves by group, in their order."""
    found: dict[Key, list[Described]] = {}
    for one in curves:
        found.setdefault(one.group, []).append(one)
    return found


def timed(curves: Iterable[Described], notes: Notes | None = None) -> list[Described]:
    """The curves with those of their points that have a time; curves without any are left out. Times that no collective
    takes are told."""
    found, odd = [], 0
    for one in curves:
        known = ~np.isnan(one.curve.time_us)
        likely = known & (one.curve.time_us >= LEAST_US) & (one.curve.time_us <= MOST_US)
        odd += int((known & ~likely).sum())
        if likely.any():
            found.append(part(one, likely))
    if odd and notes is not None:
        notes.warn(f"{odd:,} times that no collective takes, below 10 ns or above a day, are left out")
    return found


def part(one: Described, which: Bools) -> Described:
    """A curve with some of its points."""
    return one if which.all() else replace(one, curve=one.curve.rows(which))


def every(curves: Sequence[Described], step: int) -> tuple[list[Described], list[Described]]:
    """The curves without every so manieth of their sizes, and these; of a curve with fewer sizes none is taken."""
    kept, out = [], []
    for one in curves:
        sizes, rank = np.unique(one.curve.bytes, return_inverse=True)
        taken = (rank % step == step // 2) & (len(sizes) >= step)
        kept.append(part(one, ~taken))
        if taken.any():
            out.append(part(one, taken))
    return kept, out


def nearest(key: Key, known: Mapping[Key, int]) -> Key | None:
    """The group of the same machine that is most like one: by library, then environment, then version, then the
    number of points; None where the machine has no group."""
    own = [other for other in known if other[0] == key[0]]
    return min(own, key=lambda other: _unlike(key, other, known[other]), default=None)


def _unlike(key: Key, other: Key, points: int) -> tuple[bool, bool, tuple[int, ...], int]:
    name, _, version = key[1].partition("-")
    other_name, _, other_version = other[1].partition("-")
    apart = tuple(abs(a - b) for a, b in zip(_numbers(version), _numbers(other_version), strict=True))
    return name != other_name, key[2] != other[2], apart, -points


def _numbers(version: str) -> tuple[int, int, int]:
    digits = "".join(letter if letter.isdigit() else " " for letter in version).split()[:3]
    first, second, third, *_ = (*(int(text[:9]) for text in digits), 0, 0, 0)
    return first, second, third
