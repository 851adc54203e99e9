"""Algorithms by name: those of the package, and any that are registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chakrasim.collectives import direct, double_binary_tree, halving_doubling, ring, rooted
from chakrasim.collectives.packets import NATIVE
from chakrasim.collectives.schedule import ROOTED, Request, Schedule, ScheduleError

Algorithm = Callable[[Request], Schedule]
"""Turns a request into a schedule: a pure function of it. Raises ``ScheduleError`` for what it cannot do."""

_ALGORITHMS: dict[str, Algorithm] = {}


def register(name: str, function: Algorithm | None = None) -> Callable[[Algorithm], Algorithm]:
    """Make an algorithm known under ``name``: ``register("mine", schedule)`` or ``@register("mine")``.

    A name can be given once only (a second registration of the same function is allowed).
    """

    def add(algorithm: Algorithm) -> Algorithm:
        if not name:
            raise ValueError("a collective algorithm needs a name")
        if _ALGORITHMS.setdefault(name, algorithm) is not algorithm:
            raise ValueError(f"a collective algorithm named {name!r} is registered already")
        return algorithm

    if function is not None:
        add(function)
    return add


@contextmanager
def registered(name: str, function: Algorithm) -> Iterator[None]:
    """An algorithm known only inside a ``with`` block, for tests and notebooks."""
    register(name, function)
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


def build(name: str, request: Request) -> Schedule:
    """The schedule of one phase by the algorithm ``name``.

    Raises ``ScheduleError`` for an unknown name, a request that makes no sense, or one that the algorithm cannot do.
    """
    algorithm = _ALGORITHMS.get(name)
    if algorithm is None:
        raise ScheduleError(
            "unknown collective algorithm", found=repr(name), expected=f"one of {', '.join(known_algorithms())}"
        )
    _check(request)
    return algorithm(request)


def _check(request: Request) -> None:
    if request.members < 2:
        raise ScheduleError("a collective phase needs at least 2 members", found=request.members)
    if request.data_bytes < 0:
        raise ScheduleError("a collective cannot have a negative size", found=f"{request.data_bytes} bytes")
    if not 0 <= request.root < request.members:
        raise ScheduleError(
            "the root is not a member of the group", found=request.root, expected=f"0 to {request.members - 1}"
        )


def _native(name: str, function: Algorithm, rooted_function: Algorithm | None) -> None:
    """Register a built-in algorithm, which leaves rooted collectives to ``rooted_function``."""

    def schedule(request: Request) -> Schedule:
        if request.collective in NATIVE:
            return function(request)
        if request.collective in ROOTED and rooted_function is not None:
            return rooted_function(request)
        raise ScheduleError(
            f"{name} has no {request.collective.name.lower().replace('_', '-')}",
            expected="ring or direct for rooted collectives and the barrier",
        )

    register(name, schedule)


for _name, _function, _rooted in (
    ("ring", ring.schedule, rooted.ring_schedule),
    ("direct", direct.schedule, rooted.direct_schedule),
    ("halvingDoubling", halving_doubling.schedule, None),
    ("doubleBinaryTree", double_binary_tree.schedule, None),
):
    _native(_name, _function, _rooted)
    if _name != "doubleBinaryTree":
        _native(f"one{_name[0].upper()}{_name[1:]}", _function, _rooted)
