"""What a sweep says beside its front."""

from __future__ import annotations

import math

import pytest

from chakrasim.sweeps.points import Outcome
from chakrasim.sweeps.sensitivity import changes, elasticities, knees
from chakrasim.sweeps.space import read_space


def test_a_law_of_powers_is_found_with_its_points() -> None:
    space = read_space({"base": {"model": "m", "machine": "h"}, "vary": {
        "network[0].bandwidth": ["10 GB/s", "20 GB/s", "40 GB/s"], "tp": [4, 1, 2], "recompute": ["none", "full"],
    }})  # fmt: skip
    outcomes = []
    for point in space.points():
        gigabytes = float(point["network[0].bandwidth"].split()[0])
        outcomes.append(Outcome(step_s=gigabytes**-0.5 * point["tp"] ** 0.25, gpus=1))
    row = next(row for row, point in enumerate(space.points()) if point["tp"] == 2 and "20" in str(point))
    speed, tp = elasticities(space, outcomes, row)
    assert speed.key == "network[0].bandwidth" and speed.power == pytest.approx(-0.5)
    assert tp.key == "tp" and tp.power == pytest.approx(0.25)
    assert [space.point(at)["tp"] for at in (tp.low, tp.high)] == [1, 4]
    refused = [Outcome(status="refused") if space.point(at)["tp"] == 4 else one for at, one in enumerate(outcomes)]
    one_sided = {one.key: one for one in elasticities(space, refused, row)}["tp"]
    assert one_sided.power == pytest.approx(0.25) and one_sided.high == row


def test_the_knee_and_what_a_gain_costs() -> None:
    figures = [(10.0, 1), (5.0, 2), (4.5, 4), (4.4, 8), (9.5, 1)]
    outcomes = [Outcome(step_s=step, gpus=gpus, energy_j=math.nan) for step, gpus in figures]
    front = [1, 2, 3, 4]
    assert knees(("step_s", "gpus", "energy_j"), outcomes, front) == {"gpus": 1}
    (change,) = changes(("step_s", "gpus", "energy_j"), outcomes, front)
    assert (change.cost, change.base, change.to) == ("gpus", 4, 1)
    assert changes(("step_s", "gpus"), outcomes, [3]) == () and knees(("step_s", "gpus"), outcomes, [1, 3]) == {}
