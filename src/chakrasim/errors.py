"""The exceptions that chakrasim raises on purpose.

Each says which file, where in it, what was found, what was expected and what to do, in one message.
"""

from __future__ import annotations

from collections.abc import Iterable


class ChakrasimError(Exception):
    """Base of all errors that chakrasim raises on purpose.

    Parameters
    ----------
    message:
        What went wrong, in one sentence.
    file:
        The file (or the name of the Python argument) at fault.
    place:
        Where in it: a byte offset, a line, a JSON path such as ``$.npus_count[1]``, or a node.
    found, expected:
        What stood there, and what could have.
    remedy:
        What the user can do about it.
    """

    exit_code = 1
    warnings: tuple[str, ...] = ()
    """What had been warned of before the error."""

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        place: object = None,
        found: object = None,
        expected: object = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.place = None if place is None else str(place)
        self.found = None if found is None else str(found)
        self.expected = None if expected is None else str(expected)
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.place) if part)
        text = f"{where}: {self.message}" if where else self.message
        if self.found is not None:
            text += f"; found {self.found}"
        if self.expected is not None:
            text += f"; expected {self.expected}"
        if self.remedy:
            text += f"; {self.remedy}"
        return text


class InputError(ChakrasimError):
    """An input that cannot be used: missing, damaged, of the wrong kind or inconsistent (exit code 2)."""

    exit_code = 2


class StallError(ChakrasimError):
    """A run that cannot end: some rank waits for something that never comes (exit code 3).

    ``waits`` holds one line per blocked operation, ``cycle`` the ranks of a wait-for cycle if there is one.
    """

    exit_code = 3

    def __init__(self, message: str, *, waits: tuple[str, ...] = (), cycle: tuple[int, ...] = ()) -> None:
        self.waits = waits
        self.cycle = cycle
        super().__init__(message)


class NotKept(UserWarning):
    """Compiled code is not loaded from where it was kept: it is damaged, or others could have put their own there."""


def shown(text: str) -> str:
    """The text as a terminal can show it: what does not print, and what turns the direction of writing, is escaped.

    Names come out of files of others, and an escape sequence among them is a command to the terminal.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def near(word: str, choices: Iterable[str]) -> str:
    """A remedy that names the choice most like ``word``, or nothing."""
    import difflib  # only failing or warning runs need it

    match = difflib.get_close_matches(word[:80], list(choices), 1, 0.6)
    return f"did you mean {match[0]}?" if match else ""
