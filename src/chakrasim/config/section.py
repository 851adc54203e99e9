"""A mapping with the place it stands at: every error in it located."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from chakrasim.config.decode import decode_json, decode_yaml, printable, read_bytes
from chakrasim.config.values import as_sequence, describe, step
from chakrasim.errors import InputError, near
from chakrasim.notes import Notes

INT32_MAX = 2**31 - 1
TIME_MAX = 2**62
"""No single time in a configuration may reach this (ns): the clock is a signed 64-bit integer."""

Source = str | Path | Mapping[object, object]


class YamlFile(str):
    """The name of a YAML file, with what it holds: errors look there for the line of a value."""

    data: bytes

    def __new__(cls, name: str, data: bytes) -> YamlFile:
        file = super().__new__(cls, name)
        file.data = data
        return file

    def line_of(self, path: str) -> int | None:
        """The line of the value at a JSON path; where there is none, of the mapping in which it is missing."""
        lines: dict[str, int] = {}
        decode_yaml(self.data, self, lines)
        while path not in lines and path:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return lines.get(path)


@dataclass(frozen=True)
class Section:
    """The entries of one mapping of a configuration.

    ``file`` is the file's name or that of the Python argument, ``path`` the JSON path of the mapping, ``folder`` where
    the file lies (None for mappings from Python).
    """

    entries: Mapping[Any, object]
    file: str
    notes: Notes
    path: str = "$"
    folder: Path | None = None

    def __contains__(self, key: object) -> bool:
        return key in self.entries

    def at(self, key: object) -> str:
        """The JSON path of a key, of a tuple of keys and indices below each other, or (None) of the mapping itself."""
        keys = () if key is None else key if isinstance(key, tuple) else (key,)
        return self.path + "".join(step(part) for part in keys)

    def fail(self, key: object, message: str, *, found: object = ..., expected: str = "", remedy: str = "") -> NoReturn:
        """Raise an :class:`InputError` about one key; ``found`` is the offending value."""
        place = self.at(key)
        line = self.file.line_of(place) if isinstance(self.file, YamlFile) else None
        raise InputError(
            message,
            file=self.file,
            place=place if line is None else f"line {line}: {place}",
            found=None if found is ... else describe(found),
            expected=expected or None,
            remedy=remedy or None,
        ) from None

    def refuse(self, key: object, message: str, expected: str, remedy: str = "") -> NoReturn:
        """Raise an :class:`InputError` about the value that a key has."""
        self.fail(key, message, found=self.entries[key], expected=expected, remedy=remedy)

    def warn(self, key: object, message: str) -> None:
        self.notes.warn(f"{self.file}: {self.at(key)}: {message}")

    def sequence(self, key: object, expected: str) -> list[object]:
        """The value of a key that is a list. Raises :class:`InputError` for another."""
        listed = as_sequence(self.entries[key])
        if listed is None:
            self.refuse(key, "not a list", expected)
        return list(listed)

    def listing(self, key: object, expected: str) -> Section:
        """The items of a list by their indices."""
        return replace(self, entries=dict(enumerate(self.sequence(key, expected))), path=self.at(key))

    def below(self, key: object, known: Collection[str]) -> Section:
        """The mapping below ``key``, empty if it is not there; ``known`` are the keys it may have."""
        value = self.entries.get(key, {})
        if not isinstance(value, Mapping):
            self.fail(key, "not a mapping", found=value, expected="a mapping of " + ", ".join(known))
        return Section(string_keys(value, self.file, self.at(key)), self.file, self.notes, self.at(key), self.folder)

    def strictly_below(self, key: object, known: Collection[str]) -> Section:
        """The same; a key that is not ``known`` is an error."""
        section = self.below(key, known)
        section.refuse_unknown(known)
        return section

    def refuse_unknown(self, known: Collection[str], hint: str = "") -> None:
        """Raise an :class:`InputError` for a key that is not ``known``; ``hint`` is for one that is like none."""
        for key in self.entries:
            if key not in known:
                self.fail(key, "unknown key", expected="one of " + ", ".join(known), remedy=near(key, known) or hint)

    def warn_unknown(self, known: Collection[str]) -> None:
        """A warning for every key that is not ``known``; past the first 20 they are only counted."""
        unknown = [key for key in self.entries if key not in known]
        for key in unknown[:20]:
            self.warn(key, f"the key has no effect; {near(key, known)}".removesuffix("; "))
        if len(unknown) > 20:
            self.warn(None, f"{len(unknown) - 20} more keys have no effect")


def open_section(source: object, kind: str, decode: str, notes: Notes | None) -> Section:
    """A path or mapping as a located section.

    ``kind`` names the input in messages, ``decode`` is "json" or "yaml"; ``notes`` None: nobody asks for them.
    Raises :class:`InputError` for anything that is not a mapping with string keys.
    """
    folder: Path | None = None
    name = kind
    notes = Notes() if notes is None else notes
    if isinstance(source, str | Path):
        data = read_bytes(source, kind)
        name = printable(source)
        folder = Path(source).parent
        source = decode_json(data, name, notes) if decode == "json" else decode_yaml(data, name)
        name = name if decode == "json" else YamlFile(name, data)
    if not isinstance(source, Mapping):
        expected = f"a {kind}: a mapping of keys to values" if folder is not None else "a path or a mapping"
        raise InputError(f"not a {kind}", file=name, place="$", found=describe(source), expected=expected)
    return Section(string_keys(source, name, "$"), name, notes, folder=folder)


def open_named(
    source: object, kind: str, known: Collection[str], text: Callable[[str], str], *, label: str, neither: str,
    notes: Notes | None,
) -> Section:  # fmt: skip
    """The same for YAML, or a file that the package ships, by one of the ``known`` names: ``text`` gives what it holds,
    ``label`` stands before its name in messages. A word that is ``neither`` was most likely meant as a name."""
    if isinstance(source, str) and source in known:
        name = f"{label} {source}"
        content = decode_yaml(text(source).encode(), name)
        assert isinstance(content, Mapping), name
        return Section(string_keys(content, name, "$"), name, Notes() if notes is None else notes)
    if isinstance(source, str) and not re.search(r"[/\\.\x00]", source) and not os.path.exists(source):
        raise no_such(neither, source, known, "a path, or one of ")
    return open_section(source, kind, "yaml", notes)


def no_such(message: str, found: object, known: Collection[str], expected: str = "one of ") -> InputError:
    """The refusal of a name that is none of the ``known`` ones."""
    remedy = near(str(found), known) or None
    return InputError(message, found=describe(found), expected=expected + ", ".join(known), remedy=remedy)


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
