"""Explanations of random jobs against the engine itself, and of made ones against figures reckoned by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_jobs import RandomJob, random_job

import chakrasim as cs
from chakrasim.errors import InputError, StallError
from chakrasim.explanation.explain import explain
from chakrasim.explanation.job_events import job_events
from chakrasim.explanation.result import CHANGES, Share
from chakrasim.machine import Machine, load_network, load_system
from chakrasim.scenarios.asked import asked_of
from chakrasim.scenarios.job_stragglers import Chances, drawn, job_stragglers
from chakrasim.scenarios.simulated import SimulatedScenarios
from chakrasim.simulator.outcome.result import SimulationResult
from made_jobs_chakra import Made

JOBS = [(seed, issue) for issue in ("streams", "astra-sim") for seed in range(5)]
MANY = [(seed, issue) for issue in ("streams", "astra-sim") for seed in range(5, 900)]


def check(job: RandomJob) -> None:
    """All that holds of an explanation."""
    result = job.run()
    events = job_events(result)
    at = events.graph.times()
    assert (at[events.begin] == events.nodes.start_ns).all()
    assert (at[events.end] == events.nodes.end_ns).all()
    found = explain(result)
    assert sum(piece.end_ns - piece.start_ns for piece in found.path) == found.makespan_ns == result.makespan_ns
    assert all(before.end_ns == after.start_ns for before, after in pairwise(found.path))
    assert sum(row.on_path_ns for row in found.ranks) == found.makespan_ns
    assert sum(row.waiting_ns for row in found.ranks) == sum(row.delay_cost_ns for row in found.ranks)
    for row in found.ranks:
        check_slopes(job, found.makespan_ns, row)


def check_slopes(job: RandomJob, makespan_ns: int, row: Share) -> None:
    """Inside the break points the engine moves as the derivatives say."""
    assert isinstance(row.name, int)
    if row.slower is None or row.faster is None:
        return
    rounding = 2 + len(job.traces[row.name])
    for sign, slope, until in ((1, row.slower, row.slower_until_ns), (-1, row.faster, row.faster_until_ns)):
        most = min((until or row.total_ns) / row.total_ns, 0.99)
        for share in (0.4, 0.8):
            factor = 1 + sign * round(most * share, 3)
            try:
                moved = job.run({row.name: factor}).makespan_ns - makespan_ns
            except StallError:
                continue
            assert abs(moved - slope * abs(factor - 1) * row.total_ns) <= rounding


@pytest.mark.parametrize(("seed", "issue"), JOBS)
def test_figures_are_those_of_the_engine(seed: int, issue: str) -> None:
    job = random_job(seed, issue)
    try:
        job.run()
    except StallError:
        return
    check(job)


@pytest.mark.slow
def test_figures_of_many_jobs_are_those_of_the_engine() -> None:
    for seed, issue in MANY:
        test_figures_are_those_of_the_engine(seed, issue)


def two_ranks(micros: tuple[int, int], *, second: int = 0) -> SimulationResult:
    """Ranks that compute, meet in an all-reduce and, with ``second``, compute again so many us on rank 0."""
    traces = []
    for rank, own in enumerate(micros):
        made = Made()
        made.compute("layer 0 forward: mm", micros=own, op_kind="gemm")
        made.collective("all_reduce", 1 << 20)
        if second and rank == 0:
            made.compute("layer 1 forward: mm", micros=second, op_kind="gemm")
        traces.append(made.build())
    network = load_network({"topology": ["Ring"], "npus_count": [2], "bandwidth": [50.0], "latency": [500.0]})
    return cs.simulate(traces, machine=Machine(network, load_system(SYSTEM)))


SYSTEM: dict[str, Any] = {
    "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"], "local-mem-bw": 1600,
    "reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["direct"], "endpoint-delay": 10,
    "preferred-dataset-splits": 1,
}  # fmt: skip


def test_who_comes_first_waits_and_who_comes_last_is_the_cause() -> None:
    found = explain(two_ranks((10, 25)))
    fast, slow = found.ranks
    assert (fast.waiting_ns, slow.waiting_ns) == (15_000, 0)
    assert (fast.delay_cost_ns, slow.delay_cost_ns) == (0, 15_000)
    assert (fast.slower, fast.slower_until_ns, fast.faster) == (0.0, 15_000.0, 0.0)
    assert (slow.slower, slow.faster, slow.faster_until_ns) == (1.0, -1.0, 15_000.0)
    assert fast.slack_ns == 15_000
    assert slow.slack_ns == 0
    assert slow.changes_ns == pytest.approx([25_000 * change if change > -0.5 else -12_500 for change in CHANGES])
    assert found.kinds[0].name == "all-reduce"
    assert found.kinds[0].waiting_ns == 15_000
    assert [piece.kind for piece in found.path] == ["gemm", "all-reduce"]
    assert {piece.rank for piece in found.path} == {1}


def test_of_equal_ranks_each_alone_slows_and_none_alone_helps() -> None:
    for row in explain(two_ranks((10, 10))).ranks:
        assert (row.slower, row.slower_until_ns, row.faster) == (1.0, None, 0.0)


def test_what_comes_behind_a_meeting_is_one_ranks_own() -> None:
    found = explain(two_ranks((10, 25), second=50))
    assert found.ranks[0].on_path_ns == found.makespan_ns - 25_000
    assert found.ranks[1].on_path_ns == 25_000
    modules = {row.name: row for row in found.modules}
    assert modules["layer 1"].on_path_ns == 50_000
    assert modules["layer 0"].total_ns == 35_000
    (gemm,) = found.op_classes
    assert (gemm.name, gemm.on_path_ns, gemm.total_ns) == ("gemm", 75_000, 85_000)
    assert gemm.slower == pytest.approx(75 / 85)


def test_what_was_only_checked_is_not_explained() -> None:
    made = Made()
    made.compute()
    network = load_network({"topology": ["Ring"], "npus_count": [2], "bandwidth": [50.0], "latency": [500.0]})
    machine = Machine(network, load_system(SYSTEM))
    with pytest.raises(InputError, match="nothing was simulated node by node"):
        explain(cs.simulate(made.build(), ranks=2, machine=machine, check=True))


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_rank_is_what_the_engine_makes_of_it(seed: int) -> None:
    job = random_job(seed, "streams")
    try:
        scenarios = SimulatedScenarios(job.run())
    except StallError:
        return
    for rank in range(len(job.traces)):
        outcome = scenarios.outcomes([[asked_of(f"rank:{rank}=1.5")]])[0]
        assert outcome.by_engine
        assert abs(outcome.after_ns - job.run({rank: 1.5}).makespan_ns) <= 1


def test_scenarios_side_by_side_are_those_one_by_one() -> None:
    scenarios = SimulatedScenarios(two_ranks((10, 25), second=50))
    texts = ["op:gemm=0.5", "communication=0", "rank:1=0.4", "rank:1&op:gemm=0.4", "module:layer 1=3", "compute=ideal"]
    asked = [[asked_of(text)] for text in texts]
    together = scenarios.makespans(asked)
    assert together.tolist() == [float(scenarios.makespans([one])[0]) for one in asked]
    now = scenarios.result.makespan_ns
    moved = 25_000 - 10_000
    mean = 25_000 - 17_500
    assert [now - end for end in together] == [37_500, now - 75_000, moved, moved, -100_000, mean]


def test_a_straggler_explains_the_slowdown() -> None:
    found = job_stragglers(SimulatedScenarios(two_ranks((10, 30))))
    assert found.worst == (1,)
    assert found.only["rank"]["1"] == found.slowdown > found.only["rank"]["0"] == 1.0
    assert (found.removal, found.addition) == (1.0, 1.0)
    even = job_stragglers(SimulatedScenarios(two_ranks((10, 10))))
    assert (even.slowdown, even.removal) == (1.0, None)


def test_draws_are_those_of_their_seed_and_share_their_chances() -> None:
    scenarios = SimulatedScenarios(two_ranks((10, 10)))
    base = scenarios.graph.duration
    first = drawn(scenarios, base, Chances(0.1), 200, 7)
    assert first.to_dict() == drawn(scenarios, base, Chances(0.1), 200, 7).to_dict()
    slower = drawn(scenarios, base, Chances(0.1, 0.5, 1.5), 200, 7)
    assert (slower.makespan_ns >= first.makespan_ns).all()
    assert np.ptp(drawn(scenarios, base, Chances(), 200, 7).makespan_ns) == 0
    quantiles = first.to_dict()["quantiles"]
    assert all(own["low_ns"] <= own["value_ns"] <= own["high_ns"] for own in quantiles.values())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rnk:1=2", "no such target"),
        ("op:gem=2", "the job has no such op"),
        ("rank:7=2", "no such numbers"),
        ("rank:0=-1", "no factor"),
        ("rank:0=nan", "no factor"),
        ("compute", "no change"),
        ("stage:0=2", "the job names no pipeline"),
        ("node:x*=2", "the job has no such node"),
    ],
)
def test_what_cannot_be_asked_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        SimulatedScenarios(two_ranks((10, 25))).makespans([[asked_of(text)]])


def test_folded_jobs_have_the_figures_of_unfolded_ones(tmp_path: Path) -> None:
    spec = {"model": "llama-7b", "parallel": {"dp": 2, "tp": 2, "pp": 2, "sp": True}, "batch": {"global_batch": 4}}
    result = cs.simulate(cs.generate_transformer(spec).job, machine="hgx-h100-8")
    whole, folded = job_events(result), job_events(result, unfolded_nodes=0)
    assert folded.folded
    assert len(folded.nodes.ranks) == len(result.class_ranks)
    assert folded.graph.times().max() == whole.graph.times().max() == result.makespan_ns
    assert (folded.graph.times()[folded.end] == folded.nodes.end_ns).all()
    every, few = SimulatedScenarios(result), SimulatedScenarios(result, 0)
    for text in ("communication=0", "op:gemm=0.5", "kind:all-reduce=2", "stage:1=1.5", "link:dim 0=3"):
        asked = [[asked_of(text)]]
        assert every.makespans(asked)[0] == few.makespans(asked)[0]
    spelt = [[asked_of("kind:all_reduce=2")], [asked_of("kind:all-reduce=2")]]
    assert len({*every.makespans(spelt).tolist()}) == 1
    for name in ("op", "kind", "link", "module"):
        assert few.families[name].total_ns == pytest.approx(every.families[name].total_ns)
