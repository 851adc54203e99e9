"""Rates and times as files of networks write them: ``400Gbps``, ``0.0005ms``. Every number has its unit."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Final

from chakrasim.errors import near

Units = dict[str, Fraction]

_PREFIXES: Final = {
    **{prefix: 10**power for prefix, power in (("", 0), ("k", 3), ("K", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15))},
    **{prefix: 2**power for prefix, power in (("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50))},
}
RATE: Final[Units] = {
    f"{prefix}{unit}": Fraction(factor, bits * 10**9)
    for unit, bits in (("bps", 8), ("Bps", 1), ("b/s", 8), ("B/s", 1), ("bit/s", 8))
    for prefix, factor in _PREFIXES.items()
}
"""Bytes per ns of one of each unit: G is 10^9, Gi is 2^30, b a bit and B a byte."""
TIME: Final[Units] = {
    unit: Fraction(10) ** power for unit, power in (("ps", -3), ("ns", 0), ("us", 3), ("ms", 6), ("s", 9))
}
"""The units of time, in ns."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,60}|\.[0-9]{1,60})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_COMMON: Final = {"rate": "400Gbps, 50GB/s", "time": "500ns, 0.5us, 0.0005ms"}
_KNOWN: Final = {
    "rate": "bps, kbps, Mbps, Gbps, Tbps (bits), Bps, kBps, MBps, GBps, TBps (bytes), or the same with /s for ps",
    "time": "ps, ns, us, ms, s",
}


class BadQuantity(ValueError):
    """A text that is no quantity: what is wrong with it, what was expected, and what to do."""

    def __init__(self, message: str, expected: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.expected, self.remedy = message, expected, remedy


@lru_cache(1 << 16)
def rate(text: str, bare: str = "") -> float:
    """Bytes per ns, above 0, correctly rounded once. ``bare``: the unit of a number without one. Raises BadQuantity."""
    value = _value(text, RATE, "rate", bare)
    if not 0 < value < inf:
        raise BadQuantity("the rate is out of range", f"above 0, such as {_COMMON['rate']}")
    return value


@lru_cache(1 << 16)
def time(text: str, bare: str = "") -> float:
    """Ns, 0 or more. Raises BadQuantity."""
    value = _value(text, TIME, "time", bare)
    if not 0 <= value < inf:
        raise BadQuantity("the latency is out of range", f"0 or more, such as {_COMMON['time']}")
    return value


def _value(text: str, units: Units, what: str, bare: str) -> float:
    text = text.strip()
    match = _NUMBER.match(text)
    if match is None:
        raise BadQuantity(f"this is no {what}", f"a number and a unit, such as {_COMMON[what]}")
    unit = text[match.end() :].strip() or bare
    number = Fraction(match[0])
    if not unit and number == 0 and what == "time":
        return 0.0
    if unit not in units:
        message = f"unknown unit {unit[:20]!r}" if unit else "the unit is missing"
        cased = next((known for known in units if known.lower() == unit.lower()), "")
        remedy = (
            (f"did you mean {cased}?" if cased else near(unit, units))
            if unit
            else f"write it out, such as {_COMMON[what]}"
        )
        raise BadQuantity(message, _KNOWN[what], remedy)
    try:
        return float(number * units[unit])
    except OverflowError:
        return inf


def number_text(value: float, factor: int = 1) -> str:
    """The shortest decimal of a double, times ``factor``, which `rate` and `time` read back exactly."""
    with localcontext(prec=80):
        number = Decimal(repr(float(value))) * factor
        exponent = number.adjusted()
        text = f"{number:f}" if -12 <= exponent <= 20 or not number else f"{number:e}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def gigabits(bytes_per_ns: float) -> str:
    """A rate as ns-3's files write it."""
    return f"{number_text(bytes_per_ns, 8)}Gbps"


def nanoseconds(ns: float) -> str:
    """A latency as ns-3's files may write it."""
    return f"{number_text(ns)}ns"
