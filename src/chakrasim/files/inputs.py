"""Opening what others wrote: regular files only, without waiting, and a bound on the memory that reading one takes."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from io import FileIO
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.unfinished import refuse_unfinished
from chakrasim.text.amounts import amount_of

VARIABLE: Final = "CHAKRASIM_MAX_READ_BYTES"
"""The environment variable that states another bound for every file."""

LEAST_BYTES: Final = 1 << 30
BYTES_PER_BYTE: Final = 256
"""No trace needs more memory for a byte on disk: gzip makes some thirty of one, columns three times as many."""

_BLOCK: Final = 512
_STEP: Final = 1 << 20
_PIPES: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe", "write what comes out of it into a file, and name that"),
    (stat.S_ISCHR, "a device", "name a file"),
    (stat.S_ISBLK, "a device", "name a file"),
    (stat.S_ISSOCK, "a socket", "write what comes out of it into a file, and name that"),
)


@dataclass(frozen=True)
class Bound:
    """How much memory reading a file may take, and how the bound is raised."""

    bytes: int
    remedy: str

    def shared(self, held: int) -> Bound:
        """The bound for what takes ``held`` times its own size."""
        return Bound(self.bytes // held, self.remedy)

    def check(self, needed_bytes: int, file: str, what: str = "what is in the file") -> None:
        """Raise InputError if more is needed."""
        if needed_bytes > self.bytes:
            raise InputError(
                f"{what} takes more memory than reading this file may take",
                file=file,
                found=f"{needed_bytes:,} bytes or more",
                expected=f"at most {self.bytes:,}",
                remedy=self.remedy,
            )


def bound(size_bytes: int, max_bytes: int | None = None) -> Bound:
    """The bound for a file of so many bytes on disk: ``max_bytes``, else what `VARIABLE` says, else 1 GiB and 256 bytes
    for each byte on disk. Raises InputError for a variable that holds no size."""
    if max_bytes is not None:
        return Bound(max_bytes, "raise max_bytes (--max-bytes) if this is meant")
    remedy = f"set the environment variable {VARIABLE}, for instance to 32GiB, if this is meant"
    said = os.environ.get(VARIABLE)
    if said is None:
        return Bound(LEAST_BYTES + BYTES_PER_BYTE * size_bytes, remedy)
    size = amount_of(said)
    if size is None:
        raise InputError("this is no size", file=VARIABLE, found=repr(said[:40]), expected="bytes, such as 32GiB")
    return Bound(int(size), remedy)


def file_bound(file: FileIO, max_bytes: int | None = None) -> Bound:
    """The bound for an open file; the holes of a sparse file do not count as bytes on disk."""
    status = os.fstat(file.fileno())
    held = getattr(status, "st_blocks", status.st_size) * _BLOCK
    return bound(min(status.st_size, held), max_bytes)


def open_input(path: str | os.PathLike[str], expected: str, *, pipe: bool = False) -> FileIO:
    """The regular file ``path``, open for reading, without waiting for anyone; ``expected`` says what it should be.

    ``pipe``: a pipe that the shell made (``/dev/stdin``, or ``/dev/fd/63`` for ``<(command)``) will do as well. Raises
    InputError for pipes, devices and sockets, and for one of several files of which a command that was ended has
    replaced only some; OSError or ValueError if the file cannot be opened.
    """
    name = os.fspath(path)
    refuse_unfinished(name)
    piped = pipe and name.startswith(_PIPES)
    _refuse(os.stat(name).st_mode, name, expected, piped)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    handle = os.open(name, flags)
    try:
        mode = os.fstat(handle).st_mode
        _refuse(mode, name, expected, piped)
        if stat.S_ISFIFO(mode):
            os.set_blocking(handle, True)
        return FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def refuse_special(path: str | os.PathLike[str], expected: str) -> None:
    """Raise InputError if ``path`` is a pipe, a device or a socket; not for what is not there at all."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISDIR(mode):
        _refuse(mode, os.fspath(path), expected, False)


def _refuse(mode: int, name: str, expected: str, piped: bool) -> None:
    if stat.S_ISREG(mode) or (piped and stat.S_ISFIFO(mode)):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "Is a directory", name)
    found, remedy = next(((kind, remedy) for test, kind, remedy in _KINDS if test(mode)), ("something else", None))
    raise InputError("this is no regular file", file=name, found=found, expected=expected, remedy=remedy)


def take(file: FileIO, most_bytes: int) -> bytes:
    """What is in an open file, at most ``most_bytes`` and one more, which shows that there is more."""
    parts = []
    left = most_bytes + 1
    while left > 0 and (part := file.read(min(left, _STEP))):
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
