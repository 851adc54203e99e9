"""Jobs written in other makers' formats: read back equal, and as long as they were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.exchange.goal import goal_text, goal_traces
from chakrasim.exchange.simai import simai_text
from chakrasim.generator import generate_transformer
from chakrasim.machine import load_device
from chakrasim.notes import Notes
from chakrasim.trace import CollectiveType, Job, NodeType, TraceBuilder
from chakrasim.trace.foreign.goal import read_goal
from chakrasim.trace.foreign.simai import read_simai
from same_content import same_content

SHAPE = {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 128}
H100 = load_device("h100")


def machine(ranks: int) -> dict[str, Any]:
    """Every rank joined to every other: 1 byte a ns, 2,500 ns away."""
    algorithms = dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter"), "ring") | {"all-to-all": "direct"}
    return {
        "format": 1,
        "name": "loggops",
        "network": [{"topology": "FullyConnected", "npus": ranks, "bandwidth": "1 GB/s", "latency": "2500 ns"}],
        "memory": {"bandwidth": "1000000 GB/s"},
        "issue": "streams",
        "collectives": {"splits": 1, "active-chunks": 1, "endpoint-delay": "0 ns", "optimization": "baseline",
                        "scheduling": "LIFO", "algorithms": algorithms},
    }  # fmt: skip


def made(**parallel: int) -> Job:
    """A generated training step."""
    job: Job = generate_transformer({"model": SHAPE, "parallel": parallel, "batch": {"micro_batches": 2}}).job
    return job


def as_goal(job: Job, path: Path, notes: Notes | None = None) -> Job:
    path.write_text("".join(goal_text(goal_traces(job, profile=H100, notes=notes), job.ranks)))
    return read_goal(path)


def one_collective(kind: CollectiveType, size: int, ranks: int) -> Job:
    builder = TraceBuilder()
    attrs = {"is_cpu_op": False, "comm_type": int(kind), "comm_size": size}
    builder.add(0, "c", NodeType.COMM_COLL_NODE, attrs=attrs)
    return Job((builder.build(),), np.zeros(ranks, np.int64))


@pytest.mark.parametrize("parallel", [{"tp": 2, "dp": 2, "pp": 2}, {"dp": 4}])
def test_goal_comes_back_equal_and_takes_as_long(tmp_path: Path, parallel: dict[str, int]) -> None:
    job, notes = made(**parallel), Notes()
    back = as_goal(job, tmp_path / "a.goal", notes)
    traces = [back.traces[which] for which in back.trace_of_rank]
    assert all(map(same_content, goal_traces(job, profile=H100), traces))
    assert "".join(goal_text(goal_traces(back), back.ranks)) == (tmp_path / "a.goal").read_text()
    assert "collectives became" in notes.warnings[0]
    own = cs.simulate(job, machine=machine(job.ranks), device_profile="h100")
    other = cs.simulate(back, machine=machine(job.ranks))
    # Each step of a ring in a group costs the engine 10 ns more, as in ASTRA-sim.
    assert other.makespan_ns == pytest.approx(own.makespan_ns, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "size", "ranks", "loggopsim_ns", "steps"),
    [
        (CollectiveType.ALL_REDUCE, 1 << 20, 8, 1_869_994, 14),
        (CollectiveType.ALL_REDUCE, 1 << 12, 16, 82_650, 30),
        (CollectiveType.ALL_GATHER, 1 << 20, 16, 15_766_125, 15),
        (CollectiveType.REDUCE_SCATTER, 1 << 20, 8, 934_997, 7),
    ],
)
def test_rings_take_what_loggopsim_says(
    tmp_path: Path, kind: CollectiveType, size: int, ranks: int, loggopsim_ns: int, steps: int
) -> None:
    """LogGOPSim of commit 76451de on these files, L 2500, G 1, o, g and O 0: it charges a message of n bytes n - 1
    times G, so that each step takes 1 ns less there."""
    back = as_goal(one_collective(kind, size, ranks), tmp_path / "ring.goal")
    assert cs.simulate(back, machine=machine(ranks)).makespan_ns == loggopsim_ns + steps


@pytest.mark.parametrize("kind", [kind for kind in CollectiveType if kind != CollectiveType.REDUCE_SCATTER_BLOCK])
@pytest.mark.parametrize("ranks", [2, 5])
def test_every_collective_ends_as_goal(tmp_path: Path, kind: CollectiveType, ranks: int) -> None:
    back = as_goal(one_collective(kind, 1000, ranks), tmp_path / "one.goal")
    sent, taken = (_messages(back, end) for end in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE))
    assert sent == taken and sent
    assert cs.simulate(back, machine=machine(ranks)).makespan_ns > 0


def _messages(job: Job, end: NodeType) -> Counter[tuple[int, ...]]:
    """Source, target, size and tag of what is sent, or received."""
    found: Counter[tuple[int, ...]] = Counter()
    for trace in job.traces:
        columns = (trace.attr(name).integers() for name in ("comm_src", "comm_dst", "comm_size", "comm_tag"))
        found.update(zip(*(column[trace.types == int(end)].tolist() for column in columns), strict=True))
    return found


def test_goal_needs_times() -> None:
    with pytest.raises(InputError, match="--device-profile"):
        list(goal_traces(made(dp=2)))


@pytest.mark.parametrize("parallel", [{"tp": 2, "dp": 4}, {"dp": 4}, {"tp": 4}])
def test_simai_carries_the_same_collectives_and_times(tmp_path: Path, parallel: dict[str, int]) -> None:
    job, notes, path = made(**parallel), Notes(), tmp_path / "step.txt"
    path.write_text(simai_text(job, profile=H100, notes=notes))
    back = read_simai(path)
    assert back.ranks == job.ranks and _collectives(back) == _collectives(job)
    own = cs.simulate(job, machine=machine(job.ranks), device_profile="h100")
    # What ran beside a collective waits for it.
    assert cs.simulate(back, machine=machine(job.ranks)).makespan_ns == pytest.approx(own.makespan_ns, rel=0.02)


def _collectives(job: Job) -> Counter[tuple[str, int, int]]:
    (trace,) = job.traces
    nodes = np.flatnonzero(trace.types == NodeType.COMM_COLL_NODE).tolist()
    kinds, sizes = (trace.attr(name).integers().tolist() for name in ("comm_type", "comm_size"))
    return Counter((trace.attr("pg_name").string(node), kinds[node], sizes[node]) for node in nodes)


def test_simai_says_what_it_cannot_carry() -> None:
    for job in (made(pp=2), one_collective(CollectiveType.BROADCAST, 8, 2)):
        with pytest.raises(InputError, match="cannot carry"):
            simai_text(job, profile=H100)
