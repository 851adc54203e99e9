"""A library's collectives message by message, beside the same as activities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from cases import collective, trace_of
from test_activities import Work, one
from test_library import EVERYWHERE, INSIDE, ONE_EACH, simulated, size_of
from test_uneven import drawn, nodes_of

import chakrasim as cs
from chakrasim.collectives.kinds import KINDS_BY_NAME
from chakrasim.collectives.libraries.settings import settings_of
from chakrasim.machine import Machine, load_machine

MIB = 1 << 20
OTHERS_BY_RING = ";broadcast:ring;reduce:ring;allgather:ring;reducescatter:ring"
RING, TREE = {"NCCL_ALGO": "ring"}, {"NCCL_ALGO": "tree" + OTHERS_BY_RING}
PAT = {"NCCL_ALGO": "ring;allgather:pat;reducescatter:pat", "NCCL_PAT_ENABLE": "1"}


def machine(environment: Mapping[str, str], board: str = "h100", gpus: int = 32, **more: Any) -> Machine:
    return replace(load_machine(board, gpus=gpus, library="nccl", **more), settings=settings_of(environment))


def both(on: Machine, work: Work) -> tuple[cs.SimulationResult, cs.SimulationResult]:
    return simulated(on, work), simulated(on, work, messages=True)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("environment", "kinds", "group"),
    [
        (RING, ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"), EVERYWHERE),
        (RING, ("all_reduce", "reduce_scatter", "broadcast"), INSIDE),
        (RING, ("all_reduce", "all_gather", "reduce"), ONE_EACH),
        (TREE, ("all_reduce",), EVERYWHERE),
        (TREE, ("all_reduce",), ONE_EACH),
        (PAT, ("all_gather", "reduce_scatter"), ONE_EACH),
        (RING, ("all_to_all", "gather", "scatter"), EVERYWHERE),
        (RING, ("all_to_all", "gather", "scatter"), [30, 2, 9, 11, 17]),
    ],
)
@pytest.mark.parametrize("size", [4 * MIB, 20 * MIB + 12_345])
def test_alone_messages_take_what_the_activity_takes_and_carry_as_much(
    environment: dict[str, str], kinds: Sequence[str], group: Sequence[int], size: int
) -> None:
    on = machine(environment)
    for kind in kinds:
        work = one(KINDS_BY_NAME[kind].type, size_of(kind, size, len(group)), group, 32, root=group[-1])
        whole, messages = both(on, work)
        assert messages.makespan_ns == pytest.approx(whole.makespan_ns, rel=0.02), kind
        crossed = {link.name: link.bytes for link in messages.graph_links}
        assert {link.name: link.bytes for link in whole.graph_links} == pytest.approx(crossed, rel=1e-3), kind


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [4 * MIB, 16 * MIB])
@pytest.mark.parametrize(("first", "second"), [("all_reduce", "all_reduce"), ("all_gather", "all_to_all")])
@pytest.mark.parametrize("environment", [RING, TREE])
def test_two_on_the_same_links_agree_within_a_tenth(
    environment: dict[str, str], first: str, second: str, size: int
) -> None:
    """Two GPUs share each NIC: one of the first group, and one of the second."""
    on, work = machine(environment, "v100"), Work(32)
    groups = [range(0, 32, 2), range(1, 32, 2)]
    for kind, group in zip((first, second), groups, strict=True):
        work.collective(KINDS_BY_NAME[kind].type, size_of(kind, size, 16), group)
    whole, messages = both(on, work)
    for group in groups:
        ends = [result.finish_ns[list(group)].max() for result in (whole, messages)]
        assert ends[1] == pytest.approx(ends[0], rel=0.1)


def test_unequal_parts_go_as_messages_too() -> None:
    import random

    on, group = machine({}, gpus=16), list(range(16))
    parts = drawn(random.Random(5), 16, 1 << 22)
    traces = [trace_of(nodes_of([parts], member)) for member in range(16)]
    whole, messages = (
        cs.simulate(traces, machine=on, comm_groups={"1": group}, protocol=cs.Protocol(messages=m))
        for m in (False, True)
    )
    moved = sum(parts[i][j] for i in range(16) for j in range(16) if i != j)
    assert messages.message_bytes == moved
    assert messages.makespan_ns == pytest.approx(whole.makespan_ns, rel=0.05)


@pytest.mark.parametrize(
    ("environment", "group"),
    [
        ({"NCCL_ALGO": "nvls" + OTHERS_BY_RING}, INSIDE),
        ({"NCCL_ALGO": "nvlstree" + OTHERS_BY_RING}, EVERYWHERE),
        ({"NCCL_ALGO": "collnetdirect" + OTHERS_BY_RING, "NCCL_COLLNET_ENABLE": "1"}, EVERYWHERE),
    ],
)
def test_what_switches_add_up_is_refused_with_the_reason(environment: dict[str, str], group: range) -> None:
    wrong = "in which switches add up: these are no messages; leave --messages out, name another algorithm"
    with pytest.raises(cs.InputError, match=wrong):
        simulated(machine(environment), one(0, 4 * MIB, group, 32), messages=True)


def test_collectives_of_a_step_follow_one_another_message_by_message() -> None:
    on = machine(RING, gpus=16)
    nodes = [collective(0, 0, 4 * MIB), collective(1, 6, 4 * MIB, [0]), collective(2, 9, 0, [1])]
    run = [
        cs.simulate([trace_of(nodes)] * 16, machine=on, protocol=cs.Protocol(messages=m)).makespan_ns for m in (0, 1)
    ]
    # A chain's root goes on when its messages are away, an activity's when the last rank has them.
    assert run[1] == pytest.approx(run[0], rel=0.15)
