"""What the slow ones cost: the what-if analysis of stragglers of OSDI 2025 (Lin et al.), on recorded steps.

Every recorded step is replayed with some of its operations as they were and the others ideal: all of a kind equal, as
if work were spread evenly and no transfer were slow. A share of the slowdown that a set explains is told twice, by
taking the set away (removal) and by putting it alone into ideal steps (addition); shares do not sum to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from chakrasim.scenarios.operations import KINDS, Ints
from chakrasim.scenarios.recorded_steps import Mask, Replay, Times

WORST: Final = 3, 100
"""The share of workers that are the worst, as a fraction."""
_GROUPS: Final = {f"{way}-{end}": f"{way}-pp-comm" for way in ("forward", "backward") for end in ("send", "recv")}


@dataclass(frozen=True)
class Share:
    """How much of the slowdown a set of operations explains: without it, and alone. nan where nothing is slow."""

    removal: float
    addition: float


@dataclass(frozen=True, eq=False)
class Stragglers:
    """What stragglers cost in recorded steps.

    Attributes
    ----------
    step:
        int64[t]: the ids of the steps.
    measured_s, replayed_s, ideal_s:
        float64[t]: as recorded, replayed without the delays that no operation explains, and with all operations ideal.
    only_s:
        By "optype", "stage" and "dp_rank", by name: float64[t], with only those as recorded and all others ideal.
    worst_workers:
        (dp_rank, stage, rank) of the 3 % of workers (rounded up) with the highest scores, worst first; a worker's score
        is the lesser of the slowdowns of its replica and of its stage.
    last_stage, worst:
        How much the last stage and the worst workers explain.
    negative:
        How many operations ended before others of their meeting began, and take no time.
    """

    step: Ints
    measured_s: Times
    replayed_s: Times
    ideal_s: Times
    only_s: Mapping[str, Mapping[str, Times]]
    worst_workers: tuple[tuple[int, int, int], ...]
    last_stage: Share
    worst: Share
    negative: int

    @property
    def slowdown(self) -> float:
        """S: the mean time of a step over that of an ideal one."""
        return float(self.replayed_s.mean() / self.ideal_s.mean())

    def slowdown_of(self, dimension: str) -> dict[str, float]:
        """S_x of each "optype", "stage" or "dp_rank", over all steps."""
        ideal = self.ideal_s.mean()
        return {name: float(times.mean() / ideal) for name, times in self.only_s[dimension].items()}

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        columns = self.step, self.measured_s, self.replayed_s, self.ideal_s
        return {
            "S": self.slowdown,
            "steps": {
                str(step): {
                    "measured_s": measured, "replayed_s": replayed, "ideal_s": ideal, "slowdown": replayed / ideal
                }
                for step, measured, replayed, ideal in zip(*(each.tolist() for each in columns), strict=True)
            },
            "S_x": {dimension: self.slowdown_of(dimension) for dimension in self.only_s},
            "M_S": _number(self.last_stage.removal),
            "M_W": _number(self.worst.removal),
            "M": {
                name: {"removal": _number(share.removal), "addition": _number(share.addition)}
                for name, share in (("last_stage", self.last_stage), ("worst_workers", self.worst))
            },
            "worst_workers": [
                {"dp_rank": replica, "stage": stage, "rank": rank} for replica, stage, rank in self.worst_workers
            ],
        }  # fmt: skip


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def stragglers(replay: Replay) -> Stragglers:
    """The analysis of recorded steps."""
    kinds = np.unique(replay.kind)
    names = {int(kind): _GROUPS.get(KINDS[kind], KINDS[kind]) for kind in kinds}
    groups: dict[str, dict[str, Mask]] = {"optype": {}, "stage": {}, "dp_rank": {}}
    for kind, name in names.items():
        groups["optype"][name] = groups["optype"].get(name, False) | (replay.kind == kind)
    for dimension, own in (("stage", replay.stage), ("dp_rank", replay.dp_rank)):
        groups[dimension] = {str(each): own == each for each in range(int(own.max()) + 1)}
    every, last = np.ones(len(replay.kind), np.bool_), replay.stage == replay.stage.max()
    kept = [every, ~last, last, *(mask for group in groups.values() for mask in group.values())]
    replayed, without, alone, *rest = replay.kept_s(np.array(kept))
    # All steps are equal when all operations are ideal.
    ideal = np.full(len(replayed), replay.times_s(replay.ideal_s[:, None])[0])
    only = {dimension: {name: rest.pop(0) for name in group} for dimension, group in groups.items()}
    chosen, worst = _worst_workers(replay, only)
    removal, addition = replay.kept_s(np.array([~chosen, chosen]))
    return Stragglers(
        replay.steps.step, replay.steps.measured_s(), replayed, ideal, only, worst,
        _share(replayed, ideal, without, alone), _share(replayed, ideal, removal, addition), replay.negative,
    )  # fmt: skip


def _share(replayed: Times, ideal: Times, without: Times, alone: Times) -> Share:
    slow = float(replayed.mean() - ideal.mean())
    if slow == 0:
        return Share(float("nan"), float("nan"))
    return Share(float(replayed.mean() - without.mean()) / slow, float(alone.mean() - ideal.mean()) / slow)


def _worst_workers(
    replay: Replay, only: Mapping[str, Mapping[str, Times]]
) -> tuple[Mask, tuple[tuple[int, int, int], ...]]:
    """The operations of the worst workers, and who these are."""
    replica, stage = (np.array([times.mean() for times in only[each].values()]) for each in ("dp_rank", "stage"))
    score, rank = np.minimum(replica[:, None], stage), replay.steps.rank
    count = -(-score.size * WORST[0] // WORST[1])
    order = np.lexsort((rank.ravel(), -score.ravel()))[:count]
    found = tuple((each, own, int(rank[each, own])) for each, own in (divmod(int(one), len(stage)) for one in order))
    chosen = np.zeros(score.shape, np.bool_)
    chosen.flat[order] = True
    return chosen[replay.dp_rank, replay.stage], found
