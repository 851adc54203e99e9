"""Jobs as SimAI's workloads (the format: `trace.foreign.simai`).

The format has one list of layers for all ranks, which SimAI goes through forwards and then backwards: each computation
waits for the collective before it, but for those of weight gradients, for which nothing waits. What comes before the
backward pass becomes the forward half of layers, the rest, from its end, the backward half of others.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.exchange.times import times_ns
from chakrasim.machine.device.profile import DeviceProfile
from chakrasim.notes import Notes
from chakrasim.trace import Job, NodeType, Trace
from chakrasim.trace.foreign.mesh import Groups, strided
from chakrasim.trace.foreign.simai import COLLECTIVES, STATED
from chakrasim.trace.job.groups import EVERYONE, check_job
from chakrasim.trace.kinds import CollectiveType
from chakrasim.trace.work import PHASE

_NAMES: Final = {int(kind): name for name, kind in COLLECTIVES.items()}
_SUFFIX: Final = {"tp": "", "dp": "", "ep": "_EP", "dp_ep": "_DP_EP"}
_NOTHING: Final = "0 NONE 0"


@dataclass(frozen=True)
class _Step:
    """Computations up to a collective, "" for none; ``beside``: for which nothing waits (of weight gradients)."""

    name: str
    time_ns: int
    collective: str = ""
    size_bytes: int = 0
    beside: bool = False


def simai_text(job: Job, *, profile: DeviceProfile | None = None, notes: Notes | None = None) -> str:
    """The job as a workload of SimAI. ``profile`` times the nodes that say what they compute.

    ``notes`` is told what runs otherwise there. Raises InputError for what the format has no place for: ranks that do
    different things (pipeline stages), messages, other collectives, other groups than SimAI's own.
    """
    check_job(job)
    if len(job.traces) != 1:
        _refuse("its ranks run different traces, as pipeline stages do", f"{len(job.traces)} traces")
    trace = job.traces[0]
    meshes, sizes = _meshes(job)
    forward, backward = _steps(trace, job, meshes, times_ns(trace, profile))
    told: Counter[str] = Counter(_waiting(trace, meshes, job))
    rows = [_row(step, True) for step in forward] + [_row(step, False) for step in reversed(backward)]
    head = (
        f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {sizes['tp']} ep: {sizes['ep']} pp: 1 vpp: 1 ga: 1 "
        f"all_gpus: {job.ranks} checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0"
    )
    if notes is not None:
        for what, count in sorted(told.items()):
            notes.warn(f"{what}: {count:,}")
    return "\n".join((head, str(len(rows)), *rows, ""))


def _refuse(why: str, found: object = None, place: str | None = None) -> None:
    raise InputError(
        f"SimAI's format cannot carry this job: {why}", found=found, place=place, remedy="write it as GOAL (--to goal)"
    )


def _meshes(job: Job) -> tuple[dict[str, str], dict[str, int]]:
    """By role of the job the role of SimAI that has the same groups; and the sizes of tp and ep."""
    ranks = job.ranks
    said = {role: len(groups[0]) for role, groups in job.process_groups.items() if groups}
    tp = said.get("tp", 1)
    dp = ranks // tp
    ep = said.get("ep", 1)
    own: dict[str, Groups] = {"tp": strided(ranks, 1, tp)} if ranks % tp == 0 else {}
    if ranks == tp * dp and dp % ep == 0:
        own |= {"dp": strided(ranks, tp, dp), "ep": strided(ranks, tp, ep), "dp_ep": strided(ranks, tp * ep, dp // ep)}
    found = dict.fromkeys(EVERYONE, "tp" if tp == ranks else "dp" if dp == ranks else "")
    for role, groups in job.process_groups.items():
        ordered = sorted(tuple(members) for members in groups)
        preferred = sorted(own, key=lambda name: name != role)
        found[role] = next((name for name in preferred if sorted(own[name]) == ordered), "")
    return found, {"tp": tp, "ep": ep}


def _steps(
    trace: Trace, job: Job, meshes: dict[str, str], times: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> tuple[list[_Step], list[_Step]]:
    """What comes before the backward pass, and the rest, in the order of ids."""
    phases = trace.attr(PHASE)
    halves: tuple[list[_Step], list[_Step]] = ([], [])
    back = spent = 0
    for node in np.argsort(trace.ids, kind="stable").tolist():
        kind = int(trace.types[node])
        if not back and phases.present[node] and phases.string(node) not in ("forward", ""):
            if spent:
                halves[0].append(_Step("forward", spent))
            back, spent = 1, 0
        if kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
            _refuse("it has messages", place=trace.place(node))
        elif kind in (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE):
            _refuse("it has remote memory", place=trace.place(node))
        elif kind == NodeType.COMM_COLL_NODE:
            halves[back].append(_collective(trace, node, job, meshes, spent, bool(back)))
            spent = 0
        else:
            spent += int(times[node])
    if spent:
        halves[back].append(_Step("end", spent))
    return halves


def _collective(trace: Trace, node: int, job: Job, meshes: dict[str, str], spent: int, back: bool) -> _Step:
    """A collective and the ``spent`` ns of computations before it."""
    role = trace.attr("pg_name").string(node)
    mesh, kind = meshes.get(role, ""), int(trace.attr("comm_type").integers(-1)[node])
    if kind not in _NAMES:
        found = CollectiveType(kind).name if kind in tuple(CollectiveType) else kind
        _refuse("it has no such collective", found, trace.place(node))
    if not mesh:
        _refuse("its groups are not consecutive ranks (tp) or those that hold the same part (dp)", role,
                trace.place(node))  # fmt: skip
    if mesh == "dp" and not back:
        _refuse("collectives of data-parallel ranks belong to weight gradients there", place=trace.place(node))
    size = int(trace.attr("comm_size").integers(0)[node])
    if kind == CollectiveType.ALL_GATHER:
        members = job.ranks if role in EVERYONE else len(job.process_groups[role][0])
        size = int(trace.attr(STATED).integers(size * members)[node])
    name = re.sub("[^A-Za-z0-9]+", "_", trace.name(node)).strip("_") or "layer"
    return _Step(name, spent, _NAMES[kind] + _SUFFIX[mesh], size, mesh in ("dp", "dp_ep"))


def _row(step: _Step, forward: bool) -> str:
    """A line of the file."""
    told = f"{step.collective or 'NONE'} {step.size_bytes}"
    if forward:
        phases = f"{step.time_ns} {told} {_NOTHING} {_NOTHING}"
    elif step.beside:
        phases = f"{_NOTHING} {step.time_ns} NONE 0 0 {told}"
    else:
        phases = f"{_NOTHING} {step.time_ns} {told} {_NOTHING}"
    return "\t".join((step.name, "-1", *phases.split(), "0"))


def _waiting(trace: Trace, meshes: dict[str, str], job: Job) -> dict[str, int]:
    """How many computations begin earlier, or later, than the job says, because of the collective before them."""
    place = {int(number): at for at, number in enumerate(trace.ids.tolist())}
    names = trace.attr("pg_name")
    early = late = 0
    before = -1
    for node in np.argsort(trace.ids, kind="stable").tolist():
        if trace.types[node] == NodeType.COMM_COLL_NODE:
            before = node
            continue
        deps = [place[dep] for dep in trace.data_deps[node].tolist() if dep in place]
        for dep in deps:
            beside = trace.types[dep] == NodeType.COMM_COLL_NODE and meshes.get(names.string(dep)) in ("dp", "dp_ep")
            early += bool(beside)
        if before >= 0 and meshes.get(names.string(before)) not in ("dp", "dp_ep"):
            late += before not in deps
        before = -1
    told = {
        "computations that wait for weight gradients, for which nothing waits in SimAI": early,
        "computations that ran beside a collective, and wait for it in SimAI": late,
    }
    return {what: count for what, count in told.items() if count}
