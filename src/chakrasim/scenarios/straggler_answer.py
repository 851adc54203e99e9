"""What is asked of a job whose steps were recorded, answered at once: stragglers, changes, distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chakrasim.notes import Notes
from chakrasim.scenarios.changes import Beside, changed, with_changes
from chakrasim.scenarios.distribution import StepDistribution, learn
from chakrasim.scenarios.operations import Operations
from chakrasim.scenarios.recorded_steps import replay_of
from chakrasim.scenarios.stragglers import Stragglers, stragglers


@dataclass(frozen=True, eq=False)
class StragglerAnswer:
    """``found``: what stragglers cost; ``beside``: the steps with changes; ``drawn`` and ``drawn_after``: the time of a
    step as a distribution, without and with them. None for what was not asked."""

    found: Stragglers
    beside: Beside | None = None
    drawn: StepDistribution | None = None
    drawn_after: StepDistribution | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        content = self.found.to_dict()
        if self.beside is not None:
            content["what_if"] = self.beside.to_dict()
        if self.drawn is not None:
            content["distribution"] = self.drawn.to_dict()
            if self.drawn_after is not None:
                content["distribution"]["after"] = self.drawn_after.to_dict()
                saved = StepDistribution(
                    self.drawn.time_s - self.drawn_after.time_s, self.drawn.learned, self.drawn.block
                )
                content["distribution"]["saved"] = saved.to_dict()
        return content


def answer_stragglers(
    rows: Operations, *, changes: Sequence[str] = (), draws: int | None = None, seed: int = 0,
    notes: Notes | None = None,
) -> StragglerAnswer:  # fmt: skip
    """The analysis of stragglers; with ``changes`` (see `chakrasim.scenarios.changes.changed`), the steps with them;
    with ``draws``, as many drawn steps (0: as many as the median needs). Raises `InputError`."""
    replay = replay_of(rows)
    change = changed(replay, changes) if changes else None
    found = stragglers(replay)
    if notes is not None and replay.negative:
        notes.warn(
            f"{rows.file}: {replay.negative} sends, receives or collectives ended 10 ms or more before others of their "
            "meeting began; their transfers take no time"
        )
    beside = None if change is None else with_changes(replay, change)
    if draws is None:
        return StragglerAnswer(found, beside)
    model = learn(replay)
    drawn = model.draw(draws, seed) if draws else model.draw_enough(seed)
    after = None if change is None else model.draw(len(drawn.time_s), seed, change)
    return StragglerAnswer(found, beside, drawn, after)
