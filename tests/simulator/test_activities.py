"""Collectives as activities on random unequal graphs: rates proved, bytes and ends beside those of their messages."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cases import collective, receive, send, system_of, trace_of
from random_networks import random_network

import chakrasim as cs
from certificate import without_bottleneck
from chakrasim.machine import Machine, load_system
from chakrasim.machine.graph.builder import GraphBuilder
from chakrasim.machine.graph.graph import NIC, NetworkGraph
from chakrasim.machine.graph.routing import Routing, channel_rings, find_routes
from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.flow.state import ACTIVE, SOLVES, TOUCHED
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.lowering.channels import channels_of
from chakrasim.trace import Trace

ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, BLOCK, BARRIER = range(10)
SAME_ALGORITHM = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BLOCK, ALL_TO_ALL, GATHER, SCATTER)
"""What an activity and the messages of `SYSTEM` carry out in the same way: rings, or all directly."""
CHUNKS = 8
BLOCK_BYTES = 1 << 22
SYSTEM = system_of(
    "ring",
    preferred_dataset_splits=CHUNKS,
    active_chunks_per_dimension=CHUNKS,
    endpoint_delay=0,
    local_mem_bw=0,
    all_to_all_implementation=["direct"],
    gather_implementation=["direct"],
    scatter_implementation=["direct"],
)


class Work:
    """Collectives of groups and messages between ranks, as traces of a machine's ranks."""

    def __init__(self, ranks: int) -> None:
        self.nodes: list[list[Mapping[str, Any]]] = [[] for _ in range(ranks)]
        self.groups: dict[str, list[int]] = {}

    def collective(self, kind: int, size: int, group: Sequence[int], root: int = -1) -> None:
        name = str(len(self.groups) + 1)
        self.groups[name] = list(group)
        more = {"root": root} if root >= 0 else {}
        for rank in group:
            self.nodes[rank].append(collective(len(self.nodes[rank]), kind, size, group=name, **more))

    def message(self, source: int, target: int, size: int) -> None:
        self.nodes[source].append(send(len(self.nodes[source]), target, size))
        self.nodes[target].append(receive(len(self.nodes[target]), source, size))

    def traces(self) -> list[Trace]:
        return [trace_of(nodes) for nodes in self.nodes]

    def run(self, graph: NetworkGraph, routing: Routing | None = None, **protocol: Any) -> cs.SimulationResult:
        machine = Machine(graph, load_system(SYSTEM), routing=routing or Routing())
        how = cs.Protocol(physics=True, **protocol)
        return cs.simulate(self.traces(), machine=machine, comm_groups=self.groups, protocol=how)


def one(kind: int, size: int, group: Sequence[int], ranks: int, root: int = -1) -> Work:
    work = Work(ranks)
    work.collective(kind, size, group, root)
    return work


# -- what each activity takes, worked out again ------------------------------------------------------------------------


def hops_of(kind: int, group: Sequence[int], root: int, order: Sequence[int]) -> tuple[list[tuple[int, int]], float]:
    """From, to, and the bytes that go over each hop per byte of the collective: one line a kind."""
    n = len(order)
    ring = list(zip(order, [*order[1:], order[0]], strict=True))
    first = group[0] if root < 0 else root
    if kind == ALL_TO_ALL:
        return [(a, b) for a in group for b in group if a != b], 1 / n
    if kind == GATHER:
        return [(a, first) for a in group if a != first], 1.0
    if kind == SCATTER:
        return [(first, b) for b in group if b != first], 1 / n
    if kind == BROADCAST:
        return [hop for hop in ring if hop[1] != first], 1.0
    if kind == REDUCE:
        return [hop for hop in ring if hop[0] != first], 1.0
    return ring, {ALL_REDUCE: 2 * (n - 1) / n, ALL_GATHER: n - 1.0}.get(kind, (n - 1) / n)


def charge(
    graph: NetworkGraph, routing: Routing, key: tuple[int, int, tuple[int, ...], int], channels: int
) -> tuple[Counter[int], float]:
    """Bytes over each medium per byte of a collective, and the bytes of one hop."""
    kind, root, group, *_ = key
    channels = channels or channels_of(graph, np.array(group, np.int32))
    if kind in (ALL_TO_ALL, GATHER, SCATTER) or channels == 1:
        orders, given = [list(group)], None
    else:
        rings = channel_rings(graph, list(group), channels, routing)
        orders, given = rings.orders.tolist(), rings.routes
    taken: Counter[int] = Counter()
    for number, order in enumerate(orders):
        hops, share = hops_of(kind, group, root, order)
        ends = [list(side) for side in zip(*hops, strict=True)]
        found = find_routes(graph, *ends, None, routing) if given is None else given
        for at_hop, (a, _) in enumerate(hops):
            links, parts = found.of(at_hop if given is None else number * len(order) + order.index(a))
            for link, part in zip(links.tolist(), parts.tolist(), strict=True):
                taken[int(graph.medium[link])] += part * share / len(orders)
    return taken, share / len(orders)


def check_rates(network: FlowNetwork, m: np.ndarray, known: dict[Any, Any], channels: int) -> None:
    """The flows under way have the links that they should have, and rates that are max-min fair on them."""
    s = network.sharing
    slots = s.active[: int(s.count[ACTIVE])]
    first, links, parts, weights = [0], [], [], []
    for slot in slots.tolist():
        message = int(s.slots[slot].record)
        source, target = int(m[message + at.MSG_AT]), int(m[message + at.MSG_TO])
        key = network.activities._keys[target] if source < 0 else (source, target)
        if key not in known and source >= 0:
            route = find_routes(network.graph, [source], [target], None, network.routing).of(0)
            media = Counter[int]()
            for link, part in zip(route[0].tolist(), route[1].tolist(), strict=True):
                media[int(network.graph.medium[link])] += part
            known[key] = media, 1.0
        elif key not in known:
            known[key] = charge(network.graph, network.routing, key, channels)
        taken, hop = known[key]
        own = Counter[int]()
        for entry in range(int(s.slots[slot].first), int(s.slots[slot].last)):
            own[int(s.entries[entry].link)] += float(s.entries[entry].coefficient)
        assert own == pytest.approx(taken, rel=1e-12)
        links += list(taken)
        parts += list(taken.values())
        weights.append(1 / hop)
        first.append(len(links))
    routes = Routes(np.array(first, np.int64), np.array(links, np.int32), np.array(parts))
    rates = np.array(s.slots.rate[slots])
    assert (rates > 0).all()
    assert not without_bottleneck(network.graph.capacity, routes, np.array(weights), rates).size


@contextmanager
def certified(channels: int) -> Iterator[Counter[str]]:
    """Prove the rates after every settlement of the runs inside."""
    original, seen = FlowNetwork.run, Counter[str]()

    def run(self: FlowNetwork, m: np.ndarray, steps: int) -> int:
        known: dict[Any, Any] = {}
        solved = 0
        while True:
            reason = original(self, m, 1)
            count = self.sharing.count
            if count[SOLVES] != solved and count[TOUCHED] == 0:
                solved = int(count[SOLVES])
                seen["settlements"] += 1
                seen["flows"] += int(count[ACTIVE])
                check_rates(self, m, known, channels)
            if reason != at.PAUSED:
                return reason

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FlowNetwork, "run", run)
        yield seen


# -- 200 random graphs -------------------------------------------------------------------------------------------------


def random_work(seed: int, graph: NetworkGraph, kinds: Sequence[int]) -> tuple[Work, list[int]]:
    """A collective of some of the ranks in any order, and messages among the others; returns its members, too."""
    draw = random.Random(seed)
    order = draw.sample(range(graph.ranks), graph.ranks)
    count = draw.randint(2, max(2, graph.ranks - 2))
    group, rest = order[:count], order[count:]
    kind = draw.choice(kinds)
    parts = 1 if kind in (ALL_GATHER, GATHER) else count
    work = one(kind, parts * CHUNKS * BLOCK_BYTES, group, graph.ranks, draw.choice(group))
    for a, b in zip(rest[::2], rest[1::2], strict=False):
        work.message(a, b, draw.randrange(1 << 22, 1 << 29))
    return work, group


@pytest.mark.slow
def test_every_rate_on_200_random_graphs_is_max_min_fair() -> None:
    flows = settlements = 0
    for seed in range(200):
        graph, routing = random_network(seed)
        work, _ = random_work(seed, graph, range(BARRIER))
        draw = random.Random(-seed)
        for _ in range(draw.randrange(3)):
            group = draw.sample(range(graph.ranks), draw.randint(2, graph.ranks))
            work.collective(draw.randrange(BARRIER), draw.randrange(1 << 29), group, group[-1])
        channels = seed % 2
        with certified(channels) as seen:
            work.run(graph, routing, channels=channels)
        flows += seen["flows"]
        settlements += seen["settlements"]
    assert settlements > 1000
    assert flows > settlements


@pytest.mark.sampled(1)
@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("channels", [0, 1])
def test_on_200_random_graphs_an_activity_moves_the_bytes_of_its_messages_and_ends_with_them(
    channels: int, beside: bool
) -> None:
    """Within half a per cent, where latencies are small beside the time and hops have several messages in line; of
    several rings the messages are rounded up to whole bytes."""
    for seed in range(channels, 200, 2):
        graph, routing = random_network(seed)
        work, group = random_work(seed, graph, SAME_ALGORITHM)
        if not beside:
            work.nodes = [nodes if rank in group else [] for rank, nodes in enumerate(work.nodes)]
        whole, messages = (work.run(graph, routing, channels=channels, messages=m) for m in (False, True))
        crossed = {link.name: link.bytes for link in messages.graph_links}
        assert {link.name: link.bytes for link in whole.graph_links} == pytest.approx(crossed, rel=1e-6), seed
        ends = whole.finish_ns[group].max(), messages.finish_ns[group].max()
        assert ends[0] == pytest.approx(ends[1], rel=0.005), seed


@pytest.mark.parametrize("kind", [BROADCAST, REDUCE])
def test_a_broadcast_and_a_reduce_are_chains_of_chunks_without_the_chunks_that_fill_them(kind: int) -> None:
    """Of c chunks over n - 1 hops, the last comes when c + n - 2 chunks have crossed a hop, if all hops are alike."""
    chunks, size = 24, 24 << 28
    for seed in range(0, 200, 5):
        graph, routing = random_network(seed)
        draw = random.Random(seed)
        group = draw.sample(range(graph.ranks), draw.randint(2, graph.ranks))
        root = draw.randrange(len(group))
        chain = group[root:] + group[:root] if kind == BROADCAST else group[root + 1 :] + group[: root + 1]
        work = Work(graph.ranks)
        for hop, (a, b) in enumerate(pairwise(chain)):
            for chunk in range(chunks):
                came = [2 * chunk] if hop else []
                work.nodes[a].append(send(2 * chunk + 1, b, size // chunks, chunk, came))
                work.nodes[b].append(receive(2 * chunk, a, size // chunks, chunk))
        by_chunks = work.run(graph, routing).makespan_ns
        whole = one(kind, size, group, graph.ranks, group[root]).run(graph, routing, channels=1).makespan_ns
        assert whole <= by_chunks * 1.001, seed
        assert by_chunks <= whole * (1 + (len(group) - 2) / chunks) * 1.01, seed


# -- worked by hand ----------------------------------------------------------------------------------------------------

GB = 10**9


def star(ranks: int, speed: float = 50.0, latency: float = 250.0) -> NetworkGraph:
    made = GraphBuilder()
    made.add_ranks(ranks)
    switch = made.vertex("switch")
    for rank in range(ranks):
        made.cable(rank, switch, speed, latency)
    return made.build()


@pytest.mark.parametrize(
    ("kind", "steps", "parts"),
    [
        (ALL_REDUCE, 14, 14 / 8),
        (REDUCE_SCATTER, 7, 7 / 8),
        (BLOCK, 7, 7 / 8),
        (ALL_GATHER, 7, 7.0),
        (BROADCAST, 7, 1.0),
        (REDUCE, 7, 1.0),
        (ALL_TO_ALL, 1, 7 / 8),
        (SCATTER, 1, 7 / 8),
        (GATHER, 1, 7.0),
        (BARRIER, 7, 0.0),
    ],
)
@pytest.mark.parametrize("size", [1, 777_777_777])
def test_alone_on_a_regular_machine_a_collective_takes_its_closed_form(
    kind: int, steps: int, parts: float, size: int
) -> None:
    """Steps times the latency of a hop, and the bytes over a link at its bandwidth: to the nanosecond."""
    work = one(kind, size, range(8), 8, root=3 if kind in (BROADCAST, REDUCE, SCATTER, GATHER) else -1)
    for graph, hop_ns, speed in ((star(8), 500, 50), (cs.load_machine("h100", gpus=8).graph, 600, 450)):
        assert work.run(graph).makespan_ns == math.ceil(steps * hop_ns + size * parts / speed - 1e-6)


def test_alone_on_a_ring_without_switches_a_collective_takes_its_closed_form() -> None:
    made = GraphBuilder()
    made.add_ranks(8, transit=True)
    for rank in range(8):
        made.cable(rank, (rank + 1) % 8, 25.0, 700.0)
    work = one(ALL_REDUCE, GB, range(8), 8)
    assert work.run(made.build()).makespan_ns == 14 * 700 + GB * 14 // 8 // 25


def test_boards_give_a_ring_to_each_of_their_nics() -> None:
    """16 H100: eight rings of 16, each of which crosses to the other board and back over the NICs of its rail.

    A hop inside takes 600 ns. Across, a channel goes to its own NIC first (600) and on over 2 cables of PCIe and 2 to
    the leaf, 500 ns each; one flat ring goes from NIC 7 to NIC 8 by a spine, 6 of 500 ns. Of 30 hops in a row 4 cross.
    """
    graph, all_reduce = cs.load_machine("h100", gpus=16).graph, one(ALL_REDUCE, GB, range(16), 16)
    assert all_reduce.run(graph).makespan_ns == math.ceil(26 * 600 + 4 * 2600 + GB * 30 / 16 / 8 / 50)
    assert all_reduce.run(graph, channels=1).makespan_ns == math.ceil(26 * 600 + 4 * 3000 + GB * 30 / 16 / 50)
    broadcast = one(BROADCAST, GB, range(16), 16, root=5)
    assert broadcast.run(graph).makespan_ns == math.ceil(13 * 600 + 2 * 2600 + GB / 8 / 50)


def test_the_fill_is_the_latency_of_the_slowest_hops_in_a_row() -> None:
    """Hops of 10, 20 and 70 ns: of 4 in a row the most take the whole ring and 70 ns; of 2 the 20 and the 70."""
    made = GraphBuilder()
    made.add_ranks(3)
    switches = made.add_switches("switch", 3)
    for rank, latency in enumerate((10.0, 20.0, 70.0)):
        made.link(rank, switches[rank], 25.0, latency)
        made.link(switches[rank], (rank + 1) % 3, 25.0, 0.0)
    graph = made.build()
    assert one(ALL_REDUCE, 75, range(3), 3).run(graph).makespan_ns == 170 + 4
    assert one(ALL_GATHER, 75, range(3), 3).run(graph).makespan_ns == 90 + 6
    assert one(BROADCAST, 75, range(3), 3, root=2).run(graph).makespan_ns == 80 + 3


@pytest.mark.parametrize(("kind", "size"), [(ALL_GATHER, 1000), (REDUCE_SCATTER, 4000), (ALL_REDUCE, 2000)])
def test_each_hop_of_a_ring_counts_as_one_flow_beside_others_whatever_the_size_is_of(kind: int, size: int) -> None:
    """3,000 bytes over each port: half of 50 bytes per ns while the message of 1,500 bytes takes the other half."""
    work = one(kind, size, range(4), 5)
    work.message(4, 1, 1500)
    result = work.run(star(5, latency=0.0))
    assert result.finish_ns.tolist() == [90, 90, 90, 90, 60]


def test_a_hop_that_crosses_a_link_as_often_as_a_flow_gets_as_much_of_it() -> None:
    """All to all of three: two of its flows and a message go into rank 1's port, each with a third."""
    work = one(ALL_TO_ALL, 300, range(3), 4)
    work.message(3, 1, 300)
    assert work.run(star(4, latency=0.0)).finish_ns.tolist() == [6, 10, 6, 10]


def test_a_collective_without_bytes_is_done_at_once() -> None:
    for kind in (ALL_REDUCE, BROADCAST, REDUCE):
        result = one(kind, 0, range(4), 4).run(star(4))
        assert result.makespan_ns == 0
        assert not any("minimum size" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("kind", "largest_ns"), [(ALL_TO_ALL, 500 + 9000 * 2 // 3 // 50), (GATHER, 500 + 9000 * 2 // 50)]
)
def test_members_that_name_different_sizes_run_with_the_largest_and_are_told(kind: int, largest_ns: int) -> None:
    """Whoever comes last, and with a member that has nothing."""
    for order in ((0, 3000, 9000), (9000, 3000, 0), (3000, 9000, 0)):
        work = one(kind, 1, range(3), 3)
        for rank, size in enumerate(order):
            work.nodes[rank] = [collective(0, kind, size, group="1")]
        result = work.run(star(3))
        assert result.makespan_ns == largest_ns
        assert any("the members of 1 collectives name different sizes" in warning for warning in result.warnings)


def test_members_that_name_different_sizes_of_what_all_have_or_different_roots_are_refused() -> None:
    for own in ({"size": 7}, {"root": 2}):
        work = one(BROADCAST, 100, range(3), 3, root=1)
        work.nodes[2] = [collective(0, BROADCAST, **({"size": 100, "root": 1} | own), group="1")]
        with pytest.raises(cs.InputError, match="do not run the same collectives"):
            work.run(star(3))


# -- users' cases (graph-networks.md, 10) ------------------------------------------------------------------------------


def test_the_cube_mesh_of_a_dgx_1v_reduces_at_three_rings_each_way() -> None:
    """Six rings of 25 bytes per ns, three each way: each GPU's six NVLinks are full, bus bandwidth 150 GB/s."""
    result = cs.simulate(
        one(ALL_REDUCE, GB, range(8), 8).traces(), machine="dgx-1v", library="none", comm_groups={"1": list(range(8))}
    )
    links = {link.name: link.bytes for link in result.graph_links}
    assert len(links) == 48
    assert set(links.values()) == {round(GB * 14 / 8 / 6)}
    fill_ns = result.makespan_ns - GB * 14 / 8 / 150
    assert 0 < fill_ns < 14 * 1000


def test_islands_of_4_and_6_see_only_their_own_links_and_one_collective_all_of_them() -> None:
    made = GraphBuilder()
    sizes = (4, 6)
    for island, size in enumerate(sizes):
        for _ in range(size):
            made.vertex(str(made.vertices), 0, island)
    core = made.vertex("core")
    for island, ranks in enumerate((range(4), range(4, 10))):
        inside = made.vertex(f"inside{island}", island=island)
        for rank in ranks:
            nic = made.vertex(f"nic{rank}", NIC, island)
            made.cable(rank, inside, 200.0, 10.0)
            made.cable(rank, nic, 32.0, 50.0)
            made.cable(nic, core, 25.0, 100.0)
    graph = made.build()
    work = one(ALL_REDUCE, GB, range(4), 10)
    work.collective(ALL_REDUCE, GB, range(4, 10))
    result = work.run(graph)
    assert all("inside" in link.name for link in result.graph_links)
    assert result.finish_ns[0] == 6 * 20 + GB * 6 // 4 // 200
    assert result.finish_ns[9] == math.ceil(10 * 20 + GB * 10 / 6 / 200)
    everyone = one(ALL_REDUCE, GB, range(10), 10).run(graph)
    assert everyone.makespan_ns == pytest.approx(GB * 18 / 10 / 4 / 25, rel=1e-3)
    leaving = {link.name: link.bytes for link in everyone.graph_links if link.name.endswith("-core")}
    assert leaving == {f"nic{rank}-core": GB * 18 // 10 // 4 for rank in range(8)}


@pytest.mark.parametrize("group", [range(32), [*range(8), *range(16, 24)], range(3, 32, 8)])
@pytest.mark.parametrize("kind", [ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER])
def test_on_boards_with_a_nic_for_each_gpu_messages_take_the_rings_of_the_activity(
    kind: int, group: Sequence[int]
) -> None:
    """Each ring leaves a board by a NIC of its own: NICs, of 50 bytes per ns, are the slowest links."""
    graph, n = cs.load_machine("h100", gpus=32).graph, len(group)
    size = (1 if kind == ALL_GATHER else n) * (1 << 25)
    whole, messages = (one(kind, size, group, 32).run(graph, messages=m) for m in (False, True))
    each = size * (n - 1) // n * (2 if kind == ALL_REDUCE else n if kind == ALL_GATHER else 1)
    rings = 1 if n == 4 else 8
    for result in (whole, messages):
        assert result.makespan_ns == pytest.approx(each / rings / 50, rel=0.02)
    assert messages.messages >= rings * n * (n - 1)
