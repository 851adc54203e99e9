"""A configuration as a table of its keys, and the one reader of such tables.

The same tables write the reference pages and the JSON schemas for editors (`docs/write_keys.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chakrasim.config.section import Section

Values = dict[str, Any]
"""What a table gives: values by the names of their fields."""


@dataclass(frozen=True)
class Required:
    """In place of a default: the key must be there; what is expected and advised where it is not."""

    expected: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Assumed:
    """In place of a default: this value, with a warning where the key is missing."""

    value: str


@dataclass(frozen=True)
class Derived:
    """In place of a default: a value that follows from the keys above, and what the page says of it."""

    value: Callable[[Values], Any]
    shown: str


class Empty:
    """In place of a default: what an empty mapping gives."""


REQUIRED = Required()
EMPTY = Empty()


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes
    ----------
    read: from a section and a key that is in it to the checked value. Raises InputError.
    shown: what the reference page calls it.
    schema: what an editor may check; it refuses nothing that ``read`` takes.
    keys, joint: of a mapping that has a table of its own, and what stands between its key and theirs.
    """

    read: Callable[[Section, str], Any]
    shown: str
    schema: Mapping[str, Any]
    keys: tuple[Key, ...] = ()
    joint: str = "."


@dataclass(frozen=True)
class Key:
    """One key of a configuration.

    Attributes
    ----------
    name: as the file spells it.
    kind: what its value is.
    default: the value of a missing key, or what is to be done then.
    meaning: one line for the reference page and for editors; without one the page leaves the key out.
    field: what the value is called in Python, where that is not the name with underscores.
    shown: what the page says of the default, where that is not its value.
    """

    name: str
    kind: Kind
    default: Any
    meaning: str = ""
    field: str = ""
    shown: str = ""

    @property
    def python_name(self) -> str:
        return self.field or self.name.replace("-", "_")


Table = tuple[Key, ...]


def read(section: Section, table: Table) -> Values:
    """The values of a section by the names of their fields. Keys that the table lacks are the caller's to refuse or to
    warn of. Raises :class:`chakrasim.InputError` for a required key that is missing, then for a value that is none."""
    for key in table:
        if isinstance(key.default, Required) and key.name not in section:
            section.fail(key.name, "the key is missing", expected=key.default.expected, remedy=key.default.remedy)
    values: Values = {}
    for key in table:
        values[key.python_name] = (
            key.kind.read(section, key.name) if key.name in section else _missing(section, key, values)
        )
    return values


def _missing(section: Section, key: Key, values: Values) -> Any:
    if isinstance(key.default, Derived):
        return key.default.value(values)
    if isinstance(key.default, Assumed):
        section.warn(key.name, f"the key is missing, {key.default.value} is assumed")
        return key.default.value
    if isinstance(key.default, Empty):
        return key.kind.read(section, key.name)
    return key.default


def names(table: Table) -> tuple[str, ...]:
    """The keys as files spell them."""
    return tuple(key.name for key in table)


def object_schema(table: Table, *, strict: bool = True) -> dict[str, Any]:
    """The JSON schema of a mapping with these keys; ``strict``: and no others."""
    required = [key.name for key in table if isinstance(key.default, Required)]
    return {
        "type": "object",
        "properties": {key.name: _described(key) for key in table},
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if strict else {}),
    }


def _described(key: Key) -> dict[str, Any]:
    plain = isinstance(key.default, str | int | float) and key.default != ""
    return {
        **({"description": key.meaning} if key.meaning else {}),
        **({"default": key.default} if plain else {}),
        **key.kind.schema,
    }


def mapping(table: Table, made: Callable[[Section, Values], Any] | None = None) -> Kind:
    """A mapping with these keys and no others; ``made`` checks what its values are together, and makes of them what is
    kept (else the values)."""
    known = names(table)

    def reader(section: Section, key: str) -> Any:
        below = section.strictly_below(key, known)
        values = read(below, table)
        return values if made is None else made(below, values)

    return Kind(reader, "mapping", object_schema(table), table)


def each(known: Collection[str], kind: Kind, needed: Collection[str] = (), expected: str = "") -> Kind:
    """A mapping of some of the ``known`` names, each to a value of the same kind; ``needed`` must be among them."""

    def reader(section: Section, key: str) -> Values:
        below = section.strictly_below(key, known)
        for name in needed:
            if name not in below:
                below.fail(name, "the key is missing", expected=expected)
        return {name: kind.read(below, name) for name in below.entries}

    schema = {
        "type": "object",
        "propertyNames": {"enum": list(known)},
        **({"required": list(needed)} if needed else {}),
        "additionalProperties": kind.schema,
    }
    return Kind(reader, "mapping", schema, kind.keys, ".*.")


def list_of(table: Table, expected: str, what: str) -> Kind:
    """A list of mappings with these keys, at least one; ``expected`` is said of what is no list, ``what`` of an empty
    one. Gives the values of each."""
    known = names(table)

    def reader(section: Section, key: str) -> list[Values]:
        items = section.listing(key, expected)
        if not items.entries:
            section.fail(key, f"no {what}", expected="at least one")
        return [read(items.strictly_below(index, known), table) for index in items.entries]

    schema = {"type": "array", "minItems": 1, "items": object_schema(table)}
    return Kind(reader, "list", schema, table, "[].")
