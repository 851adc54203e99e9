"""The file that is read: its name, its notes, and refusals that say where in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from os.path import basename
from typing import NoReturn

from chakrasim.errors import InputError
from chakrasim.machine.graph.formats.quantities import BadQuantity, rate, time
from chakrasim.notes import Notes

_SHOWN = 60


@dataclass(frozen=True)
class Source:
    """A file of a network."""

    file: str
    notes: Notes

    @property
    def name(self) -> str:
        """Of the graph."""
        return basename(self.file)

    def refuse(
        self, message: str, line: object = None, *, found: object = None, expected: str = "", remedy: str = ""
    ) -> NoReturn:
        """Raise InputError; ``line`` is a line's number or another place."""
        raise InputError(
            message,
            file=self.file,
            place=f"line {line}" if isinstance(line, int) else line,
            found=None if found is None else quoted(found),
            expected=expected or None,
            remedy=remedy or None,
        )

    def warn(self, message: str) -> None:
        self.notes.warn(f"{self.file}: {message}")

    def note(self, message: str) -> None:
        self.notes.note(f"{self.file}: {message}")

    def shape(self, sizes: Sequence[int], ranks: int, place: object = None) -> tuple[int, ...]:
        """A logical shape. Raises InputError unless it holds the ranks."""
        if prod(sizes) != ranks:
            expected = f"a product of {ranks}"
            self.refuse("the logical shape does not hold the ranks", place, found=list(sizes), expected=expected)
        return tuple(sizes)

    def rate(self, text: str, line: object, what: str = "", bare: str = "") -> float:
        """Bytes per ns. Raises InputError."""
        try:
            return rate(text, bare)
        except BadQuantity as fault:
            self._quantity(fault, text, line, what)

    def time(self, text: str, line: object, what: str = "", bare: str = "") -> float:
        """Ns. Raises InputError."""
        try:
            return time(text, bare)
        except BadQuantity as fault:
            self._quantity(fault, text, line, what)

    def _quantity(self, fault: BadQuantity, text: str, line: object, what: str) -> NoReturn:
        message = f"{what}: {fault.message}" if what else fault.message
        self.refuse(message, line, found=text, expected=fault.expected, remedy=fault.remedy)


def quoted(value: object) -> str:
    """What was found, short and printable; numbers as they are."""
    if not isinstance(value, str):
        return str(value)
    text = repr(value[:_SHOWN])
    return text if len(value) <= _SHOWN else f"{text}..."
