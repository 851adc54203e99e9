"""Operators of a captured program and of a recorded step, by name and work, so that the two can be aligned.

A captured program has the operators that reach the device; a recorded one also has what calls them and what they call.
Of operators around one another the outermost that the captured program has, too, is the one that is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.spelling import HOST_BACKENDS
from chakrasim.converter.binding.rows import Rows
from chakrasim.operators.recorded_calls import RecordedSide, describe_recorded, recorded_operator
from chakrasim.trace import work as names
from chakrasim.trace.chakra.graph import Ints, Trace

Size = tuple[int, int]
"""Operations, and bytes written: what tells calls of an operator apart in both kinds of traces."""

UNKNOWN: Final = (-1, -1)
_ATTENTION: Final = re.compile(r"_scaled_dot_product_(?:\w+_)?attention(?:_for_cpu|_overrideable)?(_backward)?$")
_BACK_ENDS: Final = tuple(f"{name}:" for name in HOST_BACKENDS)
_MALFORMED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


@lru_cache(maxsize=100_000)
def plain(name: str) -> str:
    """An operator's name without what differs where the same is done: in place or not, which kernel of attention."""
    space, mark, bare = name.rpartition("::")
    found = _ATTENTION.search(bare)
    bare = f"attention{found[1] or ''}" if found else bare.rstrip("_")
    return f"{space}{mark}{bare}"


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls in program order: ``names`` (plain), ``sizes``, and of recorded ones ``rows`` int64, ``owner`` int64[rows]
    (which call each row belongs to, -1: none)."""

    names: list[str]
    sizes: list[Size]
    rows: Ints
    owner: Ints

    def __len__(self) -> int:
        return len(self.names)


def captured_calls(trace: Trace) -> Calls:
    """The nodes of a captured trace, in its order."""
    flops, written = trace.attr(names.FLOPS).integers_or(-1), trace.attr(names.BYTES_WRITTEN).integers_or(-1)
    sizes = list(zip(flops.tolist(), written.tolist(), strict=True))
    every = np.arange(len(trace))
    return Calls([plain(trace.name(at)) for at in range(len(trace))], sizes, every, every)


def recorded_calls(
    rows: Rows, chosen: NDArray[np.bool_], known: Collection[str], sizes: dict[tuple[int, ...], Size]
) -> Calls:
    """The calls among the ``chosen`` rows of operators with a ``known`` plain name."""
    owner = np.full(len(rows), -1, np.int64)
    texts = rows.strings.each(rows.name, lambda name: plain(name) in known)
    wanted = rows.operator & chosen & texts
    wanted[_of_all_ranks(rows, wanted, sizes)] = False
    found: list[int] = []
    parents = rows.parent
    # Marks of a host's back end stay open on the thread that asked, and seem to be around all that follows.
    endless = rows.strings.each(rows.name, lambda name: name.startswith(_BACK_ENDS))
    # Parents come first, so one pass settles all.
    for at in np.flatnonzero(chosen & (wanted | (parents >= 0))).tolist():
        above = owner[parents[at]] if parents[at] >= 0 and not endless[parents[at]] else -1
        if above < 0 and wanted[at]:
            above = len(found)
            found.append(at)
        owner[at] = above
    given = np.flatnonzero(chosen & (rows.giver >= 0))
    owner[given] = owner[rows.giver[given]]
    order = np.argsort(rows.start_ns[found], kind="stable")
    place = np.empty(len(found) + 1, np.int64)
    place[order] = np.arange(len(found))
    place[-1] = -1
    ordered = np.array(found, np.int64)[order]
    return Calls(
        [plain(rows.strings[int(name)]) for name in rows.name[ordered].tolist()],
        [size_of(rows, row, sizes) for row in ordered.tolist()],
        ordered,
        place[owner],
    )


def _of_all_ranks(rows: Rows, wanted: NDArray[np.bool_], sizes: dict[tuple[int, ...], Size]) -> list[int]:
    """Rows of operators that call one of the same name and another size: on tensors that are spread over ranks
    (DTensor), which the call inside does on the rank's own part."""
    found = set()
    for at in np.flatnonzero(wanted).tolist():
        above, name = int(rows.parent[at]), None
        while above >= 0:
            if wanted[above]:
                name = plain(rows.strings[int(rows.name[at])]) if name is None else name
                if plain(rows.strings[int(rows.name[above])]) == name:
                    own, whole = size_of(rows, at, sizes), size_of(rows, above, sizes)
                    if own not in (whole, UNKNOWN):
                        found.add(above)
            above = int(rows.parent[above])
    return [*found]


def size_of(rows: Rows, row: int, known: dict[tuple[int, ...], Size]) -> Size:
    """What a recorded call does; `UNKNOWN` where its shapes were not recorded. ``known`` is kept between calls."""
    key = (int(rows.schema[row]), *rows.texts[row, :, 1:].reshape(-1).tolist())
    if key not in known:
        known[key] = _described(rows, row)
    return known[key]


def _described(rows: Rows, row: int) -> Size:
    operator = recorded_operator(rows.strings[int(rows.schema[row])])
    if operator is None:
        return UNKNOWN
    try:
        texts = [[json.loads(rows.strings[int(text)] or "[]") for text in side] for side in rows.texts[row]]
        sides = [RecordedSide(values, shapes, types, []) for values, shapes, types in texts]
        if operator.takes_tensors and not sides[0].values:
            return UNKNOWN
        work = describe_recorded(operator, *sides)
    except _MALFORMED:
        return UNKNOWN
    # Tensors that are spread over ranks have no storage of their own: all looks like views of one.
    return (work.flops, work.bytes_written) if work.flops or work.bytes_written else UNKNOWN
