"""A real run of an example on gloo ranks, and what of it a capture must give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.collect.capturing.api import capture
from chakrasim.linker.api import link
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.linked.columns import OPERATION_NAMES, LinkedTrace, RowKind

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("observed_runner.py")


@dataclass(frozen=True)
class Collective:
    """A collective or message as the program asks for it: what, bytes (Chakra's convention), group, other side."""

    what: str
    size_bytes: int
    group: tuple[int, ...]
    peer: int = -1


@dataclass(frozen=True)
class Observed:
    """What one rank did in a steady step.

    ``peak_bytes`` is the smallest peak of several steps (and of ranks that do the same), without collectives' scratch:
    gloo's threads let tensors go when they happen to, which makes some steps' peaks larger.
    """

    collectives: list[Collective]
    flops: dict[str, int]
    peak_bytes: int


def run_observed(folder: Path, script: str, ranks: int, arguments: list[str], timeout_s: float = 300) -> list[Observed]:
    """Run ``examples/SCRIPT`` on that many gloo ranks; what each of them did, by rank."""
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(RUNNER), str(folder)]
    command += [str(ROOT / "examples" / script), *arguments, "--steps", "10"]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=timeout_s, check=False, env=surroundings
    )
    # Gloo sometimes aborts when processes end; what was measured is complete by then.
    if not all((folder / f"measured.{rank}.json").exists() for rank in range(ranks)):
        raise RuntimeError(done.stderr[-4000:])
    return [_observed(folder, rank) for rank in range(ranks)]


def _observed(folder: Path, rank: int) -> Observed:
    measured = json.loads((folder / f"measured.{rank}.json").read_text())
    linked = link(folder / f"host.{rank}.json.gz", folder / f"device.{rank}.json.gz")
    return Observed(logical(linked), measured["flops"], min(measured["peak_bytes"]))


#: Operators of c10d by the name that a linked trace has for what they ask for.
_ASKED = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "send": "send",
    "recv": "recv",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}


def _asked(name: str) -> str:
    """What an operator of c10d asks for: "c10d::_allgather_base_" asks for an all-gather."""
    plain = name.removeprefix("c10d::").strip("_")
    stem = max((stem for stem in _ASKED if plain.startswith(stem)), key=len, default="")
    return _ASKED.get(stem, plain)


def logical(linked: LinkedTrace) -> list[Collective]:
    """Collectives in the order and of the type that the program asked for, without barriers.

    A linked trace has them as gloo carries them out: in the order of their start, and a reduce-scatter as an all-reduce
    of the whole input. The operator that asks is the last one before the work that fits and has none yet.
    """
    names = [linked.strings[int(index)] for index in linked.name]
    operators = [
        row
        for row in np.flatnonzero((linked.kind == RowKind.OPERATOR) & (linked.part == 0)).tolist()
        if names[row].startswith("c10d::")
    ]
    operators.sort(key=lambda row: int(linked.rf_id[row]))
    communication = linked.communication
    order = np.argsort(linked.rf_id[communication.row], kind="stable").tolist()
    found: dict[int, Collective] = {}
    for entry in order:
        done = OPERATION_NAMES[int(communication.operation[entry])]
        mine = int(linked.rf_id[communication.row[entry]])
        before = [row for row in operators if int(linked.rf_id[row]) < mine and row not in found]
        fitting = [row for row in before if done == _asked(names[row]) or _is_disguised(done, _asked(names[row]))]
        row = fitting[-1]
        group = int(communication.group[entry])
        peer = int(communication.peer[entry]) if done in ("send", "recv") else -1
        ranks = linked.groups[group].ranks if group >= 0 else ()
        found[row] = Collective(_asked(names[row]), int(communication.size_bytes[entry]), ranks, peer)
    missing = [names[row] for row in operators if row not in found and _asked(names[row]) != "barrier"]
    assert not missing, missing
    return [found[row] for row in operators if row in found and found[row].what != "barrier"]


def _is_disguised(done: str, asked: str) -> bool:
    return done == "all_reduce" and asked == "reduce_scatter"


@dataclass(frozen=True)
class Comparison:
    """One rank, captured and observed."""

    rank: int
    captured: Observed
    observed: Observed

    @property
    def peak_error(self) -> float:
        """Captured peak over the observed one, minus 1."""
        return self.captured.peak_bytes / self.observed.peak_bytes - 1


def compare(folder: Path, script: str, ranks: int, arguments: list[str]) -> list[Comparison]:
    """An example run for real and captured, on CPU ranks; rank by rank."""
    observed = run_observed(folder, script, ranks, arguments)
    found = capture(
        ROOT / "examples" / script,
        world_size=ranks,
        ranks="representative",
        arguments=[*arguments, "--steps", "10"],
        with_gpu=False,
    )
    peaks = {}
    for entry in found.captured.classes:
        equal = [int(rank) for rank in entry.ranks]
        peaks |= dict.fromkeys(equal, entry.result.summary.peak_bytes)
        smallest = min(observed[rank].peak_bytes for rank in equal)
        for rank in equal:
            observed[rank] = replace(observed[rank], peak_bytes=smallest)
    return [
        Comparison(
            rank,
            Observed(
                captured_collectives(found.job, rank),
                captured_flops(found.job.traces[int(found.job.trace_of_rank[rank])], set(truth.flops)),
                peaks[rank],
            ),
            truth,
        )
        for rank, truth in enumerate(observed)
    ]


def captured_collectives(job: Job, rank: int) -> list[Collective]:
    """Collectives and messages of one rank of a captured job, in program order, without barriers."""
    trace = job.traces[int(job.trace_of_rank[rank])]
    found = []
    columns = {name: trace.attr(name) for name in ("comm_type", "comm_size", "comm_peer", "pg_name")}
    for node in range(len(trace)):
        kind = int(trace.types[node])
        if kind not in (NodeType.COMM_COLL_NODE, NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            continue
        group = members(job, columns["pg_name"].string(node), rank)
        size = int(columns["comm_size"].value(node))
        if kind == NodeType.COMM_COLL_NODE:
            what = CollectiveType(int(columns["comm_type"].value(node))).name.lower()
            if what != "barrier":
                found.append(Collective(what, size, group))
        else:
            what = "send" if kind == NodeType.COMM_SEND_NODE else "recv"
            found.append(Collective(what, size, group, group[int(columns["comm_peer"].value(node))]))
    return found


def members(job: Job, role: str, rank: int) -> tuple[int, ...]:
    """The group of a role that a rank is in."""
    if role in ("", "0") and role not in job.process_groups:
        return tuple(range(job.ranks))
    (group,) = (group for group in job.process_groups[role] if rank in group)
    return group


def captured_flops(trace: Trace, names: set[str]) -> dict[str, int]:
    """FLOPs by operator of the nodes of these names."""
    flops: Counter[str] = Counter()
    column: Any = trace.attr("num_ops")
    for node in range(len(trace)):
        name = trace.name(node)
        if int(trace.types[node]) == NodeType.COMP_NODE and name in names:
            flops[name] += int(column.value(node))
    return dict(flops)
