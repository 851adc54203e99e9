"""Commands that are killed while they replace earlier outputs leave old ones, new ones, or what readers refuse.

``python tests/fuzz/kills.py`` kills each of them more often.
"""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Callable, Iterator

import pytest
from kill_cases import CASES, Case
from kills import Trial, trials

KILLS = int(os.environ.get("CHAKRASIM_KILLS", "1"))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")


@pytest.fixture(scope="module")
def trial() -> Iterator[Callable[[Case], Trial]]:
    with trials() as make:
        yield make


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.slow] * bool(case.modules)) for case in CASES]
)
def test_old_new_or_refused(case: Case, trial: Callable[[Case], Trial]) -> None:
    if any(importlib.util.find_spec(module.split(".")[0]) is None for module in case.modules):
        pytest.skip("needs PyTorch")
    one = trial(case)
    for seed in range(KILLS):
        one.kill(random.Random(f"{case.name} {seed}"))
