"""Collective algorithms: a request in, the message schedule of every member out, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

_OF_SCHEDULE = [
    "NO_GATE",
    "Collective",
    "Op",
    "Peer",
    "Program",
    "Request",
    "Row",
    "Schedule",
    "ScheduleError",
    "uniform",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'chakrasim.collectives' has no attribute {name!r}")
    from importlib import import_module

    home = "schedule" if name in _OF_SCHEDULE else "registry"
    return getattr(import_module(f"chakrasim.collectives.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
