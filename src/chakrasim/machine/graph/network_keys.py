"""The keys of a network that is a graph, from which the reference page is written too."""

from __future__ import annotations

import os
import re
from typing import Any, Final, Literal, NamedTuple, get_args

from chakrasim.config.kinds import choice, path, switch, text, whole
from chakrasim.config.section import Section
from chakrasim.config.table import REQUIRED, Key, Kind, Values, list_of, mapping, names, read
from chakrasim.config.values import Scalar
from chakrasim.errors import InputError
from chakrasim.machine.graph.changes import CHANGE
from chakrasim.machine.graph.families import Family, family_of
from chakrasim.machine.graph.families.family import COUNT, LATENCY, RATE, listed
from chakrasim.machine.graph.routing import Routing, routing_kind
from chakrasim.machine.graph.routing.keys import NAMES

MOST_RANKS: Final = 2**20
NetworkModel = Literal["flow", "packet", "aware", "unaware"]
MODELS: Final = get_args(NetworkModel)
_RANGE: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class Part(NamedTuple):
    """One part of a graph: a family with the values of its keys, for some islands or (None) all."""

    family: Family
    values: Values
    islands: frozenset[int] | None


def numbers_of(section: Section, key: str) -> tuple[range, ...]:
    """Ranges of numbers, such as ``0-3,6``."""
    value = section.entries[key]
    found = []
    for piece in str(value).split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            section.refuse(key, "not numbers", "numbers and ranges, such as 0-3,6")
        found.append(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(found)


NUMBERS: Final = Kind(numbers_of, "numbers, such as `0-3,6`", {"type": ["string", "integer"]})
_COMMON: Final = (Key("islands", NUMBERS, None, "the islands that the part is for", shown="all"),)


def _parts(section: Section, key: str) -> list[Part]:
    items = section.listing(key, "a list of parts, such as - nvswitch: {bandwidth: 450 GB/s}")
    return [_part(items, index) for index in items.entries]


def _part(items: Section, index: int) -> Part:
    section = items.below(index, ("the name of a family",))
    if len(section.entries) != 1:
        section.fail(None, "not one part", found=section.entries, expected="one family and its keys for each entry")
    (name,) = section.entries
    try:
        family = family_of(name)
    except InputError as error:
        section.fail(None, error.message, found=name, expected=error.expected or "", remedy=error.remedy or "")
    keys = (*_COMMON, *family.keys)
    given = section.entries[name]
    if isinstance(given, Scalar) and given.is_null:
        section = Section({name: {}}, section.file, section.notes, section.path, section.folder)
    values = read(section.strictly_below(name, names(keys)), keys)
    islands = values.pop("islands")
    return Part(family, values, None if islands is None else frozenset(n for found in islands for n in found))


def _between(section: Section, key: str) -> tuple[str, str]:
    found: tuple[str, ...] = NAMES.read(section, key)
    if len(found) != 2:
        section.refuse(key, "not two vertices", "the names of two vertices, such as [leaf0, spine1]")
    return found[0], found[1]


def _one_of(section: Section, values: Values) -> Values:
    if len(section.entries) != 1:
        section.fail(None, "one of gpus and sizes is expected", found=section.entries)
    return values


_LIST: Final = {"type": "array"}

ISLANDS: Final = (
    Key("gpus", whole(1, MOST_RANKS), None, "ranks of each island, numbered island by island; the last may have fewer"),
    Key("sizes", listed(whole(1, MOST_RANKS)), None, "ranks of each island, where they differ"),
)

CABLES: Final = (
    Key("between", Kind(_between, "two names", _LIST), None, "vertices that a new cable joins"),
    Key("cable", text, None, "name of a cable that is there (`leaf0-spine1`, the second of them `leaf0-spine1#2`), to "
        "be changed"),
    Key("bandwidth", RATE, None, "of each direction"),
    Key("latency", LATENCY, None, "one way"),
    Key("count", COUNT, 1, "how many new cables"),
    Key("shared", switch, False, "both directions of a new cable share its bandwidth"),
    Key("one-way", switch, False, "a link from the first vertex to the second only"),
)  # fmt: skip

GRAPH: Final = (
    Key("file", path(os.path.exists), None, "the whole graph from a [file](reference-network-files.md), beside which "
        "only `cables` and `routing` may stand", shown="none"),
    Key("ranks", whole(1, MOST_RANKS), None, "how many there are", shown="those of islands or of the first part"),
    Key("islands", mapping(ISLANDS, _one_of), None, "boards, boxes or servers of ranks with consecutive numbers"),
    Key("switches", NAMES, (), "switches for single cables to join"),
    Key("parts", Kind(_parts, "list", _LIST), (), "families with their keys, in the order in which they are built"),
    Key("cables", list_of(CABLES, "a list of cables", "cables"), (), "single ones, added or changed"),
    Key("routing", routing_kind, Routing(), "how flows find their ways", shown="shortest"),
)  # fmt: skip


def graph_network(made: Any) -> tuple[Key, ...]:
    """The keys of a network with a graph; ``made`` turns the section and the values of `GRAPH` into it."""
    return (
        Key("graph", mapping(GRAPH, made), REQUIRED, "ranks, switches and cables"),
        Key("logical", listed(whole(1)), None, "shape of the ranks for collectives, innermost dimension first",
            shown="one dimension"),
        Key("changes", list_of(CHANGE, "a list of changes", "changes"), (), "what happens to links, switches and ranks "
            "during a run, in any order", shown="none"),
        Key("network-model", choice(MODELS), None, "how messages share links", shown="flow"),
    )  # fmt: skip
