"""Several jobs on one network: where they are placed, what they are to each other, and what a wrong file is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from cases import collective, compute, receive, send, system_of, trace_of

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.machine import Machine, load_machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.notes import Notes
from chakrasim.simulator.jobs import PlacedJob
from chakrasim.simulator.jobs_file import load_jobs
from chakrasim.simulator.together import JobsResult, simulate_jobs
from chakrasim.trace import Job, Trace

ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, BROADCAST = 0, 2, 6, 5
SYSTEM = load_system(system_of("ring", preferred_dataset_splits=1, endpoint_delay=0, local_mem_bw=0))


def job_of(traces: Sequence[Trace]) -> Job:
    return Job(tuple(traces), np.arange(len(traces)))


def on(graph: NetworkGraph, routing: Routing = Routing()) -> Machine:  # noqa: B008
    return Machine(graph, SYSTEM, routing=routing)


def islands(count: int, size: int) -> NetworkGraph:
    """Islands with a switch each, all of them on one more switch."""
    graph = GraphBuilder()
    graph.add_ranks(count * size, size)
    top = graph.vertex("top")
    for island, switch in enumerate(graph.add_switches("s", count)):
        graph.cable(switch, top, 25.0, 10.0)
        for rank in range(island * size, (island + 1) * size):
            graph.cable(rank, switch, 50.0, 100.0)
    return graph.build()


# -- where jobs run ----------------------------------------------------------------------------------------------------


def placed(tmp_path: Path, graph: NetworkGraph, places: Sequence[object], ranks: int = 4) -> list[list[int]]:
    cs.write(tmp_path / "step", [trace_of([compute(0, 1)])] * ranks)
    entries = [{"name": f"job {i}", "trace": str(tmp_path / "step"), **dict(own)} for i, own in enumerate(places)]  # type: ignore[call-overload]
    return [job.ranks.tolist() for job in load_jobs({"jobs": entries}, on(graph).places, Notes())]


def test_patterns_of_two_jobs_of_four_ranks(tmp_path: Path) -> None:
    boards = islands(4, 2)
    assert placed(tmp_path, boards, [{}, {}]) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert placed(tmp_path, boards, [{"place": "spread"}] * 2) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    own = [{"place": [4, 0, 6, 2]}, {"place": [5, 1, 7, 3]}]
    assert placed(tmp_path, boards, own) == [[4, 0, 6, 2], [5, 1, 7, 3]]
    drawn = placed(tmp_path, boards, [{"place": {"random": 1}}] * 2)
    assert sorted(drawn[0] + drawn[1]) == list(range(8))
    assert drawn == placed(tmp_path, boards, [{"place": {"random": 1}}] * 2)
    assert drawn != placed(tmp_path, boards, [{"place": {"random": 2}}] * 2)


def test_ranks_that_are_given_are_taken_from_the_start(tmp_path: Path) -> None:
    assert placed(tmp_path, islands(4, 2), [{}, {"place": [1, 3, 5, 7]}]) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_without_islands_jobs_spread_over_leaves(tmp_path: Path) -> None:
    graph = GraphBuilder()
    graph.add_ranks(8)
    leaves = graph.add_switches("leaf", 4)
    for rank in range(8):
        graph.cable(rank, leaves[rank // 2], 50.0, 0.0)
    for leaf in leaves[1:]:
        graph.cable(leaves[0], leaf, 50.0, 0.0)
    assert placed(tmp_path, graph.build(), [{"place": "spread"}] * 2) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_whole_islands_are_shared_with_nobody(tmp_path: Path) -> None:
    graph = islands(5, 4)
    assert placed(tmp_path, graph, [{"place": [1]}, {"islands": "whole"}], 1) == [[1], [4]]
    drawn = placed(tmp_path, graph, [{"place": {"random": seed}, "islands": "whole"} for seed in range(5)])
    assert [ranks[0] % 4 for ranks in drawn] == [0] * 5
    assert all(ranks == list(range(ranks[0], ranks[0] + 4)) for ranks in drawn)


# -- what jobs are to each other ---------------------------------------------------------------------------------------


def random_job(draw: Random, ranks: int) -> Job:
    """Compute, collectives of all and of halves, and messages, on every rank in one order."""
    programs: list[list[dict[str, Any]]] = [[] for _ in range(ranks)]
    for step in range(draw.randint(2, 5)):
        kind, size = draw.choice("cahm"), draw.choice([1, 999, 4096, 1_000_003, 8 << 20])
        slow, tag = draw.randrange(ranks), draw.randint(0, 3)
        for rank, program in enumerate(programs):
            after = [2 * step - 2] if step else []
            program.append(dict(compute(2 * step, draw.randint(1, 40) if rank == slow else 7, after)))
            node: Any = collective(2 * step + 1, ALL_REDUCE, size, [2 * step])
            if kind == "a":
                node = collective(2 * step + 1, ALL_TO_ALL, size, [2 * step])
            elif kind == "h" and ranks % 2 == 0:
                node = collective(2 * step + 1, ALL_GATHER, size, [2 * step], str(1 + rank % 2))
            elif kind == "m":
                other, make = rank ^ 1, receive if rank % 2 else send
                node = compute(2 * step + 1, 3, [2 * step])
                if other < ranks:
                    node = dict(make(2 * step + 1, other, size, tag)) | {"data_deps": [2 * step]}
            program.append(dict(node))
    return job_of([trace_of(program) for program in programs])


def random_machine(draw: Random) -> tuple[Machine, list[list[int]]]:
    """A machine, and sets of its ranks whose ways have no link in common: islands, or leaves that are not mixed."""
    size, count = draw.randint(2, 5), draw.randint(2, 5)
    if draw.random() < 0.3:
        chosen = load_machine(draw.choice(["h100", "mi300x", "dgx-1v"]), gpus=8 * count, library="none")
        return chosen, [list(range(8 * i, 8 * i + 8)) for i in range(count)]
    graph = GraphBuilder()
    graph.add_ranks(size * count, size if draw.random() < 0.5 else None)
    spines = graph.add_switches("spine", draw.randint(1, 3))
    for number, leaf in enumerate(graph.add_switches("leaf", count)):
        speed = draw.choice([50.0, 12.5, 33.3])
        for spine in spines:
            graph.cable(leaf, spine, draw.choice([50.0, 7.0]), 100.0, count=draw.randint(1, 2))
        for rank in range(number * size, (number + 1) * size):
            graph.cable(rank, leaf, speed, draw.choice([0.0, 250.0, 0.4]))
    routing = Routing(rule=draw.choice(["ecmp", "spray"]), seed=draw.randint(0, 9))
    return on(graph.build(), routing), [list(range(i * size, (i + 1) * size)) for i in range(count)]


def placed_at_random(draw: Random, machine: Machine, apart: list[list[int]]) -> list[PlacedJob]:
    jobs = []
    for number, ranks in enumerate(apart):
        own = draw.sample(ranks, draw.randint(2, len(ranks)))
        halves = {half: tuple(range(half - 1, len(own), 2)) for half in (1, 2)}
        start = draw.choice([0, 0, 137, 100_000])
        jobs.append(PlacedJob(f"job {number}", random_job(draw, len(own)), np.array(own), start, halves))
    return jobs


def times_of(result: JobsResult, job: PlacedJob) -> list[int]:
    """When each rank of the job ended, and what each sent."""
    run = result.result
    return [*run.finish_ns[job.ranks].tolist(), *run.bytes_sent[job.ranks].tolist()]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(25))
def test_jobs_without_a_common_link_equal_their_single_runs_to_the_nanosecond(seed: int) -> None:
    draw = Random(f"apart {seed}")
    machine, apart = random_machine(draw)
    jobs = placed_at_random(draw, machine, apart)
    protocol = cs.Protocol(messages=draw.random() < 0.5)
    both = simulate_jobs(jobs, machine=machine, protocol=protocol)
    assert {figures.slowdown for figures in both.jobs} == {1.0}
    assert not any(figures.shared_links for figures in both.jobs)
    for job, figures in zip(jobs, both.jobs, strict=True):
        single = simulate_jobs([job], machine=machine, protocol=protocol)
        assert times_of(single, job) == times_of(both, job)
        assert single.jobs == (figures,)
    again = simulate_jobs(jobs, machine=machine, protocol=protocol)
    assert again.to_json() == both.to_json()


@pytest.mark.parametrize("seed", range(8))
def test_a_job_by_itself_is_what_simulate_says_of_it(seed: int) -> None:
    """Its own groups and tags, on ranks that are all of a machine, in their order."""
    draw = Random(f"alone {seed}")
    machine, _ = random_machine(draw)
    job = random_job(draw, machine.ranks)
    halves = {half: tuple(range(half - 1, machine.ranks, 2)) for half in (1, 2)}
    plain = cs.simulate(job, machine=machine, comm_groups={half: list(ranks) for half, ranks in halves.items()})
    result = simulate_jobs([PlacedJob("a", job, np.arange(machine.ranks), 0, halves)], machine=machine)
    assert result.result.finish_ns.tolist() == plain.finish_ns.tolist()
    late = simulate_jobs([PlacedJob("a", job, np.arange(machine.ranks), 5_000, halves)], machine=machine)
    assert (late.result.finish_ns - 5_000).tolist() == plain.finish_ns.tolist()


def test_jobs_with_the_same_groups_and_tags_do_not_meet() -> None:
    """Two jobs of one trace: messages and collectives of equal numbers stay each in its job."""
    programs = [
        [collective(0, ALL_REDUCE, 8000, group="1"), send(1, 1, 5000, 7, [0])],
        [collective(0, ALL_REDUCE, 8000, group="1"), receive(1, 0, 5000, 7)],
    ]
    job = job_of([trace_of(nodes) for nodes in programs])
    jobs = [
        PlacedJob("a", job, np.array([0, 3]), 0, {1: (0, 1)}),
        PlacedJob("b", job, np.array([2, 1]), 10_000, {1: (1, 0)}),
    ]
    graph = GraphBuilder()
    graph.add_ranks(4)
    switch = graph.vertex("switch")
    for rank in range(4):
        graph.cable(rank, switch, 50.0, 0.0)
    result = simulate_jobs(jobs, machine=on(graph.build()))
    took = 8000 // 50 + 5000 // 50
    assert [(one.finish_ns, one.slowdown) for one in result.jobs] == [(took, 1.0), (10_000 + took, 1.0)]
    # Each all-reduce of two ranks sends its size once; the sender its message, too.
    assert result.result.bytes_sent.tolist() == [13_000, 8_000, 13_000, 8_000]


def test_a_slow_rank_slows_the_job_that_runs_on_it() -> None:
    from chakrasim.machine.slow import parse_slow

    machine = replace(on(islands(2, 2)), slow=parse_slow(["3=2"]))
    job = job_of([trace_of([compute(0, 10)])] * 2)
    jobs = [PlacedJob("a", job, np.array([0, 1])), PlacedJob("b", job, np.array([2, 3]))]
    assert [one.finish_ns for one in simulate_jobs(jobs, machine=machine).jobs] == [10_000, 20_000]


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job of two ranks, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    cs.write(tmp_path / "sub" / "step", [trace_of([collective(0, ALL_REDUCE, 1 << 20)])] * 2)
    return tmp_path


def simulated(text: str, *words: str) -> int:
    Path("sub/jobs.yaml").write_text(text)
    return main(
        [
            "simulate",
            "--jobs",
            "sub/jobs.yaml",
            "--machine",
            "h100",
            "--gpus",
            "16",
            "--library",
            "none",
            "--quiet",
            *words,
        ]
    )


def test_a_prefix_stands_beside_the_file_or_here(files: Path) -> None:
    both = "jobs:\n- {name: a, trace: step}\n- {name: b, trace: sub/step, start: 1 us}\n"
    assert simulated(both, "--json", "out.json", "--timeline", "out.timeline.json") == 0
    written = json.loads(Path("out.json").read_text())
    assert [(job["name"], job["ranks"], job["start_ns"]) for job in written["jobs"]] == [
        ("a", [0, 1], 0),
        ("b", [2, 3], 1000),
    ]
    assert all(job.keys() >= {"finish_ns", "alone_ns", "slowdown", "shared_links"} for job in written["jobs"])
    assert Path("out.timeline.json").stat().st_size > 100


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("trace: nope", "line 2: $.jobs[0].trace: there are no trace files under this prefix"),
        ("trace: step, ranks: 3", "line 2: $.jobs[0].ranks: 3 ranks are asked for, but the traces are of 2"),
        ("trace: step, place: [0]", "$.jobs[0].place: job a has 2 ranks, but is placed on 1"),
        ("trace: step, place: [1, 1]", "$.jobs[0].place: rank 1 is given to job a twice"),
        ("trace: step, place: [1, 16]", "$.jobs[0].place: job a is placed on rank 16; expected ranks of the machine"),
        ("trace: step, place: paked", "$.jobs[0].place: unknown placement; found 'paked'; expected packed, spread"),
        ("trace: step, start: 3", "$.jobs[0].start: the unit is missing"),
        ("trace: step, start: -3 us", "$.jobs[0].start: not a quantity"),
        ("trace: step, share: true", "$.jobs[0].share: unknown key"),
        ("trace: step, comm-group: none.json", "none.json"),
        ("trace: step}\n- {name: b, trace: step, place: [0, 2]", "line 3: $.jobs[1].place: the job does not fit"),
        (
            "trace: step, place: [0, 1]}\n- {name: b, trace: step, place: [1, 2]",
            "rank 1 is given to job a and to job b",
        ),
        ("trace: step}\n- {name: a, trace: step", "line 3: $.jobs[1].name: two jobs have one name; found 'a'"),
    ],
)
def test_wrong_files_are_told_what_and_where(
    files: Path, entry: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"jobs:\n- {{name: a, {entry}}}\n"
    if "fit" in said:
        text = text.replace("place: [0, 2]", "ranks: 2").replace("a, trace: step}", "a, trace: big}")
        cs.write(files / "sub" / "big", [trace_of([compute(0, 1)])] * 15)
    assert simulated(text, "--json", "out.json") == 2
    error = capsys.readouterr().err
    assert said in error and not Path("out.json").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sub/step"], "a prefix does not go with --jobs"),
        (["--ranks", "4"], "--ranks does not go with --jobs: the file says it of each job"),
        (["--comm-group", "g.json"], "--comm-group does not go with --jobs: the file says it of each job"),
        (["--network-model", "aware"], "--jobs runs on flow or packet, not on aware"),
        (["--no-fold"], "--no-fold does not go with --jobs"),
        (["--check"], "--check does not go with --jobs"),
        (["--json", "sub/jobs.yaml"], "--json would replace an input"),
    ],
)
def test_options_that_make_no_sense_with_jobs_are_refused(
    files: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulated("jobs: [{name: a, trace: step}]\n", *words) == 2
    assert said in capsys.readouterr().err


def test_a_jobs_groups_are_read_from_its_file(files: Path) -> None:
    cs.write(files / "sub" / "pair", [trace_of([collective(0, ALL_REDUCE, 1 << 20, group="1")])] * 4)
    Path("sub/groups.json").write_text('{"1": [0, 1, 2, 3]}')
    text = "jobs:\n- {name: a, trace: pair, comm-group: groups.json, place: [9, 8, 3, 2]}\n"
    assert simulated(text, "--json", "out.json") == 0
    assert json.loads(Path("out.json").read_text())["bytes_sent"][8] == (1 << 20) * 3 // 2
