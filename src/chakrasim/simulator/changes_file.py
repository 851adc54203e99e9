"""What happens to links and switches during a run, as a file says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from chakrasim.config.kinds import text, version
from chakrasim.config.section import TIME_MAX, Section, Source, open_section
from chakrasim.config.table import REQUIRED, Key, Values, list_of, names, read
from chakrasim.config.units import TIME, whole_quantity
from chakrasim.errors import near
from chakrasim.machine.graph.families.family import RATE
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.notes import Notes
from chakrasim.simulator.network_changes import Change, Ints

_NS: Final = whole_quantity(TIME, "ns", '"5 ms"', TIME_MAX - 1, "time, whole ns")

CHANGE: Final = (
    Key("at", _NS, REQUIRED, "when", "at_ns"),
    Key("down", text, None, "a cable (`leaf0-spine1`) or a vertex with all its cables: no byte crosses from then on"),
    Key("up", text, None, "a cable or a vertex: as the machine has it, from then on"),
    Key("cable", text, None, "a cable whose `bandwidth` is another from then on"),
    Key("bandwidth", RATE, None, "of each direction of the cable"),
    Key("detect", _NS, 0, "how long it takes until it is known; then what went there takes another way", "detect_ns"),
)  # fmt: skip
CHANGES: Final = (
    Key("format", version, 1, "version of this format"),
    Key("changes", list_of(CHANGE, "a list of changes", "changes"), REQUIRED, "in any order"),
)  # fmt: skip


def load_changes(source: Source | Sequence[Change], graph: NetworkGraph, notes: Notes | None = None) -> list[Change]:
    """Read what happens to the links of a graph: a path, the mapping such a file holds, or `Change` objects.

    Raises :class:`chakrasim.InputError` for names of links and vertices that the graph does not have.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return list(source)
    section = open_section(source, "changes", "yaml", notes)
    section.refuse_unknown(names(CHANGES))
    below = section.listing("changes", "a list of changes") if "changes" in section else section
    entries = read(section, CHANGES)["changes"]
    return [_change(below.below(i, names(CHANGE)), values, graph) for i, values in enumerate(entries)]


def _change(section: Section, values: Values, graph: NetworkGraph) -> Change:
    said = [key for key in ("down", "up", "cable") if values[key] is not None]
    if len(said) != 1:
        section.fail(None, f"a change says one thing, not {len(said)}", expected="one of down, up, cable")
    (key,) = said
    if (key == "cable") != (values["bandwidth"] is not None):
        section.fail("bandwidth", "cable and bandwidth go together", expected="both, or neither")
    links = _links_of(section, key, values[key], graph)
    capacity = {"down": 0.0, "up": None}.get(key, values["bandwidth"])
    return Change(values["at_ns"], links, capacity, values["detect_ns"])


def _links_of(section: Section, key: str, name: str, graph: NetworkGraph) -> Ints:
    """Both directions of a cable, or all links of a vertex."""
    if name in graph.number_of and key != "cable":
        vertex = graph.number_of[name]
        return np.flatnonzero((graph.source == vertex) | (graph.target == vertex)).astype(np.int32)
    if name not in graph.link_number:
        known = (*graph.link_names, *(() if key == "cable" else graph.names))
        expected = "the name of a cable" + ("" if key == "cable" else " or a vertex") + " of the network"
        section.refuse(key, "not in the network", expected, near(name, known))
    cable = graph.cable[graph.link_number[name]]
    return np.flatnonzero(graph.cable == cable).astype(np.int32)
