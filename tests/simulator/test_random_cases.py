"""Random inputs: a result, an InputError or a StallError, the same folded and not, and the clock adds up.

``CHAKRASIM_EXAMPLES`` sets the number of examples (40 by default).
"""

from __future__ import annotations

import os
from random import Random

import pytest
from cases import Case, differences
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_cases import KINDS, random_case

from chakrasim import ChakrasimError, InputError, Limits, SimulationResult, StallError

EXAMPLES = int(os.environ.get("CHAKRASIM_EXAMPLES", "40"))
LIMITS = Limits(max_events=2_000_000)
few = settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None)
randoms = st.randoms(use_true_random=False)


def _outcome(case: Case, fold: bool) -> SimulationResult | ChakrasimError:
    """The result or the error; any other exception fails the test."""
    try:
        return case.run(fold=fold, limits=LIMITS)
    except (InputError, StallError) as error:
        return error


def _check(case: Case) -> None:
    single, folded = _outcome(case, False), _outcome(case, True)
    if isinstance(single, ChakrasimError) or isinstance(folded, ChakrasimError):
        assert repr(single) == repr(folded)
        return
    assert differences(single, folded) == [], folded.fold_reason
    for result in (single, folded):
        assert (result.parts_ns.sum(axis=1) == result.makespan_ns).all()
        assert (result.parts_ns >= 0).all()
        assert (result.finish_ns >= 0).all()
        assert sorted(result.finish_order.tolist()) == list(range(case.ranks))
        finish = result.finish_ns[result.finish_order]
        assert (finish[1:] >= finish[:-1]).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@few
@given(random=randoms)
def test_any_input_of_the_golden_kind_ends_and_folds_exactly(kind: str, random: Random) -> None:
    _check(random_case(random, kind=kind))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(4))
def test_seeded_inputs_end_and_fold_exactly(block: int) -> None:
    # Plain seeds reach larger inputs than hypothesis, which starts small.
    for seed in range(2 * EXAMPLES * block, 2 * EXAMPLES * (block + 1)):
        _check(random_case(Random(seed), most_ranks=32))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@few
@given(random=randoms)
def test_streams_side_by_side_end_and_fold_exactly(kind: str, random: Random) -> None:
    _check(random_case(random, kind=kind).with_(streams=True))


@few
@given(random=randoms)
def test_twice_the_bandwidth_changes_what_moves_bytes(random: Random) -> None:
    case = random_case(random, kind="collective")
    slow = {**case.network, "bandwidth": [bw / 1000 for bw in case.network["bandwidth"]]}
    fast = {**case.network, "bandwidth": [bw / 500 for bw in case.network["bandwidth"]]}
    before = _outcome(case.with_(network=slow), True)
    assume(isinstance(before, SimulationResult) and before.message_bytes > 64 * before.messages)
    after = _outcome(case.with_(network=fast), True)
    assert isinstance(before, SimulationResult) and isinstance(after, SimulationResult)
    assert after.makespan_ns < before.makespan_ns
    assert after.message_bytes == before.message_bytes
