"""Routing as files and command lines say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chakrasim.config.kinds import as_plain_integer, choice, number, switch, text, whole
from chakrasim.config.section import Section, open_section
from chakrasim.config.table import Key, Kind, Required, Table, Values, names, object_schema, read
from chakrasim.errors import InputError
from chakrasim.machine.graph.routing.rule import METRICS, RULES, GivenPath, NextLinks, Routing

_AT_LEAST_ZERO: Final = number(0.0, 1e9, "a number from 0 to 10^9", "number >= 0")


def _name(section: Section, key: str) -> str:
    """A name of a vertex or link, which may look like a number."""
    value = section.entries[key]
    if isinstance(value, bool) or not isinstance(value, str | int):
        section.refuse(key, "not a name", "the name of a vertex or link")
    return str(value)


_NAME: Final = Kind(_name, "name", text.schema)


def _names(section: Section, key: str) -> tuple[str, ...]:
    items = section.listing(key, "a list of names")
    return tuple(_name(items, index) for index in items.entries)


NAMES: Final = Kind(_names, "list of names", {"type": "array", "items": text.schema})


def _costs(section: Section, key: str) -> tuple[tuple[str, float], ...]:
    value = section.entries[key]
    if not isinstance(value, Mapping):
        section.refuse(key, "not a mapping", "a mapping of names of links to costs")
    below = section.below(key, ("LINK",))
    return tuple((name, _AT_LEAST_ZERO.read(below, name)) for name in below.entries)


_COSTS: Final = Kind(_costs, "mapping", {"type": "object", "additionalProperties": _AT_LEAST_ZERO.schema})

_PATH: Final[Table] = (
    Key("from", _NAME, Required("the name of a vertex"), "where the way begins", "source"),
    Key("to", _NAME, Required("the name of a vertex"), "where it ends", "destination"),
    Key("links", NAMES, Required("a list of names of links"), "in order"),
    Key("weight", number(1e-9, 1e9, "a number above 0", "number > 0"), 1.0, "beside the other ways of the pair"),
    Key("label", whole(0), None, "for this channel only", shown="all"),
)
_NEXT: Final[Table] = (
    Key("at", _NAME, Required("the name of a vertex"), "which vertex sends"),
    Key("to", _NAME, Required("the name of a vertex"), "to which destination", "destination"),
    Key("links", NAMES, Required("a list of names of links"), "by one of these; the hash chooses"),
)


def _each(table: Table, made: type[GivenPath] | type[NextLinks]) -> Kind:
    def reader(section: Section, key: str) -> tuple[Any, ...]:
        items = section.listing(key, "a list of mappings")
        known = names(table)
        return tuple(made(**read(items.strictly_below(index, known), table)) for index in items.entries)

    return Kind(reader, "list", {"type": "array", "items": object_schema(table)}, table, "[].")


ROUTING_KEYS: Final[Table] = (
    Key("rule", choice(RULES), "shortest", "how flows find their ways"),
    Key("seed", whole(0, 2**63 - 1, as_plain_integer), 1, "of the hash"),
    Key("metric", choice(METRICS), "hops", "what is least on a shortest way"),
    Key("cost", _COSTS, (), "metric cost: costs of links by name", shown="1 each"),
    Key("polarised", switch, False, "the hash leaves the vertex out"),
    Key("nvswitch-first", switch, False, "of equally near next links, those to NVSwitches only"),
    Key("pxn", switch, False, "to another rail by NVLink first"),
    Key("ways", whole(1), 64, "adaptive: so many shortest ways of a flow at most"),
    Key("detours", whole(0), 0, "adaptive: ways through switches off the shortest, for each flow"),
    Key("threshold", _AT_LEAST_ZERO, 0.0, "adaptive: what a detour must be better by, hops x ns per byte"),
    Key("paths", _each(_PATH, GivenPath), (), "given: whole ways", shown="none"),
    Key("next", _each(_NEXT, NextLinks), (), "given: next links of pairs without ways", "next_links", "none"),
)
"""The keys of ``routing``."""


def _made(section: Section, values: Values) -> Routing:
    try:
        return Routing(**values)
    except InputError as error:
        section.fail(None, error.message, found=... if error.found is None else error.found, remedy=error.remedy or "")


def _routing(section: Section, key: str) -> Routing:
    if isinstance(section.entries[key], str):
        return Routing(rule=choice(RULES).read(section, key))
    below = section.strictly_below(key, names(ROUTING_KEYS))
    return _made(below, read(below, ROUTING_KEYS))


routing_kind: Final = Kind(
    _routing, "rule or mapping", {"anyOf": [{"enum": list(RULES)}, object_schema(ROUTING_KEYS)]}, ROUTING_KEYS
)
"""A rule by its name, or a mapping of ROUTING_KEYS."""


def parse_routing(source: str | Mapping[str, object] | Routing) -> Routing:
    """A rule's name, or a mapping of ROUTING_KEYS. Raises :class:`chakrasim.InputError` for anything else."""
    if isinstance(source, Routing):
        return source
    if isinstance(source, str):
        source = {"rule": source}
    section = open_section(source, "routing", "yaml", None)
    section.refuse_unknown(names(ROUTING_KEYS))
    return _made(section, read(section, ROUTING_KEYS))
