"""What `bind` gives: the job with what was measured, and how much of it that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.text.shown import Shown
from chakrasim.trace.job.job import Job

FORMAT: Final = "chakrasim-bind/1"


@dataclass(frozen=True)
class BoundTrace:
    """One distinct trace of the captured job.

    Attributes
    ----------
    ranks: how many ranks run it; ``first``: the first of them.
    recorded: the recorded ranks that it was measured on.
    samples: their steps.
    computing, matched: its compute nodes, and those of them that are measured.
    captured, recorded_calls: nodes, and calls of the recorded step, by how they fare.
    work_ns: time of the measured compute nodes; ``gap_ns``: the part of it that is the host's between operators.
    left_ns: time of kernels of the recorded step that belong to no node, the median of steps.
    without_kernel: compute nodes whose recorded operator launched no kernel.
    launches: nodes that know when the host has launched them.
    transfers: collectives and messages that are measured.
    scale: what the medians of nodes were multiplied with, so that they sum to the median step's work.
    """

    ranks: int
    first: int
    recorded: tuple[int, ...]
    samples: int
    computing: int
    matched: int
    captured: Mapping[str, int]
    recorded_calls: Mapping[str, int]
    work_ns: int
    gap_ns: int
    left_ns: int
    without_kernel: int
    launches: int
    transfers: int
    scale: float

    @property
    def share(self) -> float:
        """The measured share of the compute nodes."""
        return self.matched / self.computing if self.computing else 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "ranks": self.ranks,
            "first_rank": self.first,
            "recorded_ranks": list(self.recorded),
            "samples": self.samples,
            "compute_nodes": self.computing,
            "measured": self.matched,
            "share": round(self.share, 6),
            "nodes": dict(self.captured),
            "recorded_calls": dict(self.recorded_calls),
            "work_ns": self.work_ns,
            "host_gap_ns": self.gap_ns,
            "kernels_left_ns": self.left_ns,
            "without_kernel": self.without_kernel,
            "launches": self.launches,
            "transfers": self.transfers,
            "scale": round(self.scale, 6),
        }


@dataclass(frozen=True, eq=False)
class Bound(Shown):
    """A captured job with measured durations.

    Attributes
    ----------
    job: the job.
    source, measured: what it was made of.
    recorded_ranks: how many ranks were recorded; ``steps``: numbers of the steps (-1: the whole of a trace without).
    traces: one entry for each distinct trace of the job.
    warnings: what has to be known.
    """

    job: Job
    source: str
    measured: str
    recorded_ranks: int
    steps: tuple[int, ...]
    traces: tuple[BoundTrace, ...]
    warnings: tuple[str, ...]

    def _in_short(self) -> dict[str, str]:
        matched, nodes = (sum(getattr(one, name) for one in self.traces) for name in ("matched", "computing"))
        return {"ranks": f"{self.job.ranks:,}", "measured nodes": f"{matched:,} of {nodes:,}"}

    def to_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "format": FORMAT,
            "source": self.source,
            "measured": self.measured,
            "ranks": self.job.ranks,
            "recorded_ranks": self.recorded_ranks,
            "steps": list(self.steps),
            "traces": [one.to_json() for one in self.traces],
            "warnings": list(self.warnings),
        }
