"""Measurements as a matrix: for each point what every term takes at nominal constants."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.calibration.collectives.describe import library_of_curve, settings_of_curve, site_of
from chakrasim.calibration.measurements.curves import Curve, MachineRow, Measurements
from chakrasim.calibration.measurements.names import kind_of
from chakrasim.collectives.kinds import MESSAGE
from chakrasim.collectives.libraries.course import choice_of
from chakrasim.collectives.libraries.model import constant_of, level_of, levels_of, scope_of, size_classes
from chakrasim.collectives.libraries.settings import Settings
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.terms import Operation, Terms, overlapped, sides_of, terms_of
from chakrasim.collectives.libraries.versions import Library
from chakrasim.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=Hashable)

ITEM_BYTES: Final = {
    "int8": 1, "uint8": 1, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "f8e4m3": 1, "f8e5m2": 1,
    "half": 2, "float16": 2, "bfloat16": 2, "fp16": 2, "bf16": 2,
    "int32": 4, "uint32": 4, "float": 4, "float32": 4, "int64": 8, "uint64": 8, "double": 8, "float64": 8,
}  # fmt: skip
"""Of an element, by the type's name in nccl-tests and elsewhere."""


@dataclass(frozen=True)
class Described:
    """A curve that can be described: where it was measured, with which library, and the kind by its name."""

    curve: Curve
    site: Site
    library: Library
    settings: Settings
    kind: str
    item_bytes: int

    @property
    def group(self) -> tuple[str, str, str]:
        """Curves that share a machine's constants: of one machine, library and environment."""
        return self.curve.machine, f"{self.library.name}-{self.curve.version}", self.curve.env

    @property
    def levels(self) -> tuple[str, str]:
        """See `chakrasim.collectives.libraries.model.levels_of`."""
        return levels_of(self.site, self.library)

    def terms(self, size_bytes: int, in_place: bool) -> Terms:
        """Of one of its points."""
        operation = Operation(self.kind, size_bytes, in_place, self.item_bytes)
        return terms_of(self.site, choice_of(self.site, self.library, operation, self.settings), operation)


@dataclass(frozen=True, eq=False)
class Design:
    """Points as rows.

    ``curves``: those of the points; ``curve`` int64[n] an index into it; ``row`` int64[n] the point's index in its
    curve; ``nominal`` float64[n, terms] in us, of ``names``; ``moving`` bool[terms] and ``apart`` float64[n] as in
    `chakrasim.collectives.libraries.terms.Terms`; ``log_time`` float64[n] the logarithm of the measured us
    (NaN: none); ``sized`` int64[n] the size class.
    """

    curves: tuple[Described, ...]
    names: tuple[str, ...]
    curve: Ints
    row: Ints
    nominal: Floats
    moving: NDArray[np.bool_]
    apart: Floats
    log_time: Floats
    sized: Ints

    def __len__(self) -> int:
        return len(self.curve)

    @property
    def constants(self) -> tuple[str, ...]:
        """Those that any term has, in alphabetical order."""
        return tuple(sorted({constant_of(name) for name in self.names}))

    @property
    def owner(self) -> Ints:
        """int64[terms]: the index of each term's constant."""
        index = {name: at for at, name in enumerate(self.constants)}
        return np.array([index[constant_of(name)] for name in self.names], np.int64)

    @property
    def bytes(self) -> Ints:
        """int64[n]: the size of each point."""
        pairs = zip(self.curve, self.row, strict=True)
        return np.array([self.curves[curve].curve.bytes[row] for curve, row in pairs], np.int64)

    def overlapped(self, times: Floats) -> Floats:
        """float64[n, terms]: times of terms, alone, as they add up to that of the point."""
        times = times.copy()
        for near, far in sides_of(self.names):
            shorter = times[:, near].sum(axis=1) < times[:, far].sum(axis=1)
            times[np.ix_(shorter, near)] = 0.0
            times[np.ix_(~shorter, far)] = 0.0
        moving = times[:, self.moving].sum(axis=1)
        fixed = times[:, ~self.moving].sum(axis=1)
        both = overlapped(fixed, moving, self.apart)
        ways = [np.divide(part, alone, where=alone > 0, out=np.zeros(len(alone)))
                for part, alone in zip(both, (fixed, moving), strict=True)]  # fmt: skip
        return np.asarray(times * np.where(self.moving, ways[1][:, None], ways[0][:, None]))

    def labels(self, what: Sequence[T]) -> tuple[list[T], Ints]:
        """Something said of each curve, as distinct values and int64[n] the index of each point's."""
        known = list(dict.fromkeys(what))
        index = {value: at for at, value in enumerate(known)}
        return known, np.array([index[value] for value in what], np.int64)[self.curve]

    def levels(self, constant: str) -> list[str]:
        """The level of each curve that counts for a constant."""
        return [level_of(constant, one.levels) for one in self.curves]

    def scopes(self) -> list[str]:
        """Of each curve."""
        return [scope_of(one.site) for one in self.curves]

    def some(self, which: NDArray[np.bool_]) -> Design:
        """The same with some of the points."""
        columns = {
            name: getattr(self, name)[which] for name in ("curve", "row", "nominal", "apart", "log_time", "sized")
        }
        return replace(self, **columns)


def describe(
    curve: Curve,
    machines: Mapping[str, MachineRow] | None = None,
    row: MachineRow | None = None,
    site: Site | None = None,
) -> Described:
    """A curve with what the library saw, which ``site`` says where no row does.

    Raises :class:`chakrasim.InputError` for what cannot be described.
    """
    machine = row or (machines or {}).get(curve.machine) or MachineRow(curve.machine, curve.gpu)
    kind = kind_of(curve.collective)
    if kind is None:
        raise InputError(
            "a collective that is not known", file="curves.csv", place=curve.name, found=repr(curve.collective),
            expected="all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter or sendrecv",
        )  # fmt: skip
    name = "message" if kind is MESSAGE else kind.name
    return Described(
        curve, site or site_of(curve, machine), library_of_curve(curve), settings_of_curve(curve), name,
        ITEM_BYTES.get(curve.dtype.lower(), 0),
    )  # fmt: skip


def design_of(measured: Measurements) -> tuple[Design, dict[str, str]]:
    """The matrix of all curves that can be described, and of the others the reason by their name."""
    refused: dict[str, str] = {}
    curves: list[Described] = []
    for curve in measured.curves:
        try:
            curves.append(describe(curve, measured.machines))
        except InputError as error:
            refused[curve.name] = str(error)
    return matrix_of(curves), refused


def matrix_of(curves: Sequence[Described]) -> Design:
    """The matrix of described curves."""
    found = [
        one.terms(size, place)
        for one in curves
        for size, place in zip(one.curve.bytes.tolist(), one.curve.place.tolist(), strict=True)
    ]
    points = [{name: value for name, value in (one.fixed | one.moving).items() if value > 0} for one in found]
    names = tuple(sorted({name for point in points for name in point}))
    index = {name: at for at, name in enumerate(names)}
    nominal = np.zeros((len(found), len(names)))
    for at, point in enumerate(points):
        nominal[at, [index[name] for name in point]] = list(point.values())
    moving = {name for one in found for name in one.moving}
    lengths = [len(one.curve) for one in curves]
    sizes = np.concatenate([np.zeros(0, np.int64), *(one.curve.bytes for one in curves)])
    times = np.concatenate([np.zeros(0), *(one.curve.time_us for one in curves)])
    with np.errstate(invalid="ignore"):
        logs = np.log(times)
    return Design(
        tuple(curves), names, np.repeat(np.arange(len(curves)), lengths),
        np.concatenate([np.zeros(0, np.int64), *(np.arange(length) for length in lengths)]),
        nominal, np.array([name in moving for name in names], np.bool_), np.array([one.apart for one in found]),
        logs, size_classes(sizes),
    )  # fmt: skip
