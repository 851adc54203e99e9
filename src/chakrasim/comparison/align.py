"""Which work of one recorded run does what which work of the other does: by operator, whatever kernels it launches.

In this order, each step for what the ones before have left on both sides: the innermost operator around a launch that
the other run has with the same shapes; the same by name alone; by name without that of a maker's library; the kernel's
own name; the place, between neighbours that are aligned. What is left is in one run only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.analysis.compare import short_name
from chakrasim.comparison.pieces import Operator, Pieces

SHAPES: Final = "operator and shapes"
NAME: Final = "operator"
LIBRARY: Final = "operator of another library"
PLACE: Final = "place between neighbours"
KERNEL: Final = "kernel"
ALONE: Final = ""
MOST_BETWEEN: Final = 8
"""More pieces between two neighbours say nothing of which does what."""
ALIKE: Final = 0.1
"""Of all times that a neighbour ran: of so many more one run may have something at a place."""
_LIBRARIES: Final = re.compile(
    r"(?<=[:_])(?:cudnn|miopen|mkldnn|onednn|native|thnn|mps)_|(?:Cudnn|Miopen|Mkldnn|Native)(?=[A-Z])"
)
"""In names of operators that one kind of device has; what is left is what they do."""
_Key = Hashable
_Place = tuple[_Key, _Key]


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
    _settle(sides, LIBRARY, lambda one: [_plain(name) for name, _ in one])
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


def _plain(name: str) -> str:
    return _LIBRARIES.sub("", name)


def _all(lists: Iterable[Sequence[_Key]]) -> set[_Key]:
    return {key for own in lists for key in own}


def _by_kernel(sides: list[_Side]) -> None:
    """Settle what runs kernels of the same name."""
    names = [{at: side.pieces.name[at] for at in side.left()} for side in sides]
    both = {*names[0].values()} & {*names[1].values()}
    for side, found in zip(sides, names, strict=True):
        side.key.update((at, (KERNEL, short_name(name))) for at, name in found.items() if name in both)


def _by_place(sides: list[_Side]) -> None:
    """Settle what is left between equal neighbours that are settled, if it is there as often in both runs."""
    gaps = [_gaps(side) for side in sides]
    often = [_often(side, found) for side, found in zip(sides, gaps, strict=True)]
    both = {place for place in {*gaps[0]} & {*gaps[1]} if abs(often[0][place] - often[1][place]) <= ALIKE}
    calls = []
    for side, found in zip(sides, gaps, strict=True):
        time: dict[_Place, Counter[str]] = defaultdict(Counter)
        for place in both:
            for at in (at for gap in found[place] for at in gap):
                time[place][side.call(at)] += int(side.pieces.ns[at])
        calls.append({place: called.most_common(1)[0][0] for place, called in time.items()})
    for side, found in zip(sides, gaps, strict=True):
        for place in both:
            key = PLACE, " -> ".join(dict.fromkeys(each[place] for each in calls))
            side.key.update((at, key) for gap in found[place] for at in gap)


def _gaps(side: _Side) -> dict[_Place, list[list[int]]]:
    """By neighbours what is left between them, each time; not of what has no neighbour before it."""
    found: dict[_Place, list[list[int]]] = defaultdict(list)
    before: _Key = None
    waiting: list[int] = []
    for at in [*side.chosen, -1]:
        key = side.key.get(at)
        if key is None and at >= 0:
            waiting.append(at)
            continue
        if waiting and before is not None and len(waiting) <= MOST_BETWEEN:
            found[before, key].append(waiting)
        before, waiting = key, []
    return found


def _often(side: _Side, gaps: dict[_Place, list[list[int]]]) -> dict[_Place, float]:
    """By neighbours, for what share of the times that the first of them ran something was left there."""
    ran = Counter[_Key](side.key.get(at) for at in side.chosen)
    return {place: len(found) / ran[place[0]] for place, found in gaps.items()}


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
