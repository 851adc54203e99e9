"""What chosen ranks did, as a timeline that a page can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from chakrasim.report.page.parts import Lane, Part, Text, Timeline
from chakrasim.report.tables.simulation import class_members
from chakrasim.report.timeline.simulation import node_names, threads_of
from chakrasim.text.amounts import ranks_text, time_text

if TYPE_CHECKING:
    from chakrasim.simulator.outcome.records import NodeRecord
    from chakrasim.simulator.outcome.result import SimulationResult

MOST_RANKS: Final = 8
MOST_EVENTS: Final = 8_000
MOST_LANES: Final = 8
"""Of a rank: rows beyond these are of work that ran beside all that."""
NAME: Final = 120
"""Letters of a name."""
COLOURS: Final = {
    "compute": "#4c78a8",
    "communication": "#f58518",
    "receive": "#ff9da6",
    "remote memory": "#b279a2",
    "cpu": "#eeca3b",
}
Event = tuple[int, int, int, int, int]


def timeline_of(result: SimulationResult) -> Part | None:
    """The timeline of a few ranks: the first, those that end first and last, compute longest and wait longest, then
    others; of each the longest spans, and how many were left out."""
    if not result.records:
        return Text("Timeline", lines=("the times of single nodes were not kept, so there is none",))
    if len(result.records) < len(result.class_ranks):
        return None
    chosen = _chosen(result)
    lanes: list[Lane] = []
    events: list[Event] = []
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    left, lost_ns = 0, 0
    members = class_members(result, len(result.class_ranks))
    for one in chosen:
        rank, ranks = int(result.class_ranks[one]), members[one].tolist()
        shown = f"rank {rank}" if len(ranks) == 1 else f"rank {rank} (as {ranks_text(ranks, 2)})"
        kept, dropped, ns = _add(result.records[one], shown, MOST_EVENTS // len(chosen), lanes, names, kinds)
        events += kept
        left, lost_ns = left + dropped, lost_ns + ns
    lines = [f"{len(chosen)} of {len(result.class_ranks):,} kinds of ranks, each shown by one; --timeline writes all"]
    if left:
        lines.append(f"{left:,} shorter spans, {time_text(lost_ns)} of them together, are left out")
    colours = {kind: COLOURS[base] for kind in kinds for base in COLOURS if kind.startswith(base)}
    distinct = _distinct(colours)
    return Timeline("Timeline", tuple(lanes), tuple(events), tuple(names), tuple(kinds), distinct, lines=tuple(lines))


def _distinct(colours: dict[str, str]) -> dict[str, str]:
    """One kind keeps a colour; communication of other roles takes the page's own."""
    seen: set[str] = set()
    kept = {}
    for kind, colour in colours.items():
        if colour not in seen:
            kept[kind] = colour
            seen.add(colour)
    return kept


def _chosen(result: SimulationResult) -> list[int]:
    """Classes, in the order of their ranks."""
    ranks = result.class_ranks
    finish, parts = result.finish_ns[ranks], result.parts_ns[ranks]
    waits = parts[:, 2:5].sum(axis=1)
    wanted = [0, finish.argmax(), parts[:, :2].sum(axis=1).argmax(), waits.argmax(), finish.argmin(), *range(len(ranks))]
    first = list(dict.fromkeys(map(int, wanted)))[:MOST_RANKS]
    return sorted(first, key=lambda one: int(ranks[one]))


def _add(
    record: NodeRecord, rank: str, most: int, lanes: list[Lane], names: dict[str, int], kinds: dict[str, int]
) -> tuple[list[Event], int, int]:
    """The events of one rank, and how many of which time are left out; lanes, names and kinds grow."""
    numbers = np.flatnonzero((record.start_ns >= 0) & (record.end_ns > record.start_ns))
    numbers = numbers[np.lexsort((numbers, record.start_ns[numbers]))]
    threads, shown = threads_of(record, numbers)
    rows = sorted(shown)[:MOST_LANES]
    length = record.end_ns[numbers] - record.start_ns[numbers]
    fits = np.isin(threads, rows)
    order = np.argsort(np.where(fits, -length, 1), kind="stable")
    kept = np.sort(order[: min(most, int(fits.sum()))])
    place = {}
    for row in rows:
        place[row] = len(lanes)
        lanes.append(Lane(f"{rank} {shown[row]}", rank))
    events = []
    for thread, node, name in zip(
        threads[kept].tolist(), numbers[kept].tolist(), node_names(record.graph, numbers[kept]), strict=True
    ):
        kind = shown[thread].rstrip("0123456789 ")
        number = names.setdefault(name if len(name) <= NAME else f"{name[: NAME - 3]}...", len(names))
        start, end = int(record.start_ns[node]), int(record.end_ns[node])
        events.append((place[thread], start, end, number, kinds.setdefault(kind, len(kinds))))
    return events, len(numbers) - len(kept), int(length.sum() - length[kept].sum())
