"""What a recorded rank did at each instant: pieces of work, each with the time that counts as its own, and idle time.

Pieces are rows of a linked trace: the device's, or, where no device did anything, those of the host. The time in which
something is computed counts as compute, then communication, then copies; of pieces of a group at one time the first
that began has it. So the time of all pieces and of what lies between them is the time of the window, to the nanosecond.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import COMMUNICATION as COMMUNICATES
from chakrasim.analysis.table.kernel_classes import MEMORY, class_of_name
from chakrasim.comparison.parts import COMMUNICATION, COMPUTE, COPIES, Part
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of
from chakrasim.trace.intervals import Union, covered_before, merge
from chakrasim.trace.linked.columns import OPERATION_NAMES, EdgeKind, LinkedTrace, RowKind

Ints = NDArray[np.int64]
Operator = tuple[str, str]
"""An operator's name, and the shapes of its inputs as text, "" where they were not recorded."""

LAYERS: Final = (COMPUTE, COMMUNICATION, COPIES)
_HOST_WORK: Final = (RowKind.OPERATOR, RowKind.HOST_COLLECTIVE)
NOT_LAUNCHED: Final = "the host has not launched the next work"
LAUNCHED: Final = "launched, not begun"
NO_LAUNCH: Final = "before work whose launch was not recorded"
AFTER: Final = "after the last work"
NO_OPERATOR: Final = "no operator runs"


@dataclass(frozen=True, eq=False)
class Pieces:
    """``n`` pieces in the order of their launches.

    Attributes
    ----------
    layer: int64[n], position in `LAYERS`.
    ns: int64[n], the time that counts as the piece's own, over all chosen steps.
    name: the kernel, or what the piece is.
    around: the operators around its launch, innermost first.
    role: of communication, what it is and for which group.
    idle: what lay between the pieces.
    steps: how many steps this is the time of together.
    shapes: whether any operator has shapes.
    """

    layer: Ints
    ns: Ints
    name: list[str]
    around: list[tuple[Operator, ...]]
    role: list[str]
    idle: tuple[Part, ...]
    steps: int
    shapes: bool


def pieces_of(linked: LinkedTrace, step: int | None, notes: Notes) -> tuple[Pieces, str]:
    """The pieces of a step, of all complete steps together, or of the whole of a trace without steps; and which.

    Raises InputError for a trace without work, and for a step that is not there.
    """
    window, steps, what = _window(linked, step, notes)
    rows = _rows(linked, notes)
    on_device = bool(linked.is_device[rows].any())
    launch = _launches(linked)[rows]
    begin = covered_before(window, linked.start_ns[rows] + linked.wait_ns[rows])
    end = covered_before(window, linked.end_ns[rows])
    held = end > begin
    if not held.any():
        raise InputError("the trace has no work to compare", file=linked.source or None, found=what)
    rows, launch, begin, end = rows[held], launch[held], begin[held], end[held]
    said = _communication(linked)
    names = _names(linked, rows)
    layer = _layers(linked, rows, names, said)
    ns, union = _own_time(begin, end, layer)
    called = np.where(launch >= 0, linked.start_ns[launch], -1)
    idle = _idle(union, begin, np.where(launch >= 0, covered_before(window, called), -1), window.total, on_device)
    parents = np.where(linked.is_device[rows], linked.parent[rows], linked.head[rows])
    around = _Around(linked)
    order = np.lexsort((begin, np.where(launch >= 0, called, linked.start_ns[rows])))
    return Pieces(
        layer=layer[order],
        ns=ns[order],
        name=[names[i] for i in order.tolist()],
        around=[around.of(int(row)) for row in parents[order].tolist()],
        role=[said.get(int(row), "collective or message of unknown kind") for row in rows[order].tolist()],
        idle=idle,
        steps=steps,
        shapes=bool((linked.shapes[:, 0] > 0).any()),
    ), what


def has_steps(linked: LinkedTrace) -> bool:
    """Whether the profiler marked steps."""
    return bool((linked.annotations.step >= 0).any())


def _window(linked: LinkedTrace, step: int | None, notes: Notes) -> tuple[Union, int, str]:
    """The time that is compared, of how many steps, and its name. ``step`` -1: the whole trace."""
    marks = linked.annotations
    numbers = marks.step[marks.step >= 0]
    if step is not None and step >= 0 and step not in numbers:
        known = first_of(sorted({*numbers.tolist()}), 20) or "no steps"
        raise InputError(f"the trace has no step {step}", file=linked.source or None, found=known)
    if step == -1 or not len(numbers):
        if not len(linked):
            return merge(linked.start_ns, linked.start_ns), 1, "the whole trace"
        return merge(linked.start_ns.min()[None], linked.end_ns.max()[None]), 1, "the whole trace"
    chosen = marks.step >= 0 if step is None else marks.step == step
    if step is None:
        chosen &= np.isin(marks.step, _complete(linked, numbers, notes))
    kept = sorted({*marks.step[chosen].tolist()})
    start = marks.start_ns[chosen]
    what = f"step {kept[0]}" if len(kept) == 1 else f"the mean of {len(kept)} steps"
    return merge(start, start + marks.duration_ns[chosen]), len(kept), what


def _complete(linked: LinkedTrace, numbers: NDArray[np.int32], notes: Notes) -> list[int]:
    """Steps with at least half as much work as the median step: recording may begin or end within one."""
    rows = linked.is_device if linked.is_device.any() else np.isin(linked.kind, _HOST_WORK)
    works = {int(n): int((rows & (linked.step == n)).sum()) for n in np.unique(numbers)}
    median = float(np.median([*works.values()]))
    left = [n for n, count in works.items() if 2 * count < median]
    if left:
        notes.note(f"{linked.source}: left out of the mean: steps {first_of(left)}, with less than half of the work")
    return [n for n in works if n not in left]


def _rows(linked: LinkedTrace, notes: Notes) -> Ints:
    """The device's rows, of several devices those of the busiest; else those of the host."""
    rows = np.flatnonzero(linked.is_device)
    if not len(rows):
        return np.flatnonzero(np.isin(linked.kind, _HOST_WORK))
    device = np.array([lane.device for lane in linked.lanes], np.int64)[linked.lane[rows]]
    distinct, which = np.unique(device, return_inverse=True)
    if len(distinct) > 1:
        busy = np.bincount(which, linked.duration_ns[rows])
        notes.note(f"{linked.source}: of {len(distinct)} devices the busiest, {distinct[busy.argmax()]}, is compared")
        rows = rows[which == busy.argmax()]
    return rows


def _launches(linked: LinkedTrace) -> Ints:
    """int64[rows]: the call that launched each, -1 where none is known."""
    launch = np.full(len(linked), -1, np.int64)
    of = linked.edge_kind == EdgeKind.LAUNCH
    launch[linked.edge_target[of]] = linked.edge_source[of]
    return launch


def _names(linked: LinkedTrace, rows: Ints) -> list[str]:
    texts = {index: linked.strings[index] for index in np.unique(linked.name[rows]).tolist()}
    return [texts[index] for index in linked.name[rows].tolist()]


def _communication(linked: LinkedTrace) -> dict[int, str]:
    """By row, what it communicates: several messages under a kernel are called by the first."""
    said: dict[int, str] = {}
    entries = linked.communication
    for row, operation, group in zip(
        *(c.tolist() for c in (entries.row, entries.operation, entries.group)), strict=True
    ):
        known = linked.groups[group] if group >= 0 else None
        of = "" if known is None else f", {known.description or f'group {known.name}'}"
        said.setdefault(row, OPERATION_NAMES.get(operation, "unknown").replace("_", "-") + of)
    return said


def _layers(linked: LinkedTrace, rows: Ints, names: list[str], said: dict[int, str]) -> Ints:
    kinds = linked.kind[rows]
    layer = np.zeros(len(rows), np.int64)
    classes = {name: class_of_name(name) for name in {*names}}
    found = np.array([classes[name] for name in names])
    kernels = kinds == RowKind.KERNEL
    layer[np.isin(kinds, (RowKind.MEMCPY, RowKind.MEMSET)) | kernels & (found == MEMORY)] = LAYERS.index(COPIES)
    talks = np.isin(rows, [*said]) | (kinds == RowKind.HOST_COLLECTIVE) | kernels & (found == COMMUNICATES)
    layer[talks] = LAYERS.index(COMMUNICATION)
    return layer


def _own_time(begin: Ints, end: Ints, layer: Ints) -> tuple[Ints, Union]:
    """The time that counts as each piece's own, and all time that is somebody's."""
    own = np.zeros(len(begin), np.int64)
    before = merge(begin[:0], end[:0])
    for number in range(len(LAYERS)):
        rows = np.flatnonzero(layer == number)
        rows = rows[np.lexsort((rows, begin[rows]))]
        if not len(rows):
            continue
        reach = np.concatenate([begin[rows[:1]], np.maximum.accumulate(end[rows])[:-1]])
        since = np.minimum(np.maximum(begin[rows], reach), end[rows])
        hidden = covered_before(before, end[rows]) - covered_before(before, since)
        own[rows] = end[rows] - since - hidden
        before = merge(np.concatenate([before.start, begin[rows]]), np.concatenate([before.end, end[rows]]))
    return own, before


def _idle(busy: Union, begin: Ints, called: Ints, total: int, on_device: bool) -> tuple[Part, ...]:
    """Time in which nothing ran, by why, as far as launches tell; all times since the window's begin."""
    starts = np.concatenate([[0], busy.end])
    ends = np.concatenate([busy.start, [total]])
    if not on_device:
        return (Part(NO_OPERATOR, int((ends - starts).sum())),)
    first = np.full(len(busy), -1, np.int64)
    order = np.lexsort((called, begin))
    at = np.searchsorted(begin[order], busy.start)
    first[:] = called[order][at]
    gap, since = (ends - starts)[:-1], starts[:-1]
    waited = np.where(first >= 0, np.clip(first - since, 0, gap), 0)
    parts = {
        NOT_LAUNCHED: int(waited.sum()),
        LAUNCHED: int((gap - waited)[first >= 0].sum()),
        NO_LAUNCH: int(gap[first < 0].sum()),
        AFTER: int(ends[-1] - starts[-1]),
    }
    return tuple(Part(name, ns) for name, ns in parts.items() if ns)


class _Around:
    """The operators around rows."""

    def __init__(self, linked: LinkedTrace) -> None:
        self.linked = linked
        self.known: dict[int, tuple[Operator, ...]] = {-1: ()}
        self.shapes: dict[int, str] = {0: ""}

    def of(self, row: int) -> tuple[Operator, ...]:
        """The row, if it is an operator, and those around it."""
        way = []
        while row not in self.known:
            way.append(row)
            row = int(self.linked.parent[row])
        for inner in reversed(way):
            around = self.known[row]
            if self.linked.kind[inner] == RowKind.OPERATOR:
                around = (self._operator(inner), *around)
            self.known[inner] = around
            row = inner
        return self.known[row]

    def _operator(self, row: int) -> Operator:
        index = int(self.linked.shapes[row, 0])
        if index not in self.shapes:
            self.shapes[index] = shape_text(self.linked.strings[index])
        return self.linked.strings[int(self.linked.name[row])], self.shapes[index]


def shape_text(dims: str) -> str:
    """``[[64, 128], [128], [], []]`` as ``64x128, 128``: numbers at the end, which versions of PyTorch add to, go."""
    try:
        listed = json.loads(dims)
    except ValueError:
        return dims
    if not isinstance(listed, list):
        return dims
    while listed and not listed[-1]:
        listed.pop()
    return ", ".join(map(_one_shape, listed))


def _one_shape(dims: object) -> str:
    if not isinstance(dims, list) or not dims:
        return "-"
    if isinstance(dims[0], list):
        return f"({', '.join(map(_one_shape, dims))})"
    return "x".join(map(str, dims))
