"""A trace drawn as chakra_visualizer draws it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.report.picture.files import GRAPHML_HEAD, xml_text
from chakrasim.report.picture.graph import CONTROL, DATA
from chakrasim.trace import Trace


def visualized(trace: Trace, output: str, suffix: str, notes: Notes) -> tuple[Iterator[str], str]:
    """What to write, and what kind of picture Graphviz makes of it first, if it is to. Raises InputError."""
    if suffix == ".graphml":
        return graphml_texts(trace), ""
    if shutil.which("dot") is None:
        if suffix != ".dot":
            remedy = "install Graphviz, or leave out --compat chakra"
            raise InputError("the program dot of Graphviz is not installed", file=output, remedy=remedy)
        notes.warn("the program dot of Graphviz is not installed: the file has no coordinates")
        return dot_texts(trace), ""
    return dot_texts(trace), suffix[1:]


def graphml_texts(trace: Trace) -> Iterator[str]:
    """What chakra_visualizer writes: one edge for each pair, control before data; nodes that are only named in
    dependencies without a label."""
    labels: dict[int, str | None] = {}
    edges: dict[tuple[int, int], str] = {}
    for at, node in enumerate(trace.ids.tolist()):
        labels[node] = trace.name(at)
        for deps, kind in ((trace.data_deps, DATA), (trace.ctrl_deps, CONTROL)):
            for dep in deps[at].tolist():
                labels.setdefault(dep, None)
                edges[dep, node] = kind
    yield GRAPHML_HEAD
    yield '<key id="d1" for="edge" attr.name="dependency" attr.type="string"/>\n'
    yield '<key id="d0" for="node" attr.name="label" attr.type="string"/>\n<graph edgedefault="directed">\n'
    for node, label in labels.items():
        yield (
            f'<node id="{node}">\n  <data key="d0">{xml_text(label)}</data>\n</node>\n'
            if label is not None
            else (f'<node id="{node}"/>\n')
        )
    for (source, target), kind in edges.items():
        yield f'<edge source="{source}" target="{target}">\n  <data key="d1">{kind}</data>\n</edge>\n'
    yield "</graph>\n</graphml>\n"


def dot_texts(trace: Trace) -> Iterator[str]:
    """The text that chakra_visualizer gives to Graphviz."""
    yield "digraph {\n"
    for at, node in enumerate(trace.ids.tolist()):
        label = re.sub(r"([{}()<>\[\]|&-])", r"\\\1", trace.name(at))
        label = label.replace('"', '\\"')
        yield f'\t{node} [label="{label}" id={node} shape=record]\n'
        for deps, head in ((trace.data_deps, "normal"), (trace.ctrl_deps, "tee")):
            for dep in deps[at].tolist():
                yield f"\t{dep} -> {node} [arrowhead={head}]\n"
    yield "}\n"
