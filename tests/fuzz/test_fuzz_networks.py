"""Damaged files of networks: an error with its place or a graph, and every link of the file in it.

``python tests/fuzz/test_fuzz_networks.py LOW HIGH`` reads the files that belong to the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter

import numpy as np
from damage import damaged
from network_inputs import networks
from seeds import go_through, in_time

from chakrasim.errors import InputError
from chakrasim.machine.graph.formats.api import WRITTEN, graph_text, parse_graph
from chakrasim.machine.graph.formats.server import Servers
from chakrasim.machine.graph.formats.source import Source
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.notes import Notes

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_NETWORK_SEEDS", "300"))
COLUMNS = ("kind", "transit", "island", "source", "target", "capacity", "latency", "cable", "medium")


def links_of(name: str, data: bytes) -> int | None:
    """How many links a file has, counted without the reader; None where that is not easily counted."""
    if name in ("ns3.txt", "simai.txt"):
        lines = [line.split() for line in data.decode("utf-8-sig").split("\n")]
        return 2 * sum(len(words) == 5 and all(re.fullmatch("[0-9]+", word) for word in words[:2]) for words in lines)
    if name == "node-link.json":
        document = json.loads(data.decode("utf-8-sig"))
        return len(document["links" if "links" in document else "edges"]) * (1 if document.get("directed") else 2)
    if name == "net.graphml" and b"<!--" not in data and b"CDATA" not in data:
        return data.count(b"<edge ") * (1 if b'edgedefault="directed"' in data else 2)
    return None


def outcome(seed: int) -> str:
    """What becomes of the file of a seed; "" or what is wrong with that."""
    draw = random.Random(f"network {seed}")
    files = draw.choice(networks())
    (name,) = files
    data = damaged(name, files, draw)
    servers = draw.choice((Servers(), Servers(), Servers(2), Servers(3, "rail")))
    began = time.process_time()
    try:
        graph = parse_graph(data, Source(name, Notes()), servers)
    except InputError as fault:
        in_time(began, name)
        if not (fault.file or fault.message.startswith("the number of servers")):
            raise AssertionError(f"{name}: {fault} names no file") from None
        return f"{name} refused"
    in_time(began, name)
    counted = links_of(name, data) if data[:2] != b"\x1f\x8b" else None
    assert counted is None or counted == graph.links, f"{name}: {counted} links in the file, {graph.links} in the graph"
    _write(graph, draw)
    return f"{name} read"


def _write(graph: NetworkGraph, draw: random.Random) -> None:
    """Some form of it is refused, or is read back with all links."""
    form = draw.choice(WRITTEN)
    try:
        text = graph_text(graph, form, "out", Notes())
    except InputError:
        return
    back = parse_graph(text.encode(), Source("out", Notes()))
    exact = COLUMNS if form not in ("ns3", "simai", "htsim") else ("source", "target", "capacity", "latency", "medium")
    wrong = [column for column in exact if not np.array_equal(getattr(graph, column), getattr(back, column))]
    assert not wrong, f"{form}: {wrong} are not what was written"


def test_damaged_networks_are_refused_or_read_whole() -> None:
    seen = Counter(outcome(seed).split()[1] for seed in range(SEEDS))
    assert seen["read"] > SEEDS // 20 and seen["refused"] > SEEDS // 4


if __name__ == "__main__":
    go_through(outcome)
