"""Rows of the tables that nccl-tests and rccl-tests print: columns by the header, and figures that must agree."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from chakrasim.calibration.measurements.names import bus_factor
from chakrasim.notes import Notes

TYPE_BYTES: Final = {
    **dict.fromkeys(("char", "int8", "uint8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"), 1),
    **dict.fromkeys(("half", "float16", "fp16", "bfloat16", "bf16"), 2),
    **dict.fromkeys(("int", "int32", "uint32", "float", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "double", "float64"), 8),
}
COARSE: Final = 0.005
"""Above this uncertainty of a printed time, the bandwidths beside it may tell it better: 1e+07 us is 5 to 15 s."""
TOO_COARSE: Final = 0.1
"""A time that is known no better than this is left out."""

_TYPES: Final = "|".join(sorted(TYPE_BYTES, key=len, reverse=True))
# Whatever stands before a row, labels of ranks among them, ends where its size begins.
ROW: Final = re.compile(rf"(?<![\w.+-])(\d{{1,18}})\s+(\d{{1,18}})\s+({_TYPES})\s+(\S.*)", re.ASCII)
HEADER: Final = re.compile(r"\b(size|bytes)\s+(?:count|N)\s+type\s+(\S.*)", re.ASCII)
UNITS: Final = re.compile(r"\(B\)\s+\(elements\)\s+\((us|ms|s)\)", re.ASCII)
_NUMBER: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{0,12}))?(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
UNIT_US: Final = {"us": 1.0, "ms": 1e3, "s": 1e6}
_TIMES: Final = ("time", "cputime")
_GROUP: Final = ("time", "algbw", "busbw", "#wrong")


@dataclass(frozen=True)
class Figure:
    """A printed number, and half of what its last digit stands for."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


def figure_of(text: str) -> Figure | None:
    """The number that a text is; None if it is none."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    unit = 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
    return Figure(float(text), unit / 2)


@dataclass(frozen=True)
class Layout:
    """The columns after the type, by the header, in groups that begin with the time.

    ``before``: columns before the first group; ``groups``: the names of each; ``unit_us``; ``cpu``: the times are
    those of the calls alone; ``in_place``: the place of each group.
    """

    before: int
    groups: tuple[tuple[str, ...], ...]
    in_place: tuple[bool, ...] = (False, True)
    unit_us: float = 1.0
    cpu: bool = False


def layout_of(header: str, oldest: bool, only_in_place: bool) -> Layout | None:
    """The columns that a header names after ``type``; None if there is no time. The oldest tables are in ms."""
    names = header.split()
    starts = [at for at, name in enumerate(names) if name in _TIMES]
    if not starts:
        return None
    ends = [*starts[1:], len(names)]
    groups = tuple(tuple(names[begin:end]) for begin, end in zip(starts, ends, strict=True))
    if len(groups) > 1:
        groups = (*groups[:-1], groups[-1][: len(groups[0])])  # a timestamp may follow
    places = (only_in_place,) if len(groups) == 1 else (False, True)
    return Layout(starts[0], groups[:2], places, 1e3 if oldest else 1.0, "cputime" in names)


def layout_by_count(columns: int) -> Layout | None:
    """The columns of a row whose table has no header: with or without operation and root, at both places or one."""
    for groups in (2, 1):
        before = columns - groups * len(_GROUP)
        if 0 <= before <= 2:
            return Layout(before, (_GROUP,) * groups, (False, True)[:groups])
    return None


@dataclass(frozen=True)
class Row:
    """A row as it is printed: the texts of time, algbw, busbw and wrong at each place."""

    line: int
    size: int
    count: int
    dtype: str
    redop: str
    places: tuple[tuple[bool, Figure, Figure, Figure], ...]
    unit_us: float


@dataclass
class Faults:
    """What was found in rows, by kind, with the first line of each."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, line: int) -> None:
        """Count one."""
        self.counts[kind] += 1
        self.first.setdefault(kind, line)

    def tell(self, file: str, notes: Notes) -> None:
        """Say them all."""
        for kind, count in self.counts.items():
            text = f"{file}: {count:,} {kind} (first on line {self.first[kind]:,})"
            if kind in _HARMLESS:
                notes.note(text)
            else:
                notes.warn(text)


EMPTY: Final = "rows of size 0 are left out"
BROKEN: Final = "rows are left out: they are damaged or cut off"
UNTIMED: Final = "rows have no time at one place"
WRONG: Final = "rows have wrong results"
UNEQUAL: Final = "times are left out: the bandwidths printed beside them are others"
ROUGH: Final = "times are left out: they were printed with too few digits"
FROM_BANDWIDTH: Final = "times were printed with few digits, and are taken from the bandwidths beside them"
_HARMLESS: Final = frozenset({EMPTY, UNTIMED, FROM_BANDWIDTH})


def row_of(match: re.Match[str], line: int, layout: Layout | None, faults: Faults) -> Row | None:
    """The row that a line holds; None, and counted, if it is none that can be used."""
    size, count, texts = int(match[1]), int(match[2]), match[4].split()
    layout = layout or layout_by_count(len(texts))
    if size == 0:
        faults.add(EMPTY, line)
        return None
    if layout is None or size % TYPE_BYTES[match[3]] or count > size:
        faults.add(BROKEN, line)
        return None
    places, at, damaged = [], layout.before, False
    for names, in_place in zip(layout.groups, layout.in_place, strict=True):
        said = dict(zip(names, texts[at : at + len(names)], strict=False))
        at += len(names)
        time, algbw, busbw = (figure_of(said.get(name, "")) for name in (names[0], "algbw", "busbw"))
        if len(said) == len(names) and "N/A" in (said[names[0]], said.get("algbw")):
            faults.add(UNTIMED, line)
        elif time is None or algbw is None or busbw is None or not time.value > 0 or len(said) < len(names):
            damaged = True
        else:
            wrong = figure_of(said.get("#wrong", "").rstrip("*"))
            if wrong is not None and wrong.value > 0:
                faults.add(WRONG, line)
            places.append((in_place, time, algbw, busbw))
    if damaged:
        faults.add(BROKEN, line)
    redop = texts[0] if layout.before and figure_of(texts[0]) is None else ""
    return Row(line, size, count, match[3], redop, tuple(places), layout.unit_us) if places else None


def time_of(
    row: Row, place: tuple[bool, Figure, Figure, Figure], collective: str, nranks: int, faults: Faults
) -> float | None:
    """The time in us that all figures printed at one place allow; None, and counted, if there is none."""
    _, time, algbw, busbw = place
    low, high = time.low * row.unit_us, time.high * row.unit_us
    printed = row.unit_us * time.value
    factor = bus_factor(collective, nranks)
    # Before 2020 these two had no algorithm bandwidth of their own.
    alike = collective in ("all_gather", "reduce_scatter") and algbw.value == busbw.value
    known = [(busbw, factor)] if alike else [(algbw, 1.0), (busbw, factor)]
    for figure, part in known:
        gigabytes = row.size * part / 1e3
        low = max(low, gigabytes / (figure.high * 1.000001))
        high = min(high, gigabytes / (figure.low * 0.999999) if figure.low > 0 else math.inf)
    if low > high:
        faults.add(UNEQUAL, row.line)
        return None
    if time.half <= COARSE * time.value:
        return printed
    middle = (low + high) / 2
    if high - low > 2 * TOO_COARSE * middle:
        faults.add(ROUGH, row.line)
        return None
    if high - low < time.half * row.unit_us:
        faults.add(FROM_BANDWIDTH, row.line)
        return middle
    return printed
