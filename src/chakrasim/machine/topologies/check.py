"""Whether a topology does what it says: a wrong one would give wrong times, or none, without a word."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache

from chakrasim.machine.topologies.topology import Pair, Symmetry, Topology

ALL_PAIRS_UP_TO = 24
"""Members between which every route is looked at; of more members, some routes are."""
SAMPLE = 400
MOST_STEPS = 200_000

Link = tuple[Pair, Pair]
"""Owner and port; the places where a link begins and ends."""


@cache
def check(topology: Topology, members: int) -> None:
    """Walk along the routes between ``members`` members. Raises ValueError with the first thing that is wrong."""
    ports = topology.ports(members)
    moves = list(_moves(topology.symmetry, members))
    images: list[tuple[dict[Pair, Pair], dict[Pair, Pair]]] = [({}, {}) for _ in moves]
    left = MOST_STEPS
    for a, b in _pairs(members):
        links = _walk(topology, a, b, members, ports, left)
        if links is None:
            return
        if topology.hops is not None and (stated := topology.hops(a, b, members)) != len(links):
            raise ValueError(f"the route from {a} to {b} has {len(links)} links, hops says {stated}")
        left -= len(links)
        for move, (onto, back) in zip(moves, images, strict=True):
            moved = _walk(topology, move(a), move(b), members, ports, left + len(links))
            if moved is not None and not _is_image(links, moved, move, onto, back):
                raise ValueError(
                    f"{topology.symmetry.name} is stated, but the route from {move(a)} to {move(b)} is not that from "
                    f"{a} to {b} moved"
                )


def _pairs(members: int) -> Iterator[Pair]:
    if members <= ALL_PAIRS_UP_TO:
        yield from ((a, b) for a in range(members) for b in range(members) if a != b)
        return
    yield from ((a, a + 1) for a in (0, 1, members // 2, members - 2))
    yield from ((0, members - 1), (members - 1, 0))
    draw = random.Random(members)
    for _ in range(SAMPLE):
        a = draw.randrange(members)
        yield a, (a + draw.randrange(1, members)) % members


def _walk(topology: Topology, a: int, b: int, members: int, ports: int, most: int) -> list[Link] | None:
    """The links from one member to another; None for more than ``most``."""
    here, seen = a, {a}
    links: list[Link] = []
    while here != b:
        owner, port = topology.route(here, b, members)
        if not (0 <= owner < members and 0 <= port < ports):
            raise ValueError(
                f"the route from {a} to {b} takes port {port} of member {owner}; there are {members} members with "
                f"{ports} ports each"
            )
        begin, end = topology.ends(owner, port, members)
        if begin != here or end < 0 or (here < members and owner != here):
            raise ValueError(
                f"the route from {a} to {b} takes port {port} of member {owner} at {here}, but that link leads from "
                f"{begin} to {end}"
            )
        if end in seen:
            raise ValueError(f"the route from {a} to {b} comes to {end} a second time")
        if len(links) >= most:
            return None
        seen.add(end)
        links.append(((owner, port), (begin, end)))
        here = end
    return links


def _moves(symmetry: Symmetry, members: int) -> Iterator[Callable[[int], int]]:
    """Moves of places that all those of a symmetry are made of."""
    if symmetry != Symmetry.NONE:
        yield lambda place: (place + 1) % members if place < members else place
    if symmetry == Symmetry.PERMUTATIONS:
        yield lambda place: 1 - place if place < 2 else place


def _is_image(
    links: list[Link], moved: list[Link], move: Callable[[int], int], onto: dict[Pair, Pair], back: dict[Pair, Pair]
) -> bool:
    """Whether a route is another one moved, link by link; ``onto`` and ``back`` hold the links met before."""
    if len(links) != len(moved):
        return False
    return all(
        (move(begin), move(end)) == places
        and onto.setdefault(link, image) == image
        and back.setdefault(image, link) == link
        for (link, (begin, end)), (image, places) in zip(links, moved, strict=True)
    )
