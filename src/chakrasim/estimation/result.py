"""A step's time with its interval, and what is worth knowing beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chakrasim.estimation.parts import seconds_by_state
from chakrasim.estimation.uncertainty import Doubts
from chakrasim.files.picture import Plotted
from chakrasim.machine.device.power import Energy, Power
from chakrasim.text.amounts import share_text, size_text, time_text


@dataclass(frozen=True)
class LimitingLink:
    """The link with the most load: its name, the share of the step in which it carries what it can, who uses it."""

    name: str
    busy_share: float
    used_by: str


@dataclass(frozen=True)
class StepEstimate(Plotted):
    """The outcome of ``chakrasim.estimate``, and what a simulated job says of a step.

    Attributes
    ----------
    model, machine, split: what was asked for: the model, the machine, how ranks share the model, in words.
    gpus: how many there are.
    step_s, low_s, high_s: the time of a step, and what nine measured ones of ten lie between; NaN where nobody knows.
    tokens: of a step, over all GPUs; None where nobody says it.
    model_flops: operations of a step that the model needs, over all GPUs, nothing computed twice; None of programs.
    peak_flops: of a GPU, dense, in the type of the step: what ``mfu`` and ``hfu`` are shares of.
    memory_bytes, memory_capacity_bytes: of the fullest GPU at its peak, without buffers of communication and workspaces
        of kernels, and what it has.
    parts_s: where the time of the slowest rank goes; sums to ``step_s``.
    rank: that rank.
    link: the one with the most load, if there is any.
    doubts: what the interval was made from.
    assumed: what was not said, in words.
    run_flops: operations of all operators as they run, over all GPUs; None unless a program was captured.
    power: what a GPU draws with its share of the node; None where its profile does not say.
    """

    model: str
    machine: str
    split: str
    gpus: int
    step_s: float
    low_s: float
    high_s: float
    tokens: int | None
    model_flops: int | None
    peak_flops: float
    memory_bytes: int
    memory_capacity_bytes: int
    parts_s: Mapping[str, float]
    rank: int
    link: LimitingLink | None
    doubts: Doubts
    assumed: tuple[str, ...] = ()
    run_flops: int | None = None
    power: Power | None = None

    @property
    def interval_text(self) -> str:
        """The interval for people."""
        if math.isnan(self.low_s):
            return "none: kernels as the profile has them, without what frameworks make of them"
        return f"{time_text(1e9 * self.low_s)} to {time_text(1e9 * self.high_s)}"

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens a second of each GPU; NaN where nobody says how many a step has."""
        return _or_nan(self.tokens) / self.step_s / self.gpus

    @property
    def tflops_per_gpu(self) -> float:
        """10^12 of the model's operations a second of each GPU; of those that run where the model's are not known."""
        flops = self.run_flops if self.model_flops is None else self.model_flops
        return _or_nan(flops) / self.step_s / self.gpus / 1e12

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: the share of the dense peak that the model's operations make use of, or NaN."""
        return _or_nan(self.model_flops) / self.step_s / self.gpus / self.peak_flops

    @property
    def hfu(self) -> float:
        """Hardware FLOPs utilization: the share that all operations as they run make use of; NaN where unknown."""
        return _or_nan(self.run_flops) / self.step_s / self.gpus / self.peak_flops

    @property
    def energy(self) -> Energy | None:
        """Of each GPU with its share of the node, if all spend the step as the slowest rank does; None without
        `power`. No public step has both its energy and its times measured: this is not validated."""
        return None if self.power is None else self.power.energy(seconds_by_state(self.parts_s))

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU's memory suffices."""
        return self.memory_bytes <= self.memory_capacity_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain values, as ``chakrasim estimate --json`` writes them."""
        figures = ("step_s", "low_s", "high_s", "tokens_per_s_per_gpu", "mfu", "hfu", "tflops_per_gpu")
        link, energy = self.link, self.energy
        joules = (None, None, None) if energy is None else (energy.joules, energy.low, energy.high)
        of_all = zip(("energy_j", "energy_low_j", "energy_high_j"), joules, strict=True)
        return {
            **{name: None if math.isnan(getattr(self, name)) else _short(getattr(self, name)) for name in figures},
            "model": self.model,
            "machine": self.machine,
            "split": self.split,
            "gpus": self.gpus,
            "tokens": self.tokens,
            "model_flops": self.model_flops,
            "run_flops": self.run_flops,
            "memory_bytes": self.memory_bytes,
            "memory_capacity_bytes": self.memory_capacity_bytes,
            "fits": self.fits,
            **{name: None if value is None else _short(value * self.gpus) for name, value in of_all},
            "energy_j_per_gpu": None if energy is None else _short(energy.joules),
            "parts_s": {name: round(value, 9) for name, value in self.parts_s.items()},
            "slowest_rank": self.rank,
            "link": link and {"name": link.name, "busy_share": _short(link.busy_share), "used_by": link.used_by},
            "assumed": list(self.assumed),
        }

    def _in_short(self) -> dict[str, str]:
        known = {} if self.tokens is None else {"tokens/s/GPU": f"{self.tokens_per_s_per_gpu:,.0f}"}
        used = {"HFU": self.hfu} if self.model_flops is None else {"MFU": self.mfu}
        return {
            "step": time_text(1e9 * self.step_s),
            "90 % interval": self.interval_text,
            **known,
            **{name: share_text(share, 1.0) for name, share in used.items()},
            "memory": f"{size_text(self.memory_bytes)} of {size_text(self.memory_capacity_bytes)}",
        }


def _or_nan(value: int | None) -> float:
    return math.nan if value is None else value


def _short(value: float) -> float:
    """Without the digits that no prediction has."""
    return float(f"{value:.9g}")
