"""The picture of a result, whatever it is: what ``plot()`` of results shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from chakrasim.analysis.memory import MemorySeries
from chakrasim.comparison.result import Comparison
from chakrasim.errors import InputError
from chakrasim.estimation.result import StepEstimate
from chakrasim.report.picture.axes import Figure
from chakrasim.report.picture.gantt import gantt_svg
from chakrasim.report.picture.measured import Measured, agreement_of
from chakrasim.report.picture.memory import memory_of, recorded_memory_svg
from chakrasim.report.picture.roofline import roofline_svg
from chakrasim.report.picture.scatter import Dot, scatter_svg
from chakrasim.report.picture.waterfall import Bar, waterfall_svg
from chakrasim.report.tables.answers.comparison import signed, verdict_text
from chakrasim.report.tables.answers.sweep import drawn_points, figure_of, point_name
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.sweeps.sweep import SweepResult
from chakrasim.text.amounts import number_text, plural, share_text, size_text, time_text

MOST_CAUSES: Final = 20
_FIGURES: Final = {
    "step_s": Figure("step", lambda seconds: time_text(1e9 * seconds)),
    "gpus": Figure("GPUs", number_text),
    "memory_bytes": Figure("memory of the fullest GPU", size_text, 2**30),
    "energy_j": Figure("energy", lambda joules: f"{number_text(joules / 1e3)} kJ"),
    "money": Figure("money", number_text),
}


_OF_SIMULATIONS: Final[dict[str, Callable[[SimulationResult], str]]] = {
    "roofline": roofline_svg,
    "measured": agreement_of,
}
SIMULATED: Final = ("ranks", "memory", *_OF_SIMULATIONS)
"""Pictures of a simulation; the first is the one that is shown unless another is asked for."""


def plot_svg(
    result: object, what: str | None = None, *, ranks: Sequence[int] | None = None, beside: str | None = None
) -> str:
    """The picture. Raises InputError for options of other results, and where there is nothing to draw."""
    for name, value, kind in (("ranks", ranks, SimulationResult), ("beside", beside, SweepResult)):
        if value is not None and not isinstance(result, kind):
            raise InputError(f"{name} is of a {kind.__name__}", found=type(result).__name__, remedy="leave it out")
    if isinstance(result, SimulationResult):
        return _simulation(result, what or SIMULATED[0], ranks)
    if what is not None:
        raise InputError("there is one picture of this", found=repr(what), remedy="leave it out")
    match result:
        case StepEstimate():
            return _estimate(result)
        case SweepResult():
            return _sweep(result, beside)
        case Comparison():
            return _comparison(result)
        case MemorySeries():
            return recorded_memory_svg(result)
    if isinstance(result, Measured):
        return agreement_of(result)
    raise InputError("there is no picture of this", found=type(result).__name__)


def _simulation(result: SimulationResult, what: str, ranks: Sequence[int] | None) -> str:
    if what == "ranks":
        return gantt_svg(result, ranks)
    if what == "memory":
        return memory_of(result, ranks)
    if what not in _OF_SIMULATIONS:
        raise InputError("no such picture of a simulation", found=repr(what), expected=", ".join(SIMULATED))
    if ranks is not None:
        raise InputError("this picture is of all ranks", found=what, remedy="leave ranks out")
    return _OF_SIMULATIONS[what](result)


def _estimate(found: StepEstimate) -> str:
    """The parts one after another, and the step, which they sum to."""
    whole = found.step_s
    bars = [
        Bar(name, 1e9 * value, f"{time_text(1e9 * value)}, {share_text(value, whole)}")
        for name, value in found.parts_s.items()
        if value
    ]
    title = (
        f"{found.model} on {found.gpus:,} GPUs of {found.machine}, {found.split}: where rank {found.rank}'s time goes"
    )
    return waterfall_svg(title, bars, Bar("a step", 1e9 * whole, time_text(1e9 * whole)),
                         f"90 % interval: {found.interval_text}")  # fmt: skip


def _comparison(found: Comparison) -> str:
    """The first causes one after another, the others as one, and the difference, which they sum to."""
    if not found.difference_ns and not any(one.difference_ns for one in found.causes):
        raise InputError("there is nothing to draw: both runs take the same time, in every part")
    bars = []
    for one in found.causes[:MOST_CAUSES]:
        name = one.group if one.name == one.group else f"{one.group}: {one.name}"
        bars.append(Bar(name, one.difference_ns, signed(one.difference_ns)))
    rest = found.causes[MOST_CAUSES:]
    if rest:
        others = sum(one.difference_ns for one in rest)
        bars.append(Bar(plural(len(rest), "other cause"), others, signed(others)))
    whole = Bar("B less A", found.difference_ns, signed(found.difference_ns))
    return waterfall_svg(verdict_text(found), [bar for bar in bars if bar.length], whole)


def _sweep(found: SweepResult, beside: str | None) -> str:
    """Every point that goes (the fastest of many) with the front above the others."""
    rows, left = drawn_points(found)
    if beside is not None and (beside not in _FIGURES or beside == "step_s"):
        raise InputError("no such figure of a sweep", found=beside,
                         expected=", ".join(name for name in _FIGURES if name != "step_s"))  # fmt: skip
    goals = [beside] if beside else [goal for goal in found.space.front if goal != "step_s"]
    figures = {goal: [figure_of(found.outcomes[row], goal) for row in rows] for goal in goals}
    # Of a figure that is the same everywhere nothing can be seen.
    goal = next((goal for goal in goals if len({*figures[goal]} - {None}) > 1), goals[0] if goals else "gpus")
    front = {*found.front}
    dots, unknown = [], 0
    for row in rows:
        x, y = (figure_of(found.outcomes[row], name) for name in ("step_s", goal))
        if x is None or y is None:
            unknown += 1
            continue
        dots.append(Dot(x, y, point_name(found, row), row in front))
    if not dots:
        raise InputError("there is nothing to draw", found=f"{found.going:,} points that go, "
                         f"{unknown:,} of them without the figure {goal}")  # fmt: skip
    notes = [f"on the front: {sum(dot.marked for dot in dots):,} of {len(dots):,} points"]
    notes += [f"{left:,} slower ones left out"] if left else []
    notes += [f"{unknown:,} without this figure left out"] if unknown else []
    return scatter_svg(dots, _FIGURES["step_s"], _FIGURES[goal], "; ".join(notes))
