"""Collectives as a library runs them: alone by their closed form, beside others with rates that are proved."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from random_networks import random_network
from test_activities import Work, one

import chakrasim as cs
from certificate import without_bottleneck
from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME
from chakrasim.collectives.libraries.settings import settings_of
from chakrasim.machine import Machine, load_machine
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.machine.site import Make
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.closed_form import collective_alone
from chakrasim.simulator.flow.state import ACTIVE, SOLVES, TOUCHED
from chakrasim.simulator.kernels import layout as at

PLAIN = load_machine("h100")
NAMES = tuple(KINDS_BY_NAME)
MACHINES = (
    ("h100", 8),
    ("h100", 4),
    ("h100", 32),
    ("a100", 16),
    ("v100", 16),
    ("dgx-1v", 16),
    ("b200", 8),
    ("gb200", 72),
)


def simulated(machine: Machine, work: Work, **protocol: bool) -> cs.SimulationResult:
    how = cs.Protocol(physics=True, **protocol)
    return cs.simulate(work.traces(), machine=machine, comm_groups=work.groups, protocol=how)


def size_of(kind: str, whole: int, members: int) -> int:
    return whole // members if KINDS_BY_NAME[kind].size_is_part else whole


def any_size(draw: random.Random) -> int:
    return int(2 ** draw.uniform(0, 32))


@contextmanager
def proved() -> Iterator[list[int]]:
    """Prove the rates of all flows beside each other, and their own limits, after every settlement."""
    original, seen = FlowNetwork.run, [0]

    def run(self: FlowNetwork, m: np.ndarray, steps: int) -> int:
        solved = 0
        while True:
            reason = original(self, m, 1)
            s = self.sharing
            if s.count[SOLVES] != solved and s.count[TOUCHED] == 0 and s.count[ACTIVE]:
                solved, slots = int(s.count[SOLVES]), s.active[: int(s.count[ACTIVE])]
                spans = [np.arange(s.slots[slot].first, s.slots[slot].last) for slot in slots.tolist()]
                first = np.cumsum([0, *(span.size for span in spans)])
                entries = s.entries[np.concatenate(spans)]
                routes = Routes(first, np.array(entries.link), np.array(entries.coefficient))
                capacity = np.array(s.links.capacity)
                assert (capacity[: self.graph.links] == self.states.capacity).all()
                rates, weights = np.array(s.slots.rate[slots]), np.array(s.slots.weight[slots])
                assert not without_bottleneck(capacity, routes, weights, rates).size
                seen[0] += 1
            if reason != at.PAUSED:
                return reason

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlowNetwork, "run", run)
        yield seen


# -- alone -------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "gpus"), MACHINES)
def test_alone_a_collective_takes_its_closed_form_to_the_nanosecond(name: str, gpus: int) -> None:
    machine, draw = load_machine(name, gpus=gpus, library="nccl"), random.Random(gpus)
    for kind in NAMES:
        for _ in range(3):
            group, whole = draw.sample(range(gpus), draw.randint(2, min(gpus, 40))), any_size(draw)
            work = one(KINDS_BY_NAME[kind].type, size_of(kind, whole, len(group)), group, gpus, root=group[0])
            found = collective_alone(machine, kind, whole, group)
            assert simulated(machine, work).makespan_ns == found.time_ns, (kind, group, whole)


EVERYWHERE, ONE_EACH, INSIDE = range(32), range(3, 32, 8), range(8, 16)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("algorithm", "group"),
    [
        ("ring", EVERYWHERE),
        ("ring", INSIDE),
        ("tree", EVERYWHERE),
        ("tree", ONE_EACH),
        ("nvlstree", EVERYWHERE),
        ("nvls", INSIDE),
        ("collnetchain", EVERYWHERE),
        ("collnetdirect", EVERYWHERE),
        ("pat", ONE_EACH),
    ],
)
def test_so_do_the_algorithms_that_the_environment_names(algorithm: str, group: range) -> None:
    """Of 8 ranks each on four nodes, of one each, and of the 8 of one node."""
    environment = {"NCCL_ALGO": algorithm, "NCCL_COLLNET_ENABLE": "1", "NCCL_PAT_ENABLE": "1"}
    machine = replace(load_machine("h100", gpus=32, library="nccl"), settings=settings_of(environment))
    parts = ("all_gather", "reduce_scatter")
    served = {"ring": NAMES, "pat": parts, "nvls": ("all_reduce", *parts)}.get(algorithm, ("all_reduce",))
    for kind in set(served) - {"barrier"}:
        for whole in (1 << 12, 1 << 24, 777_777_777):
            found = collective_alone(machine, kind, whole, list(group))
            size = size_of(kind, whole, len(group))
            work = one(KINDS_BY_NAME[kind].type, size, group, 32, root=group[0])
            assert simulated(machine, work).makespan_ns == found.time_ns
            assert found.course is not None
            assert found.course.choice.algorithm in (algorithm, "p2p")


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
def test_so_do_kernels_on_symmetric_memory(kind: str) -> None:
    kernels = set()
    for board in ("h100", "b200"):
        machine = load_machine(board, library="nccl")
        machine = replace(machine, settings=replace(machine.settings, symmetric=True))
        for whole, group in product((1 << 10, 1 << 14, 1 << 20, 1 << 28), (range(8), range(2), range(3))):
            found = collective_alone(machine, kind, whole, list(group))
            work = one(KINDS_BY_NAME[kind].type, size_of(kind, whole, len(group)), group, 8)
            assert simulated(machine, work).makespan_ns == found.time_ns
            assert found.course is not None
            kernels.add(found.course.choice.protocol)
    assert len(kernels) > 1


def test_without_a_library_it_is_the_closed_form_of_rings_and_direct_messages() -> None:
    for seed in range(60):
        graph, routing = random_network(seed)
        draw = random.Random(seed)
        group, whole, kind = (
            draw.sample(range(graph.ranks), draw.randint(2, graph.ranks)),
            any_size(draw),
            draw.choice(NAMES),
        )
        machine = Machine(graph, PLAIN.system, routing=routing)
        work = one(KINDS_BY_NAME[kind].type, size_of(kind, whole, len(group)), group, graph.ranks, root=group[0])
        assert simulated(machine, work).makespan_ns == collective_alone(machine, kind, whole, group).time_ns, seed


def test_its_time_is_the_start_and_the_bytes_at_the_rate_of_library_and_links() -> None:
    machine = load_machine("h100", gpus=16, library="nccl")
    for kind in set(NAMES) - {"barrier"}:
        for whole in (1 << 12, 1 << 20, 1 << 30):
            found = collective_alone(machine, kind, whole)
            assert found.course is not None
            assert found.startup_ns == found.course.startup_ns
            assert found.rate <= found.course.rate * (1 + 1e-9)
            assert found.time_ns == math.ceil(found.startup_ns + whole / found.rate - 1e-6)


def test_a_slower_link_limits_what_the_library_would_allow() -> None:
    """Leaves with an eighth of the bandwidth up."""
    fast, slow = (load_machine("h100", gpus=128, fabric="fat-tree", oversubscription=x, library="nccl") for x in (1, 8))
    found = collective_alone(slow, "all_gather", 1 << 30)
    assert found.limited_by == found.link
    assert found.link.startswith("leaf")
    assert found.rate < collective_alone(fast, "all_gather", 1 << 30).rate


@pytest.mark.parametrize(("members", "root"), [([], -1), ([0, 0], -1), ([0, 99], -1)])
def test_ranks_that_are_not_there_are_refused(members: list[int], root: int) -> None:
    with pytest.raises(cs.InputError, match="ranks out of range"):
        collective_alone(PLAIN, "all_reduce", 100, members, root)


# -- beside others -----------------------------------------------------------------------------------------------------


def test_no_link_carries_more_than_it_can_and_every_rate_is_max_min_fair() -> None:
    settlements = 0
    for seed, (name, gpus) in enumerate([*MACHINES, *MACHINES]):
        machine, draw = load_machine(name, gpus=gpus, library="nccl"), random.Random(seed)
        work = Work(gpus)
        for _ in range(4):
            group, kind = draw.sample(range(gpus), draw.randint(2, min(gpus, 24))), draw.choice(NAMES)
            work.collective(KINDS_BY_NAME[kind].type, any_size(draw), group, group[-1])
        with proved() as seen:
            result = simulated(machine, work)
        settlements += seen[0]
        capacity = dict(zip(machine.graph.link_names, machine.graph.capacity.tolist(), strict=True))
        for link in result.graph_links:
            assert link.bytes <= capacity[link.name] * result.makespan_ns + 1
    assert settlements > 50


def test_on_random_graphs_every_rate_is_max_min_fair() -> None:
    for seed in range(0, 120, 3):  # those with islands
        graph, routing = random_network(seed)
        machine = load_machine("h100", library="nccl")
        machine = replace(machine, network=graph, routing=routing, profile=None)
        draw, work = random.Random(seed), Work(graph.ranks)
        for _ in range(3):
            group, kind = draw.sample(range(graph.ranks), draw.randint(2, graph.ranks)), draw.choice(NAMES)
            work.collective(KINDS_BY_NAME[kind].type, any_size(draw), group, group[-1])
        with proved() as seen:
            simulated(machine, work)
        assert seen[0]


def test_two_collectives_of_one_group_follow_one_another() -> None:
    machine, work = load_machine("h100", library="nccl"), Work(8)
    work.groups["1"] = list(range(8))
    first = one(0, 1 << 26, range(8), 8)
    single = simulated(machine, first).makespan_ns
    for rank in range(8):
        node = dict(first.nodes[rank][0])
        work.nodes[rank] = [node, {**node, "id": 1}]
    assert simulated(machine, work).makespan_ns >= 1.9 * single


def layout(tensor: int) -> cs.SimulationResult:
    """128 GPUs: groups of neighbours reduce, then those of one place what the former have divided among them."""
    rows = [range(first, first + tensor) for first in range(0, 128, tensor)]
    columns = [range(first, 128, tensor) for first in range(tensor)]
    work = Work(128)
    for row in rows:
        work.collective(0, 1 << 22, row)
    for column in columns:
        work.collective(0, (22 << 30) // tensor, column)
    return simulated(load_machine("h100", gpus=128, library="nccl"), work)


def test_layouts_rank_as_on_the_aware_network() -> None:
    """Tensor parallel 8 with data parallel 16 before 4 with 32, whatever the unaware network says: 2.75 GiB of
    gradients on each of 16 nodes' ports take 110 ms by their bandwidth alone. (Where latency counts, at some MiB, 32
    are faster: two of them share a node, and their hops hide behind each other's bytes.)"""
    assert layout(8).makespan_ns < layout(4).makespan_ns


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_only_the_flow_network_has_libraries() -> None:
    work = one(0, 1 << 20, range(8), 8)
    with pytest.raises(cs.InputError, match=r"unaware network has not.*use network model flow"):
        cs.simulate(work.traces(), machine="hgx-h100-8", comm_groups=work.groups, library="nccl")
    with pytest.raises(cs.InputError, match="channels are the library's to choose"):
        cs.simulate(
            work.traces(), machine="h100", comm_groups=work.groups, library="nccl", protocol=cs.Protocol(channels=2)
        )
    with pytest.raises(cs.InputError, match="only a machine has a library"):
        cs.simulate(work.traces(), comm_groups=work.groups, library="nccl", system={}, network={})


def test_the_names_of_activities_say_what_was_chosen() -> None:
    machine = load_machine("h100", library="nccl")
    result = simulated(machine, one(0, 1 << 28, range(8), 8))
    assert result.graph_links[0].users[0].name == "all-reduce (nvls Simple) of 0-7"


def test_in_the_switch_each_link_carries_the_sum_and_a_part_of_it() -> None:
    """All-reduce of 8 by NVLS: each rank gives all and writes its eighth, reads its eighth and gets all."""
    machine = load_machine("h100", library="nccl")
    size = 1 << 28
    links = {link.name: link.bytes for link in simulated(machine, one(0, size, range(8), 8)).graph_links}
    assert links == {name: size * 9 // 8 for a in range(8) for name in (f"{a}-nvswitch0", f"nvswitch0-{a}")}


def test_make_tells_the_vendor_s_library() -> None:
    assert [Make(vendor).library for vendor in ("nvidia", "amd", "")] == ["nccl", "rccl", ""]
    assert len(KINDS) == len(NAMES)
