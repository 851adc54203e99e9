"""Algorithms by name: those of the package, and any that are registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from chakrasim.collectives.algorithms import direct, double_binary_tree, halving_doubling, ring, rooted
from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.collectives.schedule import WITHOUT_REFERENCE, Request, Schedule, ScheduleError
from chakrasim.extensions import registered_name

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
    power_of_two:
        It is for groups of a power of two only; others are refused.
    parameters:
        Its own parameters, whole numbers, and what each is where it is not given: `Request.parameters`.
    """

    spans_all_ranks: bool = False
    alternates: bool = False
    power_of_two: bool = False
    parameters: Mapping[str, int] = field(default_factory=dict)


ENTRY_POINTS: Final = "chakrasim.algorithms"
"""The group in which installed packages declare theirs."""
_ALGORITHMS: dict[str, tuple[Algorithm, Traits]] = {}


def register(
    name: str,
    function: Algorithm | None = None,
    *,
    spans_all_ranks: bool = False,
    alternates: bool = False,
    power_of_two: bool = False,
    parameters: Mapping[str, int] | None = None,
) -> Callable[[Algorithm], Algorithm]:
    """Make an algorithm known under ``name``: ``register("mine", schedule)`` or ``@register("mine")``. The other
    arguments are its `Traits`.

    A name can be given once only (a second registration of the same function with the same traits is allowed).
    """
    traits = Traits(spans_all_ranks, alternates, power_of_two, dict(parameters or {}))

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
def registered(name: str, function: Algorithm, **traits: Any) -> Iterator[None]:
    """An algorithm known only inside a ``with`` block, for tests and notebooks; ``traits`` as `register` takes them."""
    register(name, function, **traits)
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
    """The traits of an algorithm: by its name, or ``module:name``. Raises InputError for one that is not known."""
    return _ALGORITHMS[registered_name(name, _ALGORITHMS, "algorithm", ENTRY_POINTS)][1]


def build(name: str, request: Request) -> Schedule:
    """The schedule of one phase by the algorithm ``name``, or ``module:name``.

    Raises ``ScheduleError`` for an unknown name, a request that makes no sense, or one that the algorithm cannot do.
    """
    if name not in _ALGORITHMS and ":" not in name:
        raise ScheduleError(
            "unknown collective algorithm", found=repr(name), expected=f"one of {', '.join(known_algorithms())}"
        )
    _check(request)
    traits = traits_of(name)
    members = request.members
    if traits.power_of_two and members & (members - 1):
        raise ScheduleError(f"{name} needs a group whose size is a power of two", found=f"{members} ranks")
    check_parameters(name, request.parameters)
    function = _ALGORITHMS[name.rpartition(":")[2]][0]
    return function(replace(request, parameters={**traits.parameters, **request.parameters}))


def check_parameters(name: str, given: Iterable[str]) -> None:
    """Raise ``ScheduleError`` for a parameter that an algorithm does not have."""
    known = traits_of(name).parameters
    for key in given:
        if key not in known:
            expected = f"one of {', '.join(known)}" if known else "none"
            raise ScheduleError(f"{name} has no such parameter", found=key, expected=expected)


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
