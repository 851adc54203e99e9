"""What chosen ranks did, as a timeline that a page can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.report.page.parts import Lane, Part, Text, Timeline
from chakrasim.report.tables.simulation import class_members
from chakrasim.report.timeline.simulation import node_names, threads_of
from chakrasim.text.amounts import ranks_text

if TYPE_CHECKING:
    from chakrasim.simulator.outcome.records import NodeRecord
    from chakrasim.simulator.outcome.result import SimulationResult

MOST_RANKS: Final = 8
MOST_EVENTS: Final = 16_000
FINEST: Final = 2_000
"""Where there are more events, those shorter than this part of the run are drawn together with their neighbours."""
NAME: Final = 120
"""Letters of a name."""
COLOURS: Final = {
    "compute": "#4c78a8",
    "communication": "#f58518",
    "receive": "#ff9da6",
    "remote memory": "#b279a2",
    "cpu": "#eeca3b",
}
Ints = NDArray[np.int64]
Event = tuple[int, int, int, int, int]


def timeline_of(result: SimulationResult) -> Part | None:
    """The timeline of a few ranks: the first, those that end first and last, compute longest and wait longest, then
    others. Where a rank has too many spans, short ones that lie close together are one, and it is told how many."""
    if not result.records:
        return Text("Timeline", lines=("the times of single nodes were not kept, so there is none",))
    if len(result.records) < len(result.class_ranks):
        return None
    chosen = _chosen(result)
    lanes: list[Lane] = []
    events: list[Event] = []
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    joined = 0
    members = class_members(result, len(result.class_ranks))
    for one in chosen:
        rank, ranks = int(result.class_ranks[one]), members[one].tolist()
        shown = f"rank {rank}" if len(ranks) == 1 else f"rank {rank} (as {ranks_text(ranks, 2)})"
        spans = _Spans.of(result.records[one])
        drawn = spans.joined(MOST_EVENTS // len(chosen), max(result.makespan_ns // FINEST, 1))
        joined += len(spans.start) - len(drawn.start)
        events += _events(drawn, shown, lanes, names, kinds)
    lines = [f"{len(chosen)} of {len(result.class_ranks):,} simulated ranks; --timeline writes all"]
    if joined:
        lines.append(f"short spans that lie close together are drawn as one: {joined:,} fewer than there are")
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
    """Classes, in the order of their ranks: those that stand out, then those that differ most from the ones before."""
    ranks = result.class_ranks
    finish, parts = result.finish_ns[ranks], result.parts_ns[ranks]
    waits = parts[:, 2:5].sum(axis=1)
    _, differ = np.unique(parts, axis=0, return_index=True)
    spread = np.sort(differ)[np.linspace(0, len(differ) - 1, min(len(differ), MOST_RANKS)).round().astype(np.int64)]
    wanted = [0, finish.argmax(), parts[:, :2].sum(axis=1).argmax(), waits.argmax(), finish.argmin(), *spread]
    first = list(dict.fromkeys(map(int, [*wanted, *range(min(len(ranks), MOST_RANKS))])))[:MOST_RANKS]
    return sorted(first, key=lambda one: int(ranks[one]))


@dataclass(frozen=True, eq=False)
class _Spans:
    """Spans in order of thread and start; ``count`` nodes from the node ``first`` on are one span."""

    record: NodeRecord
    threads: dict[int, str]
    thread: Ints
    start: Ints
    end: Ints
    first: Ints
    count: Ints

    @classmethod
    def of(cls, record: NodeRecord) -> _Spans:
        numbers = np.flatnonzero((record.start_ns >= 0) & (record.end_ns > record.start_ns))
        numbers = numbers[np.lexsort((numbers, record.start_ns[numbers]))]
        if not numbers.size:
            return cls(record, {}, numbers, numbers, numbers, numbers, numbers)
        thread, shown = threads_of(record, numbers)
        order = np.argsort(thread, kind="stable")
        own = numbers[order]
        return cls(record, shown, thread[order], record.start_ns[own], record.end_ns[own], own, np.ones_like(own))

    def joined(self, most: int, finest_ns: int) -> _Spans:
        """At most ``most`` spans: neighbours that are shorter than a time, and nearer to each other, are one. The time
        is the shortest that suffices, by doubling from ``finest_ns``."""
        spans = self
        while len(spans.start) > most:
            short = spans.end - spans.start < finest_ns
            near = (spans.start[1:] - spans.end[:-1] < finest_ns) & (spans.thread[1:] == spans.thread[:-1])
            begins = np.flatnonzero(np.concatenate([[True], ~(near & short[1:] & short[:-1])]))
            spans = replace(
                spans,
                thread=spans.thread[begins],
                start=spans.start[begins],
                end=np.maximum.reduceat(spans.end, begins),
                first=spans.first[begins],
                count=np.add.reduceat(spans.count, begins),
            )
            finest_ns *= 2
        return spans


def _events(spans: _Spans, rank: str, lanes: list[Lane], names: dict[str, int], kinds: dict[str, int]) -> list[Event]:
    """The events of one rank; lanes, names and kinds grow."""
    place = {}
    for thread in sorted(spans.threads):
        place[thread] = len(lanes)
        lanes.append(Lane(f"{rank} {spans.threads[thread].replace('communication', 'comm')}", rank))
    columns = (column.tolist() for column in (spans.thread, spans.start, spans.end, spans.count))
    events = []
    for thread, start, end, count, name in zip(*columns, node_names(spans.record.graph, spans.first), strict=True):
        shown = name if len(name) <= NAME else f"{name[: NAME - 3]}..."
        shown = shown if count == 1 else f"{count:,} spans, the first {shown}"
        kind = spans.threads[thread].rstrip("0123456789 ")
        events.append(
            (place[thread], start, end, names.setdefault(shown, len(names)), kinds.setdefault(kind, len(kinds)))
        )
    return events
