"""Traces of PyTorch programs: observed while they run, or captured without hardware. Needs PyTorch."""

from typing import TYPE_CHECKING

from chakrasim.lazy import lazily

if TYPE_CHECKING:
    from chakrasim.collect.capturing.api import Capture, capture
    from chakrasim.collect.observing.observation import Steps, observe

__all__ = ["Capture", "Steps", "capture", "observe"]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "capturing.api": ("Capture", "capture"),
        "observing.observation": ("Steps", "observe"),
    },
)
