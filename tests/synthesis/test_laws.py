"""Laws by case."""

from __future__ import annotations

import numpy as np

from chakrasim.synthesis.laws import Examples, law


def test_cases_are_parted_by_a_parameter_before_by_two_columns_beside_each_other() -> None:
    """Both give all examples, and the two columns leave parts of fewer different values."""
    random = np.random.default_rng(3)
    k, c = random.integers(0, 3, 200), random.integers(0, 6, 200)
    wanted = np.where(k == 0, 0, c)
    a = random.integers(0, 100, 200)
    b = a + np.where(wanted == 0, -1, 1) * random.integers(1, 5, 200)
    found = law(Examples(wanted, {"k": k, "c": c, "a": a, "b": b}), cases=2)
    assert found == ["if", ["k", "==", "", 0], ["const", 0, 1], ["column", "c"]]
