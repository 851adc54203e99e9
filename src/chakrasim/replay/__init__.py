"""Running the communication of a trace for real, on ``torch.distributed``. Names are loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chakrasim.replay.api import plan_replay, replay
    from chakrasim.replay.result import ReplayResult

_HOMES = {"replay": "api", "plan_replay": "api", "ReplayResult": "result"}

__all__ = ["ReplayResult", "plan_replay", "replay"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'chakrasim.replay' has no attribute {name!r}")
    return getattr(import_module(f"chakrasim.replay.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
