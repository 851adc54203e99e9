"""Collectives on many machines at once are those of each machine."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from chakrasim.collectives.kinds import KINDS
from chakrasim.machine import load_machine
from chakrasim.machine.graph.link_lanes import LinkLanes
from chakrasim.simulator.closed_form import collectives_alone
from chakrasim.simulator.closed_lanes import CollectiveLanes

LINK = "network.graph.parts."
CASES: list[tuple[str, dict[str, int], dict[str, list[str]]]] = [
    ("h100", {"gpus": 16}, {f"{LINK}nvswitch.bandwidth": ["450 GB/s", "33 GB/s"],
                            f"{LINK}rails.nic": ["400 Gb/s", "77 Gb/s"]}),
    ("hgx-h100-32", {}, {"network[0].bandwidth": ["100 GB/s", "7 GB/s"], "network[1].latency": ["1 us", "7.3 us"]}),
    ("mi300x", {"gpus": 16}, {f"{LINK}rails.nic": ["400 Gb/s", "77 Gb/s"]}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "size", "settings"), CASES)
def test_lanes_are_the_machines(name: str, size: dict[str, int], settings: dict[str, list[str]]) -> None:
    values = product(*settings.values())
    machines = [load_machine(name, settings=dict(zip(settings, one, strict=True)), **size) for one in values]
    graphs: list[Any] = [machine.graph for machine in machines]
    figures = ([getattr(graph, side) for graph in graphs] for side in ("capacity", "latency"))
    lanes = CollectiveLanes(machines[0], LinkLanes(graphs[0], np.arange(graphs[0].links), *map(np.array, figures)))
    for members, kind in product((range(8), (3, 5), range(16)), KINDS.values()):
        if kind.name in ("barrier", "reduce_scatter_block"):
            continue
        sizes, group = (0, 12_345, 77_777_777), tuple(members)
        whole = [kind.whole_bytes(one, len(group)) for one in sizes]
        alone = [collectives_alone(machine, kind.name, whole, group) for machine in machines]
        for at, one in enumerate(sizes):
            times, _ = lanes.times(kind.type, one, group)
            assert times.tolist() == [found[at].time_ns for found in alone], (kind.name, group, one)
