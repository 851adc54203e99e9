"""The graph of a Chakra trace as something to draw: boxes and arrows, a big graph summarised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chakrasim.explanation.families import OTHER, module_of
from chakrasim.text.amounts import plural, time_text
from chakrasim.totals import totals
from chakrasim.trace import NodeType, Trace, type_name
from chakrasim.trace.work import KIND, PHASE

Ints = NDArray[np.int64]

#: Above this many nodes a picture is summarised unless told otherwise.
MOST_NODES = 500
DATA, CONTROL = "data", "control"

#: Groups of a phase and a module that a person can look at.
MOST_PARTS = 40
#: Arrows by box beyond which those of modules cross so much that only the strongest are drawn.
CROWDED = 1.5
_NUMBER = re.compile(r"[0-9]+")
#: Nodes that frame a run and tell nothing of the work in it.
_FRAMES = re.compile(r"^\[pytorch\||^ProfilerStep|^##")


@dataclass(frozen=True)
class Box:
    """A node or a group of nodes. ``kind``: the type's name, that of most of a group."""

    key: str
    label: str
    kind: str
    nodes: int
    duration_ns: int


@dataclass(frozen=True)
class Arrow:
    """``target`` waits for ``source`` (positions of boxes); ``kind`` DATA or CONTROL, ``count`` dependencies in one."""

    source: int
    target: int
    kind: str
    count: int = 1


@dataclass(frozen=True)
class Picture:
    """Boxes and arrows. ``missing`` counts dependencies on nodes that the trace does not hold (they are left out),
    ``weaker`` arrows that are left out so that a person can read the picture."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    missing: int = 0
    weaker: int = 0


def picture_of(trace: Trace, by: str = "auto") -> Picture:
    """The picture of a trace: ``by`` "none" (every node), "module" (nodes under the same outermost operator or
    annotation together), "phase" (nodes of a phase of the step and a module, or a kind of work, together), "stream"
    (nodes of a thread or stream together), "auto" (above MOST_NODES nodes phase where the nodes say it, else module,
    and stream where modules are more than that)."""
    if by == "auto":
        if len(trace) <= MOST_NODES:
            return picture_of(trace, "none")
        modules = picture_of(trace, "phase" if trace.attr(PHASE).present.any() else "module")
        return modules if len(modules.boxes) <= MOST_NODES else picture_of(trace, "stream")
    source, target, kind, missing = _dependencies(trace)
    if by == "none":
        kinds = {number: type_name(number) for number in {*trace.types.tolist()}}
        rows = zip(*(own.tolist() for own in (trace.ids, trace.types, trace.duration_micros)), strict=True)
        boxes = [Box(str(number), trace.name(at) or kinds[kind], kinds[kind], 1, micros * 1000)
                 for at, (number, kind, micros) in enumerate(rows)]  # fmt: skip
        pairs = zip(source.tolist(), target.tolist(), kind.tolist(), strict=True)
        return Picture(tuple(boxes), tuple(Arrow(a, b, CONTROL if c else DATA) for a, b, c in pairs), missing)
    names = {"module": _modules, "phase": _phases, "stream": _streams}[by](trace)
    keys = list(dict.fromkeys(names))
    place = {name: number for number, name in enumerate(keys)}
    group = np.array([place[name] for name in names], np.int64)
    arrows = _merged(group, source, target, kind)
    crowded = len(arrows) > CROWDED * len(keys)
    kept = _strongest(arrows) if by == "phase" or (by == "module" and crowded) else arrows
    return Picture(_groups(trace, keys, group), kept, missing, len(arrows) - len(kept))


def _dependencies(trace: Trace) -> tuple[Ints, Ints, Ints, int]:
    """Positions of source and target of every dependency, 1 for control, and how many name no node."""
    order = np.argsort(trace.ids, kind="stable")
    ids = trace.ids[order]
    parts: list[tuple[Ints, Ints, Ints]] = []
    missing = 0
    for number, deps in enumerate((trace.data_deps, trace.ctrl_deps)):
        node = np.repeat(np.arange(len(trace)), np.diff(deps.offsets))
        place = np.searchsorted(ids, deps.targets)
        known = place < len(ids)
        known[known] = ids[place[known]] == deps.targets[known]
        missing += int(np.count_nonzero(~known))
        parts.append((order[place[known]], node[known], np.full(int(known.sum()), number, np.int64)))
    source, target, kind = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return source, target, kind, missing


def _groups(trace: Trace, keys: Sequence[str], group: Ints) -> tuple[Box, ...]:
    counts = np.bincount(group, minlength=len(keys)).tolist()
    sums = [micros * 1000 for micros in totals(group, trace.duration_micros, len(keys))]
    boxes = []
    for number, key in enumerate(keys):
        types, often = np.unique(trace.types[group == number], return_counts=True)
        kind = type_name(int(types[often.argmax()]))
        label = f"{key}\n{plural(counts[number], 'node')}, {time_text(sums[number])}"
        boxes.append(Box(str(number), label, kind, counts[number], sums[number]))
    return tuple(boxes)


def _merged(group: Ints, source: Ints, target: Ints, kind: Ints) -> tuple[Arrow, ...]:
    """An arrow for each pair of groups and kind; arrows inside a group are left out."""
    edges = np.stack([group[source], group[target], kind], axis=1)
    edges = edges[edges[:, 0] != edges[:, 1]]
    found, counts = np.unique(edges, axis=0, return_counts=True)
    rows = zip(found.tolist(), counts.tolist(), strict=True)
    return tuple(Arrow(a, b, CONTROL if c else DATA, count) for (a, b, c), count in rows)


def _strongest(arrows: Sequence[Arrow]) -> tuple[Arrow, ...]:
    """Of the arrows into each box from boxes that come before it the one of most dependencies, data before control,
    then the nearest."""
    best: dict[int, Arrow] = {}
    for arrow in sorted(arrows, key=lambda one: (one.kind != DATA, -one.count, -one.source)):
        if arrow.source < arrow.target:
            best.setdefault(arrow.target, arrow)
    return tuple(best.values())


def _modules(trace: Trace) -> list[str]:
    """For each node the name of its outermost caller that is no frame of the run, by control dependencies."""
    source, target, kind, _ = _dependencies(trace)
    caller = np.full(len(trace), -1, np.int64)
    by_control = kind == 1
    caller[target[by_control][::-1]] = source[by_control][::-1]
    frame = np.array([_FRAMES.match(trace.name(at)) is not None for at in range(len(trace))], np.bool_)
    # A kernel has no caller in traces of old converters: it belongs to what launched it.
    launched = np.flatnonzero(caller < 0)
    first_data = np.full(len(trace), -1, np.int64)
    first_data[target[~by_control][::-1]] = source[~by_control][::-1]
    caller[launched] = np.where(_on_device(trace)[launched], first_data[launched], -1)
    above = np.where((caller >= 0) & ~frame[np.maximum(caller, 0)], caller, np.arange(len(trace)))
    for _ in range(len(trace).bit_length() + 1):
        above = above[above]  # after k rounds each node has looked 2^k callers up
    return [_shortened(trace.name(at) or type_name(int(trace.types[at]))) for at in above.tolist()]


def _phases(trace: Trace) -> list[str]:
    """For each node its phase, and its module whatever its number, or, where its name says none, its kind of work; only
    the latter where modules are more than a person can look at."""
    phase, kind = trace.attr(PHASE), trace.attr(KIND)
    every = np.arange(len(trace))
    phases, kinds = phase.texts(every).tolist(), kind.texts(every).tolist()
    group = trace.attr("pg_name").texts(every).tolist()
    work = [_work(trace, at, kinds[at], group[at]) for at in range(len(trace))]
    modules = [_NUMBER.sub("#", module_of(trace.name(at))) for at in range(len(trace))]
    parts = [own if module == OTHER else module for own, module in zip(work, modules, strict=True)]
    if len({*zip(phases, parts, strict=True)}) > MOST_PARTS:
        parts = work
    return [f"{own}: {part}" if own else part for own, part in zip(phases, parts, strict=True)]


def _work(trace: Trace, at: int, kind: str, group: str) -> str:
    """The kind of work of a node without a module: what is computed, or for whom is communicated."""
    type_ = int(trace.types[at])
    if type_ in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE):
        what = "collectives" if type_ == NodeType.COMM_COLL_NODE else "messages"
        return f"{what} of {group}" if group else what
    return kind or type_name(type_)


def _shortened(name: str) -> str:
    """A name without what counts or configures it: ``Optimizer.step#SGD.step``, ``AddBackward`` of any number."""
    name = re.sub(r"\s*[(<].*$", "", name) or name
    name = name.removeprefix("autograd::engine::evaluate_function: ")
    return re.sub(r"(Backward)\d+$", r"\1", name)


def _on_device(trace: Trace) -> NDArray[np.bool_]:
    column = trace.attr("is_cpu_op")
    device: NDArray[np.bool_] = ~(column.is_integer & (column.bits != 0))
    return device


def _streams(trace: Trace) -> list[str]:
    """For each node its host thread, stream, or sort of work where neither is stated."""
    device = _on_device(trace)
    stream, thread = trace.attr("stream"), trace.attr("tid")
    on_stream, on_thread = stream.is_integer, thread.is_integer
    names = []
    for at in range(len(trace)):
        if device[at]:
            known = bool(on_stream[at])
            kind = int(trace.types[at])
            communicates = kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE, NodeType.COMM_COLL_NODE)
            names.append(f"stream {int(stream.bits[at])}" if known else "communication" if communicates else "device")
        else:
            names.append(f"thread {int(thread.bits[at])}" if on_thread[at] else "host")
    return names
