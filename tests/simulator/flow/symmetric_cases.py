"""Random flows that look the same from every block of a network: what folding is for."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from chakrasim import Flows
from chakrasim.machine import load_machine
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routing
from chakrasim.simulator import CapacityChanges

MOST_FLOWS = 3000


@dataclass(frozen=True)
class Case:
    """Flows on a network; ``text`` says what they are."""

    graph: NetworkGraph
    flows: Flows
    routing: Routing
    changes: CapacityChanges
    text: str


@dataclass(frozen=True)
class Place:
    """A network whose ranks (block, place) can all be moved by the same step, block (b) to block (b + step)."""

    graph: NetworkGraph
    sizes: tuple[int, ...]  # of the coordinates of a block; the first varies fastest
    inside: int  # places in a block; they vary faster
    rules: tuple[str, ...]


def network(*parts: dict[str, Any], ranks: int = 0, islands: int = 0, logical: Sequence[int] = ()) -> NetworkGraph:
    """The network of such parts."""
    graph: dict[str, Any] = {"parts": list(parts)}
    graph |= {"ranks": ranks} if ranks else {}
    graph |= {"islands": {"gpus": islands}} if islands else {}
    collectives = {"splits": 1, "algorithms": {"all-reduce": "ring"}}
    whole = {"graph": graph} | ({"logical": list(logical)} if logical else {})
    return load_machine({"format": 1, "network": whole, "collectives": collectives}).graph


def drawn_network(draw: random.Random) -> tuple[str, Place]:
    """A network of some family, with its symmetry."""
    name = draw.choice(sorted(FAMILIES))
    speed = {"bandwidth": f"{draw.choice((10, 25, 50, 33))} GB/s", "latency": f"{draw.choice((0, 0, 7, 500))} ns"}
    return name, FAMILIES[name](draw, speed)


def _star(draw: random.Random, speed: dict[str, Any]) -> Place:
    ranks = draw.randint(4, 24)
    return Place(network({"one-switch": speed}, ranks=ranks), (ranks,), 1, ("shortest", "spray"))


def _mesh(draw: random.Random, speed: dict[str, Any]) -> Place:
    ranks = draw.randint(4, 16)
    return Place(network({"full-mesh": speed}, ranks=ranks), (ranks,), 1, ("shortest", "spray"))


def _leaf_spine(draw: random.Random, speed: dict[str, Any]) -> Place:
    leaves, hosts, spines = draw.randint(4, 8), draw.randint(1, 8), draw.choice((1, 1, 2, 3, 4))
    part = {"hosts-per-leaf": hosts, "spines": spines, "oversubscription": draw.choice((1, 2)), **speed}
    graph = network({"leaf-spine": part}, ranks=leaves * hosts)
    return Place(graph, (leaves,), hosts, ("spray", "shortest") if spines == 1 else ("spray",))


def _xgft(draw: random.Random, speed: dict[str, Any]) -> Place:
    first, second, top = draw.randint(1, 4), draw.randint(1, 3), draw.randint(4, 6)
    down = draw.choice(([first, top], [first, second, top]))
    up = [1, *down[:-1]]
    graph = network({"xgft": {"down": down, "up": up, **speed}})
    return Place(graph, (top,), graph.ranks // top, ("d-mod-k", "spray"))


def _fat_tree(draw: random.Random, speed: dict[str, Any]) -> Place:
    k = draw.choice((4, 4, 4, 6))
    graph = network({"fat-tree": {"k": k, **speed}})
    return Place(graph, (k,), graph.ranks // k, ("d-mod-k", "spray"))


def _torus(draw: random.Random, speed: dict[str, Any]) -> Place:
    sizes = [draw.randint(2, 5) for _ in range(draw.randint(1, 3))]
    sizes = [4, *sizes[1:]] if np.prod(sizes) < 4 else sizes
    graph = network({"torus": {"sizes": sizes, **speed}}, logical=sizes)
    return Place(graph, tuple(sizes), 1, ("dimension-order", "spray"))


def _dragonfly(draw: random.Random, speed: dict[str, Any]) -> Place:
    hosts, routers, links = draw.randint(1, 3), draw.randint(2, 4), draw.randint(1, 2)
    if routers * links < 3:
        routers = 4
    part = {"hosts": hosts, "routers": routers, "global-links": links, "arrangement": "relative", **speed}
    graph = network({"dragonfly": part})
    return Place(graph, (routers * links + 1,), hosts * routers, ("spray",))


def _rails(draw: random.Random, speed: dict[str, Any]) -> Place:
    inside, boards = draw.choice((2, 4, 8)), draw.choice((4, 6, 8))
    inner = {"nvswitch": {"bandwidth": "450 GB/s", "latency": speed["latency"]}}
    part = {"leaf-gpus": boards, "spines": draw.choice((1, 2, 4)), "nic": "400 Gb/s", "latency": speed["latency"]}
    graph = network(inner, {"rails": part}, ranks=inside * boards, islands=inside)
    return Place(graph, (boards,), inside, ("spray",))


def _islands(draw: random.Random, speed: dict[str, Any]) -> Place:
    inside, boards = draw.randint(2, 6), draw.randint(4, 8)
    inner = draw.choice(({"nvswitch": {"bandwidth": "100 GB/s"}}, {"full-mesh": {"bandwidth": "30 GB/s"}}))
    graph = network(inner, {"nics": {"pcie": "40 GB/s"}}, {"one-switch": speed}, ranks=inside * boards, islands=inside)
    return Place(graph, (boards,), inside, ("shortest", "spray"))


FAMILIES = {
    "star": _star, "full mesh": _mesh, "leaf-spine": _leaf_spine, "xgft": _xgft, "fat tree": _fat_tree,
    "torus": _torus, "dragonfly": _dragonfly, "rails": _rails, "islands": _islands,
}  # fmt: skip

Template = tuple[int, tuple[int, ...], int, int]
"""From a place, by so many blocks, to a place, after that one of the templates."""


def drawn_templates(draw: random.Random, place: Place) -> tuple[str, list[Template]]:
    """Flows of one block, which all others have too."""
    steps = list(product(*map(range, place.sizes)))
    here, others, inside = steps[0], steps[1:], range(place.inside)
    step = draw.choice(others)
    pattern = draw.choice(["all-to-all", "shift", "rounds", "incast", "permutation", "groups", "two levels", "some"])
    made: list[Template] = []
    if pattern == "all-to-all":
        made = [(p, by, q, -1) for p in inside for by in steps for q in inside if (by, p) != (here, q)]
    elif pattern == "shift":
        made = [(p, step, p, -1) for p in inside]
    elif pattern == "rounds":
        for number in range(draw.randint(2, 6)):
            by = step if draw.random() < 0.5 else draw.choice(others)
            made += [(p, by, p, number * place.inside + p - place.inside if number else -1) for p in inside]
    elif pattern == "incast":
        made = [(p, here, 0, -1) for p in inside if p] + [(p, step, 0, -1) for p in inside]
    elif pattern == "permutation":
        made = [(p, draw.choice(steps), q, -1) for p, q in zip(inside, draw.sample(inside, len(inside)), strict=True)]
    elif pattern == "groups":
        made = [(p, by, p, -1) for p in inside for by in others]
    elif pattern == "two levels":
        made = [(p, here, q, -1) for p in inside for q in inside if p != q]
        made += [(p, by, p, draw.randrange(-1, len(made)) if made else -1) for p in inside for by in others]
    else:
        for number in range(draw.randint(1, 40)):
            made.append((draw.choice(inside), draw.choice(steps), draw.choice(inside), draw.randrange(-1, number + 1)))
            made[-1] = (*made[-1][:3], -1 if made[-1][3] == number or draw.random() < 0.5 else made[-1][3])
    return pattern, made[: max(MOST_FLOWS // len(steps), 1)]


def drawn_changes(draw: random.Random, graph: NetworkGraph) -> CapacityChanges:
    """Links of one kind change together, or none does."""
    rows: list[tuple[float, int, float]] = []
    kinds = [re.sub("[0-9]+", "", name) for name in graph.link_names]
    for _ in range(draw.choice((0, 0, 1, 3))):
        kind, at, share = draw.choice(kinds), draw.randint(0, 100_000), draw.choice((0.0, 0.25, 0.5, 2.0))
        links = [link for link, name in enumerate(kinds) if name == kind]
        rows += [(at, link, graph.capacity[link] * share) for link in links]
        if share == 0.0:
            rows += [(at + 5_000, link, graph.capacity[link]) for link in links]
    return CapacityChanges(*([row[i] for row in rows] for i in range(3)))


def symmetric_case(seed: int) -> Case:
    """A case that moving all blocks by a step leaves as it is."""
    draw = random.Random(f"symmetric {seed}")
    family, place = drawn_network(draw)
    pattern, templates = drawn_templates(draw, place)
    blocks = list(product(*map(range, reversed(place.sizes))))  # the first coordinate varies fastest
    number = {tuple(reversed(block)): at for at, block in enumerate(blocks)}
    kinds = draw.choice((1, 1, 2, len(templates)))
    sizes = [draw.choice((0, 1, 1000, 65_536, 1_048_576, draw.randint(1, 10**6))) for _ in range(kinds)]
    weights = [draw.choice((1.0, 1.0, 2.0, 0.5)) for _ in range(draw.choice((1, kinds)))]
    starts = [draw.choice((0.0, 0.0, float(draw.randint(0, 50_000)))) for _ in range(draw.choice((1, kinds)))]
    columns: list[list[float]] = [[], [], [], [], [], []]
    for block, at in number.items():
        for i, (p, by, q, after) in enumerate(templates):
            to = number[tuple((x + step) % size for x, step, size in zip(block, by, place.sizes, strict=True))]
            row = (
                at * place.inside + p, to * place.inside + q, sizes[i % len(sizes)], starts[i % len(starts)],
                -1 if after < 0 else at * len(templates) + after, weights[i % len(weights)],
            )  # fmt: skip
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    rule = draw.choice(place.rules)
    text = f"{seed}: {family} {place.sizes} x {place.inside}, {rule}, {pattern}, {len(columns[0])} flows"
    return Case(place.graph, Flows(*columns), Routing(rule), drawn_changes(draw, place.graph), text)


def perturbed(case: Case, seed: int) -> Case:
    """The same with something of its own on some links and flows."""
    draw = random.Random(f"perturbed {seed}")
    size, start = case.flows.size_bytes.copy(), case.flows.start_ns.copy()
    rows = list(zip(*(getattr(case.changes, name).tolist() for name in ("time_ns", "link", "capacity")), strict=True))
    for _ in range(draw.randint(1, 3)):
        what = draw.randrange(3)
        if what == 0:
            size[draw.randrange(size.size)] += draw.randint(1, 100_000)
        elif what == 1:
            start[draw.randrange(size.size)] += draw.randint(1, 100_000)
        else:
            rows.append((float(draw.randint(0, 10_000)), draw.randrange(case.graph.links), float(draw.randint(1, 60))))
    old = case.flows
    flows = Flows(old.source, old.destination, size, start, old.after, old.weight)
    return Case(
        case.graph, flows, case.routing, CapacityChanges(*([row[i] for row in rows] for i in range(3))), case.text
    )
