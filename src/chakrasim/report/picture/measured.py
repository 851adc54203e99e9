"""Results that have predictions beside what was measured, as pairs for their picture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chakrasim.report.picture.agreement import Pair, agreement_svg
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import size_text
from chakrasim.validation.megatron import Validation
from chakrasim.validation.scoreboard.api import Scoreboard
from chakrasim.validation.steps.api import StepsBoard
from chakrasim.validation.steps.calibrate import StepsCalibration

Measured = SimulationResult | Validation | StepsBoard | Scoreboard | StepsCalibration


def agreement_of(result: Measured) -> str:
    """The picture. Raises InputError where nothing was measured."""
    return agreement_svg(pairs_of(result), "simulated" if isinstance(result, SimulationResult) else "predicted")


def pairs_of(result: Measured) -> list[Pair]:
    """Every prediction beside its measured time."""
    match result:
        case SimulationResult():
            return list(_profiler_steps(result))
        case Validation():
            return [Pair(one.run.name, 1e9 * one.run.seconds, 1e9 * one.seconds) for one in result.predictions]
        case StepsBoard():
            return [
                Pair(one.row.id, 1e9 * one.measured_s, 1e9 * one.predicted_s, 1e9 * one.low_s, 1e9 * one.high_s)
                for one in result.predictions
                if one.measured_s is not None
            ]
        case StepsCalibration():
            return [Pair(one.id, 1e9 * one.measured_s, 1e9 * one.best_s) for one in result.steps]
    return list(_collectives(result))


def _profiler_steps(result: SimulationResult) -> Iterator[Pair]:
    """Steps of a recorded job beside their simulation."""
    for one in result.steps:
        name = f"rank {one.rank}" + ("" if one.step is None else f", step {one.step}")
        yield Pair(name, one.measured_ns, one.simulated_ns)


def _collectives(board: Scoreboard) -> Iterator[Pair]:
    """Points of curves that count for pooled figures, each named by its curve and size."""
    rows = board.predictions
    rows = rows.some(rows.known & np.array([*board.pooled, False], np.bool_)[rows.curve])
    columns = (rows.curve, rows.bytes, rows.time_us, rows.predicted_us, rows.low_us, rows.high_us)
    for curve, size, measured, predicted, low, high in zip(*(column.tolist() for column in columns), strict=True):
        name = rows.curves[curve].curve.name
        said = f"{name} {size_text(size)}"
        yield Pair(said, 1e3 * measured, 1e3 * predicted, 1e3 * low, 1e3 * high, name)
