"""The routes of topologies as the engine takes them (`chakrasim.machine.topologies`).

Those of the package are compiled into the engine, one after the other asked for by number. Any other is compiled by
itself when it is first simulated, and called by its address: the engine's kept code does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from chakrasim.errors import InputError
from chakrasim.jit import address_of, caller, leaf
from chakrasim.machine.topologies import BUILT_IN, Topology
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.kernels.clock import Words

ADDED = len(BUILT_IN)
"""The number of all topologies that are not built in."""

LARGEST = 2**31 - 1

called = caller()


def _by_number(functions: tuple[Callable[..., Any], ...], first: int = 0) -> Any:
    """``f(number, a, b, c)``: the function of that number, applied to the others."""
    own = leaf(functions[0])
    if len(functions) == 1:

        @leaf
        def last(number: int, a: int, b: int, c: int) -> Any:
            return own(a, b, c)

        return last
    others = _by_number(functions[1:], first + 1)

    @leaf
    def one_of(number: int, a: int, b: int, c: int) -> Any:
        if number == first:
            return own(a, b, c)
        return others(number, a, b, c)

    return one_of


def _counted(topology: Topology) -> Callable[[int, int, int], int]:
    """The hops that a topology states, or those of its route."""
    if topology.hops is not None:
        return topology.hops
    route, ends = leaf(topology.route), leaf(topology.ends)

    def hops(here: int, to: int, members: int) -> int:
        passed = 0
        while here != to and passed < LARGEST:
            owner, port = route(here, to, members)
            here = ends(owner, port, members)[1]
            passed += 1
        return passed

    return hops


_route = _by_number(tuple(topology.route for topology in BUILT_IN))
_ends = _by_number(tuple(topology.ends for topology in BUILT_IN))
_hops = _by_number(tuple(_counted(topology) for topology in BUILT_IN))


@cache
def dim_words(topology: Topology) -> tuple[int, int, int, int]:
    """What a dimension's record says of its topology: DIM_KIND, DIM_ROUTE, DIM_ENDS and DIM_HOPS."""
    if topology in BUILT_IN:
        return BUILT_IN.index(topology), 0, 0, 0
    functions = (_packed(topology.route), _packed(topology.ends), leaf(_counted(topology)))
    try:
        route, ends, hops = map(address_of, functions)
    except ValueError as error:
        remedy = "CHAKRASIM_JIT=0 runs it uncompiled; functions that it calls need @numba.njit"
        raise InputError(f"topology {topology.name} cannot be compiled: {error}", remedy=remedy) from error
    return ADDED, route, ends, hops


def _packed(function: Callable[[int, int, int], tuple[int, int]]) -> Callable[[int, int, int], int]:
    """Two numbers as one, -1 if one of them is out of range."""
    pair = leaf(function)

    def packed(a: int, b: int, c: int) -> int:
        first, second = pair(a, b, c)
        if min(first, second) < 0 or max(first, second) > LARGEST:
            return -1
        return first << 32 | second

    return packed


@leaf
def next_link(m: Words, dim: int, here: int, to: int) -> tuple[int, int]:
    """Owner and port of the link that leads from a place in a dimension on to a member."""
    kind = m[dim + at.DIM_KIND]
    members = m[dim + at.DIM_MEMBERS]
    if kind != ADDED:
        return _route(kind, here, to, members)
    packed = called(m[dim + at.DIM_ROUTE], here, to, members)
    owner = packed >> 32
    port = packed & LARGEST
    if packed < 0 or owner >= members or port >= m[dim + at.DIM_PORTS]:
        return broken(m), 0
    return owner, port


@leaf
def end_of(m: Words, dim: int, owner: int, port: int) -> int:
    """The place where a link ends."""
    kind = m[dim + at.DIM_KIND]
    members = m[dim + at.DIM_MEMBERS]
    if kind != ADDED:
        return _ends(kind, owner, port, members)[1]
    packed = called(m[dim + at.DIM_ENDS], owner, port, members)
    if packed < 0:
        return broken(m)
    return packed & LARGEST


@leaf
def hops_between(m: Words, dim: int, a: int, b: int) -> int:
    """The links of the whole route between two members of a dimension."""
    kind = m[dim + at.DIM_KIND]
    members = m[dim + at.DIM_MEMBERS]
    if kind != ADDED:
        return _hops(kind, a, b, members)
    return called(m[dim + at.DIM_HOPS], a, b, members)


@leaf
def broken(m: Words) -> int:
    """Fail the run: a topology names a link or a place that it does not have."""
    if m[at.ERROR] == 0:
        m[at.ERROR] = at.BROKEN_ROUTE
    return 0
