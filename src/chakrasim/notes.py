"""What reading and computing say on their way: warnings and notes, one type for all rooms."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from chakrasim.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


class Notes:
    """Collects sentences, each once, in their order.

    A warning says that something was dropped, repaired, guessed or has no effect, with counts: results may differ from
    what was meant, and a strict run refuses. A note is worth knowing and changes nothing.
    """

    def __init__(self, *warnings: str) -> None:
        self._is_warning = dict.fromkeys(warnings, True)

    def warn(self, *texts: str) -> None:
        """Add warnings; what was a note becomes one."""
        self._is_warning |= dict.fromkeys(texts, True)

    def note(self, *texts: str) -> None:
        """Add notes."""
        for text in texts:
            self._is_warning.setdefault(text, False)

    def add(self, more: Notes) -> None:
        """Add what another collector holds."""
        self.warn(*more.warnings)
        self.note(*more.notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings alone."""
        return tuple(text for text, is_warning in self._is_warning.items() if is_warning)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes alone."""
        return tuple(text for text, is_warning in self._is_warning.items() if not is_warning)

    def refuse(self, strict: bool = True) -> None:
        """Raise InputError for the warnings, if ``strict`` and if there are any."""
        found = self.warnings
        if strict and found:
            plural = "s" if len(found) > 1 else ""
            raise InputError(f"{len(found)} warning{plural} in strict mode: {'; '.join(found)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._is_warning)

    def __len__(self) -> int:
        return len(self._is_warning)

    def __repr__(self) -> str:
        return f"Notes(warnings={list(self.warnings)}, notes={list(self.notes)})"


def lists_too(function: Callable[P, R]) -> Callable[P, R]:
    """For one more release, let a function that takes ``notes`` take a list for the warnings, as ``warnings`` too."""

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        if "warnings" in named:
            named["notes"] = named.pop("warnings")
        stands_second = len(given) > 1 and isinstance(given[1], list)
        old: Any = given[1] if stands_second else named.get("notes")
        if not isinstance(old, list):
            return function(*given, **named)
        text = f"{function.__name__} takes chakrasim.Notes() as notes; a list of warnings goes with the next release"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        notes = Notes()
        if stands_second:
            given = (given[0], notes, *given[2:])  # type: ignore[assignment]
        else:
            named["notes"] = notes
        try:
            return function(*given, **named)
        finally:
            old += notes.warnings

    return call
