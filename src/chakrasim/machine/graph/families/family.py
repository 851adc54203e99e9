"""What a family of topologies says of itself, and the kinds of its keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.config.kinds import whole
from chakrasim.config.section import Section
from chakrasim.config.table import REQUIRED, Key, Kind, Table, Values
from chakrasim.config.units import LINK_RATE, TIME, real
from chakrasim.config.values import as_sequence


@dataclass(frozen=True)
class Family:
    """One family of topologies: a part of a network, put together by a function.

    Parameters
    ----------
    name:
        As files spell it.
    build:
        From a `GraphBuilder` and the values of the keys, by their names in Python: adds vertices and cables. It joins
        ``graph.ports``, the ranks or the NICs before them. ``ValueError`` for values that do not go together: its text
        reaches the user.
    keys:
        What a file says of it (`chakrasim.config.table`).
    meaning:
        One line for the reference page.
    ranks:
        From the values to the number of ranks that the family has by itself. None: as many as there are.
    """

    name: str
    build: Callable[..., None]
    keys: Table
    meaning: str = ""
    ranks: Callable[[Values], int] | None = None


RATE: Final = real(LINK_RATE, "GB/s", '"400 Gb/s"', "bandwidth", above_zero="a bandwidth above 0")
"""Bandwidth in bytes per ns, which is GB/s."""
LATENCY: Final = real(TIME, "ns", '"500 ns"', "time")
COUNT: Final = whole(1)


def listed(kind: Kind) -> Kind:
    """A list of values, or one value; always gives a tuple."""

    def reader(section: Section, key: str) -> tuple[Any, ...]:
        if as_sequence(section.entries[key]) is None:
            return (kind.read(section, key),)
        items = section.listing(key, f"a list of {kind.shown}")
        if not items.entries:
            section.fail(key, "no values", expected=f"a list of {kind.shown}")
        return tuple(kind.read(items, index) for index in items.entries)

    array = {"type": "array", "items": kind.schema, "minItems": 1}
    return Kind(reader, f"{kind.shown}, or a list", {"anyOf": [kind.schema, array]})


def bandwidth(meaning: str = "of each cable and direction", default: Any = REQUIRED, name: str = "bandwidth") -> Key:
    """A key for the bandwidth of cables."""
    return Key(name, RATE, default, meaning)


def latency(meaning: str = "of each cable, one way", default: Any = 0.0, name: str = "latency") -> Key:
    """A key for the latency of cables."""
    return Key(name, LATENCY, default, meaning, name.replace("-", "_"), "0 ns" if default == 0.0 else "")


def times(*keys: str) -> Callable[[Values], int]:
    """The ranks of a family: the product of the values of keys."""
    return lambda values: math.prod(values[key] for key in keys)


def each_level(values: tuple[float, ...], levels: int, what: str) -> tuple[float, ...]:
    """One value for each level from one for all of them or one for each. Raises ValueError for other numbers."""
    if len(values) not in (1, levels):
        raise ValueError(f"{what} has {len(values)} values, expected 1 or {levels}")
    return values * levels if len(values) == 1 else values
