"""Output files that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from chakrasim.errors import InputError
from chakrasim.trace.temporary import file_beside


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` as `open_whole` does. Raises InputError if that fails."""
    with open_whole(path) as file:
        file.write(data)


@contextmanager
def open_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file that takes the name ``path`` only when the block ends without an exception, replacing what was there.

    It is written under another name in the same folder. A link keeps pointing to its target; a device or pipe is
    written to directly. Raises InputError for whatever the operating system refuses.
    """
    target = os.fspath(path)
    try:
        target = os.path.realpath(target)
        with _direct(target) if _is_special(target) else _renamed(target) as file:
            yield file
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as fault:
        raise _refusal(path, fault) from None


def _is_special(target: str) -> bool:
    """Whether the name stands for something that must not be replaced by a file."""
    try:
        return not stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        return False


@contextmanager
def _direct(target: str) -> Iterator[BinaryIO]:
    with open(target, "wb") as file:
        yield file


@contextmanager
def _renamed(target: str) -> Iterator[BinaryIO]:
    handle, temporary = file_beside(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise


def _refusal(path: str | os.PathLike[str], fault: Exception) -> InputError:
    text = getattr(fault, "strerror", None) or str(fault)
    number = getattr(fault, "errno", None)
    remedy = {errno.ENOENT: "create the folder first", errno.EISDIR: "name a file in it"}.get(number or 0)
    return InputError(f"the file cannot be written: {text}", file=os.fspath(path), remedy=remedy)
