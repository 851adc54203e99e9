"""Kinds of values in ASTRA-sim's files, read as it reads them: fractions are cut off, booleans count as 0 or 1, with a
warning for each."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from numbers import Real
from typing import Any, Final

from chakrasim.config.section import TIME_MAX, Section
from chakrasim.config.table import Kind
from chakrasim.config.values import describe, plain


def integer(low: int, high: int, unit: str = "", shown: str = "") -> Kind:
    """An integer from ``low`` to ``high``; fractions are cut off with a warning, as in the reference."""
    expected = f"an integer from {low} to {high}{' ' + unit if unit else ''}"

    def reader(section: Section, key: str) -> int:
        value = plain(section.entries[key])
        if isinstance(value, bool):
            section.warn(key, f"{describe(value)} counts as {int(value)}")
        elif not isinstance(value, int | float):
            section.refuse(key, "not a number", expected)
        if isinstance(value, float) and not math.isfinite(value):
            section.refuse(key, "out of range", expected)
        whole = math.trunc(value)
        if whole != value:
            section.warn(key, f"{describe(value)} is cut off to {whole}")
        if not low <= whole <= high:
            section.refuse(key, "out of range", expected)
        return whole

    least = {"minimum": low} if low > 0 else {"exclusiveMinimum": low - 1}
    return Kind(reader, shown or f"integer >= {low}", {"type": ["number", "boolean"], **least})


def _number(section: Section, key: str, unit: str) -> float:
    """A finite number >= 0; a JSON boolean counts as 0 or 1, as in the reference, with a warning."""
    value = plain(section.entries[key])
    if isinstance(value, bool):
        section.warn(key, f"{describe(value)} counts as {int(value)}")
        return float(value)
    if not isinstance(value, int | float):
        section.refuse(key, "not a number", f"a number in {unit}")
    try:
        converted = float(value)
    except (OverflowError, ValueError):
        converted = math.inf
    if not math.isfinite(converted) or converted < 0:
        section.refuse(key, "out of range", f"a number >= 0 in {unit}")
    return converted


_NUMBER_SCHEMA: Final = {"type": ["number", "boolean"], "minimum": 0}


def scaled(scale: float, unit: str, shown: str) -> Kind:
    """A number in ``unit``, times ``scale``."""

    def reader(section: Section, key: str) -> float:
        value = _number(section, key, unit) * scale
        if value == math.inf:
            section.refuse(key, "out of range", f"a finite number in {unit}")
        return value

    return Kind(reader, shown, _NUMBER_SCHEMA)


def to_float32(section: Section, key: str, value: float) -> float:
    """A value rounded to 32-bit floating point, the type in which the reference keeps the LogGP parameters."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        section.refuse(key, "out of range", "a 32-bit floating-point number")
    return rounded


def float32(unit: str) -> Kind:
    """A number in ``unit``, rounded to 32-bit floating point."""
    return Kind(lambda section, key: to_float32(section, key, _number(section, key, unit)), unit, _NUMBER_SCHEMA)


def _whole_ns(section: Section, key: str) -> int:
    """A LogGP time: rounded to 32-bit floating point, then cut off to whole ns."""
    value = to_float32(section, key, _number(section, key, "ns"))
    if value >= TIME_MAX:
        section.refuse(key, "out of range", "a time below 2^62 ns")
    if value != int(value):
        section.warn(key, f"{describe(section.entries[key])} is cut off to {int(value)} ns")
    return int(value)


whole_ns: Final = Kind(_whole_ns, "ns", _NUMBER_SCHEMA)


def _switch(section: Section, key: str) -> bool:
    """On unless the value equals the number 0: a JSON boolean, string or null never does."""
    value = section.entries[key]
    if isinstance(value, Real) and not isinstance(value, bool):
        return bool(value != 0)
    shown = describe(value)
    section.warn(key, f"{shown} turns it on, as anything but the number 0 does in the reference; write 0 or 1")
    return True


switch: Final = Kind(_switch, "switch", {"examples": [0, 1]})


def strings(section: Section, key: str, expected: str, each: str) -> list[str]:
    """A list of strings; ``expected`` is said of what is no list, ``each`` of an item that is no string."""
    items = section.listing(key, expected)
    for index, item in items.entries.items():
        if not isinstance(item, str):
            items.refuse(index, "not a string", each)
    return [str(item) for item in items.entries.values()]


STRINGS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string"}}


def only_with(section: Section, keys: Collection[str], what: str) -> None:
    """A warning for each of ``keys`` that is there although ``what`` is not."""
    for key in keys:
        if key in section:
            section.warn(key, f"the key has no effect {what}")
