"""Which work of one recorded run does what which work of the other does: by operator, whatever kernels it launches.

In this order, each step for what the ones before have left on both sides: the innermost operator around a launch that
the other run has with the same shapes; the same by name alone; the kernel's own name; the place, between neighbours
that are aligned. What is left is in one run only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.analysis.compare import short_name
from chakrasim.comparison.pieces import Operator, Pieces

SHAPES: Final = "operator and shapes"
NAME: Final = "operator"
PLACE: Final = "place between neighbours"
KERNEL: Final = "kernel"
ALONE: Final = ""
_Key = Hashable


@dataclass(frozen=True)
class Row:
    """Work that is aligned: ``ns`` and ``count`` of both runs, over all steps of each; ``kernels`` by time."""

    name: str
    by: str
    ns: tuple[int, int]
    count: tuple[int, int]
    kernels: tuple[tuple[str, ...], tuple[str, ...]]


def aligned(a: Pieces, b: Pieces, layer: int) -> list[Row]:
    """The work of a layer, every piece of both runs in one row."""
    sides = [_Side(pieces, np.flatnonzero(pieces.layer == layer).tolist()) for pieces in (a, b)]
    both_have = a.shapes and b.shapes
    if both_have:
        _settle(sides, SHAPES, lambda one: list(one))
    _settle(sides, NAME, lambda one: [name for name, _ in one])
    _by_kernel(sides)
    _by_place(sides)
    for side in sides:
        for at in side.left():
            side.key[at] = (ALONE, side.call(at, shapes=both_have))
    return _rows(sides)


class _Side:
    """Pieces of one run, and where each is settled: (how, key), None as long as it is not."""

    def __init__(self, pieces: Pieces, chosen: Sequence[int]) -> None:
        self.pieces = pieces
        self.chosen = chosen
        self.key: dict[int, tuple[str, _Key]] = {}

    def left(self) -> list[int]:
        """What is not settled, in the order of launches."""
        return [at for at in self.chosen if at not in self.key]

    def call(self, at: int, *, shapes: bool = False) -> str:
        """What a piece is called by itself: the operator that launched it, else the kernel."""
        around = self.pieces.around[at]
        if not around:
            return short_name(self.pieces.name[at])
        return _shown(around[0]) if shapes else around[0][0]


def _settle(sides: list[_Side], how: str, keys_of: Callable[[tuple[Operator, ...]], Sequence[_Key]]) -> None:
    """Settle what has an operator around it that is around something of the other run, too; the innermost that leaves
    no row to one run alone."""
    rest = [side.left() for side in sides]
    keys = [{at: keys_of(side.pieces.around[at]) for at in left} for side, left in zip(sides, rest, strict=True)]
    shared = _all(keys[0].values()) & _all(keys[1].values())
    while True:
        taken = [{at: next((k for k in own if k in shared), None) for at, own in each.items()} for each in keys]
        both = ({*taken[0].values()} & {*taken[1].values()}) - {None}
        if both == ({*taken[0].values()} | {*taken[1].values()}) - {None}:
            break
        shared = shared & both
    for side, found in zip(sides, taken, strict=True):
        side.key.update((at, (how, key)) for at, key in found.items() if key is not None)


def _all(lists: Iterable[Sequence[_Key]]) -> set[_Key]:
    return {key for own in lists for key in own}


def _by_kernel(sides: list[_Side]) -> None:
    """Settle what runs kernels of the same name."""
    names = [{at: side.pieces.name[at] for at in side.left()} for side in sides]
    both = {*names[0].values()} & {*names[1].values()}
    for side, found in zip(sides, names, strict=True):
        side.key.update((at, (KERNEL, short_name(name))) for at, name in found.items() if name in both)


def _by_place(sides: list[_Side]) -> None:
    """Settle what is left between equal neighbours that are settled."""
    places = [_places(side) for side in sides]
    both = {*places[0].values()} & {*places[1].values()}
    calls = []
    for side, found in zip(sides, places, strict=True):
        time: dict[_Key, Counter[str]] = defaultdict(Counter)
        for at, place in found.items():
            time[place][side.call(at)] += int(side.pieces.ns[at])
        calls.append({place: called.most_common(1)[0][0] for place, called in time.items()})
    for side, found in zip(sides, places, strict=True):
        for at, place in found.items():
            if place in both:
                side.key[at] = (PLACE, " -> ".join(dict.fromkeys(each[place] for each in calls)))


def _places(side: _Side) -> dict[int, _Key]:
    """Of what is left, between which settled neighbours it is; not of what has none."""
    found: dict[int, _Key] = {}
    before: _Key = None
    waiting: list[int] = []
    for at in side.chosen:
        key = side.key.get(at)
        if key is None:
            waiting.append(at)
            continue
        found.update((one, (before, key)) for one in waiting)
        before, waiting = key, []
    if before is not None:
        found.update((one, (before, None)) for one in waiting)
    return found


def _rows(sides: list[_Side]) -> list[Row]:
    ns = [Counter[tuple[str, _Key]](), Counter[tuple[str, _Key]]()]
    count = [Counter[tuple[str, _Key]](), Counter[tuple[str, _Key]]()]
    kernels: list[dict[_Key, Counter[str]]] = [defaultdict(Counter), defaultdict(Counter)]
    for i, side in enumerate(sides):
        for at in side.chosen:
            key, own = side.key[at], int(side.pieces.ns[at])
            ns[i][key] += own
            count[i][key] += 1
            kernels[i][key][short_name(side.pieces.name[at])] += own
    return [
        Row(_shown(key[1]), key[0], (ns[0][key], ns[1][key]), (count[0][key], count[1][key]),
            (_names(kernels[0].get(key)), _names(kernels[1].get(key))))
        for key in dict.fromkeys(_in_turn(sides))
    ]  # fmt: skip


def _in_turn(sides: list[_Side]) -> Iterator[tuple[str, _Key]]:
    for side in sides:
        for at in side.chosen:
            yield side.key[at]


def _names(times: Counter[str] | None) -> tuple[str, ...]:
    """Kernels, those with most time first."""
    return tuple(name for name, _ in sorted((times or {}).items(), key=lambda one: (-one[1], one[0])))


def _shown(key: _Key) -> str:
    if isinstance(key, tuple):
        name, shapes = key
        return f"{name} ({shapes})" if shapes else str(name)
    return str(key)
