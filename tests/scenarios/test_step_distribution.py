"""Steps drawn from recorded ones: against steps held out, and what must be so for any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_recorded_stragglers import NAMES, operations, published

from chakrasim.scenarios.changes import changed
from chakrasim.scenarios.distribution import BLOCKS, StepDistribution, learn
from chakrasim.scenarios.recorded_steps import Replay, replay_of
from chakrasim.scenarios.straggler_answer import answer_stragglers
from made_steps import Made

SPLITS = 50


def test_one_recorded_step_is_always_drawn() -> None:
    replay = replay_of(operations(Made(2, 2, 2, 1, 1)))
    found = learn(replay).draw(20)
    assert found.time_s == pytest.approx(np.full(20, replay.steps.measured_s()[0]))
    assert found.quantile(0.05).value == pytest.approx(replay.steps.measured_s()[0])


def test_blocks_of_steps_draw_the_steps_learned_from() -> None:
    replay = replay_of(operations(Made(2, 3, 2, 8, 1)))
    learned = np.array([1, 2, 5])
    drawn = np.unique(learn(replay, learned, "step").draw(200).time_s.round(9))
    assert drawn == pytest.approx(np.sort(replay.steps.measured_s()[learned]))


@pytest.mark.parametrize("block", BLOCKS)
def test_chance_is_the_same_for_every_scenario_and_number_of_draws(block: str) -> None:
    replay = replay_of(operations(Made(2, 2, 2, 6, 3)))
    model = learn(replay, block=block)
    first = model.draw(250, 7).time_s
    assert first.tolist() == learn(replay, block=block).draw(450, 7).time_s[:250].tolist()
    assert (model.draw(250, 8).time_s != first).any()
    slower = model.draw(250, 7, changed(replay, ["all=1.5"])).time_s
    assert (slower > first).all()
    same = model.draw(250, 7, changed(replay, ["all=1"])).time_s
    assert same.tolist() == first.tolist()


def test_finer_blocks_are_only_taken_where_the_steps_come_out() -> None:
    """Workers that vary alone are drawn alone; those of one step that are slow together are not."""
    made = Made(4, 1, 2, 40, 5)
    rng = np.random.default_rng(1)
    for duration in made.own.values():
        slow = rng.lognormal(0, 0.5)
        for op in duration:
            duration[op] = slow * (0.1 + 0.01 * op[3])
    assert learn(replay_of(operations(made))).block == "step"
    for duration in made.own.values():
        slow = rng.lognormal(0, 0.5, made.dp)
        for op in duration:
            duration[op] = slow[op[0]] * (0.1 if op[2].endswith("compute") else 1e-6)
    assert learn(replay_of(operations(made))).block == "worker"


def test_quantiles_hold_what_they_say() -> None:
    """Nine of ten further values of a law lie between the 5 % and the 95 % of what was learned from a few of it, and
    the interval of a quantile of many draws holds the true one."""
    rng = np.random.default_rng(2)
    inside = []
    for _ in range(400):
        few, more = rng.exponential(size=24), rng.exponential(size=20)
        drawn = StepDistribution(rng.choice(few, 600), len(few), "step")
        inside.append(((more >= drawn.quantile(0.05).value) & (more <= drawn.quantile(0.95).value)).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.025)
    many = 10**9  # steps learned from: the levels are those of the draws
    held = []
    for _ in range(400):
        found = StepDistribution(rng.exponential(size=500), many, "step").quantile(0.75)
        held.append(found.low <= np.log(4) <= found.high)
    assert 0.91 <= np.mean(held) <= 0.99


def test_draws_end_when_the_median_is_known() -> None:
    replay = replay_of(operations(Made(2, 2, 2, 30, 3)))
    found = learn(replay).draw_enough(1)
    middle = found.quantile(0.5)
    assert middle.high - middle.low < 0.005 * middle.value or len(found.time_s) == 20_000
    fewer = StepDistribution(found.time_s[:-200], found.learned, found.block)
    if len(fewer.time_s):
        middle = fewer.quantile(0.5)
        assert middle.high - middle.low >= 0.005 * middle.value


def test_an_answer_holds_draws_with_and_without_changes() -> None:
    rows = operations(Made(2, 2, 2, 6, 3))
    found = answer_stragglers(rows, changes=["all=2"], draws=100, seed=1).to_dict()["distribution"]
    assert found["draws"] == 100 and set(found["quantiles"]) == {"0.05", "0.25", "0.5", "0.75", "0.95"}
    assert found["after"]["mean_s"] > found["mean_s"]
    assert found["saved"]["mean_s"] == pytest.approx(found["mean_s"] - found["after"]["mean_s"])
    assert found["quantiles"]["0.5"]["low_s"] <= found["quantiles"]["0.5"]["value_s"]


def split_figures(replay: Replay, seed: int) -> tuple[float, float, float]:
    """Mean error, ratio of deviations (geometric mean) and share of held-out steps in the 90 % interval."""
    rng, measured = np.random.default_rng(seed), replay.steps.measured_s()
    figures = []
    for split in range(SPLITS):
        order = rng.permutation(len(measured))
        learned, held = order[: len(order) // 2], measured[order[len(order) // 2 :]]
        found = learn(replay, learned).draw(600, split)
        low, high = found.quantile(0.05).value, found.quantile(0.95).value
        inside = np.mean((held >= low) & (held <= high))
        spread = np.log(found.time_s.std(ddof=1) / held.std(ddof=1))
        figures.append((found.time_s.mean() / held.mean() - 1, spread, inside))
    error, spread, inside = np.mean(figures, axis=0)
    return float(error), float(np.exp(spread)), float(inside)


@pytest.mark.parametrize("name", NAMES)
def test_steps_held_out_are_as_drawn(name: str, shared_dir: Path) -> None:
    error, spread, inside = split_figures(published(shared_dir, name), 0)
    assert abs(error) < 0.02
    assert 0.8 < spread < 1.3
    assert 0.85 < inside < 0.97
