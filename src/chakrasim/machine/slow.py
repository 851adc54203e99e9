"""Ranks or boards that are slower, or faster, than the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chakrasim.config.kinds import number
from chakrasim.config.section import Section
from chakrasim.config.table import Kind
from chakrasim.errors import InputError
from chakrasim.notes import Notes

_RANGE: Final = re.compile(r"(board )?(\d{1,9})(?:-(\d{1,9}))?")
_WHO: Final = "ranks such as 5 or 0-7,16, or boards such as board 2"
_FACTOR: Final = number(1e-3, 1e3, "a factor from 0.001 to 1,000", "number > 0")


class Slow(NamedTuple):
    """Ranks ``first`` to ``last``, or the ranks of these boards (islands), whose compute nodes take ``factor`` times as
    long."""

    first: int
    last: int
    factor: float
    boards: bool = False


def _slow(section: Section, key: str) -> tuple[Slow, ...]:
    given = section.entries[key]
    if isinstance(given, Mapping):
        given = {str(who) if type(who) is int else who: factor for who, factor in given.items()}
    below = replace(section, entries={key: given}).below(key, (_WHO,))
    found = []
    for who in below.entries:
        factor = _FACTOR.read(below, who)
        for piece in re.split(r" *, *", who.strip()):
            match = _RANGE.fullmatch(piece)
            if match is None or int(match[3] or match[2]) < int(match[2]):
                below.fail(who, "not ranks", found=who, expected=_WHO)
            found.append(Slow(int(match[2]), int(match[3] or match[2]), factor, match[1] is not None))
    return tuple(found)


SLOW: Final = Kind(_slow, "mapping", {"type": "object"})
"""By ranks or boards: the factor of their compute times."""


def parse_slow(pairs: Sequence[str] | Mapping[str, object], where: str = "--slow") -> tuple[Slow, ...]:
    """From texts such as "5=1.3" and "board 2=0.9", or a mapping of the same. Raises InputError."""
    given: dict[str, object] = {}
    for who, factor in pairs.items() if isinstance(pairs, Mapping) else (_split(pair, where) for pair in pairs):
        if str(who) in given:
            raise InputError(f"{who} is named twice", file=where)
        given[str(who)] = factor
    return _slow(Section({"slow": given}, where, Notes()), "slow")


def _split(pair: str, where: str) -> tuple[str, object]:
    who, equals, factor = pair.partition("=")
    if not equals:
        raise InputError("not RANKS=FACTOR", file=where, found=repr(pair), expected="such as 5=1.3 or board 2=0.9")
    return who.strip(), factor.strip()


def factors_of(slow: Sequence[Slow], ranks: int, islands: NDArray[np.int32] | None) -> NDArray[np.float64]:
    """float64[ranks]: the factor of each rank, 1 where none is stated. ``islands`` are those of the ranks, if any.

    Raises :class:`chakrasim.InputError` for ranks or boards that are not there, and for a rank that is named twice.
    """
    factors, named = np.ones(ranks), np.zeros(ranks, np.bool_)
    for one in slow:
        what = "board" if one.boards else "rank"
        of = islands if one.boards else np.arange(ranks, dtype=np.int32)
        if of is None:
            raise InputError("the machine has no boards", file="slow", found=one.first, expected="ranks")
        if one.last > of.max():
            expected = f"0 to {of.max()}"
            raise InputError(f"there is no such {what}", file="slow", found=one.last, expected=expected)
        own = (of >= one.first) & (of <= one.last)
        if (named & own).any():
            twice = int(np.flatnonzero(named & own)[0])
            raise InputError(f"rank {twice} is named twice", file="slow", expected="one factor for each rank")
        factors[own], named = one.factor, named | own
    return factors
