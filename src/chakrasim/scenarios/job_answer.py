"""What is asked of a simulated or replayed job, answered at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chakrasim.explanation.job_events import UNFOLDED_NODES
from chakrasim.scenarios.asked import Asked
from chakrasim.scenarios.job_stragglers import Chances, Drawn, JobStragglers, drawn, job_stragglers
from chakrasim.scenarios.simulated import Outcome, SimulatedScenarios
from chakrasim.simulator.outcome.result import SimulationResult


@dataclass(frozen=True, eq=False)
class JobAnswer:
    """``before_ns``: the makespan of the job as it is; the rest is None or empty where it was not asked."""

    before_ns: int
    outcome: Outcome | None
    scenarios: tuple[Outcome, ...]
    stragglers: JobStragglers | None
    drawn: Drawn | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found: dict[str, Any] = {"before_ns": self.before_ns}
        if self.outcome is not None:
            found |= self.outcome.to_dict()
        if self.scenarios:
            found["scenarios"] = [one.to_dict() for one in self.scenarios]
        if self.stragglers is not None:
            found["stragglers"] = self.stragglers.to_dict()
        if self.drawn is not None:
            found["distribution"] = self.drawn.to_dict()
        return found


def ask_job(
    before: SimulationResult,
    other: SimulationResult | None = None,
    asked: Sequence[Asked] = (),
    *,
    said: Sequence[str] = (),
    scenarios: Sequence[Sequence[Asked]] = (),
    stragglers: bool = False,
    chances: Chances | None = None,
    draws: int = 1000,
    seed: int = 0,
    unfolded_nodes: int | None = None,
) -> JobAnswer:
    """Answers about a job.

    ``other`` is its run elsewhere, of which ``said`` says what is different; changes that are ``asked`` are then of
    that. ``scenarios`` are each by themselves, of the job as it is, by the order in which things happened. Chances and
    stragglers are of the job with what was asked. Raises InputError.
    """
    limit = UNFOLDED_NODES if unfolded_nodes is None else unfolded_nodes
    here = SimulatedScenarios(before, limit)
    there = here if other is None else SimulatedScenarios(other, limit)
    outcome = None
    if asked or other is not None:
        own = there.outcomes([asked])[0] if asked else None
        after = own.after_ns if own is not None else float(there.result.makespan_ns)
        by_engine = own is None or own.by_engine
        texts = (*said, *(one.text for one in asked))
        outcome = Outcome(texts, before.makespan_ns, after, by_engine)
    return JobAnswer(
        before.makespan_ns,
        outcome,
        tuple(here.outcomes(scenarios, engine=False)) if scenarios else (),
        job_stragglers(there) if stragglers else None,
        None if chances is None else drawn(there, there.durations(asked), chances, draws, seed),
    )
