"""Draws ``step.svg``, what two ranks of the demo do over time: ``python docs/img/draw_step.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import chakrasim as cs
from chakrasim.demo import GROUPS, STEP
from chakrasim.simulator import NodeRecord

COLOURS = {
    "forward": "#4c78a8",
    "backward": "#9ecae9",
    "optimizer": "#79706e",
    "tensor all-reduce": "#f58518",
    "gradient all-reduce": "#b279a2",
    "send": "#e45756",
    "receive": "#ffbf79",
}
WIDTH, LEFT, ROW, GAP, TOP = 940, 120, 22, 16, 30


def kind_of(name: str) -> str:
    """The legend's entry of a node, by its name in the demo's traces."""
    if name.startswith("gradients"):
        return "gradient all-reduce"
    for word, kind in (("all-reduce", "tensor all-reduce"), ("send", "send"), ("receive", "receive")):
        if word in name:
            return kind
    return name.split(" ")[0]


def lane_of(kind: str) -> int:
    """0 compute, 1 communication, 2 receive."""
    return 2 if kind == "receive" else int(kind not in ("forward", "backward", "optimizer"))


def bars(record: NodeRecord, y: float, scale: float) -> list[str]:
    """One path per kind of operation: a rectangle for each node that ran."""
    trace = record.graph.trace
    paths: dict[str, list[str]] = {}
    for number in np.flatnonzero(record.end_ns >= 0).tolist():
        kind = kind_of(trace.node(int(record.graph.order[number])).name)
        start, end = (float(t[number]) * scale for t in (record.start_ns, record.end_ns))
        top = y + lane_of(kind) * ROW
        paths.setdefault(kind, []).append(
            f"M{LEFT + start:.1f} {top:.0f}h{max(end - start, 0.3):.1f}v{ROW - 4}H{LEFT + start:.1f}z"
        )
    return [f'<path fill="{COLOURS[kind]}" d="{"".join(parts)}"/>' for kind, parts in sorted(paths.items())]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    """A label."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'


def draw(result: cs.SimulationResult, ranks: tuple[int, ...]) -> str:
    """The picture: three lanes per rank, a time axis in ms, a legend."""
    scale = (WIDTH - LEFT - 20) / result.makespan_ns
    parts: list[str] = []
    for i, rank in enumerate(ranks):
        y = TOP + i * (3 * ROW + GAP)
        labels = ("compute", "communication", "receive")
        parts += [text(LEFT - 8, y + lane * ROW + 13, label, "end") for lane, label in enumerate(labels)]
        parts.append(text(4, y - 6, f"rank {rank} (pipeline stage {rank // 8})"))
        parts += bars(result.records[int(result.classes[rank])], y, scale)
    bottom = TOP + len(ranks) * (3 * ROW + GAP)
    for ms in range(0, int(result.makespan_ns / 1e6) + 1, 5):
        parts.append(text(LEFT + ms * 1e6 * scale, bottom + 4, f"{ms} ms", "middle"))
    for i, (kind, colour) in enumerate(COLOURS.items()):
        x = 4 + i * 134
        parts.append(f'<rect x="{x}" y="{bottom + 16}" width="11" height="11" fill="{colour}"/>')
        parts.append(text(x + 15, bottom + 26, kind))
    size = f'width="{WIDTH}" height="{bottom + 36}" viewBox="0 0 {WIDTH} {bottom + 36}"'
    style = 'font-family="sans-serif" font-size="11"'
    body = "\n".join(['<rect width="100%" height="100%" fill="white"/>', *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{body}\n</svg>\n'


def picture() -> str:
    """The SVG text that is shown in the README."""
    result = cs.simulate(STEP, machine="hgx-h100-16", comm_groups=GROUPS, congestion="aware")
    return draw(result, (0, 8))


if __name__ == "__main__":
    (Path(__file__).parent / "step.svg").write_text(picture(), encoding="utf-8")
