"""What a release costs is found on some jobs of it, and says how well it is known."""

from __future__ import annotations

from random import Random
from statistics import median

import pytest

from chakrasim.obfuscation.price import MOST_JOBS, Price


def price(errors: list[float], of: int) -> Price:
    return Price("h100", (10**9,) * len(errors), tuple(round(10**9 * (1 + one)) for one in errors), of)


def test_the_median_of_all_jobs_is_in_the_interval_of_some() -> None:
    draw, inside = Random(3), 0
    for _ in range(1000):
        errors = [draw.choice((0.0, draw.expovariate(20.0))) for _ in range(201)]
        found = price(draw.sample(errors, MOST_JOBS), len(errors)).interval
        assert found is not None
        inside += found[0] - 1e-9 <= median(errors) <= found[1] + 1e-9
    # Errors that half of the jobs do not have: the median is at the edge, where an interval errs most.
    assert 950 <= inside < 1000


@pytest.mark.parametrize(("count", "of", "known"), [(6, 7, True), (5, 6, False), (12, 12, False), (0, 9, False)])
def test_few_jobs_have_no_interval_and_all_jobs_need_none(count: int, of: int, known: bool) -> None:
    errors = [-0.01 * number for number in range(count)]
    assert (price(errors, of).interval is not None) == known


def test_the_interval_is_of_errors_without_signs() -> None:
    found = price([-0.05, 0.01, -0.02, 0.03, -0.04, 0.06], 60)
    assert found.interval == pytest.approx((0.01, 0.06)) and found.median_error == pytest.approx(0.035)
    assert found.largest_error == pytest.approx(0.06)
