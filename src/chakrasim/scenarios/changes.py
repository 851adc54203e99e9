"""Recorded operations made faster, slower or ideal: what is asked for, and the steps with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError, near
from chakrasim.scenarios.asked import asked_of
from chakrasim.scenarios.operations import COMMUNICATION, COMPUTATION, KINDS, Ints
from chakrasim.scenarios.recorded_steps import Mask, Replay, Times

_WORDS: Final = ("all", "computation", "communication", *KINDS)
_PLACES: Final = "stage:N, dp_rank:N, worker:DP/STAGE"


@dataclass(frozen=True, eq=False)
class Changed:
    """``asked``: what was changed. ``ideal`` bool[n]: which operations are ideal; ``factor`` float64[n]: how many times
    as long the others take as recorded."""

    asked: tuple[str, ...]
    ideal: Mask
    factor: Times
    ideal_s: Times

    def __call__(self, duration_s: Times) -> Times:
        """Durations float64[n, lanes] with the changes."""
        return np.where(self.ideal[:, None], self.ideal_s[:, None], duration_s * self.factor[:, None])


@dataclass(frozen=True, eq=False)
class Beside:
    """The replayed times of steps, int64[t], as recorded and with changes, float64[t]."""

    asked: tuple[str, ...]
    step: Ints
    before_s: Times
    after_s: Times

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        before, after = float(self.before_s.mean()), float(self.after_s.mean())
        rows = zip(self.step.tolist(), self.before_s.tolist(), self.after_s.tolist(), strict=True)
        return {
            "set": list(self.asked),
            "before_s": before,
            "after_s": after,
            "steps": {str(step): {"before_s": first, "after_s": second} for step, first, second in rows},
        }


def changed(replay: Replay, asked: Sequence[str]) -> Changed:
    """What texts of the form ``TARGET=FACTOR`` ask for, one after the other.

    TARGET is a kind of operation, ``computation``, ``communication``, ``all``, ``stage:N``, ``dp_rank:N`` or
    ``worker:DP/STAGE``; FACTOR is how many times as long they take, or ``ideal``. Of a send, receive or collective
    the transfer changes, not the waiting before it. Raises `InputError`.
    """
    ideal, factor = np.zeros(len(replay.kind), np.bool_), np.ones(len(replay.kind))
    for text in asked:
        one = asked_of(text)
        own = _chosen(replay, one.target, text)
        if one.factor is None:
            ideal |= own
        else:
            factor = np.where(own, factor * one.factor, factor)
            ideal &= ~own
    return Changed(tuple(asked), ideal, factor, replay.ideal_s)


def with_changes(replay: Replay, change: Changed) -> Beside:
    """Every recorded step, replayed without and with the changes."""
    recorded = np.ascontiguousarray(replay.duration_s.T)
    return Beside(change.asked, replay.steps.step, replay.times_s(recorded), replay.times_s(change(recorded)))


def _chosen(replay: Replay, target: str, whole: str) -> Mask:
    """bool[n]: the operations that a target names, one or more."""
    place = re.fullmatch(r"(stage|dp_rank|worker):([0-9]{1,9})(?:/([0-9]{1,9}))?", target, re.ASCII)
    if place is not None and (place[1] == "worker") == (place[3] is not None):
        first = int(place[2])
        own: Mask = (replay.stage if place[1] == "stage" else replay.dp_rank) == first
        if place[3] is not None:
            own = own & (replay.stage == int(place[3]))
    elif target in _WORDS:
        groups = {"all": KINDS, "computation": COMPUTATION, "communication": COMMUNICATION}
        own = np.isin(replay.kind, [KINDS.index(kind) for kind in groups.get(target, (target,))])
    else:
        raise InputError("no such target", file="--set", place=whole[:60], found=repr(target[:40]),
                         expected=", ".join((*_WORDS, _PLACES)), remedy=near(target, _WORDS) or None)  # fmt: skip
    if not own.any():
        raise InputError(
            "the trace has no such operation", file="--set", place=whole[:60],
            expected=f"dp ranks 0 to {replay.dp_rank.max()}, stages 0 to {replay.stage.max()}, and "
            + ", ".join(KINDS[each] for each in np.unique(replay.kind)),
        )  # fmt: skip
    return own
