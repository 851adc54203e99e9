"""What happens to the links, switches and ranks of a network while a run is under way, as files say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from chakrasim.config.kinds import choice, text, version
from chakrasim.config.section import TIME_MAX, Section, Source, open_section
from chakrasim.config.table import REQUIRED, Key, Kind, Values, list_of, names, read
from chakrasim.config.units import TIME, whole_quantity
from chakrasim.errors import near
from chakrasim.machine.graph.families.family import RATE
from chakrasim.machine.graph.graph import Ints, NetworkGraph
from chakrasim.notes import Notes

NO_RANK: Final = -1


@dataclass(frozen=True, eq=False)
class Change:
    """Links change at a time.

    Parameters
    ----------
    at_ns:
        When.
    links:
        int32[k]: which.
    capacity:
        Bytes per ns from then on; 0 is down. None: what the graph says.
    detect_ns:
        After so long it is known, and what went over links that are down takes another way.
    name:
        What fails or comes back: a link is up once all have come back that took it down.
    rank:
        The rank that goes down or comes back with its links, else `NO_RANK`.
    rehash_all:
        Once it is known, everything under way takes the way that the rule gives now, not only what went over links that
        are down.
    """

    at_ns: int
    links: Ints
    capacity: float | None = 0.0
    detect_ns: int = 0
    name: str = ""
    rank: int = NO_RANK
    rehash_all: bool = False


def _name_of(section: Section, key: str) -> str:
    """A name, which a rank's number is too."""
    value = section.entries[key]
    return str(value) if type(value) is int else text.read(section, key)


_NS: Final = whole_quantity(TIME, "ns", '"5 ms"', TIME_MAX // 2, "time, whole ns")
_NAME: Final = Kind(_name_of, text.shown, text.schema)
REHASHES: Final = ("needed", "all")

CHANGE: Final = (
    Key("at", _NS, REQUIRED, "when", "at_ns"),
    Key("down", _NAME, None, "a cable (`leaf0-spine1`), or a switch, NIC or rank with all its cables: no byte crosses "
        "from then on, and the job of a rank stops"),
    Key("up", _NAME, None, "ends the `down` of the same name; the cables are as the machine has them"),
    Key("cable", _NAME, None, "a cable whose `bandwidth` is another from then on; nothing takes another way for it"),
    Key("bandwidth", RATE, None, "of each direction of the cable"),
    Key("detect", _NS, 0, "how long it takes until it is known; then what went there takes another way", "detect_ns",
        "0 ns"),
    Key("rehash", choice(REHASHES), "needed", "what takes another way then: what went over links that are down, or "
        "everything under way, as the rule has it now"),
)  # fmt: skip
CHANGES: Final = (
    Key("format", version, 1, "version of this format"),
    Key("changes", list_of(CHANGE, "a list of changes", "changes"), REQUIRED, "in any order; those of one time in "
        "this one"),
)  # fmt: skip


def load_changes(
    source: Source | Sequence[Change],
    graph: NetworkGraph,
    notes: Notes | None = None,
    beside: Sequence[Change] = (),
) -> list[Change]:
    """Read what happens to the links of a graph: a path, the mapping such a file holds, or `Change` objects; those
    ``beside`` them are known from elsewhere.

    Raises :class:`chakrasim.InputError` for names of links and vertices that the graph does not have.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        return list(source)
    section = open_section(source, "changes", "yaml", notes)
    section.refuse_unknown(names(CHANGES))
    return changes_below(section, read(section, CHANGES)["changes"], graph, beside)


def changes_below(
    section: Section, entries: Sequence[Values], graph: NetworkGraph, beside: Sequence[Change] = ()
) -> list[Change]:
    """The changes of a graph from the values of `CHANGE` that stand below ``changes``; an ``up`` of what is not down
    is a warning."""
    if not entries:
        return []
    items = section.listing("changes", "a list of changes")
    places = [items.below(i, names(CHANGE)) for i in range(len(entries))]
    made = [_change(place, values, graph) for place, values in zip(places, entries, strict=True)]
    changed = {change.name for change in beside}
    for place, change in sorted(zip(places, made, strict=True), key=lambda pair: pair[1].at_ns):
        if change.capacity is not None:
            changed.add(change.name)
        elif change.name not in changed:
            place.warn("up", f"nothing happened to {change.name} before: this has no effect")
    return made


def _change(section: Section, values: Values, graph: NetworkGraph) -> Change:
    said = [key for key in ("down", "up", "cable") if values[key] is not None]
    if len(said) != 1:
        section.fail(None, f"a change says one thing, not {len(said)}", expected="one of down, up, cable")
    (key,) = said
    if (key == "cable") != (values["bandwidth"] is not None):
        section.fail("bandwidth", "cable and bandwidth go together", expected="both, or neither")
    for idle in ("detect", "rehash"):
        if key == "cable" and idle in section:
            section.fail(idle, "nothing takes another way because of a bandwidth", remedy="leave the key out")
    name, rank, links = _links_of(section, key, values[key], graph)
    capacity = {"down": 0.0, "up": None}.get(key, values["bandwidth"])
    return Change(values["at_ns"], links, capacity, values["detect_ns"], name, rank, values["rehash"] == "all")


def _links_of(section: Section, key: str, name: str, graph: NetworkGraph) -> tuple[str, int, Ints]:
    """One name for a cable, whichever way it was named, and both its links; or a vertex, whether it is a rank, and its
    links."""
    if name in graph.number_of and key != "cable":
        vertex = graph.number_of[name]
        links = np.flatnonzero((graph.source == vertex) | (graph.target == vertex)).astype(np.int32)
        return name, vertex if vertex < graph.ranks else NO_RANK, links
    if name not in graph.link_number:
        known = (*graph.link_names, *(() if key == "cable" else graph.names))
        expected = "the name of a cable" + ("" if key == "cable" else " or a vertex") + " of the network"
        section.refuse(key, "not in the network", expected, near(name, known))
    links = np.flatnonzero(graph.cable == graph.cable[graph.link_number[name]]).astype(np.int32)
    return graph.link_names[links[0]], NO_RANK, links
