"""Collective algorithms: a request in, the message schedule of every member out, as pure functions."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.collectives.registry import (
        Algorithm,
        Traits,
        build,
        is_known,
        known_algorithms,
        register,
        registered,
        traits_of,
    )
    from chakrasim.collectives.schedule import (
        NO_GATE,
        Collective,
        Op,
        Peer,
        Program,
        Request,
        Row,
        Schedule,
        ScheduleError,
        uniform,
    )

__all__ = [
    "NO_GATE",
    "Algorithm",
    "Collective",
    "Op",
    "Peer",
    "Program",
    "Request",
    "Row",
    "Schedule",
    "ScheduleError",
    "Traits",
    "build",
    "is_known",
    "known_algorithms",
    "register",
    "registered",
    "traits_of",
    "uniform",
]

_OF_REGISTRY = {"Algorithm", "Traits", "build", "is_known", "known_algorithms", "register", "registered", "traits_of"}

__getattr__, __dir__ = lazily(__name__, {"registry": _OF_REGISTRY, "schedule": {*__all__} - _OF_REGISTRY})
