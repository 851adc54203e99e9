"""The tables of flows that share links, as kernels see them.

A *flow* crosses links, each with a coefficient: bytes that cross the link for each byte of the flow. Its *level* is its
rate divided by its weight. An *entry* is one crossing; those of a flow follow one another, and those of the flows
under way on one link form a list. A flow under way has a *slot*, which is used again when it has ended: what is worked
on stays small and near.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Places = NDArray[np.uint32]
"""Indices: without a sign, so that kernels need not see whether to count from the end."""
Longs = NDArray[np.int64]

NOWHERE: Final = 0xFFFFFFFF
"""No entry, no link, no slot."""

LINK: Final = np.dtype(
    [
        ("capacity", "f8"),  # bytes per ns
        ("load", "f8"),  # what flows under way take of it,
        ("rest", "f8"),  # and the part of that sum that a double cannot hold
        ("spare", "f8"),  # while filling: capacity left,
        ("pull", "f8"),  # weight of the flows that are not frozen,
        ("froze", "f8"),  # and the level at which it is full
        ("head", "u4"),  # first entry of the flows under way
        ("touched", "i4"),  # stamp of the event
        ("unfrozen", "i4"),  # while filling: entries that are not frozen
        ("crossing", "i4"),  # entries of flows under way
    ],
    align=True,
)
"""Made for one line of a cache (64 bytes)."""
SLOT: Final = np.dtype(
    [
        ("weight", "f8"),
        ("rate", "f8"),  # bytes per ns
        ("level", "f8"),
        ("remaining", "f8"),  # bytes, at the time `since`
        ("since", "f8"),  # ns
        ("due", "f8"),  # when it will end, ns
        ("first", "u4"),  # its entries
        ("last", "u4"),
        ("bottleneck", "u4"),  # the link that holds it back
        ("chosen", "i4"),  # stamp of the event
        ("place", "u4"),  # in the queue, or NOWHERE
        ("at", "u4"),  # in the list of slots in use
        ("flow", "u4"),  # its number
        ("record", "i4"),  # what the engine knows it by
        ("began", "f8"),  # bytes that it had when it took its present way
        ("extra", "f8"),  # ns below a whole one that it takes after its last byte
    ],
    align=True,
)
ENTRY: Final = np.dtype(
    [("coefficient", "f8"), ("link", "u4"), ("slot", "u4"), ("later", "u4"), ("earlier", "u4")], align=True
)

# Words of `Sharing.count`.
ACTIVE: Final = 0
"""Flows under way."""
CHOSEN: Final = 1
"""Flows whose rates are being sought."""
TOUCHED: Final = 2
"""Links that they cross, and links that lost a flow or changed."""
QUEUED: Final = 3
"""Flows in the queue of completions."""
STAMP: Final = 4
"""What marks flows and links as chosen and touched; a new one for each event."""
SOLVES: Final = 5
"""Instants at which rates were sought."""
FILLS: Final = 6
"""Fillings done for that: at least one each."""
CHANGED: Final = 7
"""Rates that changed."""
ENTRIES: Final = 8
"""Entries ever used."""
WORDS: Final = 9


class Sharing(NamedTuple):
    """Links, flows under way, and their crossings.

    Attributes
    ----------
    links, slots, entries
        records as above
    active
        slots: the first ``count[ACTIVE]`` are in use, the others free
    picked, reached, order
        lists: slots chosen; links touched; heap of links
    queue
        heap of slots by (due, flow)
    ends, crossers, frozen
        while all are filled at once: where the slots that cross each link end, these one after another, and which
        slots are frozen; while some are filled, ``ends`` is how many chosen ones cross each link
    free_blocks
        by number of entries: the first block of so many that can be used again; the next is its first's ``later``
    count
        [WORDS] lengths of the lists, and figures
    """

    links: Any
    slots: Any
    entries: Any
    active: Places
    picked: Places
    reached: Places
    order: Places
    queue: Places
    ends: Ints
    crossers: Places
    frozen: NDArray[np.int8]
    free_blocks: Places
    count: Longs  # type: ignore[assignment]  # a tuple's own `count` is not missed


def new_sharing(capacity: Floats, slots: int = 1024, entries: int = 8192, longest: int = 16) -> Sharing:
    """Tables without flows.

    Parameters
    ----------
    capacity
        float64[l], bytes per ns
    slots, entries, longest
        room for flows under way, for their crossings, and for the crossings of one; `grown` makes more
    """
    links = np.zeros(capacity.size, LINK)
    links["capacity"] = capacity
    links["head"] = NOWHERE
    count = np.zeros(WORDS, np.int64)
    count[STAMP] = 1
    return Sharing(
        links=links.view(np.recarray),
        slots=np.zeros(slots, SLOT).view(np.recarray),
        entries=np.zeros(entries, ENTRY).view(np.recarray),
        active=np.arange(slots, dtype=np.uint32),
        picked=np.zeros(slots, np.uint32),
        reached=np.zeros(capacity.size, np.uint32),
        order=np.zeros(capacity.size, np.uint32),
        queue=np.zeros(slots, np.uint32),
        ends=np.zeros(capacity.size, np.int32),
        crossers=np.zeros(entries, np.uint32),
        frozen=np.zeros(slots, np.int8),
        free_blocks=np.full(longest + 1, NOWHERE, np.uint32),
        count=count,
    )


def grown(s: Sharing, crossings: int) -> Sharing:
    """The same tables with room for another flow of so many crossings, and for as many flows again as there are."""

    def longer(table: Any, size: int, value: int = 0) -> Any:
        new = np.full(size, value, table.dtype) if table.dtype == np.uint32 else np.zeros(size, table.dtype)
        new[: table.size] = table
        return new.view(type(table))

    slots, entries = s.slots.size, s.entries.size
    if s.count[ACTIVE] == slots:
        active = np.arange(2 * slots, dtype=np.uint32)
        active[:slots] = s.active
        s = s._replace(slots=longer(s.slots, 2 * slots), active=active)
        s = s._replace(picked=longer(s.picked, 2 * slots), queue=longer(s.queue, 2 * slots))
        s = s._replace(frozen=longer(s.frozen, 2 * slots))
    if s.count[ENTRIES] + crossings > entries:
        room = 2 * entries + crossings
        s = s._replace(entries=longer(s.entries, room), crossers=longer(s.crossers, room))
    if crossings >= s.free_blocks.size:
        s = s._replace(free_blocks=longer(s.free_blocks, crossings + 1, NOWHERE))
    return s
