"""A job whose ranks share traces gives what its expanded traces give, and costs little more than its classes."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from cases import collective, compute, differences, network_of, system_of, trace_of
from hypothesis import given, settings
from hypothesis import strategies as st
from made_training_jobs import mesh_groups, message, random_job, training_job

import chakrasim
from chakrasim import InputError, Job, StallError, replay_recorded, simulate
from chakrasim.machine import CommGroups
from chakrasim.report.timeline.simulation import write_timeline
from chakrasim.trace import expand_job
from chakrasim.trace.job.groups import number_groups


def machine(ranks: int, inner: int = 1, **keys: Any) -> dict[str, Any]:
    dims = [(("Switch", n, 100.0, 500.0)) for n in (inner, ranks // inner) if n > 1]
    return {"network": network_of(*dims), "system": system_of(*["ring"] * len(dims), **keys)}


def both(job: Job, **keys: Any) -> tuple[Any, Any]:
    """The job, and its expanded traces with a group file."""
    groups = CommGroups(dict(number_groups(job).members))
    return simulate(job, **keys), simulate(expand_job(job), comm_groups=groups, **keys)


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("everyone", [True, False])
def test_a_training_step_is_that_of_its_expanded_traces(congestion: str, fold: bool, everyone: bool) -> None:
    job = training_job(2, 4, 3, everyone=everyone)
    shared, expanded = both(job, congestion=congestion, fold=fold, **machine(24, 2))
    assert differences(shared, expanded) == []
    assert shared.fold_reason == expanded.fold_reason


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_random_jobs_are_their_expanded_traces(random: Random) -> None:
    job = random_job(random)
    keys = {
        "congestion": random.choice(("aware", "unaware")),
        "protocol": chakrasim.Protocol(physics=random.random() < 0.5, rendezvous=random.random() < 0.1),
        **machine(max(job.ranks, 2), random.choice([n for n in (1, 2, 3) if job.ranks % n == 0])),
    }
    if job.ranks == 1:
        return
    outcomes = [outcome for fold in (True, False) for outcome in _outcomes(job, fold=fold, **keys)]
    if any(isinstance(outcome, str) for outcome in outcomes):
        assert len({str(outcome) for outcome in outcomes}) == 1, outcomes
    else:
        assert [differences(outcomes[0], other) for other in outcomes[1:]] == [[], [], []]


def _outcomes(job: Job, **keys: Any) -> list[Any]:
    groups = CommGroups(dict(number_groups(job).members))
    outcomes: list[Any] = []
    for workload, more in ((job, {}), (expand_job(job), {"comm_groups": groups})):
        try:
            outcomes.append(simulate(workload, **keys, **more))
        except (InputError, StallError) as error:
            outcomes.append(type(error).__name__)
    return outcomes


def test_files_are_simulated_without_a_group_file(tmp_path: Path) -> None:
    job = training_job(2, 2, 2)
    chakrasim.write_job(tmp_path / "shared", job)
    chakrasim.write_job(tmp_path / "apart", job, expand=True)
    keys = machine(8, 2)
    expected = simulate(job, **keys)
    for prefix in (tmp_path / "shared", tmp_path / "shared.ranks.json"):
        assert differences(simulate(prefix, **keys), expected) == []
    groups = tmp_path / "apart.comm_group.json"
    assert differences(simulate(tmp_path / "apart", comm_groups=groups, **keys), expected) == []
    assert simulate(tmp_path / "shared", ranks=8, check=True, **keys).makespan_ns == 0


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_classes_are_the_stages(congestion: str) -> None:
    job = training_job(4, 8, 4)
    result = simulate(job, congestion=congestion, **machine(128, 4))
    assert result.fold_reason == "128 ranks in 4 classes of 32 equal ranks"
    assert differences(result, simulate(job, congestion=congestion, fold=False, **machine(128, 4))) == []


def test_a_role_may_have_groups_of_several_sizes() -> None:
    """A group of one is done at once; its trace is that of the larger groups."""
    trace = trace_of([compute(0, 1), collective(1, 0, 4096, [0], group="odd"), compute(2, 1, [1])])
    job = Job((trace,), np.zeros(6, np.int64), {"odd": ((0, 1, 2), (3, 4), (5,))})
    shared, expanded = both(job, **machine(6))
    assert differences(shared, expanded) == []
    assert shared.finish_ns[5] == 2000 < shared.finish_ns[3] < shared.finish_ns[0]
    assert shared.counts["collectives completed at once (one member, or nothing to move)"] == 1


def test_roles_and_the_groups_of_a_file_go_together() -> None:
    nodes = [collective(0, 0, 4096, group="a"), collective(1, 0, 64, [0], group="2"), collective(2, 0, 64, [1])]
    job = Job((trace_of(nodes),), np.zeros(4, np.int64), {"a": ((0, 1), (2, 3))})
    result = simulate(job, comm_groups={"2": [3, 2, 1, 0]}, **machine(4))
    numbered = [trace_of([collective(0, 0, 4096, group=group), *nodes[1:]]) for group in ("5", "5", "6", "6")]
    groups = {"2": [3, 2, 1, 0], "5": [0, 1], "6": [2, 3]}
    assert differences(result, simulate(numbered, comm_groups=groups, **machine(4))) == []


def test_a_peer_may_be_a_position_among_all_ranks() -> None:
    programs = [[message(0, 5, "", 1, 100, 3, ())], [message(0, 6, "", 0, 100, 3, ())]]
    job = Job(tuple(trace_of(program) for program in programs), np.arange(2))
    assert differences(*both(job, **machine(2))) == []


def test_measured_durations_of_shared_traces_are_replayed() -> None:
    job = training_job(2, 2, 2)
    result = replay_recorded(job)
    assert result.finish_ns.tolist() == replay_recorded(expand_job(job)).finish_ns.tolist()
    assert result.finish_ns.tolist() == [12_000] * 4 + [16_000] * 4


def test_a_number_of_ranks_must_be_the_jobs() -> None:
    job = training_job(2, 2, 1)
    with pytest.raises(InputError, match="the workload has 4 ranks, but the network has 8 NPUs"):
        simulate(job, **machine(8))
    with pytest.raises(InputError, match="the workload has 4 ranks"):
        simulate(job, ranks=8, **machine(8))


def test_a_job_without_sense_is_refused() -> None:
    job = Job((trace_of([collective(0, 0, 64, group="tp")]),), np.zeros(2, np.int64), {"dp": ((0, 1),)})
    with pytest.raises(InputError, match="'tp' is no role of the job"):
        simulate(job, **machine(2))


def test_messages_name_the_role_of_a_group() -> None:
    uneven = (trace_of([collective(0, 0, 64, group="tp")]), trace_of([collective(0, 0, 640, group="tp")]))
    job = Job(uneven, np.array([0, 1]), {"tp": ((0, 1),)})
    with pytest.raises(InputError, match=r"the members of group 1 \(role 'tp'\) do not run the same collectives"):
        simulate(job, **machine(2, preferred_dataset_splits=1))


def test_a_stall_names_ranks_and_traces() -> None:
    waiting = trace_of([message(0, 6, "pp", 1, 100, 3, ())], "first")
    job = Job((waiting, trace_of([compute(0, 1)], "second")), np.array([0, 1]), {"pp": ((0, 1),)})
    with pytest.raises(StallError, match=r"rank 0 waits in node 0 .*for a message from rank 1"):
        simulate(job, **machine(2))


def test_peers_of_a_timeline_are_ranks(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    write_timeline(simulate(training_job(1, 1, 2), **machine(2)), path)
    text = path.read_text()
    assert '"type":"COMM_SEND_NODE","bytes":4096,"peer":1' in text
    assert '"type":"COMM_RECV_NODE","bytes":4096,"peer":0' in text


def test_a_shared_trace_is_lowered_and_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes stand once in the arena for all ranks that run them, also when every rank is simulated."""
    from chakrasim.simulator.arena import fill as setup
    from chakrasim.simulator.lowering import sharing

    calls: list[int] = []
    lower, write = sharing.lower_graph, setup._nodes
    monkeypatch.setattr(sharing, "lower_graph", lambda *a: calls.append(0) or lower(*a))  # type: ignore[func-returns-value]
    monkeypatch.setattr(setup, "_nodes", lambda *a: calls.append(1) or write(*a))  # type: ignore[func-returns-value]
    simulate(training_job(4, 4, 2), fold=False, **machine(32, 4))
    assert sorted(calls) == [0, 0, 1, 1]


def test_a_trace_without_nodes_keeps_its_rank_apart() -> None:
    """It takes no room in the arena: its nodes stand where the next trace's do."""
    traces = (trace_of([]), trace_of([compute(0, 3)]), trace_of([compute(0, 5)]))
    result = simulate(Job(traces, np.array([0, 1, 2, 0])), **machine(4))
    assert result.finish_ns.tolist() == [0, 3000, 5000, 0]
    assert [len(record.graph) for record in result.records] == [0, 1, 1, 0]


def test_groups_of_a_mesh() -> None:
    assert mesh_groups({"tp": 2, "dp": 2}) == {"tp": ((0, 1), (2, 3)), "dp": ((0, 2), (1, 3))}
