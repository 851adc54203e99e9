"""Single collectives and patterns of messages, as jobs that run."""

from __future__ import annotations

import pytest
from step_machines import simulate

from chakrasim import InputError, Protocol
from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, ROOTED
from chakrasim.generator.collective import SIZES, collective_job
from chakrasim.trace import NodeType

MIB = 1 << 20

#: Bytes that all ranks send together, in units of comm_size, on a ring of 8.
MOVED = {
    "all_reduce": 2 * 7,
    "all_gather": 8 * 7,
    "reduce_scatter": 7,
    "broadcast": 2 * 7 - sum(range(1, 8)) / 8,
    "reduce": 7 + sum(range(1, 8)) / 8,
    "gather": sum(range(1, 8)),
    "scatter": sum(range(1, 8)) / 8,
    "send_recv": 8,
    "all_pairs": 8 * 7,
}


@pytest.mark.parametrize("kind", MOVED)
def test_bytes_moved_follow_from_the_meaning_of_the_size(kind: str) -> None:
    result = simulate(collective_job(kind, MIB, 8), protocol=Protocol(physics=True))
    assert result.message_bytes == pytest.approx(MOVED[kind] * MIB, rel=0.02)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("ranks", [2, 5])
def test_every_type_runs(kind: str, ranks: int) -> None:
    once, twice = (
        simulate(
            collective_job(kind, MIB, ranks, repeat=repeat),
            gb_per_s=10,
            latency_ns=500,
            protocol=Protocol(physics=True),
        )
        for repeat in (1, 2)
    )
    # Without contention, whoever only sends is ready for the next one at once.
    assert 0 < once.makespan_ns <= twice.makespan_ns


def test_equal_ranks_share_one_trace() -> None:
    job = collective_job("all_reduce", MIB, 1024, repeat=3)
    (trace,) = job.traces
    assert job.ranks == 1024 and len(trace) == 3
    assert trace.node(2).attrs == {"is_cpu_op": False, "comm_type": 0, "comm_size": MIB, "pg_name": ""}
    assert trace.node(2).ctrl_deps == (1,)
    assert trace.metadata["collective"] == "all_reduce"


def test_types_of_the_schema_are_all_there() -> None:
    assert set(SIZES) - {"send_recv", "all_pairs"} == set(KINDS_BY_NAME) - {"reduce_scatter_block"}


@pytest.mark.parametrize("kind", [KINDS[number].name for number in ROOTED])
def test_roots(kind: str) -> None:
    assert collective_job(kind, MIB, 4, root=3).traces[0].node(0).attrs["root_rank"] == 3
    with pytest.raises(InputError, match="the root is no rank; found 4; expected 0 to 3"):
        collective_job(kind, MIB, 4, root=4)


def test_a_ring_of_messages() -> None:
    job = collective_job("send_recv", 10, 3, repeat=2)
    ends = [
        (NodeType(node.type).name, node.attrs["comm_peer"], node.attrs["comm_tag"], node.ctrl_deps)
        for node in map(job.traces[2].node, range(4))
    ]
    assert ends == [
        ("COMM_RECV_NODE", 1, 0, ()),
        ("COMM_SEND_NODE", 0, 0, ()),
        ("COMM_RECV_NODE", 1, 1, (0, 1)),
        ("COMM_SEND_NODE", 0, 1, (0, 1)),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all_redude", 1, 8), "no such type of collective; found 'all_redude'"),
        (("all_reduce", 1, 1), "ranks is out of range; found 1; expected 2 to 2"),
        (("all_reduce", -1, 8), "size is out of range"),
    ],
)
def test_what_is_out_of_range_is_refused(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        collective_job(*arguments)
    with pytest.raises(InputError, match="all_reduce has no root"):
        collective_job("all_reduce", 1, 8, root=2)
