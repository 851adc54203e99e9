"""Running the communication of a trace for real, on ``torch.distributed``. Names are loaded when first used."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.replay.api import plan_replay, replay
    from chakrasim.replay.result import ReplayResult

__all__ = ["ReplayResult", "plan_replay", "replay"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "api": ("plan_replay", "replay"),
        "result": ("ReplayResult",),
    },
)
