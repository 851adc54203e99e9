"""Kinds of values in our own files: what is not meant is refused, nothing is cut off or guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from chakrasim.config.section import INT32_MAX, Section, resolve
from chakrasim.config.table import Kind
from chakrasim.config.values import Scalar, parse_decimal
from chakrasim.errors import near

_PLAIN_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,17}")
_DECIMAL: Final = {"type": "string", "pattern": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"}
_SCALAR: Final = {"type": ["string", "number", "boolean", "null"]}
"""Any word of a YAML file is text."""


def _text(section: Section, key: str) -> str:
    value = section.entries[key]
    if not isinstance(value, str):
        section.refuse(key, "not a string", "a string")
    return str(value)


def _stripped(section: Section, key: str) -> str:
    return _text(section, key).strip()


word: Final = Kind(_text, "text", {"type": "string"})
"""Text of a JSON file."""

text: Final = Kind(_text, "text", _SCALAR)
paragraph: Final = Kind(_stripped, "text", _SCALAR)


def path(exists: Callable[[str], bool]) -> Kind:
    """The path of a file, from the current directory or beside the file that names it; ``exists`` says which it is."""
    return Kind(lambda section, key: resolve(_text(section, key), section.folder, exists), "path", _SCALAR)


def choice(choices: Collection[str], alias: Callable[[str], str] | None = None) -> Kind:
    """A word out of a closed list; ``alias`` gives another way to write a word its own name."""

    def reader(section: Section, key: str) -> str:
        value = section.entries[key]
        if isinstance(value, str):
            word = alias(value) if alias is not None else str(value)
            if word in choices:
                return word
        value = _text(section, key)
        section.refuse(key, "unknown value", "one of " + ", ".join(choices), near(value, choices))

    listed: dict[str, Any] = {"enum": list(choices)}
    schema = listed if alias is None else {"anyOf": [listed, _SCALAR]}
    return Kind(reader, ", ".join(f"`{name}`" for name in choices), schema)


def as_switch(value: object) -> bool | None:
    """True or False as Python or a YAML file writes them, or None."""
    if isinstance(value, Scalar) and not value.quoted and value in ("true", "false"):
        return value == "true"
    return value if isinstance(value, bool) else None


def _switch(section: Section, key: str) -> bool:
    value = as_switch(section.entries[key])
    if value is None:
        section.refuse(key, "not a switch", "true or false")
    return value


switch: Final = Kind(_switch, "switch", {"type": "boolean"})


def as_plain_integer(value: object) -> object:
    """Digits as the integer that they are; anything else as it is."""
    return int(value) if isinstance(value, str) and _PLAIN_INTEGER.fullmatch(value) else value


def whole(low: int, high: int = INT32_MAX, written: Callable[[object], object] = as_plain_integer) -> Kind:
    """An integer from ``low`` to ``high``; ``written`` turns text that is one into it."""

    def reader(section: Section, key: str) -> int:
        number = written(section.entries[key])
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            section.fail(key, "not a valid number", found=number, expected=f"an integer from {low} to {high}")
        return number

    digits = {"type": "string", "pattern": "^[0-9][0-9,_]*$"}
    schema = {"anyOf": [{"type": "integer", "minimum": low, "maximum": high}, digits]}
    return Kind(reader, f"integer >= {low}", schema)


def number(low: float, high: float, expected: str, shown: str) -> Kind:
    """A bare number from ``low`` to ``high``."""

    def reader(section: Section, key: str) -> float:
        value = section.entries[key]
        found = parse_decimal(value) if isinstance(value, str) else value
        if isinstance(found, bool) or not isinstance(found, int | float) or not low <= found <= high:
            section.refuse(key, "out of range", expected)
        return float(found)

    return Kind(reader, shown, {"anyOf": [{"type": "number", "minimum": low, "maximum": high}, _DECIMAL]})


def _version(section: Section, key: str) -> int:
    if str(section.entries[key]) != "1":
        section.refuse(key, "unknown format", "1")
    return 1


version: Final = Kind(_version, "1", {"enum": [1, "1"]})
