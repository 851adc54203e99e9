"""Figures for people: times, sizes, shares and lists of ranks; and amounts that people write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_TIMES = ((3_600_000_000_000, "h"), (60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NUMBER = r"[0-9]{1,19}(?:\.[0-9]{1,9})?(?:[eE][0-9]{1,2})?"
_AMOUNT = re.compile(rf"({_NUMBER})\s*(?:([KMGT])(I?))?B?", re.ASCII | re.IGNORECASE)


def amount_of(text: str) -> Fraction | None:
    """An amount as people write it, in any case: ``200000``, ``1e9``, ``500M``, ``1.5 kB``, ``8GiB``; None for none.

    Exactly: a double has 53 bits, and 2^53 + 1 bytes would be 2^53. K is 1,000 and Ki is 1,024.
    """
    from fractions import Fraction

    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    power = " KMGT".index((match[2] or " ").upper())
    return Fraction(match[1]) * Fraction(1024 if match[3] else 1000) ** power


def time_text(ns: float) -> str:
    """A time in the unit that suits it, with four digits: ``1.235 ms``."""
    for unit_ns, unit in _TIMES:
        if abs(ns) >= unit_ns:
            return f"{number_text(ns / unit_ns)} {unit}"
    return f"{ns:.0f} ns" if ns == int(ns) else f"{number_text(ns)} ns"


def size_text(count: float) -> str:
    """A number of bytes in binary units: ``1.5 MiB``; small numbers as they are."""
    power = 0
    while abs(count) >= 1024 and power < len(_SIZES) - 1:
        count /= 1024
        power += 1
    return f"{count:.0f} B" if power == 0 else f"{number_text(count)} {_SIZES[power]}"


def share_text(part: float, whole: float) -> str:
    """A share in percent; a dash where there is no whole."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


def percent_text(share: float | None) -> str:
    """A share from 0 to 1 as a percentage; "n/a" where it is not known."""
    return "n/a" if share is None else f"{100 * share:.1f} %"


def plural(count: int, word: str) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}{'es' if word.endswith(('s', 'ch')) else 's'}"


def first_of(values: Sequence[object], most: int = 8) -> str:
    """The first of them, and ``, ...`` where there are more."""
    return ", ".join(map(str, values[:most])) + (", ..." if len(values) > most else "")


def some_of(names: Sequence[str], most: int) -> str:
    """The first of them, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def ranks_text(ranks: Sequence[int], most: int = 4) -> str:
    """Ascending ranks as ranges: ``0-3, 8, 12-15``; ``, ...`` after ``most`` ranges. Even steps show as such."""
    if len(ranks) > 1 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}-{ranks[-1]}"
    if len(ranks) > 3:
        step = ranks[1] - ranks[0]
        if step > 1 and all(b - a == step for a, b in pairwise(ranks)):
            return f"{ranks[0]}, {ranks[1]}, ... {ranks[-1]}"
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        elif len(spans) > most:
            break
        else:
            spans.append([rank, rank])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans[:most])
    return text + (", ..." if len(spans) > most else "")


def number_text(value: float) -> str:
    """A real number with four digits."""
    magnitude = abs(value)
    if 0 < magnitude < 0.1:
        return f"{value:.3g}"
    decimals = 3 if magnitude < 10 else 2 if magnitude < 100 else 1 if magnitude < 1000 else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
