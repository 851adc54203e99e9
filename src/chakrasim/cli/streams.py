"""Standard streams that the caller has closed: Python has None in their place, and the next file gets their number."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import NoReturn, TextIO

from chakrasim.errors import shown


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that is closed: the first text that is written fails, as on a full disk."""

    def write(self, text: str) -> NoReturn:
        """Raises OSError."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard output")


def take_streams() -> None:
    """Put something in the place of closed streams. What would go to a closed standard error is lost, as was asked for;
    without this, ``print`` would send it to standard output."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _take_numbers()
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)


def _take_numbers() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def tell(text: str) -> None:
    """Print a line on standard error, as a terminal can show it. That nobody can read it must not end a run."""
    try:
        print(shown(text), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Let the interpreter's own flush at exit go nowhere instead of failing once more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
