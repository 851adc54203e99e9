"""What is said where a flow has no route."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.machine.graph.graph import RANK, NetworkGraph
from chakrasim.machine.graph.routing.routes import Ints, Longs
from chakrasim.text.amounts import plural

MOST_SHOWN: Final = 4
"""Components, and ranks of each, in a message."""


def refuse_missing(
    graph: NetworkGraph, source: Ints, destination: Ints, missing: Longs, dead: NDArray[np.bool_] | None, rule: str
) -> NoReturn:
    """Raise an InputError that names the ends of the first flow without a route, and the graph's components."""
    flow = int(missing[0])
    ends = graph.names[source[flow]], graph.names[destination[flow]]
    message = f"no route from {ends[0]} to {ends[1]}"
    if missing.size > 1:
        message += f", and none for {plural(missing.size - 1, 'more flow')}"
    parts = components(graph, dead)
    if rule == "given":
        remedy = "the rule given knows only the ways that the machine's routing lists (paths, next): name one there"
    elif parts[source[flow]] == parts[destination[flow]]:
        remedy = "links join them, but only against their direction or through ranks that let no traffic pass"
        remedy += " (pxn passes those of the own island)"
    else:
        remedy = "no links join them"
    both = [int(parts[source[flow]]), int(parts[destination[flow]])]
    down = f" without the {plural(int(np.count_nonzero(dead)), 'link')} down" if dead is not None and dead.any() else ""
    raise InputError(
        message, file=graph.name or "graph", found=f"components{down}: {_shown(graph, parts, both)}", remedy=remedy
    )


def components(graph: NetworkGraph, dead: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """int64[v]: the lowest number of a vertex that links, whatever their direction, join with each vertex."""
    keep = np.ones(graph.links, np.bool_) if dead is None else ~dead
    a, b = graph.source[keep], graph.target[keep]
    least = np.arange(graph.vertices)
    while True:
        before = least.copy()
        lower = np.minimum(least[a], least[b])
        np.minimum.at(least, a, lower)
        np.minimum.at(least, b, lower)
        least = least[least]
        if (least == before).all():
            return least


def _shown(graph: NetworkGraph, parts: NDArray[np.int64], first: list[int]) -> str:
    """The components, those of both ends before the others."""
    texts = []
    numbers = list(dict.fromkeys(first + np.unique(parts).tolist()))
    for part in numbers[:MOST_SHOWN]:
        members = np.flatnonzero(parts == part)
        ranks = members[graph.kind[members] == RANK]
        names = ", ".join(graph.names[rank] for rank in ranks[:MOST_SHOWN]) + (
            ", ..." if ranks.size > MOST_SHOWN else ""
        )
        found = [f"{ranks.size} rank{'s' * (ranks.size != 1)} ({names})"] if ranks.size else []
        others = members.size - ranks.size
        found += [f"{others} other{'s' * (others != 1)}"] if others else []
        texts.append(" and ".join(found))
    more = len(numbers) - MOST_SHOWN
    return "; ".join(texts) + (f"; {more} more" if more > 0 else "")
