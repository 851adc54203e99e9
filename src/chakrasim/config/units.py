"""Quantities with units, as our machine file writes them: "400 GiB/s", "936.25 ns", "900 TFLOP/s"."""

from __future__ import annotations

import re
from fractions import Fraction

from chakrasim.config.section import Section
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

COMPUTE = {f"{prefix}FLOP/s": Fraction(10**power) for prefix, power in zip("MGTPE", (6, 9, 12, 15, 18), strict=True)}
"""Units of compute, in floating-point operations a second."""

TIME_PER_BYTE = {"ns/B": Fraction(1)}

_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?)[ ]*(.*)", re.DOTALL)


def quantity(section: Section, key: str, units: dict[str, Fraction], unit: str, example: str) -> Fraction:
    """The value of ``key`` in ``unit``, exactly; ``example`` is shown when it cannot be read.

    Raises :class:`chakrasim.InputError` for anything but a number >= 0 with one of ``units``.
    """
    value = section.entries[key]
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    bare_number = isinstance(value, int | float) and not isinstance(value, bool)
    if match is None and not bare_number:
        expected = f"a number and a unit, such as {example}"
        section.fail(key, "not a quantity", found=value, expected=expected)
    found_unit = match[2] if match else ""
    if match is None or found_unit not in units:
        message = f"unknown unit {found_unit[:20]!r}" if found_unit else "the unit is missing"
        if found_unit[:1].isdigit():
            section.fail(key, "the number is out of range", found=value, expected=f"a quantity such as {example}")
        remedy = near(found_unit, units) if found_unit else f"write it out, such as {example}"
        section.fail(key, message, found=value, expected="a unit of " + ", ".join(units), remedy=remedy)
    return Fraction(match[1]) * units[found_unit] / units[unit]


def real(section: Section, key: str, units: dict[str, Fraction], unit: str, example: str) -> float:
    """The same as a double, correctly rounded once."""
    return float(quantity(section, key, units, unit, example))


def whole(section: Section, key: str, units: dict[str, Fraction], unit: str, example: str, high: int) -> int:
    """The same as an integer up to ``high``.

    The engine counts this quantity in whole ``unit``: fractions are refused rather than cut off.
    """
    value = quantity(section, key, units, unit, example)
    if value.denominator != 1 or value > high:
        section.fail(key, "out of range", found=section.entries[key], expected=f"a whole number of {unit} up to {high}")
    return value.numerator
