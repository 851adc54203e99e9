"""A mapping with the place it stands at: every value read from it is checked, every error located."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from chakrasim.config.decode import as_sequence, decode_json, decode_yaml, describe, plain, printable, read_bytes, step
from chakrasim.errors import InputError, near
from chakrasim.notes import Notes

INT32_MAX = 2**31 - 1
TIME_MAX = 2**62
"""No single time in a configuration may reach this (ns): the clock is a signed 64-bit integer."""

Source = str | Path | Mapping[object, object]


@dataclass(frozen=True)
class Section:
    """The entries of one mapping of a configuration.

    ``file`` is the file's name or that of the Python argument, ``path`` the JSON path of the mapping, ``folder`` where
    the file lies (None for mappings from Python).
    """

    entries: Mapping[str, object]
    file: str
    notes: Notes
    path: str = "$"
    folder: Path | None = None

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def at(self, key: object) -> str:
        """The JSON path of a key, of a tuple of keys and indices below each other, or (None) of the mapping itself."""
        keys = () if key is None else key if isinstance(key, tuple) else (key,)
        return self.path + "".join(step(part) for part in keys)

    def fail(self, key: object, message: str, *, found: object = ..., expected: str = "", remedy: str = "") -> NoReturn:
        """Raise an :class:`InputError` about one key; ``found`` is the offending value."""
        raise InputError(
            message,
            file=self.file,
            place=self.at(key),
            found=None if found is ... else describe(found),
            expected=expected or None,
            remedy=remedy or None,
        )

    def warn(self, key: object, message: str) -> None:
        self.notes.warn(f"{self.file}: {self.at(key)}: {message}")

    def number(self, key: str, default: float, *, unit: str = "") -> float:
        """A finite number >= 0; a JSON boolean counts as 0 or 1, as in the reference, with a warning."""
        if key not in self.entries:
            return default
        value = plain(self.entries[key])
        if isinstance(value, bool):
            self.warn(key, f"{describe(value)} counts as {int(value)}")
            return float(value)
        if not isinstance(value, int | float):
            self.fail(key, "not a number", found=value, expected=f"a number{' in ' + unit if unit else ''}")
        try:
            converted = float(value)
        except (OverflowError, ValueError):
            converted = math.inf
        if not math.isfinite(converted) or converted < 0:
            self.fail(key, "out of range", found=value, expected=f"a number >= 0{' in ' + unit if unit else ''}")
        return converted

    def integer(self, key: str, default: int, low: int, high: int, *, unit: str = "") -> int:
        """An integer from ``low`` to ``high``; fractions are cut off with a warning, as in the reference."""
        if key not in self.entries:
            return default
        value = plain(self.entries[key])
        expected = f"an integer from {low} to {high}{' ' + unit if unit else ''}"
        if isinstance(value, bool):
            self.warn(key, f"{describe(value)} counts as {int(value)}")
        elif not isinstance(value, int | float):
            self.fail(key, "not a number", found=value, expected=expected)
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(key, "out of range", found=value, expected=expected)
        whole = math.trunc(value)
        if whole != value:
            self.warn(key, f"{describe(value)} is cut off to {whole}")
        if not low <= whole <= high:
            self.fail(key, "out of range", found=value, expected=expected)
        return whole

    def float32(self, key: str, *, unit: str) -> float:
        """A number rounded to 32-bit floating point, the type in which the reference keeps the LogGP parameters."""
        value = self.number(key, 0.0, unit=unit)
        try:
            rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            self.fail(key, "out of range", found=self.entries[key], expected="a 32-bit floating-point number")
        return rounded

    def text(self, key: str, default: str) -> str:
        value = self.entries.get(key, default)
        if not isinstance(value, str):
            self.fail(key, "not a string", found=value, expected="a string")
        return str(value)

    def choice(self, key: str, default: str, choices: Collection[str]) -> str:
        """A string out of a closed list."""
        value = self.text(key, default)
        if value not in choices:
            self.fail(
                key, "unknown value", found=value, expected="one of " + ", ".join(choices), remedy=near(value, choices)
            )
        return value

    def sequence(self, key: str, expected: str) -> list[object]:
        value = self.entries[key]
        listed = as_sequence(value)
        if listed is None:
            self.fail(key, "not a list", found=value, expected=expected)
        return list(listed)

    def below(self, key: str, known: Collection[str]) -> Section:
        """The mapping below ``key``, empty if it is not there; ``known`` are the keys it may have."""
        value = self.entries.get(key, {})
        if not isinstance(value, Mapping):
            self.fail(key, "not a mapping", found=value, expected="a mapping of " + ", ".join(known))
        entries = string_keys(value, self.file, self.at(key))
        return Section(entries, self.file, self.notes, self.at(key), self.folder)

    def strictly_below(self, key: str, known: Collection[str]) -> Section:
        """The same; a key that is not ``known`` is an error."""
        section = self.below(key, known)
        section.refuse_unknown(known)
        return section

    def need(self, keys: Iterable[str]) -> None:
        """Raise an :class:`InputError` for the first of ``keys`` that is missing."""
        for key in keys:
            if key not in self:
                self.fail(key, "the key is missing")

    def refuse_unknown(self, known: Collection[str], hint: str = "") -> None:
        """Raise an :class:`InputError` for a key that is not ``known``; ``hint`` is for one that is like none."""
        for key in self.entries:
            if key not in known:
                self.fail(key, "unknown key", expected="one of " + ", ".join(known), remedy=near(key, known) or hint)


def warn_unknown(section: Section, known: Collection[str]) -> None:
    """A warning for every key that is not ``known``; past the first 20 they are only counted."""
    unknown = [key for key in section.entries if key not in known]
    for key in unknown[:20]:
        section.warn(key, f"the key has no effect; {near(key, known)}".removesuffix("; "))
    if len(unknown) > 20:
        section.warn(None, f"{len(unknown) - 20} more keys have no effect")


def open_section(source: object, kind: str, decode: str, notes: Notes) -> Section:
    """A path or mapping as a located section.

    ``kind`` names the input in messages, ``decode`` is "json" or "yaml". Raises :class:`InputError` for anything
    that is not a mapping with string keys.
    """
    folder: Path | None = None
    name = kind
    if isinstance(source, str | Path):
        data = read_bytes(source, kind)
        name = printable(source)
        folder = Path(source).parent
        source = decode_json(data, name, notes) if decode == "json" else decode_yaml(data, name)
    if not isinstance(source, Mapping):
        expected = f"a {kind}: a mapping of keys to values" if folder is not None else "a path or a mapping"
        raise InputError(f"not a {kind}", file=name, place="$", found=describe(source), expected=expected)
    return Section(string_keys(source, name, "$"), name, notes, folder=folder)


def string_keys(entries: Mapping[object, object], file: str, path: str) -> dict[str, object]:
    """The same mapping, its keys checked to be strings."""
    for key in entries:
        if not isinstance(key, str):
            raise InputError(
                "a key is not a string", file=file, place=path, found=describe(key), expected="string keys"
            )
    return {str(key): value for key, value in entries.items()}


def resolve(path: str, folder: Path | None, exists: Callable[[str], bool]) -> str:
    """A path named inside a configuration file.

    As it stands (from the current directory, like the reference) if something is there, else beside the configuration
    file if something is there, else as it stands.
    """
    if folder is None or exists(path):
        return path
    beside = str(folder / path)
    return beside if exists(beside) else path
