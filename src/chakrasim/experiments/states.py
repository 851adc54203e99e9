"""Where a step's time goes, in three parts that all kinds of results have: columns of an experiment's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chakrasim.estimation.parts import seconds_by_state, slowest
from chakrasim.experiments.result import SECONDS
from chakrasim.machine.device.power import BUSY, COMMUNICATING, IDLE
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult

STACKED: Final = ("computing", "communicating", "waiting")
STATES: Final = tuple((name, SECONDS) for name in STACKED)
"""The columns; communication counts where nothing is computed meanwhile."""


def states_of(parts_s: Mapping[str, float]) -> tuple[float, float, float]:
    """Seconds of a step's parts in these columns."""
    found = seconds_by_state(parts_s)
    return found[BUSY], found[COMMUNICATING], found[IDLE]


def parts_of_slowest(result: SimulationResult) -> dict[str, float]:
    """Seconds by part of the rank that computes longest; what is computed beside communication is computed."""
    found = dict(zip(PARTS, (result.parts_ns[slowest(result)] / 1e9).tolist(), strict=True))
    found["compute"] += found.pop("overlap")
    return found
