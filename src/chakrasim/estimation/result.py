"""A step's time with its interval, and what is worth knowing beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chakrasim.estimation.uncertainty import Doubts
from chakrasim.text.amounts import share_text, size_text, time_text
from chakrasim.text.shown import Shown


@dataclass(frozen=True)
class LimitingLink:
    """The link with the most load: its name, the share of the step in which it carries what it can, who uses it."""

    name: str
    busy_share: float
    used_by: str


@dataclass(frozen=True)
class StepEstimate(Shown):
    """The outcome of ``chakrasim.estimate``.

    Attributes
    ----------
    model, machine, split: what was asked for: the model, the machine, how ranks share the model, in words.
    gpus: how many there are.
    step_s, low_s, high_s: the time of a step, and what nine measured ones of ten lie between; NaN where nobody knows.
    tokens: of a step, over all GPUs.
    model_flops: operations of a step that the model needs, over all GPUs, nothing computed twice.
    peak_flops: of a GPU, dense, in the type of the step: what ``mfu`` is a share of.
    memory_bytes, memory_capacity_bytes: of the fullest GPU at its peak, without buffers of communication and workspaces
        of kernels, and what it has.
    parts_s: where the time of the slowest rank goes; sums to ``step_s``.
    rank: that rank.
    link: the one with the most load, if there is any.
    doubts: what the interval was made from.
    assumed: what was not said, in words.
    """

    model: str
    machine: str
    split: str
    gpus: int
    step_s: float
    low_s: float
    high_s: float
    tokens: int
    model_flops: int
    peak_flops: float
    memory_bytes: int
    memory_capacity_bytes: int
    parts_s: Mapping[str, float]
    rank: int
    link: LimitingLink | None
    doubts: Doubts
    assumed: tuple[str, ...] = ()

    @property
    def interval_text(self) -> str:
        """The interval for people."""
        if math.isnan(self.low_s):
            return "none: kernels as the profile has them, without what frameworks make of them"
        return f"{time_text(1e9 * self.low_s)} to {time_text(1e9 * self.high_s)}"

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens a second of each GPU."""
        return self.tokens / self.step_s / self.gpus

    @property
    def tflops_per_gpu(self) -> float:
        """10^12 of the model's operations a second of each GPU."""
        return self.model_flops / self.step_s / self.gpus / 1e12

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: the share of the dense peak that the model's operations make use of."""
        return self.tflops_per_gpu * 1e12 / self.peak_flops

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU's memory suffices."""
        return self.memory_bytes <= self.memory_capacity_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim estimate --json`` writes them."""
        figures = ("step_s", "low_s", "high_s", "tokens_per_s_per_gpu", "mfu", "tflops_per_gpu")
        link = self.link
        return {
            **{name: None if math.isnan(getattr(self, name)) else _short(getattr(self, name)) for name in figures},
            "model": self.model,
            "machine": self.machine,
            "split": self.split,
            "gpus": self.gpus,
            "tokens": self.tokens,
            "model_flops": self.model_flops,
            "memory_bytes": self.memory_bytes,
            "memory_capacity_bytes": self.memory_capacity_bytes,
            "fits": self.fits,
            "parts_s": {name: round(value, 9) for name, value in self.parts_s.items()},
            "slowest_rank": self.rank,
            "link": link and {"name": link.name, "busy_share": _short(link.busy_share), "used_by": link.used_by},
            "assumed": list(self.assumed),
        }

    def _in_short(self) -> dict[str, str]:
        return {
            "step": time_text(1e9 * self.step_s),
            "90 % interval": self.interval_text,
            "tokens/s/GPU": f"{self.tokens_per_s_per_gpu:,.0f}",
            "MFU": share_text(self.mfu, 1.0),
            "memory": f"{size_text(self.memory_bytes)} of {size_text(self.memory_capacity_bytes)}",
        }


def _short(value: float) -> float:
    """Without the digits that no prediction has."""
    return float(f"{value:.9g}")
