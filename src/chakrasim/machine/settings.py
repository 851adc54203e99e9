"""Single figures of a machine changed before it is read: places and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from chakrasim.config.decode import decode_yaml
from chakrasim.config.section import Section
from chakrasim.config.values import as_sequence
from chakrasim.errors import InputError, near

_STEPS: Final = re.compile(r"[^.\[\]]+")


def parse_settings(pairs: Sequence[str]) -> dict[str, object]:
    """From texts such as "network[0].bandwidth=100 GB/s". Raises InputError."""
    found: dict[str, object] = {}
    for pair in pairs:
        place, equals, value = pair.partition("=")
        if not equals or not _STEPS.findall(place):
            raise InputError("not PATH=VALUE", file="--set", found=repr(pair), expected="network[0].latency=1 us, say")
        found[place.strip()] = value.strip()
    return found


def changed(section: Section, settings: Mapping[str, object]) -> Section:
    """A machine file with values in other places; the entries that it came from stay as they are.

    A step is a key, the number of an item in a list, or the name of the only key that an item has (a part of a graph).
    Text is read as YAML. Raises :class:`chakrasim.InputError` for a place that is not there; the last step may be new.
    """
    entries: Any = section.entries
    for place, value in settings.items():
        if isinstance(value, str):
            value = decode_yaml(value.encode("utf-8", "surrogatepass"), f"--set {place}")
        entries = _with(section, entries, _STEPS.findall(place), value, place)
    return replace(section, entries=entries)


def _with(section: Section, entries: Any, steps: list[str], value: object, place: str) -> Any:
    """A copy of a tree with one value in it changed."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(entries, Mapping):
        if rest and step not in entries:
            _no_such(section, place, step, list(map(str, entries)))
        return {**entries, step: _with(section, entries.get(step), rest, value, place)}
    listed = as_sequence(entries) or ()
    index = int(step) if step.isdecimal() and len(step) < 10 else -1
    named = [at for at, item in enumerate(listed) if isinstance(item, Mapping) and list(item) == [step]]
    if index < 0 and named:
        index, rest = named[0], steps
    if not 0 <= index < len(listed):
        own = [str(next(iter(item))) for item in listed if isinstance(item, Mapping) and len(item) == 1]
        _no_such(section, place, step, own or [str(at) for at in range(len(listed))])
    return [_with(section, item, rest, value, place) if at == index else item for at, item in enumerate(listed)]


def _no_such(section: Section, place: str, step: str, known: list[str]) -> NoReturn:
    expected = "one of " + ", ".join(known) if known else "a place that ends here"
    remedy = near(step, known) or None
    raise InputError(
        f"{section.file} has no such place", file="--set", place=place, found=step, expected=expected, remedy=remedy
    )
