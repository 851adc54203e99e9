"""Pictures of networks as files: SVG and a page with it by a layout of our own, and Graphviz's dot.

Ranks stand in the lowest row, what is a link further from them a row above; switches inside an island stand below its
ranks. A network of ranks alone is a circle.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from chakrasim.report.picture.files import quoted, xml_text
from chakrasim.report.picture.network import ISLAND, NetworkPicture, Vertices, Wire
from chakrasim.text.amounts import number_text, percent_text, plural

Place = tuple[float, float]
COLOURS: Final = {
    "rank": "#d9e8f5",
    "switch": "#fde2c4",
    "nvswitch": "#dcefd8",
    "nic": "#eee3f3",
    "pcie": "#f6efc8",
    "optical": "#fbd0c8",
    ISLAND: "#d9e8f5",
}
SPEEDS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#9d755d", "#e45756", "#72b7b2", "#777777")
"""Of wires, by capacity, the fastest first; all slower than the seventh have the last."""
_ACROSS, _DOWN, _HEIGHT, _EDGE, _LETTER, _TOP = 14, 92, 26, 30, 6.4, 54
MOST_LABELS: Final = 24
"""Wires that have their bandwidth written on them; of more it stands in the legend, and where the pointer is."""
MOST_COUNTS: Final = 200
"""The same of parallel cables."""


def network_svg(picture: NetworkPicture) -> Iterator[str]:
    """The picture as SVG; wires are as thick as they are many, and say what they are where the pointer is."""
    wide = [_width(box) for box in picture.boxes]
    places = _layout(picture, wide)
    legend = _legend(picture)
    right = max(max(x + w / 2 for (x, _), w in zip(places, wide, strict=True)), 7.0 * max(map(len, _heads(picture))))
    right = max(right, *(_EDGE + _LETTER * len(text) + 40 for _, text in legend)) + _EDGE
    low = max(y for _, y in places) + 2 * _DOWN
    bottom = low + 16 * len(legend) + 10
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right:.0f}" height="{bottom:.0f}" '
        f'viewBox="0 0 {right:.0f} {bottom:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">\n'
        '<rect width="100%" height="100%" fill="white"/>\n'
    )
    for number, text in enumerate(_heads(picture)):
        size = "" if number else ' font-size="14" font-weight="bold"'
        yield f'<text x="{_EDGE}" y="{20 + 16 * number}"{size}>{xml_text(text)}</text>\n'
    yield from _frames(picture, places, wide)
    colour = _speed_colours(picture)
    for wire in sorted(picture.wires, key=lambda one: one.busy_share or 0.0):
        yield _svg_wire(picture, wire, places, colour)
    for box, place, width in zip(picture.boxes, places, wide, strict=True):
        yield _svg_box(box, place, width)
    for number, (stroke, text) in enumerate(legend):
        y = low + 16 * number
        yield f'<path d="M{_EDGE} {y - 4:.0f}h22" stroke="{stroke}" stroke-width="3"/>'
        yield f'<text x="{_EDGE + 30}" y="{y:.0f}">{xml_text(text)}</text>\n'
    yield "</svg>\n"


def network_html(picture: NetworkPicture) -> Iterator[str]:
    """A page that holds the picture."""
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{xml_text(_heads(picture)[0])}</title>\n'
    yield from network_svg(picture)
    yield "</html>\n"


def network_dot(picture: NetworkPicture) -> Iterator[str]:
    """The picture in Graphviz's language, islands as clusters."""
    yield 'graph network {\n\trankdir=BT ranksep=1\n\tnode [shape=box style="filled,rounded" fontname=Helvetica]\n'
    yield f"\tlabel={quoted(chr(10).join(_heads(picture)))} fontname=Helvetica\n"
    frames: dict[int, list[str]] = defaultdict(list)
    for box in picture.boxes:
        text = f"{quoted(box.key)} [label={quoted(box.label)} fillcolor={quoted(COLOURS[box.kind])}]"
        frames[box.frame].append(text)
    for frame, texts in frames.items():
        inner = "".join(f"\t{text}\n" for text in texts)
        yield inner if frame < 0 else f"\tsubgraph cluster_{frame} {{ label={quoted(f'island {frame}')}\n{inner}\t}}\n"
    colour = _speed_colours(picture)
    for wire in picture.wires:
        ends = sorted((wire.source, wire.target), key=lambda at: picture.boxes[at].level)
        below, above = (quoted(picture.boxes[at].key) for at in ends)
        width = f"penwidth={_thickness(wire):g}"
        yield f"\t{below} -- {above} [label={quoted(wire.label)} color={quoted(_colour(wire, colour))} {width}]\n"
    yield "}\n"


def _heads(picture: NetworkPicture) -> list[str]:
    return [picture.name, f"drawn in short: {picture.short}"] if picture.short else [picture.name]


def _width(box: Vertices) -> float:
    return max(24.0, 10 + _LETTER * max(map(len, box.label.split("\n"))))


def _thickness(wire: Wire) -> float:
    return min(6.0, 1 + math.log2(wire.count) / 2)


# -- colours -----------------------------------------------------------------------------------------------------------


def _speed_colours(picture: NetworkPicture) -> dict[float, str]:
    speeds = sorted({wire.capacity for wire in picture.wires}, reverse=True)
    return {speed: SPEEDS[min(i, len(SPEEDS) - 1)] for i, speed in enumerate(speeds)}


def _colour(wire: Wire, by_speed: dict[float, str]) -> str:
    """By load, from grey to red, where a run says it; else by capacity."""
    if wire.busy_share is None:
        return by_speed[wire.capacity]
    share = min(wire.busy_share, 1.0)
    mixed = (round(low + (high - low) * share) for low, high in ((200, 215), (200, 25), (200, 28)))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _legend(picture: NetworkPicture) -> list[tuple[str, str]]:
    """Colours of wires and what they mean."""
    loads = [wire for wire in picture.wires if wire.busy_share is not None]
    if loads:
        most = max(loads, key=lambda wire: wire.busy_share or 0.0)
        ends = f"{picture.boxes[most.source].key} and {picture.boxes[most.target].key}"
        text = f"from idle (grey) to full all the time (red); most: {percent_text(most.busy_share)}, between {ends}"
        return [(_colour(most, {}), text)]
    cables: dict[str, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    colour = _speed_colours(picture)
    for wire in picture.wires:
        cables[colour[wire.capacity]][wire.capacity] += wire.count
    return [
        (stroke, "; ".join(f"{number_text(speed)} GB/s: {plural(count, 'cable')}" for speed, count in own.items()))
        for stroke, own in cables.items()
    ]


# -- pieces ------------------------------------------------------------------------------------------------------------


def _svg_box(box: Vertices, place: Place, width: float) -> str:
    x, y = place
    lines = box.label.split("\n")
    height = _HEIGHT + 14 * (len(lines) - 1)
    title = f"{box.label} ({box.kind})" + (f"\n{plural(box.inside, 'cable')} inside" if box.inside else "")
    first = y + 4 - 7 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{x:.1f}" y="{first + 14 * i:.1f}" text-anchor="middle">{xml_text(line)}</text>'
        for i, line in enumerate(lines)
    )
    corner = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height}"'
    return (
        f"<g><title>{xml_text(title)}</title>"
        f'<rect {corner} rx="4" fill="{COLOURS[box.kind]}" stroke="#555"/>{texts}</g>\n'
    )


def _svg_wire(picture: NetworkPicture, wire: Wire, places: Sequence[Place], colour: dict[float, str]) -> str:
    (x1, y1), (x2, y2) = places[wire.source], places[wire.target]
    ends = f"{picture.boxes[wire.source].key} - {picture.boxes[wire.target].key}"
    title = f"{ends}: {wire.label}, {number_text(wire.latency)} ns"
    title += f", busy {percent_text(wire.busy_share)}" if wire.busy_share is not None else ""
    path, middle = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", ((x1 + x2) / 2, (y1 + y2) / 2)
    if _beside(picture, wire):  # around what stands between
        bend = (1 if picture.boxes[wire.source].level <= 0 else -1) * min(20 + 0.4 * abs(x2 - x1), 150.0)
        path = f"M{x1:.1f} {y1:.1f}Q{middle[0]:.1f} {y1 + bend:.1f} {x2:.1f} {y2:.1f}"
        middle = middle[0], y1 + bend / 2
    many = len(picture.wires)
    text = wire.label if many <= (MOST_LABELS if wire.count == 1 else MOST_COUNTS) else ""
    if text and wire.busy_share is not None:
        text += f", {percent_text(wire.busy_share)}"
    label = (
        f'<text x="{middle[0]:.1f}" y="{middle[1]:.1f}" text-anchor="middle" font-size="9" fill="#333" stroke="white" '
        f'stroke-width="2" paint-order="stroke">{xml_text(text)}</text>'
    )
    return (
        f'<g><title>{xml_text(title)}</title><path d="{path}" fill="none" stroke="{_colour(wire, colour)}" '
        f'stroke-width="{_thickness(wire):.3g}"/>{label if text else ""}</g>\n'
    )


def _beside(picture: NetworkPicture, wire: Wire) -> bool:
    """Whether a wire joins boxes of one row."""
    return picture.boxes[wire.source].level == picture.boxes[wire.target].level and not _round(picture)


def _frames(picture: NetworkPicture, places: Sequence[Place], wide: Sequence[float]) -> Iterator[str]:
    """A frame around each island, with its number."""
    own: dict[int, list[int]] = defaultdict(list)
    for at, box in enumerate(picture.boxes):
        if box.frame >= 0:
            own[box.frame].append(at)
    bent = {picture.boxes[wire.source].frame for wire in picture.wires if _beside(picture, wire)}
    for frame, members in own.items():
        left = min(places[at][0] - wide[at] / 2 for at in members) - 5
        right = max(places[at][0] + wide[at] / 2 for at in members) + 5
        top = min(places[at][1] for at in members) - _HEIGHT / 2 - 5
        bottom = max(places[at][1] for at in members) + _HEIGHT / 2 + (70 if frame in bent else 18)
        corner = f'x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"'
        yield f'<rect {corner} rx="6" fill="#fafafa" stroke="#bbb"/>'
        yield f'<text x="{left + 5:.1f}" y="{bottom - 5:.1f}" fill="#666">island {frame}</text>\n'


# -- layout ------------------------------------------------------------------------------------------------------------


def _layout(picture: NetworkPicture, wide: Sequence[float]) -> list[Place]:
    """The middle of each box."""
    boxes = picture.boxes
    if _round(picture):
        return _circle(wide)
    top = max(box.level for box in boxes)
    x = _blocks(picture, wide)
    for level in range(1, top + 1):
        _spread(picture, x, wide, level)
    bent = any(boxes[wire.source].level == top > 0 and _beside(picture, wire) for wire in picture.wires)
    first = _TOP + (80 if bent else 20)
    return [(x[at], first + (top - box.level) * _DOWN) for at, box in enumerate(boxes)]


def _round(picture: NetworkPicture) -> bool:
    """Whether there are ranks only."""
    return len(picture.boxes) > 2 and all(box.level == 0 for box in picture.boxes)


def _circle(wide: Sequence[float]) -> list[Place]:
    around = sum(width + _ACROSS for width in wide)
    radius = max(around / math.tau, 80.0)
    turn = [math.tau * i / len(wide) for i in range(len(wide))]
    middle = radius + _EDGE + max(wide) / 2
    return [(middle + radius * math.sin(a), _TOP + middle - radius * math.cos(a)) for a in turn]


def _blocks(picture: NetworkPicture, wide: Sequence[float]) -> list[float]:
    """Where boxes of islands stand, and ranks of none: island beside island, each level of one centred in it."""
    blocks: dict[int | str, dict[int, list[int]]] = {}
    for at, box in enumerate(picture.boxes):
        if box.frame >= 0 or box.level <= 0:
            key: int | str = f"island {box.frame}" if box.frame >= 0 else at
            blocks.setdefault(key, defaultdict(list))[box.level].append(at)
    x, left = [math.nan] * len(wide), float(_EDGE)
    for name, rows in blocks.items():
        sizes = {level: sum(wide[at] + _ACROSS for at in row) for level, row in rows.items()}
        across = max(sizes.values())
        for level, row in rows.items():
            step = (across - sizes[level]) / len(row)
            place = left
            for at in row:
                x[at] = place + (wide[at] + _ACROSS + step) / 2
                place += wide[at] + _ACROSS + step
        left += across + (_ACROSS if isinstance(name, str) else 0)
    return x


def _spread(picture: NetworkPicture, x: list[float], wide: Sequence[float], level: int) -> None:
    """Set x of a level's boxes that stand in no island: over the whole width, ordered by what they hang on."""
    row = [at for at, box in enumerate(picture.boxes) if box.level == level and math.isnan(x[at])]
    below: dict[int, list[float]] = defaultdict(list)
    for wire in picture.wires:
        for at, other in ((wire.source, wire.target), (wire.target, wire.source)):
            if picture.boxes[other].level < picture.boxes[at].level == level:
                below[at].append(x[other])
    row.sort(key=lambda at: (round(sum(below[at]) / len(below[at])) if below[at] else 0, at))
    known = [place + width / 2 for place, width in zip(x, wide, strict=True) if not math.isnan(place)]
    need = sum(wide[at] + _ACROSS for at in row)
    across = max(max(known, default=0.0) - _EDGE, need)
    step = (across - need) / max(len(row), 1)
    place = float(_EDGE)
    for at in row:
        x[at] = place + (wide[at] + _ACROSS + step) / 2
        place += wide[at] + _ACROSS + step
