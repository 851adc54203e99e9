"""Rings reckoned as wholes say what their messages say: of every rank, every node and every tick."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest
from cases import ALGORITHM_KEYS, UNIT_BANDWIDTH, Case, collective, compute, differences, network_of, system_of
from made_training_jobs import training_job
from random_cases import random_case

import chakrasim
from chakrasim import ChakrasimError, Limits, SimulationResult
from chakrasim.simulator import session

KINDS = ("collective", "graph", "stragglers", "groups", "mixed")
TOLD = "rings as wholes"


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings as wholes wherever that is possible, and ties between ranks that finish in one ns left to their numbers."""
    monkeypatch.setattr(session, "LEAST_MESSAGES", 1)
    monkeypatch.setattr(session, "MESSAGES_PER_NODE", 0)
    monkeypatch.setattr(session, "ORDER_MESSAGES", 0)


def rings(case: Case) -> Case:
    """The case on the unaware network with rings only."""
    dims = len(case.network["npus_count"])
    system = {**case.system, **{key: ["ring"] * dims for key in ALGORITHM_KEYS}, "model-shared-bus": 0}
    return case.with_(congestion="unaware", system=system, options={})


def same(case: Case) -> str:
    """How rings as wholes compare with all messages; "" where the case has none. Fails where they differ."""
    try:
        single = case.run(fold=False, limits=Limits(max_events=2_000_000))
    except ChakrasimError as error:
        with pytest.raises(type(error)):
            case.run()
        return "refused"
    found = case.run()
    if TOLD not in found.fold_reason:
        assert differences(found, single) == [], found.fold_reason
        return "messages"
    wrong = differences(found, single)
    if "stand in the order of their numbers" in found.fold_reason:
        wrong = [name for name in wrong if name != "finish_order"]
    assert wrong == [], case
    same_records(found, single)
    return "wholes"


def same_records(one: SimulationResult, other: SimulationResult) -> None:
    assert one.class_ranks.tolist() == other.class_ranks.tolist() == list(range(len(one.finish_ns)))
    for mine, theirs in zip(one.records, other.records, strict=True):
        for name in ("start_ns", "end_ns", "issued"):
            assert np.array_equal(getattr(mine, name), getattr(theirs, name))


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_random_cases_rich_in_ties(kind: str, streams: bool) -> None:
    seen = Counter(same(rings(random_case(Random(seed), kind=kind)).with_(streams=streams)) for seed in range(25))
    assert seen["wholes"] >= 3, seen


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(40))
def test_ranks_that_come_at_any_time(seed: int) -> None:
    random = Random(seed)
    ranks, kind = random.randint(2, 9), random.choice((0, 2, 6, 7))
    late = [random.choice((0, 1, 2, 3, random.randrange(1, 50))) for _ in range(ranks)]
    sizes = [random.choice((1, 64, 1000, 1 << 16, 1 << 22)) for _ in range(random.randint(1, 4))]
    programs = []
    for rank in range(ranks):
        nodes = [compute(0, 1 + late[rank])]
        for i, size in enumerate(sizes):
            nodes += [collective(2 * i + 1, kind, size, [2 * i]), compute(2 * i + 2, 1 + rank % 2, [2 * i + 1])]
            if random.random() < 0.5:  # beside the collective
                nodes[-1] = compute(2 * i + 2, 1 + rank % 3, [2 * i])
        programs.append(nodes)
    topology = random.choice(("Ring", "Switch", "FullyConnected"))
    system = system_of(
        "ring",
        endpoint_delay=random.choice((1, 10, 700)),
        active_chunks_per_dimension=random.choice((1, 2, 3, 8)),
        preferred_dataset_splits=random.choice((1, 2, 4, 5)),
        local_mem_bw=random.choice((0, 1600, 3)),
    )
    network = network_of((topology, ranks, UNIT_BANDWIDTH * random.choice((1, 40)), random.choice((1, 7, 500.5))))
    same(Case(programs, network, system, congestion="unaware"))
    same(Case(programs, network, system, congestion="unaware", streams=True))


MACHINE = """
format: 1
network:
  - {topology: Switch, npus: 4, bandwidth: 400 GiB/s, latency: 936.25 ns}
  - {topology: Switch, npus: 16, bandwidth: 50 GB/s, latency: 1000 ns}
memory: {bandwidth: 3350 GB/s}
collectives:
  splits: 4
  active-chunks: 1
  endpoint-delay: 1 ns
  algorithms: {all-reduce: ring, all-gather: ring, reduce-scatter: ring, all-to-all: ring}
"""
SLOW: list[dict[str, float]] = [{"5": 1.3}, {"5": 1.3, "33": 1.1}, {"16-31": 1.2}, {"0": 0.7, "1": 1.4, "62": 3.0}]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("slow", SLOW)
@pytest.mark.parametrize("issue", ["astra-sim", "streams"])
def test_training_steps_with_stragglers(slow: dict[str, float], issue: str, tmp_path: Any) -> None:
    text = MACHINE + f"issue: {issue}\nslow: {{{', '.join(f'{who!r}: {factor}' for who, factor in slow.items())}}}\n"
    path = tmp_path / "machine.yaml"
    path.write_text(text)
    job = training_job(tp=4, dp=4, pp=4, micro_batches=4)
    found = chakrasim.simulate(job, machine=path, congestion="unaware")
    single = chakrasim.simulate(job, machine=path, congestion="unaware", fold=False)
    assert TOLD in found.fold_reason
    assert [name for name in differences(found, single) if name != "finish_order"] == []
    same_records(found, single)


def test_ties_between_ranks_that_finish_are_left_to_messages(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [[compute(0, 1 + rank // 4), collective(1, 0, 4096, [0], str(1 + rank // 4))] for rank in range(8)]
    groups = {1: [0, 1, 2, 3], 2: [4, 5, 6, 7]}
    case = Case(programs, network_of(("Ring", 8, 10.0, 5.0)), groups=groups, congestion="unaware")
    tied = case.run()
    assert tied.fold_reason == (
        "8 ranks, each by itself, with rings as wholes; 8 of them end in one ns with others, and stand in the order of "
        "their numbers"
    )
    monkeypatch.setattr(session, "ORDER_MESSAGES", 1 << 60)
    assert differences(case.run(), case.run(fold=False)) == []


def test_small_runs_go_message_by_message() -> None:
    case = Case([[collective(0, 0, 640)]], network_of(("Ring", 8, 10.0, 5.0)), congestion="unaware")
    assert TOLD not in case.run().fold_reason
