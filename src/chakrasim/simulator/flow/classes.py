"""Classes of equal flows and links: a stable partition, found by hashes and then checked.

Flows and links are coloured, flows by size, weight and start, links by capacity. A colour is split while two flows of
it cross other colours of links, or two links of it are crossed by other colours of flows. When nothing splits any more,
all flows of a colour have one rate at all times, since max-min fair rates are unique (graph-networks.md, 6), and one
flow of each colour, with the coefficients that `fold_colour` finds, stands for all.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.jit import kernel, leaf
from chakrasim.simulator.flow.state import Floats, Ints, Longs

Words = NDArray[np.uint64]

NONE: Final = -1
"""Not seen yet; no flow."""
TOO_MANY: Final = -1
"""Instead of a number of colours: there are more than asked for."""
SAME: Final = 1e-12
"""Two sums of coefficients are the same when they differ by no more than this share: the order of additions."""
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_S30: Final = np.uint64(30)
_S27: Final = np.uint64(27)
_S31: Final = np.uint64(31)
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)


@leaf
def mixed(x: np.uint64) -> np.uint64:
    """A 64-bit number scrambled (the finaliser of SplitMix64)."""
    x = (x + _GOLDEN) * _FIRST
    x = (x ^ (x >> _S30)) * _SECOND
    x = (x ^ (x >> _S27)) * _FIRST
    return x ^ (x >> _S31)


@leaf
def colour_of(key: np.uint64, table: Words, value: Ints, known: int) -> int:
    """The number of a key in a hash table, ``known`` for a new one, which is put in."""
    mask = np.uint64(table.size - 1)
    place = key & mask
    while value[place] != NONE and table[place] != key:
        place = (place + _ONE) & mask
    if value[place] == NONE:
        table[place] = key
        value[place] = known
    return int(value[place])


@kernel
def number(keys: Words, table: Words, value: Ints, colour: Ints, most: int) -> int:
    """Number what has equal keys; returns how many colours there are, or TOO_MANY. ``value`` is NONE all over."""
    known = 0
    for i in range(keys.size):
        colour[i] = colour_of(keys[i], table, value, known)
        if colour[i] == known:
            known += 1
            if known > most:
                return TOO_MANY
    return known


@kernel
def split_flows(
    first: Longs,
    link: Ints,
    coefficient: Words,
    after: Ints,
    order: Ints,
    key: Words,
    link_key: Words,
    crossed_by: Words,
) -> None:
    """Split flows by the colours of their links and of what they follow.

    ``key`` [f] is written, ``link_key`` [l] has those of the links' colours, and ``crossed_by`` [l], the sum over the
    flows that cross each link, is found. ``order`` has each flow behind the one that it follows, so that a chain is
    split from end to end at once; it is empty where flows are numbered so. ``coefficient`` has the bits of the doubles,
    or nothing where all are 1.
    """
    plain = coefficient.size == 0
    crossed_by[:] = _ZERO
    for place in range(after.size):
        flow = order[place] if order.size else place
        word = mixed(key[flow])
        for entry in range(first[flow], first[flow + 1]):
            word += link_key[link[entry]] if plain else mixed(link_key[link[entry]] ^ coefficient[entry])
        if after[flow] != NONE:
            word += mixed(key[after[flow]] ^ _GOLDEN)
        word = mixed(word)
        key[flow] = word
        for entry in range(first[flow], first[flow + 1]):
            crossed_by[link[entry]] += word if plain else mixed(word ^ coefficient[entry])


@kernel
def split_links(link_key: Words, crossed_by: Words, table: Words, value: Ints, colour: Ints) -> int:
    """Split links by the colours of the flows that cross them; returns how many colours there are then."""
    for link in range(link_key.size):
        link_key[link] = mixed(mixed(link_key[link]) + crossed_by[link])
    known = 0
    for link in range(link_key.size):
        colour[link] = colour_of(link_key[link], table, value, known)
        if colour[link] == known:
            known += 1
    return known


@kernel
def gather(colour: Ints, first: Longs, flows: Ints) -> None:
    """List the flows of each colour, ascending, one colour after another; ``first`` [c + 1] is where each begins."""
    first[:] = 0
    for flow in range(colour.size):
        first[colour[flow] + 1] += 1
    for at in range(1, first.size):
        first[at] += first[at - 1]
    for flow in range(colour.size):
        flows[first[colour[flow]]] = flow
        first[colour[flow]] += 1
    for at in range(first.size - 1, 0, -1):
        first[at] = first[at - 1]
    first[0] = 0


@leaf
def same_way(first: Longs, link: Ints, coefficient: Floats, link_colour: Ints, a: int, b: int) -> bool:
    """Whether two flows cross the same colours of links, each as often and with the same coefficients."""
    length = first[a + 1] - first[a]
    if length != first[b + 1] - first[b]:
        return False
    for i in range(length):
        here = link_colour[link[first[a] + i]]
        part = coefficient[first[a] + i]
        if link_colour[link[first[b] + i]] == here and coefficient[first[b] + i] == part:
            continue
        balance = 0  # in another order
        for j in range(length):
            balance += link_colour[link[first[a] + j]] == here and coefficient[first[a] + j] == part
            balance -= link_colour[link[first[b] + j]] == here and coefficient[first[b] + j] == part
        if balance != 0:
            return False
    return True


@kernel
def fold_flows(
    first: Longs,
    link: Ints,
    coefficient: Floats,
    flows_first: Longs,
    flows: Ints,
    link_colour: Ints,
    links_of: Ints,
    load: Floats,
    colour_load: Floats,
    seen: Ints,
    colour_seen: Ints,
    route_first: Longs,
    route_link: Ints,
    route_coefficient: Floats,
) -> bool:
    """Check that flows and links of one colour are equal, and find the crossings of one flow for each colour.

    ``flows`` are those of each colour one after another, ``flows_first`` [c + 1] where each colour begins;
    ``links_of`` [d] is how many links a colour has. The crossing of a colour of links gets as coefficient what all
    flows of the colour together send over one such link for each byte of one of them: ``route_first`` [c + 1],
    ``route_link`` and ``route_coefficient`` are written. ``load``, ``seen`` [l] and ``colour_load``, ``colour_seen``
    [d] are room for work; ``seen`` and ``colour_seen`` are NONE all over.
    """
    made = 0
    for colour in range(flows_first.size - 1):
        route_first[colour] = made
        begin, end = flows_first[colour], flows_first[colour + 1]
        for at in range(begin, end):
            if not same_way(first, link, coefficient, link_colour, flows[begin], flows[at]):
                return False
            for entry in range(first[flows[at]], first[flows[at] + 1]):
                on = link[entry]
                if seen[on] != colour:
                    seen[on] = colour
                    load[on] = 0.0
                load[on] += coefficient[entry]
        for at in range(begin, end):
            for entry in range(first[flows[at]], first[flows[at] + 1]):
                on = link[entry]
                if seen[on] != colour:
                    continue  # counted
                seen[on] = NONE
                kind = link_colour[on]
                if colour_seen[kind] < route_first[colour]:
                    colour_seen[kind] = made
                    colour_load[made] = 0.0
                    route_link[made] = kind
                    route_coefficient[made] = load[on]
                    made += 1
                place = colour_seen[kind]
                if abs(load[on] - route_coefficient[place]) > SAME * load[on]:
                    return False
                colour_load[place] += 1.0
        for place in range(route_first[colour], made):
            if colour_load[place] != links_of[route_link[place]]:
                return False
    route_first[flows_first.size - 1] = made
    return True
