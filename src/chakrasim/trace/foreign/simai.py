"""SimAI's workloads, as AICB writes them: one line a layer, run by all ranks (Workload.cc of astra-sim-alibabacloud).

Times are ns and sizes bytes. The size of an all-gather is that of its result; Chakra's is what one rank gives, so that
``comm_size`` is a share of it, and `STATED` what the file says. Forward and input-gradient collectives are those of
the ranks that share a layer (tp), weight-gradient ones those of the data-parallel ranks (dp), unless their name ends in
_EP (ep) or _DP_EP (dp_ep). Ranks are numbered tp first, then dp (ep in it first), then pp.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.job_formats import TRANSFORMERS
from chakrasim.notes import Notes, lists_too
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.foreign.mesh import Groups, strided
from chakrasim.trace.foreign.text import read_text, whole
from chakrasim.trace.job.job import MAX_RANKS, Job
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.trace.work import COMPUTE_NS, PHASE

STATED: Final = "stated_bytes"
"""Attribute of all-gathers: the size that the file states."""
COLLECTIVES: Final = {
    "ALLREDUCE": CollectiveType.ALL_REDUCE,
    "ALLTOALL": CollectiveType.ALL_TO_ALL,
    "ALLGATHER": CollectiveType.ALL_GATHER,
    "REDUCESCATTER": CollectiveType.REDUCE_SCATTER,
}
SUFFIXES: Final = {"_DP_EP": "dp_ep", "_EP": "ep"}
_SILENT: Final = ("BROADCAST",)
"""Collectives in files of AICB that SimAI does not run."""
_HELD: Final = 60
_SIZES: Final = {
    "model_parallel_NPU_group:": "tp",
    "ep:": "ep",
    "expert_parallel_npu_group:": "ep",
    "pp:": "pp",
    "vpp:": "vpp",
    "ga:": "ga",
    "all_gpus:": "ranks",
    "pp_comm:": "pp_comm",
    "pp_comm": "pp_comm",
}
_LISTS: Final = {"checkpoints:": "checkpoints", "checkpoint_initiates:": "initiates"}
COLUMNS: Final = 12


@dataclass(frozen=True)
class Phase:
    """A computation of a layer and the collective behind it, "NONE" for none."""

    time_ns: int
    collective: str
    size_bytes: int


@dataclass(frozen=True)
class Layer:
    """A line: name, the three phases (forward, input gradient, weight gradient), where it stands."""

    name: str
    phases: tuple[Phase, Phase, Phase]
    line: int


@lists_too
def read_simai(
    path: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    notes: Notes | None = None,
    max_bytes: int | None = None,
) -> Job:
    """The job of a SimAI workload: one training step, one trace for all ranks. Raises InputError with the line.

    ``ranks`` is needed where the first line has no all_gpus. ``notes`` is told what the format says and Chakra, or
    SimAI itself, does not carry out.
    """
    notes = Notes() if notes is None else notes
    source = os.fspath(path)
    lines = read_text(source, max_bytes, "a SimAI workload", _HELD).splitlines()
    sizes, lists = _header(lines[0] if lines else "", source)
    left: Counter[str] = Counter()
    layers = [_layer(line, number, source, left) for number, line in enumerate(lines[2:], 3) if line.strip()]
    stated = whole(lines[1].strip() if len(lines) > 1 else "", source, "line 2", "the number of layers")
    if stated != len(layers):
        notes.warn(f"{source}: line 2 says {stated} layers, but {len(layers)} follow, which are used")
    count = sizes.get("ranks", 0) or ranks or 0
    if not count:
        remedy = "say how many: --ranks N"
        raise InputError("the file does not say how many ranks there are (all_gpus)", file=source, remedy=remedy)
    groups = _groups(sizes, count, source)
    program = _Program(source, lines[0], groups, left)
    program.run(layers, _recomputed(lists, len(layers), source))
    if sizes.get("pp", 1) > 1:
        notes.warn(
            f"{source}: all {sizes['pp']} pipeline stages run the lines, which are those of one stage; left out their "
            f"messages (pp_comm, {sizes.get('pp_comm', 0):,} bytes), of which the format has no order"
        )
    for what, times in left.items():
        notes.warn(f"{source}: left out {what}: {times:,}")
    return Job((program.builder.build(),), np.zeros(count, np.int64), groups)


def _header(line: str, source: str) -> tuple[dict[str, int], dict[str, list[int]]]:
    """Sizes and lists of layers that the first line names."""
    words = line.split()
    if not words or words[0] not in TRANSFORMERS:
        found = repr(words[0][:40]) if words else "nothing"
        raise InputError(
            "this is no SimAI workload", file=source, place="line 1", found=found, expected=" or ".join(TRANSFORMERS)
        )
    sizes: dict[str, int] = {}
    lists: dict[str, list[int]] = {}
    at = 1
    while at < len(words):
        word, place = words[at], f"line 1, word {at + 1}"
        value = words[at + 1] if at + 1 < len(words) else ""
        if word in _SIZES:
            most = MAX_RANKS if _SIZES[word] in ("tp", "ep", "pp", "ranks") else 1 << 62
            sizes[_SIZES[word]] = whole(value, source, place, word, 0, most)
            at += 2
        elif word in _LISTS:
            end = at + 2 + whole(value, source, place, word, 0, len(words))
            lists[_LISTS[word]] = [whole(text, source, place, word) for text in words[at + 2 : end]]
            at = end
        else:
            raise InputError("this word is unknown", file=source, place=place, found=repr(word[:40]),
                             expected=" or ".join((*_SIZES, *_LISTS)))  # fmt: skip
    return sizes, lists


def _layer(text: str, number: int, source: str, left: Counter[str]) -> Layer:
    cells, place = text.split(), f"line {number}"
    if len(cells) != COLUMNS:
        found = f"{len(cells)} columns"
        raise InputError("a layer has the wrong columns", file=source, place=place, found=found, expected=str(COLUMNS))
    phases = []
    for first in (2, 5, 8):
        time_ns, size = (whole(cells[at], source, f"{place}, column {at + 1}", "a number") for at in (first, first + 2))
        collective = cells[first + 1]
        if _split(collective)[0] not in (*COLLECTIVES, *_SILENT, "NONE"):
            expected = f"NONE, {', '.join(COLLECTIVES)}, with or without {' or '.join(SUFFIXES)}"
            raise InputError("this collective is unknown", file=source, place=f"{place}, column {first + 2}",
                             found=repr(collective[:40]), expected=expected)  # fmt: skip
        if collective == "NONE" and size:
            left["sizes without a collective"] += 1
        phases.append(Phase(time_ns, collective, size))
    if cells[1] != "-1":
        left["dependencies on other layers (column 2), which SimAI reads over"] += 1
    if cells[11] != "0":
        left["times after collectives (column 12), which SimAI reads over"] += 1
    return Layer(cells[0], (phases[0], phases[1], phases[2]), number)


def _split(collective: str) -> tuple[str, str]:
    """Kind and role of a collective's name; the role is "" for that of its column."""
    for suffix, role in SUFFIXES.items():
        if collective.endswith(suffix):
            return collective.removesuffix(suffix), role
    return collective, ""


def _groups(sizes: dict[str, int], ranks: int, source: str) -> dict[str, Groups]:
    """The groups of each role that has more than one rank in them."""
    tp, ep, pp = (sizes.get(name, 1) or 1 for name in ("tp", "ep", "pp"))
    dp = ranks // (tp * pp)
    if ranks > MAX_RANKS or ranks != tp * pp * dp or dp % ep:
        raise InputError(
            "the ranks do not divide into their groups",
            file=source,
            place="line 1",
            found=f"{ranks} ranks, tp {tp}, pp {pp}, ep {ep}",
            expected=f"ranks = tp x pp x dp, at most {MAX_RANKS}, and dp a multiple of ep",
        )
    mesh = {"tp": (1, tp), "dp": (tp, dp), "ep": (tp, ep), "dp_ep": (tp * ep, dp // ep), "pp": (tp * dp, pp)}
    return {role: strided(ranks, stride, size) for role, (stride, size) in mesh.items() if size > 1}


def _recomputed(lists: dict[str, list[int]], layers: int, source: str) -> dict[int, range]:
    """For each layer whose way back begins with computing forward again: the layers that are computed again."""
    checkpoints, found = lists.get("checkpoints", []), {}
    for start in lists.get("initiates", []):
        before = [point for point in checkpoints if point < start]
        if not before or start >= layers:
            raise InputError(
                f"layer {start} cannot compute forward again",
                file=source,
                place="line 1",
                found=f"checkpoints {checkpoints[:20]}, {layers} layers",
                expected="a checkpoint before each layer that starts",
            )
        found[start] = range(max(before), start)
    return found


class _Program:
    """What a rank does, in the order of SimAI's loop: a computation follows the last one and the collectives that
    block; those of weight gradients do not."""

    def __init__(self, source: str, header: str, groups: dict[str, Groups], left: Counter[str]) -> None:
        self.builder = TraceBuilder(metadata={"format": "SimAI", "header": header}, source=source)
        self._groups, self._left = groups, left
        self._waits: list[int] = []

    def run(self, layers: list[Layer], recomputed: dict[int, range]) -> None:
        """One training step."""
        for layer in layers:
            self._step(layer, 0, "forward")
        for at, layer in reversed(list(enumerate(layers))):
            for again in recomputed.get(at, ()):
                self._step(layers[again], 0, "recompute")
            self._step(layer, 1, "backward")
            self._step(layer, 2, "backward")

    def _step(self, layer: Layer, which: int, phase: str) -> None:
        """A computation, and its collective."""
        part = layer.phases[which]
        kind = ("fwd", "ig", "wg")[which]
        node = len(self.builder)
        micros = (part.time_ns + 500) // 1000
        attrs: dict[str, object] = {"is_cpu_op": False, COMPUTE_NS: part.time_ns, PHASE: phase}
        self.builder.add(
            node, f"{layer.name}_{kind}", data_deps=self._waits, duration_micros=micros, attrs=attrs
        )  # fmt: skip
        self._waits = [node]
        name, role = _split(part.collective)
        role = role or ("dp" if which == 2 else "tp")
        if name == "NONE":
            return
        if name in _SILENT:
            self._left[f"collectives that SimAI does not run ({name})"] += 1
        elif not part.size_bytes:
            self._left["collectives of 0 bytes"] += 1
        elif role not in self._groups:
            self._left[f"collectives of groups with one rank ({role})"] += 1
        else:
            members = len(self._groups[role][0])
            self._collective(f"{layer.name}_{kind}_{part.collective}", COLLECTIVES[name], role, members, part, phase)
            if which != 2:
                self._waits = [node + 1]

    def _collective(self, name: str, kind: CollectiveType, role: str, members: int, part: Phase, phase: str) -> None:
        size = part.size_bytes
        attrs: dict[str, object] = {"is_cpu_op": False, "comm_type": int(kind), "pg_name": role, PHASE: phase}
        if kind == CollectiveType.ALL_GATHER:
            attrs[STATED], size = size, -(-size // members)
        attrs["comm_size"] = size
        node = len(self.builder)
        self.builder.add(node, name, NodeType.COMM_COLL_NODE, data_deps=[node - 1], attrs=attrs)
