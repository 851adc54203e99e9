"""Fits of the model to times that are the model's own: what went in comes out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chakrasim.calibration.collectives.design import Design, describe, matrix_of
from chakrasim.calibration.collectives.levels import factors, fit_levels
from chakrasim.calibration.collectives.own import constants_of, fit_own, left_over, predicted
from chakrasim.calibration.measurements.curves import Curve, MachineRow
from chakrasim.collectives.libraries.calibrated import MOST_CONSTANTS
from chakrasim.collectives.libraries.model import COVERED, constant_of, shipped_model

SIZES = np.array([1 << power for power in range(10, 31)], np.int64)
ROW = MachineRow("one", "H100-SXM5-80GB", 8, "NVSwitch NVLink4", 450.0, "none", 0, 0.0, 0.0, "unknown")


def design(machine: str = "one", gpu: str = "H100-SXM5-80GB") -> Design:
    """Curves of one machine without times."""
    row, found = replace(ROW, name=machine, gpu=gpu), []
    for collective in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        for ranks in (2, 4, 8):
            curve = Curve(
                f"{machine}-{collective}-{ranks}", "made", machine, gpu, 1, 8, ranks, "NCCL", "2.27.7", collective,
                dtype="half", place=np.zeros(len(SIZES), np.bool_), bytes=SIZES, time_us=np.full(len(SIZES), np.nan),
            )  # fmt: skip
            found.append(describe(curve, row=row))
    return matrix_of(found)


def timed(bare: Design, log_factors: dict[str, float], noise: float = 0.0) -> Design:
    """With the shipped model's times of a machine whose constants differ by factors."""
    log = np.array([log_factors.get(name, 0.0) for name in bare.constants])
    times = (factors(bare, shipped_model()) * np.exp(log[bare.owner])).sum(axis=1)
    return replace(bare, log_time=np.log(times) + noise * np.random.default_rng(1).standard_normal(len(bare)))


def test_constants_that_went_in_come_out() -> None:
    true = {"launch": 0.3, "LL.hop": -0.2, "Simple.wire": 0.1, "p2p.wire": 0.15}
    made = timed(design(), true)
    own = fit_own(made, shipped_model())
    assert len(own.free) <= MOST_CONSTANTS
    found = dict(zip(own.free, own.values.tolist(), strict=True))
    share = (factors(made, shipped_model()) / np.exp(made.log_time)[:, None]).max(axis=0)
    for term in (name for name, most in zip(made.names, share, strict=True) if most > 0.3):
        of_both = found.get(constant_of(term), 0.0) + found.get(term, 0.0)
        assert of_both == pytest.approx(true.get(constant_of(term), 0.0), abs=0.06), term
    assert np.abs(np.log(predicted(made, shipped_model(), own)) - made.log_time).max() < 0.03


def test_one_term_that_differs_is_freed_by_itself() -> None:
    bare = design()
    odd = bare.names.index("Simple.wire/reduce_scatter.Simple")
    base = factors(bare, shipped_model())
    base[:, odd] *= np.exp(0.3)
    own = fit_own(replace(bare, log_time=np.log(base.sum(axis=1))), shipped_model())
    found = dict(zip(own.free, own.values.tolist(), strict=True))
    of_both = found.get("Simple.wire/reduce_scatter.Simple", 0.0) + found.get("Simple.wire", 0.0)
    assert of_both == pytest.approx(0.3, abs=0.05)
    other = found.get("Simple.wire/all_gather.Simple", 0.0) + found.get("Simple.wire", 0.0)
    assert other == pytest.approx(0.0, abs=0.05)


def test_single_points_far_off_do_not_bend_the_fit() -> None:
    made = timed(design(), {"launch": 0.3})
    log_time = made.log_time.copy()
    log_time[::37] += 1.5
    own = fit_own(replace(made, log_time=log_time), shipped_model())
    off = np.abs(np.log(predicted(made, shipped_model(), own)) - made.log_time)
    assert np.median(off) < 0.02


def test_what_is_left_over_is_the_noise() -> None:
    made = timed(design(), {}, noise=0.05)
    left = left_over(made, shipped_model())
    assert not np.isnan(left).any()
    assert 0.03 < np.quantile(left, COVERED) < 0.06
    residual = constants_of(made, shipped_model()).residual
    assert residual[2] == pytest.approx(0.05, abs=0.015)
    assert constants_of(timed(design(), {}), shipped_model()).residual[2] < residual[2]


def test_levels_tell_generations_apart() -> None:
    old = timed(design("old", "A100-SXM4-80GB"), {"launch": 0.5})
    new = timed(design("new"), {"launch": -0.5})
    both = matrix_of([*old.curves, *new.curves])
    levels = fit_levels(replace(both, log_time=np.concatenate([old.log_time, new.log_time])))
    at = levels.constants.index("launch")
    assert levels.offsets["sm8"][at] - levels.offsets["sm9"][at] > 0.3
    model = levels.model("made")
    assert np.abs(np.log(predicted(new, model)) - new.log_time).mean() < 0.1
    assert set(model.to_json()["weights"]) == set(both.names)
