"""Recorded runs as sides of a comparison, and their operators aligned."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from chakrasim.comparison.align import aligned
from chakrasim.comparison.parts import COMMUNICATION, COMPUTE, COPIES, IDLE, OPERATORS, Part, Told, shared_out
from chakrasim.comparison.pieces import LAYERS, Pieces, pieces_of
from chakrasim.comparison.result import Cause
from chakrasim.comparison.sides import RECORDED, Side
from chakrasim.notes import Notes
from chakrasim.trace.linked.columns import LinkedTrace


def recorded_side(linked: LinkedTrace, step: int | None, notes: Notes) -> Side:
    """A rank's trace: the mean step, a step, or (-1) all of it. Raises InputError."""
    pieces, what = pieces_of(linked, step, notes)
    groups = {name: _group(pieces, name) for name in (COMPUTE, COPIES)}
    groups[COMMUNICATION] = _by_role(pieces)
    groups[IDLE] = Told("launches", tuple(replace(part, ns=_per_step(part.ns, pieces.steps)) for part in pieces.idle))
    rank = max(linked.rank, 0)
    return Side(linked.source, RECORDED, f"rank {rank}, {what}", rank, groups, pieces, _facts(linked))


def operator_causes(a: Side, b: Side, group: str) -> Iterator[Cause]:
    """The work of a group in both runs, aligned; per step."""
    assert a.pieces is not None and b.pieces is not None
    rows = aligned(a.pieces, b.pieces, LAYERS.index(group))
    shares = [shared_out(side.groups[group].ns, [row.ns[i] for row in rows]) for i, side in enumerate((a, b))]
    for row, in_a, in_b in zip(rows, *shares, strict=True):
        count = row.count[0] / a.pieces.steps, row.count[1] / b.pieces.steps
        yield Cause(group, row.name, in_a, in_b, *count, row.by, *row.kernels)


def _group(pieces: Pieces, name: str) -> Told:
    ns = int(pieces.ns[pieces.layer == LAYERS.index(name)].sum())
    return Told(OPERATORS, (Part(name, _per_step(ns, pieces.steps)),))


def _by_role(pieces: Pieces) -> Told:
    """Communication that nothing hides, by what it is; waiting for other ranks is in it."""
    ns: dict[str, int] = defaultdict(int)
    count: dict[str, int] = defaultdict(int)
    for at in (pieces.layer == LAYERS.index(COMMUNICATION)).nonzero()[0].tolist():
        ns[pieces.role[at]] += int(pieces.ns[at])
        count[pieces.role[at]] += 1
    parts = (Part(role, _per_step(time, pieces.steps), count[role] / pieces.steps) for role, time in ns.items())
    return Told("collectives", tuple(parts))


def _per_step(ns: int, steps: int) -> int:
    return (2 * ns + steps) // (2 * steps)


def _facts(linked: LinkedTrace) -> dict[str, str]:
    devices = linked.header.get("deviceProperties")
    names = [str(one.get("name")) for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
    known = [name for name in dict.fromkeys(names) if name and name != "None"]
    return {
        "device": ", ".join(known) or ("not stated" if linked.is_device.any() else "none: the host's work"),
        "ranks": str(linked.world_size) if linked.world_size > 0 else "not stated",
    }
