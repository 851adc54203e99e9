"""Equal flows solved as one: the partition found, checked, and its quotient as flows and links of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.flows import NONE, CapacityChanges, Floats, Flows, Ints
from chakrasim.simulator.flow.classes import TOO_MANY, fold_flows, gather, number, split_flows, split_links

Words = NDArray[np.uint64]

MOST_CLASSES: Final = 0.25
"""Unasked, classes are used where they are at most this share of the flows."""
MOST_ROUNDS: Final = 64
"""Unasked, how often colours are split before that is given up."""
_BITS: Final = 44
"""Of coefficients and latencies, which are sums in some order, so many count."""


@dataclass(frozen=True, eq=False)
class Folded:
    """One flow for each class of equal flows, over one link for each class of equal links.

    ``class_of`` is int32[f]: the class of each flow.
    """

    class_of: Ints
    capacity: Floats
    flows: Flows
    routes: Routes
    delay_ns: Floats
    changes: CapacityChanges


def folded(
    capacity: Floats, flows: Flows, routes: Routes, delay_ns: Floats, changes: CapacityChanges, asked: bool | None
) -> Folded | None:
    """The flows' classes, or None where there is nothing to gain; ``asked`` None: where they are few."""
    count = len(flows)
    most = count if asked else int(MOST_CLASSES * count)
    if asked is False or most == 0:
        return None
    delay_ns = _rounded(delay_ns)
    routes = replace(routes, coefficient=_rounded(routes.coefficient))
    with np.errstate(over="ignore"):  # uncompiled, a sum of words that wraps warns
        found = _partition(capacity, flows, routes, delay_ns, changes, most, None if asked else MOST_ROUNDS)
    return None if found is None else _quotient(capacity, flows, routes, delay_ns, changes, *found)


def _rounded(values: Floats) -> Floats:
    """The values without the last bits, which additions in another order leave different."""
    if (values == np.rint(values)).all():
        return values
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissa, _BITS)), exponent - _BITS)


def _partition(
    capacity: Floats,
    flows: Flows,
    routes: Routes,
    delay_ns: Floats,
    changes: CapacityChanges,
    most: int,
    rounds: int | None,
) -> tuple[Ints, Ints] | None:
    """Colours of flows and of links that split no further, or None for more than ``most`` of flows."""
    key = _keys(flows.size_bytes, flows.start_ns, flows.weight, delay_ns, _missing(routes), flows.after == NONE)
    link_key = _keys(capacity, _histories(changes, capacity.size))
    plain = bool((routes.coefficient == 1.0).all())
    bits = np.zeros(0, np.uint64) if plain else routes.coefficient.view(np.uint64)
    colour, link_colour = np.zeros(len(flows), np.int32), np.zeros(capacity.size, np.int32)
    crossed_by = np.zeros(capacity.size, np.uint64)
    table, value = _table(2 * min(most, len(flows)))
    order = _leaders_first(flows.after)
    link_table, link_value = _table(2 * capacity.size)
    kinds = number(link_key, link_table, link_value, link_colour, capacity.size)
    if number(key, table, value, colour, most) == TOO_MANY:
        return None
    while rounds is None or rounds > 0:
        rounds = None if rounds is None else rounds - 1
        link_value[:] = NONE
        split_flows(routes.first, routes.link, bits, flows.after, order, key, link_key, crossed_by)
        before, kinds = kinds, split_links(link_key, crossed_by, link_table, link_value, link_colour)
        if kinds == before:  # flows would not split any more: they do by links, and by what they follow, at once
            value[:] = NONE
            return None if number(key, table, value, colour, most) == TOO_MANY else (colour, link_colour)
    return None


def _leaders_first(after: Ints) -> Ints:
    """The flows, each behind the one that it follows; empty where they are numbered so."""
    if (after < np.arange(after.size)).all():
        return np.zeros(0, np.int32)
    depth, above = (after != NONE).astype(np.int32), np.where(after == NONE, np.arange(after.size), after)
    while (further := depth[above]).any():
        depth += further
        above = above[above]
    return np.argsort(depth, kind="stable").astype(np.int32)


def _keys(*columns: NDArray[np.generic]) -> Words:
    """uint64[n]: a word for each row of doubles."""
    key = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
        key = (key ^ bits) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(32)
    return key


def _missing(routes: Routes) -> Floats:
    """float64[f]: 1 for flows without a route."""
    missing = np.zeros(routes.flows)
    missing[routes.missing] = 1.0
    return missing


def _histories(changes: CapacityChanges, links: int) -> Ints:
    """int32[l]: a number for each link that links with the same changes of capacity share."""
    found: dict[int, list[tuple[float, float]]] = {}
    order = np.argsort(changes.time_ns, kind="stable")
    for at in order.tolist():
        found.setdefault(int(changes.link[at]), []).append((float(changes.time_ns[at]), float(changes.capacity[at])))
    numbers: dict[tuple[tuple[float, float], ...], int] = {}
    history = np.zeros(links, np.int32)
    for link, steps in found.items():
        history[link] = numbers.setdefault(tuple(steps), len(numbers) + 1)
    return history


def _table(entries: int) -> tuple[Words, Ints]:
    size = 1 << max(int(entries).bit_length(), 4)
    return np.zeros(size, np.uint64), np.full(size, NONE, np.int32)


def _quotient(
    capacity: Floats,
    flows: Flows,
    routes: Routes,
    delay_ns: Floats,
    changes: CapacityChanges,
    colour: Ints,
    link_colour: Ints,
) -> Folded | None:
    """One flow and one link of each colour; None where the check finds two of a colour that are not equal."""
    colours, kinds = int(colour.max()) + 1, int(link_colour.max(initial=-1)) + 1
    order, first = np.zeros(len(flows), np.int32), np.zeros(colours + 1, np.int64)
    gather(colour, first, order)
    one = order[first[:-1]]
    if not _equal(flows, routes, delay_ns, colour, one):
        return None
    room = int(np.diff(routes.first)[one].sum())
    way = Routes(np.zeros(colours + 1, np.int64), np.zeros(room, np.int32), np.zeros(room))
    marks = np.full(capacity.size, NONE, np.int32), np.full(kinds, NONE, np.int32)
    links_of = np.bincount(link_colour, minlength=kinds).astype(np.int32)
    good = fold_flows(
        routes.first, routes.link, routes.coefficient, first, order, link_colour, links_of,
        np.zeros(capacity.size), np.zeros(room), *marks, way.first, way.link, way.coefficient,
    )  # fmt: skip
    one_link = np.zeros(kinds, np.int64)
    one_link[link_colour[::-1]] = np.arange(capacity.size)[::-1]
    for column in (capacity, _histories(changes, capacity.size)):
        good = good and bool((column == column[one_link][link_colour]).all())
    if not good:
        return None
    mine = np.isin(changes.link, one_link)
    after = np.where(flows.after[one] == NONE, NONE, colour[flows.after[one]])
    made = int(way.first[-1])
    return Folded(
        class_of=colour,
        capacity=capacity[one_link],
        flows=Flows(0, 0, flows.size_bytes[one], flows.start_ns[one], after, flows.weight[one]),
        routes=Routes(way.first, way.link[:made], way.coefficient[:made], np.flatnonzero(np.isin(one, routes.missing))),
        delay_ns=delay_ns[one],
        changes=CapacityChanges(changes.time_ns[mine], link_colour[changes.link[mine]], changes.capacity[mine]),
    )


def _equal(flows: Flows, routes: Routes, delay_ns: Floats, colour: Ints, one: Ints) -> bool:
    """Whether flows of one colour are equal apart from the links of their routes."""
    columns = (flows.size_bytes, flows.start_ns, flows.weight, delay_ns, _missing(routes))
    same = all((column == column[one][colour]).all() for column in columns)
    follows = np.where(flows.after == NONE, NONE, colour[flows.after])
    return same and bool((follows == follows[one][colour]).all())
