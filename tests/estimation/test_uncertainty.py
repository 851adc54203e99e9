"""Intervals of predicted steps: what is fitted to residuals, and what widens it."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.estimation.uncertainty import (
    ALL,
    Doubts,
    Residual,
    coverage,
    fit_spread,
    load_spread,
    spread_of,
    t_quantile,
)


def made(
    groups: int, *, sigma: float = 0.1, mean: float = 0.0, device: str = "h100", seed: int = 1, bubble: float = 0.0
) -> list[Residual]:
    """Steps of so many groups whose residuals are normal; those of a group have half of the variance in common."""
    random = np.random.default_rng(seed)
    rows = []
    for group in range(groups):
        common = random.normal(0, sigma / 2**0.5)
        for number in range(4):
            share = random.uniform(0, 0.5)
            wide = (sigma**2 / 2 + bubble * share**2) ** 0.5
            measured = exp(mean + common + random.normal(0, wide))
            rows.append(
                Residual(f"{group}.{number}", f"{device} {group}", Doubts("dense", device, bubble=share), 1.0, measured)
            )
    return rows


@pytest.mark.parametrize(
    ("share", "degrees", "known"),
    [(0.95, 3, 2.3534), (0.95, 5, 2.0150), (0.95, 10, 1.8125), (0.95, 30, 1.6973), (0.05, 10, -1.8125)],
)
def test_the_quantile_is_that_of_tables(share: float, degrees: float, known: float) -> None:
    assert t_quantile(share, degrees) == pytest.approx(known, rel=0.01)


def test_a_fit_finds_mean_and_spread_again() -> None:
    fit = spread_of(fit_spread(made(400, sigma=0.12, mean=0.2))).of("dense")
    assert fit.mean + fit.devices["h100"].mean == pytest.approx(0.2, abs=0.02)
    assert fit.variance * fit.devices["h100"].factor == pytest.approx(0.12**2, rel=0.15)
    assert (fit.groups, fit.rows) == (400, 1600)


def test_what_bubbles_add_is_told_apart() -> None:
    fit = spread_of(fit_spread(made(600, sigma=0.05, bubble=0.5))).of("dense")
    assert fit.bubble == pytest.approx(0.5, rel=0.3)
    assert fit.communication == 0
    spread = spread_of(fit_spread(made(600, sigma=0.05, bubble=0.5)))
    narrow, wide = (spread.interval(1.0, Doubts("dense", "h100", bubble=share)) for share in (0.0, 0.5))
    assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])


def test_intervals_cover_what_was_left_out() -> None:
    rows = made(120, sigma=0.15, mean=-0.1) + made(60, sigma=0.15, mean=0.1, device="a100", seed=2)
    found = coverage(rows)
    assert 0.85 <= found[ALL] <= 0.95
    assert found["dense"] == found[ALL]


def test_a_device_with_few_groups_is_drawn_towards_the_others() -> None:
    rows = made(60) + made(1, mean=0.6, device="odd", seed=3)
    fit = spread_of(fit_spread(rows)).of("dense")
    raw = np.mean([row.log for row in rows if row.doubts.device == "odd"]) - fit.mean
    assert 0 < fit.devices["odd"].mean < 0.3 * raw
    many = spread_of(fit_spread(made(60) + made(60, mean=0.6, device="odd", seed=3))).of("dense")
    assert many.devices["odd"].mean - many.devices["h100"].mean == pytest.approx(0.6, abs=0.08)


def test_what_is_not_known_widens_the_interval() -> None:
    spread = spread_of(fit_spread(made(40) + made(40, mean=0.4, device="a100", seed=2)))

    def width(doubts: Doubts) -> float:
        low, high = spread.interval(10.0, doubts)
        return log(high / low)

    known = width(Doubts("dense", "h100"))
    assert width(Doubts("dense", "new")) > 1.2 * known
    assert width(Doubts("dense", "h100", assumed=8)) > known
    assert width(Doubts("experts", "h100")) == pytest.approx(known)


def test_without_measured_groups_there_is_no_fit() -> None:
    with pytest.raises(cs.InputError, match="too few groups"):
        fit_spread(made(1))
    with pytest.raises(cs.InputError, match="must be above 0"):
        fit_spread([*made(2), Residual("zero", "z", Doubts("dense", "h100"), 1.0, 0.0)])
    assert coverage(made(2)) == {}


def test_what_ships_says_from_what_it_is_known() -> None:
    spread = load_spread()
    assert spread.known
    low, high = spread.interval(1.0, Doubts("dense", "h100"))
    assert 0.3 < low < high < 3
