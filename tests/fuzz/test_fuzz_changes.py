"""Damaged files of changes, alone and in machine files: an error with its place, or a run that loses no byte.

``python tests/fuzz/test_fuzz_changes.py LOW HIGH`` runs the files that belong to the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path

from damage import Files, damaged
from seeds import go_through, in_time

import chakrasim as cs
from chakrasim.machine import Machine

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_CHANGES_SEEDS", "200"))
RANKS = 8
PART = "{leaf-spine: {hosts-per-leaf: 4, spines: 2, bandwidth: 50 GB/s, latency: 300 ns}}"
OPTICAL = (
    "{optical: {bandwidth: 9 GB/s, delay: 1 us, schedule: "
    "[{pairs: [[0, 4], [1, 5]]}, {at: 8 us, pairs: [[0, 5], [2, 6]]}]}}"
)
CHANGES = """\
  - {at: 3 us, down: leaf0-spine0, detect: 2 us}
  - {at: 5 us, cable: leaf1-spine1, bandwidth: 80 Gb/s}
  - {at: 6 us, down: spine1, detect: 500 ns, rehash: all}
  - {at: 9 us, up: spine1, detect: 1 us}
  - {at: 9 us, down: 3-leaf0}
  - {at: 11 us, up: 3-leaf0}
  - {at: 12 us, up: leaf0-spine0}
"""
MACHINE = """\
format: 1
network:
  graph:
    ranks: 8
    parts: [%s]
    routing: {rule: %s, seed: 3}
  changes:
%s
collectives: {splits: 1, algorithms: {all-reduce: ring}}
"""


def files() -> list[Files]:
    """A file of changes, and machine files with them."""
    loss = CHANGES + "  - {at: 14 us, down: 6, detect: 1 us}\n"
    indented = CHANGES.replace("  - ", "    - ").rstrip()
    machine = MACHINE % (PART, "ecmp", indented)
    circuits = MACHINE % (f"{PART}, {OPTICAL}", "adaptive", indented)
    changes = ({"changes.yaml": f"format: 1\nchanges:\n{text}".encode()} for text in (CHANGES, loss))
    return [*changes, {"machine.yaml": machine.encode()}, {"machine.yaml": circuits.encode()}]


TIMES = (b"0 ns", b"1 ns", b"2 us", b"8 us", b"9 us", b"20 us", b"1 s", b"9 us", b"-1 us", b"4 parsec", b"1e30 s")
NAMES = (b"leaf0-spine1", b"spine0-leaf1", b"2-leaf0", b"leaf1", b"spine0", b"3", b"7", b"leaf1-7", b"leaf2", b"8")


def altered(data: bytes, draw: random.Random) -> bytes:
    """The same with other times and names in it, which mostly make sense."""
    for _ in range(draw.randint(1, 5)):
        pattern, values = draw.choice([(rb"\b\d+ [un]s", TIMES), (rb"(?<=(?:down|, up): )[\w-]+", NAMES)])
        places = list(re.finditer(pattern, data))
        if places:
            place = draw.choice(places)
            data = data[: place.start()] + draw.choice(values) + data[place.end() :]
    return data


@cache
def workload() -> list[cs.Trace]:
    """An all-reduce, then messages across the fabric."""
    traces = []
    for rank in range(RANKS):
        builder = cs.TraceBuilder()
        builder.add(0, "reduce", 7, attrs={"is_cpu_op": False, "comm_type": 0, "comm_size": 100_000})
        kind, peer = (5, "comm_dst") if rank < RANKS // 2 else (6, "comm_src")
        attrs = {"is_cpu_op": False, peer: (rank + RANKS // 2) % RANKS, "comm_size": 70_000, "comm_tag": 1}
        builder.add(1, "message", kind, data_deps=[0], attrs=attrs)
        traces.append(builder.build())
    return traces


@cache
def fabric() -> Machine:
    text = (MACHINE % (PART, "ecmp", CHANGES)).split("  changes:")[0] + "collectives: {splits: 1}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.yaml")
        path.write_text(text)
        return cs.load_machine(path)


def outcome(seed: int, folder: Path) -> str:
    """What becomes of the file of a seed."""
    draw = random.Random(f"changes {seed}")
    given = draw.choice(files())
    (name,) = given
    path = folder / name
    path.write_bytes(altered(given[name], draw) if draw.random() < 0.5 else damaged(name, given, draw))
    began = time.process_time()
    try:
        if name == "changes.yaml":
            result = cs.simulate(workload(), machine=fabric(), changes=path)
        else:
            machine = cs.load_machine(path)
            if machine.ranks != RANKS:
                return "another machine"
            result = cs.simulate(workload(), machine=machine, limits=cs.Limits(max_events=1_000_000))
    except cs.InputError as fault:
        assert fault.file or fault.message.startswith("the simulation has run"), f"{name}: {fault} names no file"
        return "refused"
    except cs.StallError as fault:
        assert "down" in str(fault), f"{name}: {fault}"
        return "stalled"
    finally:
        in_time(began, name)
    _check_bytes(result)
    return "run"


def _check_bytes(result: cs.SimulationResult) -> None:
    """What comes to a vertex leaves it, but for the messages of the first half of the ranks to the others: each link's
    bytes are rounded, so that a vertex may be half a byte off for each of its links."""
    carried, links = Counter[str](), Counter[str]()
    for link in result.graph_links:
        source, target = link.name.split("#")[0].split("-")
        carried[source] += link.bytes
        carried[target] -= link.bytes
        links.update((source, target))
    for vertex, balance in carried.items():
        own = 0 if not vertex.isdigit() else 70_000 if int(vertex) < RANKS // 2 else -70_000
        assert abs(balance - own) <= links[vertex] / 2, f"{balance} bytes more leave {vertex} than come"
    assert result.bytes_sent.tolist() == [245_000] * 4 + [175_000] * 4


def test_damaged_changes_are_refused_or_lose_no_byte(tmp_path: Path) -> None:
    warm = tmp_path / "warm.yaml"
    warm.write_bytes(files()[0]["changes.yaml"])
    cs.simulate(workload(), machine=fabric(), changes=warm)  # compiles, which no case is to be blamed for
    seen = Counter(outcome(seed, tmp_path) for seed in range(SEEDS))
    assert seen["run"] > SEEDS // 20 and seen["refused"] > SEEDS // 4, seen


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        go_through(partial(outcome, folder=Path(folder)))
