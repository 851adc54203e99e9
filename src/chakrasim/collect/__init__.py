"""Traces of PyTorch programs: observed while they run, or captured without hardware. Needs PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chakrasim.collect.capturing.api import Capture, capture
    from chakrasim.collect.observing.observation import Steps, observe

_HOMES = {
    "Capture": "chakrasim.collect.capturing.api",
    "capture": "chakrasim.collect.capturing.api",
    "Steps": "chakrasim.collect.observing.observation",
    "observe": "chakrasim.collect.observing.observation",
}

__all__ = ["Capture", "Steps", "capture", "observe"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim.collect' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
