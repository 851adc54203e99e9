"""Random inputs of the golden generator's kind, rich in ties: small whole times, equal ranks, small messages.

``random_case`` draws from a ``random.Random``; hypothesis can supply one that shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from cases import (
    ALGORITHM_KEYS,
    ROOTED_KEYS,
    UNIT_BANDWIDTH,
    Case,
    Node,
    collective,
    compute,
    memory,
    receive,
    send,
)

MOST_RANKS = 18
PLAIN_TYPES = (0, 2, 6, 7)
ALL_TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
ALGORITHMS = ("ring", "ring", "direct", "direct2", "direct1", "halvingDoubling", "doubleBinaryTree", "oneRing",
              "oneDirect", "oneDirect3", "oneHalvingDoubling")  # fmt: skip
Programs = Sequence[Sequence[Node]]


def random_case(random: Random, most_ranks: int = MOST_RANKS, kind: str | None = None) -> Case:
    """A case that may be simulated, refused or stall."""
    tidy = random.random() < 0.6
    dims = _dimensions(random, most_ranks)
    network = {
        "topology": [random.choice(("Ring", "Switch", "FullyConnected")) for _ in dims],
        "npus_count": dims,
        "bandwidth": [_bandwidth(random, tidy) for _ in dims],
        "latency": [
            random.choice((0, 1, 2, 5, 10, 20, 10, 500)) if tidy else round(random.uniform(0, 900), 2) for _ in dims
        ],
    }
    ranks = 1
    for n in dims:
        ranks *= n
    kind = kind or random.choice(tuple(KINDS))
    programs, groups = KINDS[kind](random, ranks, tidy)
    return Case(
        programs=programs,
        network=network,
        system=_system(random, len(dims), tidy),
        memory=_memory(random, ranks) if kind == "memory" else None,
        groups=groups,
        congestion=random.choice(("aware", "aware", "unaware")),
        options=_options(random),
    )


def _dimensions(random: Random, most: int) -> list[int]:
    while True:
        dims = [random.choice((2, 2, 3, 4, 5, 6, 7, 8)) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
        product = 1
        for n in dims:
            product *= n
        if product <= most:
            return dims


def _bandwidth(random: Random, tidy: bool) -> float:
    if tidy:
        return UNIT_BANDWIDTH * random.choice((1, 1, 2, 10, 64))
    return random.choice((25.0, 50.0, 100.0, 370.67))


def _size(random: Random, tidy: bool) -> int:
    if tidy:
        return random.choice((0, 1, 3, 16, 40, 64, 160, 320, 640, 1280, 4096))
    return random.choice((random.randrange(100), random.randrange(1 << 20), 1 << 20, 1 << 24))


def _micros(random: Random) -> int:
    return random.choice((0, 0, 1, 1, 2, 3))


def _system(random: Random, dims: int, tidy: bool) -> dict[str, Any]:
    length = dims if random.random() < 0.9 else random.randint(1, dims)
    names = random.choice((("ring",), ("direct",), ALGORITHMS))
    same = [random.choice(names) for _ in range(length)]
    system: dict[str, Any] = {
        "scheduling-policy": random.choice(("LIFO", "FIFO")),
        "collective-optimization": random.choice(("localBWAware", "baseline")),
        "endpoint-delay": random.choice((0, 1, 2, 5, 10, 10, 20)),
        "active-chunks-per-dimension": random.choice((1, 1, 2, 4)),
        "preferred-dataset-splits": random.choice((1, 1, 2, 4)),
        "local-mem-bw": random.choice((0, 1600, 1)) if tidy else 1600,
        "peak-perf": 900,
        "roofline-enabled": random.choice((0, 0, 1)),
    }
    for key in ALGORITHM_KEYS:
        system[key] = same if random.random() < 0.8 else [random.choice(names) for _ in range(length)]
    if random.random() < 0.2:
        system |= dict.fromkeys(ROOTED_KEYS, same)
    if random.random() < 0.08:
        system |= {"model-shared-bus": 1, "L": 1, "o": 2, "g": 3, "G": random.choice((0.0, 0.01, 1.0))}
    if random.random() < 0.05:
        system["replay-only"] = 1
    return system


def _memory(random: Random, ranks: int) -> dict[str, Any]:
    kinds = ("NO_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "MEMORY_POOL")
    per_node = random.choice((1, 2, ranks))
    return {
        "memory-type": random.choice((*kinds, "MEMORY_POOL", "PER_NODE_MEMORY_EXPANSION")),
        "remote-mem-latency": random.choice((0, 1, 10, 100)),
        "remote-mem-bw": random.choice((0, 1, 10)),
        "num-nodes": -(-ranks // per_node),
        "num-npus-per-node": per_node,
    }


def _options(random: Random) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if random.random() < 0.25:
        options["num_queues_per_dim"] = random.choice((2, 3, 4))
    if random.random() < 0.1:
        options["injection_scale"] = random.choice((0.0, 0.05, 2.5))
    if random.random() < 0.1:
        options["rendezvous"] = True
    if random.random() < 0.3:
        options["physics"] = True
    return options


def _graph(random: Random, node: Callable[[int, list[int]], Node], most: int = 6) -> list[Node]:
    """So many nodes, each depending on some of those before it."""
    nodes: list[Node] = []
    for i in range(random.randint(1, most)):
        deps = sorted({random.randrange(i) for _ in range(random.randint(0, 2))}) if i else []
        nodes.append(node(i, deps))
    return nodes


def _one_collective(random: Random, ranks: int, tidy: bool) -> tuple[Programs, None]:
    types = PLAIN_TYPES if random.random() < 0.7 else ALL_TYPES
    return [[collective(0, random.choice(types), _size(random, tidy))]], None


def _equal_graphs(random: Random, ranks: int, tidy: bool) -> tuple[Programs, None]:
    types = PLAIN_TYPES if random.random() < 0.7 else ALL_TYPES

    def node(i: int, deps: list[int]) -> Node:
        if random.random() < 0.4:
            ops = random.choice((0, 1, 1000, 10**9))
            return compute(i, _micros(random), deps, num_ops=ops, tensor_size=random.choice((0, 100, 1 << 20)))
        masks: list[dict[str, Any]] = [
            {"involved_dim": {"bool_list": [random.random() < 0.6 for _ in range(3)]}},
            {},
            {},
        ]
        return collective(i, random.choice(types), _size(random, tidy), deps, **random.choice(masks))

    return [_graph(random, node)], None


def _stragglers(random: Random, ranks: int, tidy: bool) -> tuple[Programs, None]:
    """The same collectives everywhere, but some ranks start later."""
    body = [
        collective(i + 1, random.choice(PLAIN_TYPES), _size(random, tidy), [i]) for i in range(random.randint(1, 3))
    ]
    patterns = (
        [rank == 0 for rank in range(ranks)],
        [rank == ranks - 1 for rank in range(ranks)],
        [rank % 2 for rank in range(ranks)],
        [rank < ranks // 2 for rank in range(ranks)],
        list(range(ranks)),
    )
    late = random.choice(patterns)
    step = random.choice((1, 1, 2))
    return [[compute(0, 1 + step * int(late[rank])), *body] for rank in range(ranks)], None


def _groups(random: Random, ranks: int, tidy: bool) -> tuple[Programs, Mapping[int, list[int]]]:
    """Ranks in strided or contiguous groups, perhaps uneven, rotated or overlapping; each with its collectives."""
    parts = random.choice([n for n in range(1, ranks + 1) if ranks % n == 0])
    layout = random.choice(("strided", "block", "uneven", "both"))
    sets: list[list[int]] = []
    if layout in ("strided", "both"):
        sets += [list(range(p, ranks, parts)) for p in range(parts)]
    if layout in ("block", "both"):
        width = ranks // parts
        sets += [list(range(p * width, (p + 1) * width)) for p in range(parts)]
    if layout == "uneven":
        cut = random.randint(1, ranks)
        sets += [part for part in (list(range(cut)), list(range(cut, ranks))) if part]
    change = random.choice(("", "", "", "rotate", "reverse", "shuffle"))
    for members in sets:
        if change == "rotate":
            members[:] = members[1:] + members[:1]
        elif change == "reverse":
            members.reverse()
        elif change == "shuffle":
            random.shuffle(members)
    groups = {g + 1: members for g, members in enumerate(sets)}
    steps = [
        (random.choice(PLAIN_TYPES), _size(random, tidy), random.random() < 0.3) for _ in range(random.randint(1, 3))
    ]
    late = random.choice((0, 0, 1))
    programs = []
    for rank in range(ranks):
        nodes: list[Node] = [compute(0, 1 + late * (rank % 2))]
        for kind, size, everyone in steps:
            own = ["0"] if everyone else [str(g) for g, members in groups.items() if rank in members]
            for group in own:
                nodes.append(collective(len(nodes), kind, size, [len(nodes) - 1], group))
        programs.append(nodes)
    return programs, groups


def _pipeline(random: Random, ranks: int, tidy: bool) -> tuple[Programs, None]:
    """Sends and receives: a line, a rotation, or exchanges with a partner; now and then one is left out."""
    size = max(1, _size(random, tidy))
    shape = random.choice(("line", "rotate", "exchange", "all"))
    distance = random.randint(1, max(1, ranks - 1))
    programs: list[list[Node]] = []
    for rank in range(ranks):
        nodes: list[Node] = [compute(0, 1)]
        if shape == "line":
            if rank:
                nodes.append(receive(len(nodes), rank - 1, size, 1))
            nodes.append(compute(len(nodes), 1, [len(nodes) - 1]))
            if rank + 1 < ranks:
                nodes.append(send(len(nodes), rank + 1, size, 1, [len(nodes) - 1]))
        elif shape == "rotate":
            nodes.append(receive(1, (rank - distance) % ranks, size, 7, random.choice(([], [0]))))
            nodes.append(send(2, (rank + distance) % ranks, size, 7, random.choice(([], [0]))))
            nodes.append(compute(3, 1, [1]))
        elif shape == "exchange" and rank ^ 1 < ranks:
            nodes.append(send(1, rank ^ 1, size, 2))
            nodes.append(receive(2, rank ^ 1, size, 2))
        elif shape == "all":
            for step in range(1, ranks):
                nodes.append(receive(2 * step, (rank - step) % ranks, size, 3))
                nodes.append(send(2 * step + 1, (rank + step) % ranks, size, 3))
        programs.append(nodes)
    if random.random() < 0.1:
        programs[random.randrange(ranks)].pop()
    return programs, None


def _mixed(random: Random, ranks: int, tidy: bool) -> tuple[Programs, Mapping[int, list[int]]]:
    """What training steps are made of, in one graph: computation, collectives of everyone and of groups, exchanges."""
    parts = random.choice([n for n in range(1, ranks + 1) if ranks % n == 0])
    strided = random.random() < 0.5
    width = ranks // parts
    sets = [
        list(range(p, ranks, parts)) if strided else list(range(p * width, p * width + width)) for p in range(parts)
    ]
    group_of = {rank: g + 1 for g, members in enumerate(sets) for rank in members}
    late = random.choice((0, 0, 1, parts, ranks))
    steps = [random.choice(("compute", "all", "group", "exchange")) for _ in range(random.randint(2, 6))]
    deps = [sorted({random.randrange(2 * i + 1) for _ in range(random.randint(0, 2))}) for i in range(len(steps))]
    kinds = [(random.choice(PLAIN_TYPES), _size(random, tidy), random.randint(1, max(1, ranks - 1))) for _ in steps]
    programs: list[list[Node]] = []
    for rank in range(ranks):
        nodes: list[Node] = [compute(0, 1 + (rank % late if late else 0))]
        for i, (step, before, (kind, size, distance)) in enumerate(zip(steps, deps, kinds, strict=True)):
            id = 2 * i + 1
            if step == "compute":
                nodes.append(compute(id, 1, before))
            elif step == "exchange":
                nodes.append(receive(id, (rank - distance) % ranks, max(size, 1), i, before))
                nodes.append(send(id + 1, (rank + distance) % ranks, max(size, 1), i, before))
                continue
            else:
                nodes.append(collective(id, kind, size, before, str(group_of[rank]) if step == "group" else ""))
            nodes.append(compute(id + 1, 1, [id]))
        programs.append(nodes)
    return programs, {g + 1: members for g, members in enumerate(sets)}


def _memory_accesses(random: Random, ranks: int, tidy: bool) -> tuple[Programs, None]:
    def node(i: int, deps: list[int]) -> Node:
        if random.random() < 0.6:
            return memory(i, random.choice((0, 1, 10, 100, 1000)), deps, random.random() < 0.5)
        if random.random() < 0.5:
            return compute(i, _micros(random), deps)
        return collective(i, random.choice(PLAIN_TYPES), _size(random, tidy), deps)

    return [_graph(random, node)], None


KINDS: Mapping[str, Callable[[Random, int, bool], tuple[Programs, Any]]] = {
    "collective": _one_collective,
    "graph": _equal_graphs,
    "stragglers": _stragglers,
    "groups": _groups,
    "pipeline": _pipeline,
    "mixed": _mixed,
    "memory": _memory_accesses,
}
