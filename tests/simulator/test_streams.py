"""Streams side by side: order, what communication holds of a device, the host, and what the time is called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Node, collective, compute, receive, send, trace_of
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim import InputError, SimulationResult, StallError
from chakrasim.collectives import Collective
from chakrasim.generator import generate_transformer
from chakrasim.machine import Machine, load_machine
from chakrasim.simulator import PARTS
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.library import Courses

HERE = Path(__file__).resolve().parent
LATENCY_NS = 500
PLAIN = {"splits": 1, "endpoint-delay": "0 ns", "algorithms": {"all-reduce": "ring", "all-to-all": "direct"}}


def machine_of(
    ranks: int, bandwidth: str = "8000000000 Gb/s", latency: str = f"{LATENCY_NS} ns", **keys: Any
) -> Machine:
    """Ranks at one switch, whose links cost their latency and next to nothing else."""
    parts = [{"one-switch": {"bandwidth": bandwidth, "latency": latency}}]
    network = {"graph": {"ranks": ranks, "parts": parts}}
    memory = {"bandwidth": "3350 GB/s"}
    return load_machine(
        {"format": 1, "network": network, "memory": memory, "collectives": PLAIN, "issue": "streams", **keys}
    )


def simulated(programs: Sequence[Sequence[Node]], machine: Machine | None = None, **options: Any) -> SimulationResult:
    traces = [trace_of(program, f"rank-{rank}") for rank, program in enumerate(programs)]
    return cs.simulate(traces, machine=machine or machine_of(max(len(programs), 2)), **options)


def measured(id: int, micros: int, deps: Sequence[int] = (), **attr: Any) -> Node:
    """A compute node that takes so long on any device."""
    return compute(id, micros, deps, is_recorded=True, **attr)


def idle(ranks: int) -> list[list[Node]]:
    return [[] for _ in range(ranks)]


def part(result: SimulationResult, name: str) -> list[int]:
    times: list[int] = result.parts_ns[:, PARTS.index(name)].tolist()
    return times


def ends(result: SimulationResult, rank: int = 0) -> list[int]:
    times: list[int] = result.records[rank].end_ns.tolist()
    return times


# --- order -----------------------------------------------------------------------------------------------------------


def test_nodes_of_one_stream_follow_one_another_and_streams_run_side_by_side() -> None:
    one = [compute(0, 5), compute(1, 7), compute(2, 11, stream=3), compute(3, 2, stream=3)]
    result = simulated([one, []])
    assert ends(result) == [5_000, 12_000, 11_000, 13_000]
    assert result.makespan_ns == 13_000


def test_a_dependency_holds_up_what_is_behind_it_on_the_stream_and_nothing_else() -> None:
    one = [compute(0, 5), compute(1, 1, [0], stream=1), compute(2, 1, stream=1), compute(3, 1)]
    assert ends(simulated([one, []])) == [5_000, 6_000, 7_000, 6_000]


def test_collectives_of_groups_run_side_by_side_and_those_of_one_group_one_after_another() -> None:
    alone = simulated([[collective(0, 0, 4)]] * 4).makespan_ns
    groups = {1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}
    beside = [collective(0, 0, 4, group="1"), collective(1, 0, 4, group="2")]
    behind = [collective(0, 0, 4, group="1", stream=1), collective(1, 0, 4, group="1", stream=2)]
    assert simulated([beside] * 4, comm_groups=groups).makespan_ns == alone
    assert simulated([behind] * 4, comm_groups=groups).makespan_ns == 2 * alone


def test_a_receive_that_is_posted_early_holds_up_no_send() -> None:
    early = [receive(0, 1, 4, 7), send(1, 1, 4, 8)]
    other = [receive(0, 0, 4, 8), send(1, 0, 4, 7, [0])]
    result = simulated([early, other])
    assert result.finish_ns.tolist() == [2 * ends(result, 1)[0]] * 2


def test_a_rank_may_enter_collectives_of_two_groups_in_either_order() -> None:
    groups = {1: [0, 1], 2: [0, 1]}
    one = [collective(0, 0, 4, group="1"), collective(1, 0, 4, group="2")]
    other = [collective(0, 0, 4, group="2"), collective(1, 0, 4, group="1")]
    assert simulated([one, other], comm_groups=groups).makespan_ns > 0
    with pytest.raises(StallError) as error:
        simulated([one, other], replace(machine_of(2), issue="astra-sim"), comm_groups=groups)
    assert error.value.cycle


def test_operations_of_the_host_follow_one_another_by_thread() -> None:
    one = [
        compute(0, 5, is_cpu_op=True, tid=1),
        compute(1, 7, is_cpu_op=True, tid=2),
        compute(2, 1, is_cpu_op=True, tid=1),
    ]
    assert ends(simulated([one, []])) == [5_000, 7_000, 6_000]


def test_nodes_that_do_nothing_hold_nothing_up() -> None:
    metadata = {"id": 1, "type": 1, "data_deps": [0], "attr": {}}
    one = [compute(0, 5), metadata, compute(2, 5, [1], stream=1)]
    assert ends(simulated([one, []])) == [5_000, 5_000, 10_000]


@dataclass
class Drawn:
    """A random job: ``programs`` by rank, ``actions`` in an order in which a host could issue them."""

    ranks: int
    programs: list[list[Node]] = field(default_factory=list)
    actions: list[tuple[Any, ...]] = field(default_factory=list)


@st.composite
def jobs(draw: st.DrawFn) -> Drawn:
    job = Drawn(draw(st.integers(2, 4)))
    job.programs = idle(job.ranks)
    tags = 0
    for _ in range(draw(st.integers(1, 25))):
        what = draw(st.sampled_from(("compute", "compute", "collective", "message")))
        if what == "compute":
            ranks = [draw(st.integers(0, job.ranks - 1))]
            action = (what, draw(st.integers(0, 2)), draw(st.integers(1, 9)))
        elif what == "collective":
            group = draw(st.integers(1, 2))
            ranks = list(range(job.ranks)) if group == 1 else [0, 1]
            action = (what, group, draw(st.sampled_from((None, 4, 5))))
        else:
            ranks = draw(st.permutations(range(job.ranks)))[:2]
            tags += 1
            action = (what, tags, 0)
        nodes = {}
        for i, rank in enumerate(ranks):
            own = job.programs[rank]
            count = draw(st.integers(0, min(2, len(own))))
            deps = sorted({draw(st.integers(0, len(own) - 1)) for _ in range(count)})
            nodes[rank] = len(own)
            own.append(_node(action, len(own), deps, ranks[1 - i] if len(ranks) > 1 else rank, sends=i == 0))
        job.actions.append((*action, nodes))
    return job


def _node(action: tuple[Any, ...], number: int, deps: list[int], other: int, *, sends: bool) -> Node:
    what, which, more = action
    if what == "compute":
        return compute(number, more, deps, stream=which)
    if what == "collective":
        stream: dict[str, int] = {} if more is None else {"stream": more}
        return collective(number, 0, 4, deps, group=str(which), **stream)
    return send(number, other, 4, which, deps) if sends else receive(number, other, 4, which, deps)


def scheduled(job: Drawn, took: Mapping[str, int]) -> list[list[int]]:
    """By rank and node the end, as anyone would reckon it from the rules: no resource, only who waits for whom."""
    end: list[list[int]] = idle(job.ranks)  # type: ignore[assignment]
    free: dict[tuple[Any, ...], int] = {}

    def ready(rank: int, number: int, *lines: tuple[Any, ...]) -> int:
        waits = [end[rank][dep] for dep in job.programs[rank][number]["data_deps"]]
        return max([0, *waits, *(free.get((rank, *line), 0) for line in lines)])

    def done(rank: int, when: int, *lines: tuple[Any, ...]) -> None:
        end[rank].append(when)
        free.update({(rank, *line): when for line in lines})

    for what, which, more, nodes in job.actions:
        if what == "compute":
            ((rank, number),) = nodes.items()
            done(rank, ready(rank, number, ("stream", which)) + 1000 * more, ("stream", which))
        elif what == "collective":
            lines = [("group", which)] + ([("stream", more)] if more is not None else [])
            when = max(ready(rank, number, *lines) for rank, number in nodes.items()) + took[f"group {which}"]
            for rank in nodes:
                done(rank, when, *lines)
        else:
            (source, sent), (target, got) = nodes.items()
            when = ready(source, sent, ("to", target)) + took["message"]
            done(source, when, ("to", target))
            done(target, max(when, ready(target, got, ("from", source))), ("from", source))
    return end


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_ends_are_those_of_a_schedule_by_hand(job: Drawn) -> None:
    groups = {1: list(range(job.ranks)), 2: [0, 1]}
    alone = {
        f"group {group}": simulated(
            [[collective(0, 0, 4, group=str(group))] if rank in members else [] for rank in range(job.ranks)],
            machine_of(job.ranks), comm_groups=groups,
        ).makespan_ns
        for group, members in groups.items()
    }  # fmt: skip
    alone["message"] = simulated([[send(0, 1, 4)], [receive(0, 0, 4)]]).makespan_ns
    result = simulated(job.programs, machine_of(job.ranks), comm_groups=groups)
    assert [ends(result, rank) for rank in range(job.ranks)] == scheduled(job, alone)
    assert (result.parts_ns.sum(axis=1) == result.makespan_ns).all()


@pytest.mark.slow
def test_uncompiled_it_says_the_same() -> None:
    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import test_streams; print(test_streams.numbers())"
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "CHAKRASIM_JIT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300, check=True
    )
    assert done.stdout == numbers() + "\n"


def numbers() -> str:
    """The figures of a pipelined step on a board, with collectives beside compute and a host."""
    job = generate_transformer(
        {"model": {"layers": 4, "hidden": 256, "heads": 4, "vocabulary": 512, "sequence": 256},
         "parallel": {"tp": 2, "pp": 2, "dp": 2}, "batch": {"micro_batches": 3}}
    ).job  # fmt: skip
    held = [collective(0, 0, 1 << 22, stream=1), measured(1, 300), measured(2, 5, launch_ns=400_000, host_waits=True)]
    results = [
        cs.simulate(job, machine="h100"),
        simulated([[*held, measured(3, 1, stream=2, launch_ns=400_100)]] * 8, load_machine("h100")),
    ]
    return "\n".join(result.to_json() for result in results)


# --- what communication holds ----------------------------------------------------------------------------------------


def held_by(size: int, machine: Machine) -> int:
    """What the library's kernel of an all-reduce of all ranks holds, of `layout.WHOLE`."""
    course = Courses(machine).of(Collective.ALL_REDUCE, size, tuple(range(machine.ranks)))
    return round(at.WHOLE * course.choice.channels / 132)


@pytest.mark.parametrize("share", [None, 1.0, 0.5, 0.0])
def test_compute_beside_a_collective_is_slower_by_what_its_kernel_holds(share: float | None) -> None:
    machine, size = load_machine("h100"), 1 << 26
    alone = simulated([[collective(0, 0, size)]] * 8, machine).makespan_ns
    held = held_by(size, machine)
    assert 0.05 * at.WHOLE < held < 0.5 * at.WHOLE
    given = {} if share is None else {"slowed_share": share}
    result = simulated([[collective(0, 0, size), measured(1, 1000, **given)]] * 8, machine)
    rate = at.WHOLE - int(held * (1.0 if share is None else share))
    left = (1_000_000 << at.SHARE_BITS) - alone * rate
    assert ends(result)[0] == alone < 1_000_000
    assert ends(result)[1] == alone - (-left >> at.SHARE_BITS)
    assert part(result, "overlap") == [alone] * 8


def test_a_collective_that_waits_for_others_holds_as_much() -> None:
    machine, size = load_machine("h100"), 1 << 20
    first = [collective(0, 0, size), measured(1, 1000)]
    late = [measured(0, 5000), collective(1, 0, size, [0])]
    result = simulated([first] + [late] * 7, machine)
    rate = at.WHOLE - held_by(size, machine)
    assert ends(result)[1] == -(-(1_000_000 << at.SHARE_BITS) // rate)
    assert part(result, "overlap")[0] == ends(result)[1]
    assert part(result, "waiting")[0] == 5_000_000 - ends(result)[1]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("compute", "collective")), st.integers(0, 3), st.integers(1, 400)), max_size=25
    ),
    st.integers(2, 132),
)
def test_work_is_what_is_left_of_the_device_over_the_time_that_it_takes(
    drawn: list[tuple[str, int, int]], processors: int
) -> None:
    machine = load_machine("h100")
    assert machine.profile is not None
    machine = replace(machine, profile=replace(machine.profile, processors=processors))
    groups = {1: list(range(8)), 2: [0, 1], 3: list(range(8))}
    program = [
        measured(i, amount, stream=which, slowed_share=which / 4 + 0.25)
        if what == "compute"
        else collective(i, 0, amount << 14, group=str(max(which, 1)), stream=4 + max(which, 1))
        for i, (what, which, amount) in enumerate(drawn)
    ]
    late = [measured(0, 150, stream=9), *({**node, "id": node["id"] + 1} for node in program)]
    traces = [program, *[late if rank % 2 else program for rank in range(1, 8)]]
    traces[2:] = [[node for node in own if node["attr"].get("pg_name") != "2"] for own in traces[2:]]
    result = simulated(traces, machine, comm_groups=groups)
    courses = Courses(machine)
    start, end = result.records[0].start_ns.tolist(), result.records[0].end_ns.tolist()
    held = {
        i: round(at.WHOLE * min(courses.of(0, amount << 14, groups[max(which, 1)]).choice.channels / processors, 1.0))
        for i, (what, which, amount) in enumerate(drawn)
        if what == "collective"
    }
    most = at.WHOLE * (processors - 1) // processors
    for i, (what, which, amount) in enumerate(drawn):
        if what == "compute":
            suffers = round(at.WHOLE * (which / 4 + 0.25))
            edges = sorted({start[i], end[i] - 1, end[i], *(t for k in held for t in (start[k], end[k]))})
            done = [0, 0]
            for a, b in pairwise(edges):
                sum_held = min(sum(share for k, share in held.items() if start[k] <= a < end[k]), most)
                rate = at.WHOLE - (sum_held * suffers >> at.SHARE_BITS)
                for j, until in enumerate((end[i] - 1, end[i])):
                    done[j] += (b - a) * rate if start[i] <= a and b <= until else 0
            assert done[0] < amount * 1000 << at.SHARE_BITS <= done[1]


def test_a_share_is_a_number_from_0_to_1() -> None:
    for wrong in (1.5, -0.5, "half"):
        with pytest.raises(InputError, match="slowed_share"):
            simulated([[compute(0, 1, slowed_share=wrong)], []])


def test_a_profile_says_how_many_processors_there_are() -> None:
    machine = load_machine("h100")
    assert machine.profile is not None
    few = replace(machine, profile=replace(machine.profile, processors=66))
    program = [[collective(0, 0, 1 << 20), measured(1, 1000)]] + [
        [measured(0, 9000), collective(1, 0, 1 << 20, [0])]
    ] * 7
    lost = [ends(simulated(program, one))[1] - 1_000_000 for one in (machine, few)]
    shares = [1 - 1_000_000 / (1_000_000 + ns) for ns in lost]
    assert shares[1] == pytest.approx(2 * shares[0], rel=1e-3)


# --- the host --------------------------------------------------------------------------------------------------------


def test_nothing_ends_before_the_host_has_launched_it() -> None:
    one = [compute(0, 2, launch_ns=7_000), compute(1, 2, launch_ns=8_000), compute(2, 2, launch_ns=9_000)]
    assert ends(simulated([one, []])) == [7_000, 9_000, 11_000]


def test_communication_begins_when_the_host_has_launched_it() -> None:
    alone = simulated([[collective(0, 0, 4)]] * 2).makespan_ns
    result = simulated([[collective(0, 0, 4, launch_ns=3_000)]] * 2)
    assert result.makespan_ns == 3_000 + alone
    sent = simulated([[send(0, 1, 4)], [receive(0, 0, 4)]]).makespan_ns
    messages = [[{**send(0, 1, 4), "attr": {**send(0, 1, 4)["attr"], "launch_ns": 900}}], [receive(0, 0, 4)]]
    assert simulated(messages).makespan_ns == 900 + sent


def test_a_host_that_waits_launches_what_follows_later() -> None:
    waits = [
        compute(0, 10, launch_ns=1_000, host_waits=True),
        compute(1, 1, launch_ns=1_500),
        compute(2, 1, stream=1, launch_ns=4_000),
        compute(3, 1, stream=2),
    ]
    # The host is 9,000 ns behind its launch times once it has waited for the end of the first, at 10,000 ns.
    assert ends(simulated([waits, []])) == [10_000, 11_000, 13_000, 11_000]
    waits[0] = compute(0, 1, launch_ns=5_000, host_waits=True)
    assert ends(simulated([waits, []])) == [5_000, 6_000, 6_000, 6_000]


def test_launch_times_are_refused_out_of_range() -> None:
    for wrong in (-1, 1 << 46):
        with pytest.raises(InputError, match="launch_ns"):
            simulated([[compute(0, 1, launch_ns=wrong)], []])


# --- what the time is called -----------------------------------------------------------------------------------------


def test_waiting_bubble_and_transfer_are_told_apart() -> None:
    machine = machine_of(3, bandwidth="8 Gb/s", latency="0 ns")  # a byte a ns
    first = [compute(0, 5), send(1, 1, 2_000, deps=[0]), collective(2, 0, 300, [1], group="1")]
    second = [receive(0, 0, 2_000), compute(1, 1, [0]), collective(2, 0, 300, [1], group="1")]
    result = simulated([first, second, []], machine, comm_groups={1: [0, 1]})
    assert part(result, "bubble") == [0, 5_000, 0]
    assert part(result, "exposed_comm") == [2_300, 2_300, 0]
    assert part(result, "waiting") == [1_000, 0, 0]
    assert part(result, "compute") == [5_000, 1_000, 0]
    of_role = {one.role: one for one in result.roles}
    assert of_role["messages"].exposed_ns.tolist() == [2_000, 2_000, 0]
    assert of_role["groups"].exposed_ns.tolist() == [300, 300, 0]
    assert of_role["groups"].waiting_ns.tolist() == [1_000, 0, 0]


def test_a_receive_that_has_nothing_to_receive_yet_is_no_communication() -> None:
    one = [compute(0, 9), send(1, 1, 4, deps=[0])]
    result = simulated([one, [receive(0, 0, 4), compute(1, 20)]])
    assert part(result, "overlap")[1] == 2 * LATENCY_NS
    assert part(result, "compute")[1] == 20_000 - 2 * LATENCY_NS
    assert part(result, "bubble")[1] == 0


STEP = {
    "model": {"layers": 32, "hidden": 1024, "heads": 8, "vocabulary": 64, "sequence": 8192},
    "parallel": {"pp": 4},
    "batch": {"micro_batches": 8},
}


@pytest.mark.parametrize("parallel", [{"pp": 4}, {"pp": 2}, {"pp": 4, "tp": 2, "dp": 2}])
def test_on_a_perfect_network_a_step_has_its_bubble_and_exposes_nothing(parallel: dict[str, int]) -> None:
    ranks = int(np.prod(list(parallel.values())))
    machine = machine_of(ranks, "400000 Gb/s", "0 ns", compute={"profile": "h100"})
    micro_batches = 8
    spec = {**STEP, "parallel": parallel, "batch": {"micro_batches": micro_batches}}
    result = cs.simulate(generate_transformer(spec).job, machine=machine)
    whole, pp = result.makespan_ns, parallel["pp"]
    shares = {name: result.parts_ns[:, i] / whole for i, name in enumerate(PARTS)}
    expected = (pp - 1) / (micro_batches + pp - 1)
    assert shares["exposed_comm"].max() < 0.01
    # A stage stands still before its first micro-batch, between them, and after its last one.
    still = shares["bubble"] + shares["done"] + shares["waiting"] + shares["idle"]
    assert still == pytest.approx(expected, abs=0.01)
    first_stage = ranks // pp
    assert shares["bubble"][:first_stage] == pytest.approx(expected, abs=0.01)


def test_roles_and_parts_agree_where_one_role_communicates() -> None:
    job = generate_transformer({**STEP, "parallel": {"tp": 8}}).job
    result = cs.simulate(job, machine="h100")
    (tp,) = result.roles
    assert tp.role == "tp"
    assert tp.exposed_ns.tolist() == part(result, "exposed_comm")
    assert tp.waiting_ns.tolist() == part(result, "waiting")
    assert (tp.hidden_ns == result.parts_ns[:, PARTS.index("overlap")]).all()
    assert '"roles": [{' in result.to_json()


# --- what cannot be simulated ----------------------------------------------------------------------------------------


def test_who_waits_for_whom_is_said_with_the_stream() -> None:
    groups = {1: [0, 1], 2: [0, 1]}
    one = [collective(0, 0, 4, group="1", stream=5), collective(1, 0, 4, group="2", stream=5)]
    other = [collective(0, 0, 4, group="2", stream=5), collective(1, 0, 4, group="1", stream=5)]
    with pytest.raises(StallError) as error:
        simulated([one, other], comm_groups=groups)
    assert "on stream 5 for the all-reduce of 4 bytes of group 1" in str(error.value)
    assert error.value.cycle == (0, 1) or error.value.cycle == (1, 0)


def test_a_cycle_of_dependencies_and_streams_is_explained() -> None:
    with pytest.raises(InputError) as error:
        simulated([[compute(0, 1, [1], stream=2), compute(1, 1, stream=2)], []])
    assert "1 follows 0 (stream 2)" in error.value.message
    assert error.value.remedy is not None and "astra-sim" in error.value.remedy


def test_dependencies_alone_in_a_cycle_are_refused_as_ever() -> None:
    with pytest.raises(InputError, match="dependencies form a cycle: "):
        simulated([[compute(0, 1, [1], stream=1), compute(1, 1, [0], stream=2)], []])


# --- other networks, folding, the choice -----------------------------------------------------------------------------


DIMENSIONS = {
    "format": 1,
    "issue": "streams",
    "network": [
        {"topology": "Ring", "npus": 4, "bandwidth": "100 GiB/s", "latency": "500 ns"},
        {"topology": "Switch", "npus": 2, "bandwidth": "50 GiB/s", "latency": "700 ns"},
    ],
    "memory": {"bandwidth": "1600 GB/s"},
    "collectives": {"splits": 4, "algorithms": {"all-reduce": ["ring", "doubleBinaryTree"], "all-gather": "ring"}},
}


@pytest.mark.parametrize("congestion", ["aware", "unaware"])
def test_a_folded_run_on_dimensions_is_the_run_of_all_ranks(congestion: Any) -> None:
    program = [
        collective(0, 0, 1 << 20, stream=1), collective(1, 2, 1 << 16, group="1"), compute(2, 30),
        collective(3, 0, 1 << 18, [2], stream=1), collective(4, 2, 1 << 14, [1], group="1"), compute(5, 10, [3]),
    ]  # fmt: skip
    options: dict[str, Any] = {
        "machine": load_machine(DIMENSIONS), "ranks": 8, "comm_groups": {1: list(range(8))}, "congestion": congestion,
    }  # fmt: skip
    folded = cs.simulate(trace_of(program), **options)
    every = cs.simulate(trace_of(program), fold=False, **options)
    assert len(folded.class_ranks) < 8
    for name in ("finish_ns", "parts_ns", "exposed_comm_ns", "gpu_ns", "comm_ns", "bytes_sent"):
        assert np.array_equal(getattr(folded, name), getattr(every, name)), name
    serial = cs.simulate(trace_of(program), **{**options, "machine": replace(options["machine"], issue="astra-sim")})
    assert folded.makespan_ns < serial.makespan_ns


def test_collectives_beside_each_other_run_message_by_message() -> None:
    job = generate_transformer({**STEP, "parallel": {"tp": 2, "dp": 2, "pp": 2}}).job
    result = cs.simulate(job, machine=machine_of(8), protocol=cs.Protocol(messages=True))
    assert {one.role for one in result.roles} == {"tp", "dp", "pp"}
    assert (result.parts_ns.sum(axis=1) == result.makespan_ns).all()


def test_machines_with_a_size_run_streams_and_presets_do_not() -> None:
    assert load_machine("h100", gpus=16).issue == "streams"
    assert load_machine("hgx-h100-16").issue == "astra-sim"
    with pytest.raises(InputError, match="issue"):
        load_machine({**DIMENSIONS, "issue": "anyhow"})
    with pytest.raises(InputError, match="no such rule"):
        replace(load_machine("h100"), issue="anyhow")  # type: ignore[arg-type]


def test_jobs_beside_each_other_start_when_they_start() -> None:
    trace = trace_of([compute(0, 5, launch_ns=9_000), collective(1, 0, 4, [0])])
    placed = [
        cs.simulator.PlacedJob("now", cs.Job((trace,), np.zeros(2, np.int64)), np.array([0, 1])),
        cs.simulator.PlacedJob("late", cs.Job((trace,), np.zeros(2, np.int64)), np.array([2, 3]), start_ns=50_000),
    ]
    result = cs.simulator.simulate_jobs(placed, machine=machine_of(4)).result
    assert (result.finish_ns[2:] - result.finish_ns[:2]).tolist() == [50_000, 50_000]
