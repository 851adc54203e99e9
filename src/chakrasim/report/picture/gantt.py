"""What chosen ranks of a simulated run do over time, as a picture: a self-contained SVG."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, cycle
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.kinds import COLLECTIVE_KEYS
from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.report.timeline.simulation import chosen_ranks, node_names, threads_of
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.text.amounts import number_text, time_text
from chakrasim.trace import NodeType
from chakrasim.trace.work import KIND, PHASE

Ints = NDArray[np.int64]

MOST_RANKS: Final = 16
WIDTH, LEFT, RIGHT, ROW, GAP, TOP = 940, 150, 20, 22, 22, 24
CHARACTER: Final = 6.2
"""Pixels of a letter, about."""
FINEST: Final = 0.1
"""Bars nearer to each other than so many pixels are one."""
TICKS: Final = 7
_PASS: Final = re.compile(r"\b(forward|backward|recompute|optimizer)\b")
_SEND, _RECEIVE = "send", "receive"
COLOURS: Final = {
    "forward": "#4c78a8",
    "backward": "#9ecae9",
    "recompute": "#439894",
    "optimizer": "#79706e",
    _SEND: "#e45756",
    _RECEIVE: "#ffbf79",
    "remote memory": "#d6a5c9",
    "host": "#eeca3b",
}
OF_COMPUTE: Final = ("#4c78a8", "#9ecae9", "#439894", "#79706e", "#83bcb6", "#bab0ac")
OF_COMMUNICATION: Final = ("#f58518", "#b279a2", "#54a24b", "#d67195", "#9d755d", "#88d27a")


@dataclass(frozen=True, eq=False)
class _Rank:
    """What is drawn of a rank: its nodes by start, the lane of each and its kind, and the names of lanes."""

    label: str
    record: NodeRecord
    numbers: Ints
    lane: Ints
    lanes: Mapping[int, str]
    kinds: list[str]


def gantt_svg(result: SimulationResult, ranks: Sequence[int] | None = None) -> str:
    """The picture: lanes of each rank, one below another, and what they do by colour, with a time axis and a legend.

    ``ranks``: which, in this order; the first of each class of equal ranks unless given, at most `MOST_RANKS`. Raises
    InputError for ranks that are not there, and for results without the times of nodes.
    """
    if not result.records or not result.makespan_ns:
        raise InputError("there is nothing to draw: the times of single nodes were not kept, or nothing ran")
    if ranks is not None and len(ranks) > MOST_RANKS:
        raise InputError("these are too many ranks for a picture", found=f"{len(ranks):,}",
                         expected=f"at most {MOST_RANKS}", remedy="write a timeline: simulate --timeline")  # fmt: skip
    kinds = _Kinds(result)
    shown = [_rank(result, rank, kinds) for rank in chosen_ranks(result, ranks)[:MOST_RANKS]]
    colours = _colours(shown, kinds.moving)
    scale = (WIDTH - LEFT - RIGHT) / result.makespan_ns
    parts: list[str] = []
    y = TOP
    for one in shown:
        parts.append(_text(4, y - 6, one.label))
        for lane, name in sorted(one.lanes.items()):
            parts += [_text(LEFT - 8, y + 13, name, "end"), *_bars(one, lane, y, scale, colours)]
            y += ROW
        y += GAP
    legend, height = _legend(colours, y + 8)
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    ground = f'<title>{time_text(result.makespan_ns)}</title>\n<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, ground, *_axis(result.makespan_ns, scale, TOP, y - GAP), *parts, *legend, "</svg>\n"])


def write_gantt(result: SimulationResult, path: str | os.PathLike[str], *, ranks: Sequence[int] | None = None) -> None:
    """Write the picture to ``path``. Raises InputError as `gantt_svg`, and if it cannot be written."""
    write_whole(path, gantt_svg(result, ranks).encode("utf-8", "replace"))


def _rank(result: SimulationResult, rank: int, kinds: _Kinds) -> _Rank:
    record = result.records[int(result.classes[rank])]
    like = int(result.class_ranks[int(result.classes[rank])])
    label = f"rank {rank}" + (f" (the same as rank {like})" if like != rank else "")
    numbers = np.flatnonzero((record.start_ns >= 0) & (record.end_ns > record.start_ns))
    numbers = numbers[np.lexsort((numbers, record.start_ns[numbers]))]
    lane, lanes = threads_of(record, numbers)
    return _Rank(label, record, numbers, lane, lanes, kinds.of(record, numbers))


# -- kinds -------------------------------------------------------------------------------------------------------------


class _Kinds:
    """What nodes are, as the legend calls them. ``moving``: those that are communication."""

    def __init__(self, result: SimulationResult) -> None:
        self.groups = result.job.context.groups if result.job is not None else {}
        self.ranks = len(result.finish_ns)
        self.moving: set[str] = set()

    def of(self, record: NodeRecord, numbers: Ints) -> list[str]:
        """By node: of compute its pass, else its kind of work; of collectives the role, else how many take part."""
        graph = record.graph
        nodes = graph.order[numbers]
        types = graph.trace.types[nodes]
        category = graph.category[numbers]
        phases, works = (graph.trace.attr(name).texts_or_empty(nodes) for name in (PHASE, KIND))
        found = []
        columns = zip(numbers.tolist(), types.tolist(), category.tolist(), phases, works,
                      node_names(graph, numbers), strict=True)  # fmt: skip
        for number, kind, what, phase, work, name in columns:
            if kind in (NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE):
                found.append(_SEND if kind == NodeType.COMM_SEND_NODE else _RECEIVE)
            elif what == at.CAT_COMM:
                found.append(self._collective(record, number))
                self.moving.add(found[-1])
            elif what in (at.CAT_MEMORY, at.CAT_CPU):
                found.append("host" if what == at.CAT_CPU else "remote memory")
            else:
                match = _PASS.search(name)
                found.append(phase or (match[1] if match else "") or work or "compute")
        return found

    def _collective(self, record: NodeRecord, number: int) -> str:
        graph = record.graph
        node = int(graph.order[number])
        type_ = int(graph.trace.attr("comm_type").integers(-1)[node])
        key = COLLECTIVE_KEYS.get(type_, "collective")
        if graph.roles:
            return f"{graph.roles[int(graph.role[number])]} {key}"
        if int(graph.kind[number]) != at.RUN_COLLECTIVE:
            return key
        group = graph.groups[int(graph.b[number])]
        return f"{key} of {len(self.groups.get(group, ())) or self.ranks}"


def _colours(shown: Sequence[_Rank], moving: set[str]) -> dict[str, str]:
    """A colour for each kind, those with most time first."""
    time: Counter[str] = Counter()
    for one in shown:
        lengths = (one.record.end_ns - one.record.start_ns)[one.numbers].tolist()
        for kind, length in zip(one.kinds, lengths, strict=True):
            time[kind] += length
    fresh = {False: _unused(OF_COMPUTE, time), True: _unused(OF_COMMUNICATION, time)}
    order = sorted(time, key=lambda kind: (kind in moving or kind in (_SEND, _RECEIVE), -time[kind], kind))
    return {kind: COLOURS.get(kind) or next(fresh[kind in moving]) for kind in order}


def _unused(palette: Sequence[str], time: Counter[str]) -> Iterator[str]:
    taken = {COLOURS[kind] for kind in time if kind in COLOURS}
    return chain((colour for colour in palette if colour not in taken), cycle(palette))


# -- pieces ------------------------------------------------------------------------------------------------------------


def _bars(one: _Rank, lane: int, y: float, scale: float, colours: Mapping[str, str]) -> list[str]:
    """A path for each kind in a lane: a rectangle for each node, or for several that lie next to each other."""
    own = np.flatnonzero(one.lane == lane)
    starts, ends = (times[one.numbers[own]].tolist() for times in (one.record.start_ns, one.record.end_ns))
    paths: dict[str, list[list[float]]] = {}
    for kind, start, end in zip([one.kinds[i] for i in own.tolist()], starts, ends, strict=True):
        spans = paths.setdefault(kind, [])
        begin, stop = LEFT + start * scale, LEFT + max(end * scale, start * scale + 0.3)
        if spans and begin - spans[-1][1] < FINEST and spans[-1][1] - spans[-1][0] < 1:
            spans[-1][1] = max(stop, spans[-1][1])
        else:
            spans.append([begin, stop])
    return [
        f'<path fill="{colours[kind]}" d="'
        + "".join(f"M{begin:.1f} {y:.0f}h{stop - begin:.1f}v{ROW - 4}H{begin:.1f}z" for begin, stop in spans)
        + f'"><title>{escape(kind)}</title></path>'
        for kind, spans in paths.items()
    ]


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def _axis(makespan_ns: int, scale: float, top: float, bottom: float) -> Iterator[str]:
    """Times in one unit, at round ones, and faint lines up from them."""
    step = 10 ** int(np.floor(np.log10(makespan_ns / TICKS))) if makespan_ns > TICKS else 1
    step = next(step * factor for factor in (1, 2, 5, 10) if makespan_ns / (step * factor) <= TICKS or factor == 10)
    unit_ns, unit = next((ns, name) for ns, name in _UNITS if step >= ns)
    for time in range(0, makespan_ns + 1, int(step)):
        x = LEFT + time * scale
        yield f'<line x1="{x:.1f}" y1="{top:.0f}" x2="{x:.1f}" y2="{bottom:.0f}" stroke="#0002"/>'
        yield _text(x, bottom + 14, f"{number_text(time / unit_ns)} {unit}", "middle")
    yield f"<title>{escape(f'{time_text(makespan_ns)} in all')}</title>"


_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


def _legend(colours: dict[str, str], y: float) -> tuple[list[str], float]:
    """Colours and names, in as many lines as they need, and how high the picture is with them."""
    lines: list[str] = []
    x = 4.0
    for kind, colour in colours.items():
        width = 26 + CHARACTER * len(kind)
        if x > 4 and x + width > WIDTH:
            x, y = 4.0, y + 18
        lines.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="11" height="11" fill="{colour}"/>')
        lines.append(_text(x + 15, y + 10, kind))
        x += width
    return lines, y + 20
