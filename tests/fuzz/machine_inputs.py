"""Small intact machines: in a file of ours, in ASTRA-sim's files, and with collectives of their own."""

from __future__ import annotations

import json
from functools import cache

import mutations
from damage import Files

from chakrasim.trace import TraceBuilder, encode_trace

MACHINE = """\
format: 1
name: cluster
network:
  - {{topology: {topology}, npus: {ranks}, bandwidth: 50 GB/s, latency: 500 ns}}
memory: {{bandwidth: 2000 GB/s, expansion: {{kind: per-npu, latency: 100 ns, bandwidth: 50 GB/s}}}}
collectives:
  splits: {splits}
  active-chunks: 2
  algorithms: {{all-reduce: ring, all-gather: ring, reduce-scatter: ring, all-to-all: direct}}
  custom: {{{custom}}}
"""
NAMES = {"all-reduce": ("allreduce", 0), "all-gather": ("allgather", 2), "all-to-all": ("alltoall", 6)}


def _machine(ranks: int, custom: str, topology: str = "Ring", splits: int = 1) -> bytes:
    return MACHINE.format(ranks=ranks, custom=custom, topology=topology, splits=splits).encode()


def _trace(kind: int, nodes: int = 2) -> bytes:
    """Collectives of one type, one after another."""
    builder = TraceBuilder(version="0.0.4")
    for number in range(1, nodes + 1):
        attrs = {"is_cpu_op": False, "comm_type": kind, "comm_size": 1 << 16}
        builder.add(number, name=f"c{number}", type=7, data_deps=[number - 1] if number > 1 else [], attrs=attrs)
    return encode_trace(builder.build())


def _step(number: int, kind: str, depid: int = -1, deps: int = -1, count: int = 1) -> str:
    return (
        f'      <step s="{number}" type="{kind}" srcbuf="i" srcoff="{number}" dstbuf="o" dstoff="{number}" '
        f'cnt="{count}" depid="{depid}" deps="{deps}" hasdep="{int(depid >= 0)}"/>\n'
    )


def _algorithm(ranks: int, name: str, channels: int) -> bytes:
    """A ring: every GPU sends to the next and receives from the one before; a block of each waits for another."""
    lines = [f'<algo name="ring" proto="Simple" nchunksperloop="{ranks}" ngpus="{ranks}" coll="{name}">\n']
    for rank in range(ranks):
        lines.append(f'  <gpu id="{rank}" i_chunks="{ranks}" o_chunks="{ranks}" s_chunks="1">\n')
        for channel in range(channels):
            ahead, behind = (rank + 1) % ranks, (rank - 1) % ranks
            kinds = ["s", *["rrcs"] * (ranks - 2), "rrc", "s", *["rcs"] * (ranks - 2), "r"]
            lines.append(f'    <tb id="{channel}" send="{ahead}" recv="{behind}" chan="{channel}">\n')
            lines += [_step(number, kind) for number, kind in enumerate(kinds)]
            lines.append("    </tb>\n")
        lines.append(f'    <tb id="{channels}" send="-1" recv="-1" chan="0">\n')
        lines += [_step(0, "nop", 0, 0), _step(1, "cpy", 0, 1, 2), _step(2, "re")]
        lines.append("    </tb>\n  </gpu>\n")
    return "".join([*lines, "</algo>\n"]).encode()


@cache
def algorithms() -> tuple[Files, ...]:
    """Machines whose collectives are MSCCL algorithms."""
    found: list[Files] = []
    for ranks, key, channels, topology in (
        (2, "all-reduce", 1, "Ring"),
        (3, "all-reduce", 2, "Switch"),
        (4, "all-gather", 1, "FullyConnected"),
        (2, "all-to-all", 3, "Switch"),
    ):
        name, kind = NAMES[key]
        found.append(
            {
                "a.xml": _algorithm(ranks, name, channels),
                "machine.yaml": _machine(ranks, f"{key}: a.xml", topology),
                "job.et": _trace(kind),
            }
        )
    return tuple(found)


def _messages(rank: int, ranks: int) -> bytes:
    builder = TraceBuilder(version="0.0.4")
    send = {"is_cpu_op": False, "comm_src": rank, "comm_dst": (rank + 1) % ranks, "comm_size": 4096, "comm_tag": 1}
    receive = {**send, "comm_src": (rank - 1) % ranks, "comm_dst": rank}
    builder.add(1, name="send", type=5, attrs=send)
    builder.add(2, name="receive", type=6, attrs=receive)
    builder.add(3, name="add", type=4, duration_micros=2, data_deps=[1, 2], attrs={"is_cpu_op": False})
    return encode_trace(builder.build())


@cache
def custom_traces() -> tuple[Files, ...]:
    """Machines whose collectives are Chakra traces."""
    return tuple(
        {
            **{f"own.{rank}.et": _messages(rank, ranks) for rank in range(ranks)},
            "machine.yaml": _machine(ranks, "all-reduce: own"),
            "job.et": _trace(0),
        }
        for ranks in (2, 3)
    )


@cache
def configurations() -> tuple[Files, ...]:
    """ASTRA-sim's files, with the groups of a job and its traces."""
    traces = {f"job.{rank}.et": mutations.trace_bytes(rank) for rank in range(mutations.RANKS)}
    files: Files = {
        **traces,
        "system.json": json.dumps(mutations.SYSTEM).encode(),
        "network.yml": mutations.NETWORK.encode(),
        "memory.json": json.dumps(mutations.MEMORY).encode(),
        "groups.json": json.dumps(mutations.GROUPS).encode(),
    }
    ours = {"machine.yaml": _machine(mutations.RANKS, "", splits=2), "groups.json": files["groups.json"], **traces}
    return files, ours
