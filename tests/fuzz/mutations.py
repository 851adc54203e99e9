"""Seeded damage to trace and configuration files, and what a simulation makes of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chakrasim as cs
from chakrasim.trace import TraceBuilder, encode_trace

LIMITS = cs.Limits(max_nodes=100_000, max_events=300_000, max_bytes=256 * 2**20)
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["direct2"],
    "reduce-scatter-implementation": ["halvingDoubling"],
    "all-to-all-implementation": ["direct"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "peak-perf": 900,
    "roofline-enabled": 1,
}
NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
MEMORY = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
GROUPS = {"1": [0, 1], "2": [2, 3]}
RANKS = 4
NOISE = (b"\xff" * 9, b"\x80" * 5, b"\x00", b"-1", b"1e99", b"null", b'""', b"[]", b"9" * 30, b"\x1f\x8b")
NUMBERS = (-1, 0, 1, 2**31, 2**63, 2**70, 0.5, -0.0, 1e300)
VALUES = (None, True, False, *NUMBERS, "x", "", "12", [], ["ring"], [[1]], {}, {"a": 1})


def trace_bytes(rank: int) -> bytes:
    """A small trace with every kind of node."""
    builder = TraceBuilder(version="0.0.4")
    gpu = {"is_cpu_op": False}
    builder.add(1, name="load", type=2, attrs={**gpu, "tensor_size": 4096})
    builder.add(2, name="gemm", type=4, data_deps=[1], attrs={**gpu, "num_ops": 10**9, "tensor_size": 2**20})
    builder.add(3, name="host", type=4, duration_micros=3, attrs={"is_cpu_op": True})
    group = "1" if rank < 2 else "2"
    attrs = {**gpu, "comm_type": 0, "comm_size": 65536, "pg_name": group}
    builder.add(4, name="tp", type=7, data_deps=[2], attrs=attrs)
    builder.add(5, name="dp", type=7, data_deps=[4], ctrl_deps=[3], attrs={**gpu, "comm_type": 2, "comm_size": 8192})
    peer = rank ^ 1
    if rank % 2 == 0:
        attrs = {**gpu, "comm_src": rank, "comm_dst": peer, "comm_size": 1000, "comm_tag": 7}
        builder.add(6, name="send", type=5, data_deps=[5], attrs=attrs)
    else:
        attrs = {**gpu, "comm_src": peer, "comm_dst": rank, "comm_size": 1000, "comm_tag": 7}
        builder.add(6, name="recv", type=6, data_deps=[5], attrs=attrs)
    return encode_trace(builder.build())


def files() -> dict[str, bytes]:
    """The files of an intact simulation, by name."""
    contents = {f"job.{rank}.et": trace_bytes(rank) for rank in range(RANKS)}
    contents["system.json"] = json.dumps(SYSTEM).encode()
    contents["network.yml"] = NETWORK.encode()
    contents["memory.json"] = json.dumps(MEMORY).encode()
    contents["groups.json"] = json.dumps(GROUPS).encode()
    return contents


def _flip(data: bytearray, rng: random.Random, _: dict[str, bytes]) -> bytearray:
    for _i in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _truncate(data: bytearray, rng: random.Random, _: dict[str, bytes]) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def _splice(data: bytearray, rng: random.Random, _: dict[str, bytes]) -> bytearray:
    start, end = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:start] + data[start:end] * rng.choice((0, 2, 3)) + data[end:]


def _overwrite(data: bytearray, rng: random.Random, _: dict[str, bytes]) -> bytearray:
    start = rng.randrange(len(data) + 1)
    noise = rng.choice(NOISE)
    data[start : start + len(noise)] = noise
    return data


def _swap(data: bytearray, rng: random.Random, every: dict[str, bytes]) -> bytearray:
    return bytearray(every[rng.choice(sorted(every))])


def _retype(data: bytearray, rng: random.Random, _: dict[str, bytes]) -> bytearray:
    """Another value for one key of a JSON file, another word in a YAML file."""
    value = rng.choice(VALUES)
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document:
        words = bytes(data).split(b" ")
        words[rng.randrange(len(words))] = json.dumps(value).encode()
        return bytearray(b" ".join(words))
    document[rng.choice(sorted(document))] = value
    return bytearray(json.dumps(document).encode())


MUTATIONS: tuple[Callable[[bytearray, random.Random, dict[str, bytes]], bytearray], ...] = (
    _flip,
    _flip,
    _truncate,
    _splice,
    _overwrite,
    _swap,
    _retype,
)


@dataclass(frozen=True)
class Mutant:
    """One simulation's files, one of them damaged."""

    seed: int
    damaged: str
    contents: dict[str, bytes]


def mutant(seed: int, intact: dict[str, bytes]) -> Mutant:
    """The files with the damage that belongs to a seed."""
    rng = random.Random(seed)
    name = rng.choice(sorted(intact))
    data = bytearray(intact[name])
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(data, rng, intact)
    return Mutant(seed, name, {**intact, name: bytes(data)})


def outcome(case: Mutant, folder: Path, *, congestion: str) -> cs.SimulationResult | cs.ChakrasimError:
    """Simulate a mutant's files; anything but a result or one of our errors is raised on."""
    for name, data in case.contents.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
    try:
        return cs.simulate(
            folder / "job",
            system=folder / "system.json",
            network=folder / "network.yml",
            memory=folder / "memory.json",
            comm_groups=folder / "groups.json",
            congestion=congestion,  # type: ignore[arg-type]
            limits=LIMITS,
        )
    except (cs.InputError, cs.StallError) as error:
        return error
