"""Queues, pauses and rates over time, as a picture: panels above one another in a self-contained SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.outputs import write_whole
from chakrasim.simulator.packet.alone.result import PacketResult
from chakrasim.simulator.packet.alone.stuck import port_name
from chakrasim.simulator.packet.figures.samples import Series
from chakrasim.text.amounts import number_text, size_text, time_text

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP, BAR = 960, 80, 190, 34, 170, 46, 12
COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#eeca3b", "#9d755d")
MOST: Final = len(COLOURS)
"""Curves of a panel."""
MEANS: Final = 150
"""Steps of time of a curve of throughput."""
ACROSS: Final = WIDTH - LEFT - RIGHT

Curve = tuple[str, Any, Any]
"""Name, times, and values that hold until the next time."""


def queues_svg(result: PacketResult) -> str:
    """The picture: the fullest ports, those that were told to pause, the flows with the most bytes, and what the
    control allowed them where it did anything. Raises InputError where nothing was sampled."""
    seen = result.samples
    if seen is None or seen.end_ns <= seen.begin_ns:
        raise InputError("there is nothing to draw", found="no samples", expected="a run that was looked at")
    span = (seen.begin_ns, seen.end_ns)
    y = float(TOP)
    lines: list[str] = []
    fullest = _largest(seen.queues)
    lines += _panel("bytes that wait", y, span, [(seen.port_name(w), t, v) for w, t, v in fullest], size_text)
    y += PANEL + GAP
    paused = sorted(result.pauses.items(), key=lambda item: -sum(end - start for start, end in item[1]))[:MOST]
    if paused:
        lines += _bars(y, span, [(port_name(result.network, port), spans) for port, spans in paused])
        y += BAR * len(paused) + GAP
    chosen = np.argsort(-result.flows[:, 4], kind="stable")[:MOST].tolist()
    step = max((span[1] - span[0]) // MEANS, seen.every_ns)
    means = {flow: _means(times, values, span, step) for flow, times, values in seen.throughput.each()}
    allowed = {flow: (times, values) for flow, times, values in seen.rates.each()}
    drawn = {f"throughput, means of {time_text(step)}": means}
    if _is_controlled(seen.rates):
        drawn["rate that the control allows"] = allowed
    for title, found in drawn.items():
        names = {flow: f"flow {flow}: {result.flows[flow, 0]} to {result.flows[flow, 1]}" for flow in chosen}
        lines += _panel(title, y, span, [(names[flow], *found[flow]) for flow in chosen if flow in found], _gbps)
        y += PANEL + GAP
    height = y - GAP + 40
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *lines, "</svg>\n"])


def write_queues(path: str | os.PathLike[str], result: PacketResult) -> None:
    """Write the picture to ``path``. Raises InputError if that fails."""
    write_whole(path, queues_svg(result).encode())


def _gbps(value: float) -> str:
    return f"{number_text(value / 1e9)} Gb/s"


def _is_controlled(rates: Series) -> bool:
    """Whether a rate was ever another than that of its flow's first moment, but for 0 at the end."""
    return any(len(set(values.tolist()) - {0.0}) > 1 for _, _, values in rates.each())


def _means(times: Any, values: Any, span: tuple[int, int], step: int) -> tuple[Any, Any]:
    """A curve's means over equal steps of time: packets come one by one, and a short look sees one or none."""
    edges = np.append(np.arange(span[0], span[1], step), span[1])
    points = np.unique(np.concatenate([edges, np.clip(times, *span)]))
    at = np.searchsorted(times, points[:-1], side="right") - 1
    held = np.where(at >= 0, values[at], 0.0)
    total = np.append(0.0, np.cumsum(held * np.diff(points)))
    return edges[:-1], np.diff(np.interp(edges, points, total)) / np.diff(edges)


def _largest(series: Series) -> list[tuple[int, Any, Any]]:
    """The things with the largest values."""
    return sorted(series.each(), key=lambda one: (-float(one[2].max()), one[0]))[:MOST]


def _panel(
    title: str, y: float, span: tuple[int, int], curves: Sequence[Curve], text: Callable[[float], str]
) -> list[str]:
    """A frame with lines at round values and times, a curve for each thing, and their names beside it."""
    top = max((float(values.max()) for _, _, values in curves), default=0.0) or 1.0
    lines = [f'<text x="{LEFT}" y="{y - 8:.0f}" font-size="14">{escape(title)}</text>', *_times(y, PANEL, span)]
    for value in _round_values(top, text):
        at = y + PANEL * (1 - value / top)
        lines.append(f'<line x1="{LEFT}" x2="{LEFT + ACROSS}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text(value)}</text>')
    for number, (name, times, values) in enumerate(curves):
        path = _steps(*_thinned(times, values, span), top, y)
        lines.append(f'<path d="{path}" fill="none" stroke="{COLOURS[number]}" stroke-width="1.2"/>')
        below = y + 14 + 18 * number
        lines.append(
            f'<rect x="{LEFT + ACROSS + 12}" y="{below - 9:.0f}" width="10" height="10" fill="{COLOURS[number]}"/>'
        )
        lines.append(f'<text x="{LEFT + ACROSS + 27}" y="{below:.0f}">{escape(name)}</text>')
    return lines


def _times(y: float, height: float, span: tuple[int, int]) -> list[str]:
    """Lines at round times, with the time since the beginning of the picture."""
    lines = []
    for ns in _round_values(float(span[1] - span[0])):
        x = LEFT + ACROSS * ns / (span[1] - span[0])
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + height:.1f}" stroke="#eee"/>')
        lines.append(f'<text x="{x:.1f}" y="{y + height + 16:.1f}" text-anchor="middle">{time_text(ns)}</text>')
    return lines


def _round_values(top: float, text: Callable[[float], str] | None = None) -> list[float]:
    """Up to six round values from 0 to the largest; of bytes, by powers of two."""
    if text is size_text:
        step = 2.0 ** math.ceil(math.log2(top / 5))
    else:
        power = 10.0 ** math.floor(math.log10(top / 5))
        step = next(factor * power for factor in (1, 2, 5, 10) if top <= 5.001 * factor * power)
    return [step * number for number in range(int(top / step * 1.0001) + 1)]


def _thinned(times: Any, values: Any, span: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Where a curve has new values, in pixels; of several within half a pixel the largest and the last."""
    x = LEFT + ACROSS * (np.maximum(times, span[0]) - span[0]) / (span[1] - span[0])
    x, values = np.append(x, LEFT + ACROSS), np.append(values, values[-1])
    places = np.floor(2 * x).astype(np.int64)
    first = np.flatnonzero(np.diff(places, prepend=-1))
    return places[first] / 2, np.maximum.reduceat(values, first), values[np.append(first[1:], values.size) - 1]


def _steps(x: Any, most: Any, last: Any, top: float, y: float) -> str:
    """The path of a curve that begins at 0: across, up to the largest value, back to the last."""
    pieces: list[str] = []
    for at, high, end in zip(x.tolist(), most.tolist(), last.tolist(), strict=True):
        pieces.append(f"{'H' if pieces else 'M'}{at:.1f}" + ("" if pieces else f" {y + PANEL:.1f}"))
        pieces.append(f"V{y + PANEL * (1 - high / top):.1f}")
        if end != high:
            pieces.append(f"V{y + PANEL * (1 - end / top):.1f}")
    return "".join(pieces)


def _bars(y: float, span: tuple[int, int], ports: Sequence[tuple[str, list[tuple[int, int]]]]) -> list[str]:
    """A row for each port, black while it is to wait."""
    lines = [f'<text x="{LEFT}" y="{y - 8:.0f}" font-size="14">told to pause</text>']
    scale = ACROSS / (span[1] - span[0])
    for row, (name, spans) in enumerate(ports):
        at = y + BAR * row
        lines.append(f'<rect x="{LEFT}" y="{at:.0f}" width="{ACROSS}" height="{BAR - 2}" fill="#f0f0f0"/>')
        shown = [(max(start, span[0]), min(end, span[1])) for start, end in spans]
        boxes = [(LEFT + scale * (start - span[0]), scale * (end - start)) for start, end in shown if end > start]
        path = "".join(f"M{x:.2f} {at:.0f}h{width:.2f}v{BAR - 2}h{-width:.2f}z" for x, width in boxes)
        lines.append(f'<path d="{path}" fill="#444"/>')
        lines.append(f'<text x="{LEFT + ACROSS + 12}" y="{at + 9:.0f}" font-size="11">{escape(name)}</text>')
    return lines
