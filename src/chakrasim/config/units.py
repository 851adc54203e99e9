"""Quantities with units, as our own files write them: "400 GiB/s", "936.25 ns", "900 TFLOP/s"."""

from __future__ import annotations

import re
from fractions import Fraction

from chakrasim.config.section import Section
from chakrasim.config.table import Kind
from chakrasim.errors import near

TIME = {"ns": Fraction(1), "us": Fraction(10**3), "ms": Fraction(10**6), "s": Fraction(10**9)}
"""Units of time, in ns."""

BANDWIDTH = {
    **{
        f"{prefix}B/s": Fraction(10**power)
        for prefix, power in zip(("", "k", "M", "G", "T"), (0, 3, 6, 9, 12), strict=True)
    },
    **{f"{prefix}iB/s": Fraction(2**power) for prefix, power in zip("KMGT", (10, 20, 30, 40), strict=True)},
    **{f"{prefix}bit/s": Fraction(10**power, 8) for prefix, power in zip("kMGT", (3, 6, 9, 12), strict=True)},
}
"""Units of bandwidth, in bytes a second: G is 10^9 and Gi is 2^30, always."""

LINK_RATE = {
    **BANDWIDTH,
    **{f"{prefix}{name}": Fraction(10**power, 8) for name in ("b/s", "bps")
       for prefix, power in zip("kMGT", (3, 6, 9, 12), strict=True)},
}  # fmt: skip
"""The same with the ways in which data sheets of networks write bits: b is a bit, B a byte."""

COMPUTE = {f"{prefix}FLOP/s": Fraction(10**power) for prefix, power in zip("MGTPE", (6, 9, 12, 15, 18), strict=True)}
"""Units of compute, in floating-point operations a second."""

TIME_PER_BYTE = {"ns/B": Fraction(1)}

Units = dict[str, Fraction]
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?"
_QUANTITY = re.compile(f"({_NUMBER})[ ]*(.*)", re.DOTALL)


def _quantity(section: Section, key: str, units: Units, unit: str, example: str) -> Fraction:
    """The value of ``key`` in ``unit``, exactly; ``example`` is shown when it cannot be read.

    Raises :class:`chakrasim.InputError` for anything but a number >= 0 with one of ``units``.
    """
    value = section.entries[key]
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    bare_number = isinstance(value, int | float) and not isinstance(value, bool)
    if match is None and not bare_number:
        section.refuse(key, "not a quantity", f"a number and a unit, such as {example}")
    found_unit = match[2] if match else ""
    if match is None or found_unit not in units:
        message = f"unknown unit {found_unit[:20]!r}" if found_unit else "the unit is missing"
        if found_unit[:1].isdigit():
            section.refuse(key, "the number is out of range", f"a quantity such as {example}")
        remedy = near(found_unit, units) if found_unit else f"write it out, such as {example}"
        section.refuse(key, message, "a unit of " + ", ".join(units), remedy)
    return Fraction(match[1]) * units[found_unit] / units[unit]


def real(units: Units, unit: str, example: str, shown: str, *, scale: float = 1.0, above_zero: str = "") -> Kind:
    """A quantity in ``unit`` as a double, correctly rounded once, then times ``scale``; ``above_zero``: what is
    expected where 0 is refused."""

    def reader(section: Section, key: str) -> float:
        value = float(_quantity(section, key, units, unit, example))
        if above_zero and not value > 0:
            section.refuse(key, "out of range", above_zero)
        return value * scale

    return Kind(reader, shown + (" > 0" if above_zero else ""), _schema(units, example))


def whole_quantity(units: Units, unit: str, example: str, high: int, shown: str, *, above_zero: str = "") -> Kind:
    """The same as an integer up to ``high``.

    The engine counts this quantity in whole ``unit``: fractions are refused rather than cut off.
    """

    def reader(section: Section, key: str) -> int:
        value = _quantity(section, key, units, unit, example)
        if value.denominator != 1 or value > high:
            section.refuse(key, "out of range", f"a whole number of {unit} up to {high}")
        if above_zero and value == 0:
            section.refuse(key, "out of range", above_zero)
        return value.numerator

    return Kind(reader, shown, _schema(units, example))


def _schema(units: Units, example: str) -> dict[str, object]:
    spelt = "|".join(re.escape(unit) for unit in units)
    return {"type": "string", "pattern": rf"^\s*{_NUMBER} *({spelt})\s*$", "examples": [example.strip('"')]}
