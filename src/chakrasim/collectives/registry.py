"""Algorithms by name: those of the package, and any that are registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from chakrasim.collectives.algorithms import direct, double_binary_tree, halving_doubling, ring, rooted
from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.collectives.schedule import WITHOUT_REFERENCE, Request, Schedule, ScheduleError

Algorithm = Callable[[Request], Schedule]
"""Turns a request into a schedule: a pure function of it. Raises ``ScheduleError`` for what it cannot do."""


@dataclass(frozen=True)
class Traits:
    """What the simulator has to know of an algorithm beside its schedules; nothing follows from its name.

    Parameters
    ----------
    spans_all_ranks:
        It takes all ranks at once, in one phase, instead of one dimension of the network after the other.
    alternates:
        Chunks take variants 0 and 1 of its schedule by turns, as the two trees of a double binary tree; else they take
        them by queue, clockwise and anticlockwise.
    """

    spans_all_ranks: bool = False
    alternates: bool = False


_ALGORITHMS: dict[str, tuple[Algorithm, Traits]] = {}


def register(
    name: str, function: Algorithm | None = None, *, spans_all_ranks: bool = False, alternates: bool = False
) -> Callable[[Algorithm], Algorithm]:
    """Make an algorithm known under ``name``: ``register("mine", schedule)`` or ``@register("mine")``. The switches are
    its `Traits`.

    A name can be given once only (a second registration of the same function with the same traits is allowed).
    """
    traits = Traits(spans_all_ranks, alternates)

    def add(algorithm: Algorithm) -> Algorithm:
        if not name:
            raise ValueError("a collective algorithm needs a name")
        known, stated = _ALGORITHMS.setdefault(name, (algorithm, traits))
        if known is not algorithm or stated != traits:
            raise ValueError(f"a collective algorithm named {name!r} is registered already")
        return algorithm

    if function is not None:
        add(function)
    return add


@contextmanager
def registered(
    name: str, function: Algorithm, *, spans_all_ranks: bool = False, alternates: bool = False
) -> Iterator[None]:
    """An algorithm known only inside a ``with`` block, for tests and notebooks."""
    register(name, function, spans_all_ranks=spans_all_ranks, alternates=alternates)
    try:
        yield
    finally:
        del _ALGORITHMS[name]


def known_algorithms() -> tuple[str, ...]:
    """All names that :func:`build` knows, sorted."""
    return tuple(sorted(_ALGORITHMS))


def is_known(name: str) -> bool:
    """Whether :func:`build` knows ``name``."""
    return name in _ALGORITHMS


def traits_of(name: str) -> Traits:
    """The traits of an algorithm; none, if the name is not known."""
    return _ALGORITHMS[name][1] if name in _ALGORITHMS else Traits()


def build(name: str, request: Request) -> Schedule:
    """The schedule of one phase by the algorithm ``name``.

    Raises ``ScheduleError`` for an unknown name, a request that makes no sense, or one that the algorithm cannot do.
    """
    if name not in _ALGORITHMS:
        raise ScheduleError(
            "unknown collective algorithm", found=repr(name), expected=f"one of {', '.join(known_algorithms())}"
        )
    _check(request)
    return _ALGORITHMS[name][0](request)


def _check(request: Request) -> None:
    if request.members < 2:
        raise ScheduleError("a collective phase needs at least 2 members", found=request.members)
    if request.data_bytes < 0:
        raise ScheduleError("a collective cannot have a negative size", found=f"{request.data_bytes} bytes")
    if not 0 <= request.root < request.members:
        raise ScheduleError(
            "the root is not a member of the group", found=request.root, expected=f"0 to {request.members - 1}"
        )


def _native(name: str, function: Algorithm, rooted_function: Algorithm | None, traits: Traits) -> None:
    """Register a built-in algorithm, which leaves rooted collectives to ``rooted_function``."""

    def schedule(request: Request) -> Schedule:
        if request.collective not in WITHOUT_REFERENCE:
            return function(request)
        if rooted_function is not None:
            return rooted_function(request)
        raise ScheduleError(
            f"{name} has no {COLLECTIVE_KEYS[request.collective]}",
            expected="ring or direct for rooted collectives and the barrier",
        )

    register(name, schedule, spans_all_ranks=traits.spans_all_ranks, alternates=traits.alternates)


for _name, _function, _rooted in (
    ("ring", ring.schedule, rooted.ring_schedule),
    ("direct", direct.schedule, rooted.direct_schedule),
    ("halvingDoubling", halving_doubling.schedule, None),
):
    _native(_name, _function, _rooted, Traits())
    _native(f"one{_name[0].upper()}{_name[1:]}", _function, _rooted, Traits(spans_all_ranks=True))
_native("doubleBinaryTree", double_binary_tree.schedule, None, Traits(alternates=True))
