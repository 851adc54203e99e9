"""Pictures as files: Graphviz's dot, GraphML, and SVG by a simple layout of our own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from chakrasim.errors import InputError
from chakrasim.report.picture.graph import CONTROL, Arrow, Picture

#: Fill colours by node type, of a palette that colour-blind people can tell apart.
COLOURS: Final = {
    "COMP_NODE": "#d9e8f5",
    "COMM_COLL_NODE": "#fde2c4",
    "COMM_SEND_NODE": "#fbd0c8",
    "COMM_RECV_NODE": "#fbd0c8",
    "MEM_LOAD_NODE": "#dcefd8",
    "MEM_STORE_NODE": "#dcefd8",
}
_GREY: Final = "#eeeeee"
MOST_SVG: Final = 3000
"""Boxes that the own layout takes on."""


def dot_texts(picture: Picture) -> Iterator[str]:
    """The picture in Graphviz's language; control dependencies are dashed."""
    yield "digraph trace {\n\tnode [shape=box style=filled fontname=Helvetica]\n"
    for box in picture.boxes:
        colour = COLOURS.get(box.kind, _GREY)
        yield f'\t{quoted(box.key)} [label={quoted(box.label)} fillcolor="{colour}" tooltip={quoted(box.kind)}]\n'
    for arrow in picture.arrows:
        style = ' style=dashed color="#888888"' if arrow.kind == CONTROL else ""
        label = f' label="{arrow.count}"' if arrow.count > 1 else ""
        source, target = picture.boxes[arrow.source].key, picture.boxes[arrow.target].key
        yield f"\t{quoted(source)} -> {quoted(target)} [tooltip={arrow.kind}{style}{label}]\n"
    yield "}\n"


def quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def graphml_texts(picture: Picture) -> Iterator[str]:
    """The picture in GraphML; a pair of nodes with both kinds of dependency has two edges."""
    keys = [
        ("label", "node", "string"),
        ("type", "node", "string"),
        ("nodes", "node", "int"),
        ("duration_ns", "node", "long"),
        ("dependency", "edge", "string"),
        ("count", "edge", "int"),
    ]
    yield GRAPHML_HEAD
    for name, side, kind in keys:
        yield f'<key id="{name}" for="{side}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield '<graph edgedefault="directed">\n'
    for box in picture.boxes:
        cells = (("label", box.label), ("type", box.kind), ("nodes", box.nodes), ("duration_ns", box.duration_ns))
        yield f"<node id={quoteattr(box.key)}>{_data(cells)}</node>\n"
    for number, arrow in enumerate(picture.arrows):
        source, target = picture.boxes[arrow.source].key, picture.boxes[arrow.target].key
        cells_ = (("dependency", arrow.kind), ("count", arrow.count))
        ends = f"source={quoteattr(source)} target={quoteattr(target)}"
        yield f'<edge id="e{number}" {ends}>{_data(cells_)}</edge>\n'
    yield "</graph>\n</graphml>\n"


GRAPHML_HEAD: Final = (
    "<?xml version='1.0' encoding='utf-8'?>\n"
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns '
    'http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">\n'
)


def _data(cells: tuple[tuple[str, object], ...]) -> str:
    return "".join(f'<data key="{name}">{xml_text(str(value))}</data>' for name, value in cells)


@lru_cache(maxsize=4096)
def xml_text(text: str) -> str:
    """Text as XML 1.0 allows it: control characters, which it does not, become question marks."""
    return escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "?", text))


# -- SVG ---------------------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LETTERS = 190, 40, 24, 56, 28


def svg_texts(picture: Picture) -> Iterator[str]:
    """The picture as SVG, in layers from top to bottom. Raises InputError for one with more than MOST_SVG boxes."""
    if len(picture.boxes) > MOST_SVG:
        raise InputError(
            "the graph is too big for a picture",
            found=f"{len(picture.boxes):,} nodes",
            expected=f"at most {MOST_SVG:,}",
            remedy="summarise it with --by stream, or write .dot or .graphml",
        )
    places = _layout(picture)
    right = max((x for x, _ in places), default=0) + _WIDTH + _GAP_X
    bottom = max((y for _, y in places), default=0) + _HEIGHT + _GAP_Y
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" viewBox="0 0 {right} {bottom}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11">\n'
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>\n<rect width="100%" height="100%" fill="white"/>\n'
    )
    for arrow in picture.arrows:
        yield _svg_arrow(arrow, places)
    for box, (x, y) in zip(picture.boxes, places, strict=True):
        first, _, rest = box.label.partition("\n")
        title = f"<title>{xml_text(box.label)} ({box.kind})</title>"
        lines = [first, rest] if rest else [first]
        text = "".join(
            f'<text x="{x + _WIDTH // 2}" y="{y + 24 + 8 * (1 - len(lines)) + 14 * number}" text-anchor="middle">'
            f"{xml_text(_cut(line))}</text>"
            for number, line in enumerate(lines)
        )
        yield (
            f'<g>{title}<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" '
            f'fill="{COLOURS.get(box.kind, _GREY)}" stroke="#555"/>{text}</g>\n'
        )
    yield "</svg>\n"


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _svg_arrow(arrow: Arrow, places: list[tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[arrow.source], places[arrow.target]
    x1, x2 = x1 + _WIDTH // 2, x2 + _WIDTH // 2
    if y2 > y1:
        y1 += _HEIGHT
        bend = (y2 - y1) // 2
        path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    else:  # back, or in one layer: around the right side
        x1, x2 = x1 + _WIDTH // 2, x2 + _WIDTH // 2
        y1, y2 = y1 + _HEIGHT // 2, y2 + _HEIGHT // 2
        path = f"M{x1} {y1}C{x1 + 60} {y1} {x2 + 60} {y2} {x2} {y2}"
    dashes = ' stroke-dasharray="4 3"' if arrow.kind == CONTROL else ""
    colour = "#999" if arrow.kind == CONTROL else "#333"
    width = min(4.0, 1 + arrow.count.bit_length() / 4)
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes} marker-end="url(#head)"/>\n'
    )


def _layout(picture: Picture) -> list[tuple[int, int]]:
    """Upper left corners: a layer below all that a box waits for, ordered by where those stand."""
    parents: dict[int, list[int]] = defaultdict(list)
    children: dict[int, list[int]] = defaultdict(list)
    waits = [0] * len(picture.boxes)
    for arrow in picture.arrows:
        if arrow.source != arrow.target:
            parents[arrow.target].append(arrow.source)
            children[arrow.source].append(arrow.target)
            waits[arrow.target] += 1
    layer = [0] * len(picture.boxes)
    free = [box for box, count in enumerate(waits) if not count]
    placed = set(free)
    position = 0
    while len(placed) < len(picture.boxes) or position < len(free):
        if position == len(free):  # a circle of groups: begin it at its first box
            start = next(box for box in range(len(picture.boxes)) if box not in placed)
            free.append(start)
            placed.add(start)
        box = free[position]
        position += 1
        for child in children[box]:
            if child in placed and waits[child] <= 0:
                continue
            layer[child] = max(layer[child], layer[box] + 1)
            waits[child] -= 1
            if not waits[child] and child not in placed:
                placed.add(child)
                free.append(child)
    return _columns(layer, parents)


def _columns(layer: list[int], parents: dict[int, list[int]]) -> list[tuple[int, int]]:
    by_layer: dict[int, list[int]] = defaultdict(list)
    for box, number in enumerate(layer):
        by_layer[number].append(box)
    widest = max(map(len, by_layer.values()), default=0)
    x = [0.0] * len(layer)
    for number in sorted(by_layer):
        boxes = by_layer[number]
        above = {box: [x[p] for p in parents[box] if layer[p] < number] for box in boxes}
        boxes.sort(key=lambda box: (sum(above[box]) / len(above[box]) if above[box] else 0.0, box))
        step = widest / len(boxes)
        for place, box in enumerate(boxes):
            x[box] = (place + 0.5) * step - 0.5
    across, down = _WIDTH + _GAP_X, _HEIGHT + _GAP_Y
    return [(_GAP_X + round(x[box] * across), _GAP_Y // 2 + layer[box] * down) for box in range(len(layer))]
