"""Writing files that appear complete or not at all, alone or together, whenever the process or the machine stops.

Data go to a hidden file beside the final one, ``.NAME.PROCESS.RANDOM.part``, and to disk, before it takes the name.
Files that are read together take their names under a mark (`files/unfinished.py`). What a killed process left behind is
ignored by readers, and removed by the next who writes a file of that name.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import tempfile
import threading
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, BinaryIO, Final

from chakrasim.errors import InputError
from chakrasim.files.unfinished import MARK, Change, changes, packed

_Path = str | os.PathLike[str]

#: File systems take names of 255 bytes, some of 143; a temporary name keeps so many of the final one.
_KEPT_BYTES: Final = 100
_ENDING: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_TEMPORARY: Final = re.compile(r"\.(.*)\.([0-9]+)-([0-9a-f]{8})\.[^.]+\.part", re.DOTALL)

placed: Final[deque[str]] = deque(maxlen=4)
"""The last files and folders that took their names, for who is interrupted and has to say what was written."""
_unnamed: Final[set[str]] = set()
"""Temporary files and folders of this process."""


def sweep() -> None:
    """Remove what this process has not given a name: for the end after an interruption, which can come anywhere."""
    with undisturbed():
        _remove(*_unnamed)
        _unnamed.clear()


# -- one file ----------------------------------------------------------------------------------------------------------


def write_whole(path: _Path, data: bytes) -> None:
    """Write ``data`` to ``path`` as `open_whole` does. Raises InputError if that fails."""
    write_pieces(path, (data,))


def write_pieces(path: _Path, pieces: Iterable[bytes | memoryview]) -> None:
    """As `write_whole`, for data that are made piece by piece."""
    with open_whole(path) as file:
        file.writelines(pieces)


@contextmanager
def open_whole(path: _Path) -> Iterator[BinaryIO]:
    """A file that takes the name ``path`` only when the block ends without an exception, replacing what was there.

    Folders above it are made. A link keeps pointing to its target; a device or pipe is written to directly. Raises
    InputError for whatever the operating system refuses.
    """
    try:
        target = os.path.realpath(path)
        if _is_special(target):
            with open(target, "wb") as file:
                yield file
            return
        with _beside(target) as (file, temporary):
            yield file
            bring_to_disk(file)
            with undisturbed():
                os.replace(temporary, target)
                _unnamed.discard(temporary)
                placed.append(os.fspath(path))
        clean(os.path.dirname(target), (os.path.basename(target),))
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
def _beside(target: str) -> Iterator[tuple[BinaryIO, str]]:
    """A temporary file in the folder of ``target``, with usual permissions, and its name; removed after an exception.
    Whoever renames it takes it off the list of those without a name."""
    folder, name = os.path.split(target)
    os.makedirs(folder or ".", exist_ok=True)
    temporary = None
    try:
        with undisturbed():
            handle, temporary = tempfile.mkstemp(prefix=beginning(name), suffix=".part", dir=folder or ".")
            _unnamed.add(temporary)
        with os.fdopen(handle, "wb") as file:
            os.chmod(temporary, 0o666 & ~_mask())
            yield file, temporary
    except BaseException:
        if temporary is not None:
            _remove(temporary)
            _unnamed.discard(temporary)
        raise


def _remove(*paths: str) -> None:
    """Remove files and folders as far as that is possible."""
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(path)


def bring_to_disk(file: BinaryIO) -> None:
    """Let what was written survive a failure of the machine."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # a file system that does not know of it
            raise


def bring_names_to_disk(folder: _Path) -> None:
    """The same for the names in a folder, on systems where folders are opened for that."""
    with suppress(OSError):
        handle = os.open(os.fspath(folder) or ".", os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- several files -----------------------------------------------------------------------------------------------------


def write_together(files: Iterable[tuple[str, bytes]], replaced: Callable[[str], object] | None = None) -> list[str]:
    """Write several files of one folder, all or none, and return their names in order.

    Files of the folder whose names are to be ``replaced`` and that are not written are removed. Raises InputError if
    writing fails.
    """
    temporary: dict[str, str] = {}
    names: list[str] = []
    folder, begun = "", False
    try:
        for path, data in files:
            names.append(path)
            folder, name = os.path.split(path)
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            with _beside(path) as (file, at):
                temporary[name] = os.path.basename(at)
                file.write(data)
                bring_to_disk(file)
        there = sorted(os.listdir(folder or ".")) if replaced else []
        removals = [name for name in there if replaced and replaced(name) and name not in temporary]
        with undisturbed():
            begun = True
            _unnamed.difference_update(os.path.join(folder, at) for at in temporary.values())
            move_together(folder, temporary, removals)
            placed.extend(names)
    except BaseException as fault:
        if not begun:
            _remove(*(os.path.join(folder, at) for at in temporary.values()))
        if isinstance(fault, OSError | ValueError):
            raise _refusal(names[-1], fault) from None
        raise
    return names


def move_together(folder: str, moves: dict[str, str], removals: Collection[str] = ()) -> None:
    """Give files on disk, named relative to ``folder``, their final names in it, and remove others.

    Signals wait until all is done. Raises InputError if the system refuses; if it does so halfway, the mark stays.
    """
    change, done = Change(moves, tuple(removals)), 0
    with undisturbed():
        before = [one for one in changes(folder) if not one.names() <= change.names() and one.left(folder)]
        try:
            _set_mark(folder, [*before, change])
            for name, at in moves.items():
                os.replace(os.path.join(folder, at), os.path.join(folder, name))
                done += 1
            for name in removals:
                os.unlink(os.path.join(folder, name))
            bring_names_to_disk(folder)
            _set_mark(folder, before)
        except (OSError, ValueError) as fault:
            # What could not be moved is held to be missing for as long as the mark is there.
            waiting = dict.fromkeys(list(moves)[done:], MARK)
            with suppress(OSError):
                _set_mark(folder, [*before, Change({**moves, **waiting}, change.removals)] if done else before)
            _remove(*(os.path.join(folder, at) for at in moves.values()))
            raise _refusal(os.path.join(folder, next(iter(moves))), fault) from None
        clean(folder, {*change.names(), MARK})


def _set_mark(folder: str, marked: list[Change]) -> None:
    path = os.path.join(folder, MARK)
    if not marked:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return
    with _beside(path) as (file, temporary):
        file.write(packed(marked))
        bring_to_disk(file)
        os.replace(temporary, path)
        _unnamed.discard(temporary)
    bring_names_to_disk(folder)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let signals that end a process wait.

    Not by a mask: that is a thread's, and Python runs handlers in the main thread whichever thread the signal met.
    """
    before: dict[int, Any] = {}
    waiting: list[int] = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) not in (None, signal.SIG_IGN):
                    before[number] = signal.getsignal(number)
                    signal.signal(number, lambda number, _: waiting.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in waiting[:1]:
            signal.raise_signal(number)


# -- a folder ----------------------------------------------------------------------------------------------------------


@contextmanager
def folder_beside(target: str) -> Iterator[str]:
    """A temporary folder in the folder of ``target``, with usual permissions; what is in it is removed at the end,
    unless it has been moved. Raises OSError."""
    above, name = os.path.split(target)
    os.makedirs(above or ".", exist_ok=True)
    staging = None
    try:
        with undisturbed():
            staging = tempfile.mkdtemp(prefix=beginning(name), suffix=".part", dir=above or ".")
            _unnamed.add(staging)
        os.chmod(staging, 0o777 & ~_mask())
        yield staging
    finally:
        if staging is not None:
            with undisturbed():
                shutil.rmtree(staging, ignore_errors=True)
                _unnamed.discard(staging)


def put_folder(staging: str, target: str) -> None:
    """Let a folder of files take the place of ``target``, which is not there, or whose files it replaces.

    Raises OSError, or InputError as `move_together` does.
    """
    names = sorted(os.listdir(staging))
    for name in names:
        with open(os.path.join(staging, name), "rb+") as file:
            bring_to_disk(file)
    bring_names_to_disk(staging)
    with undisturbed():
        if not os.path.lexists(target) or not os.listdir(target):
            if os.name != "posix" and os.path.lexists(target):
                os.rmdir(target)
            os.rename(staging, target)
            bring_names_to_disk(os.path.dirname(target))
        else:
            beside = os.path.relpath(staging, target)
            old = [name for name in os.listdir(target) if name not in names and not is_ours(name)]
            move_together(target, {name: os.path.join(beside, name) for name in names}, sorted(old))
        placed.append(target)
    clean(os.path.dirname(target), (os.path.basename(target),))


# -- temporary names ---------------------------------------------------------------------------------------------------


def beginning(name: str) -> str:
    """What temporary names for ``name`` begin with: hidden, and short enough whatever the length of ``name``."""
    return f".{_kept(name)}.{os.getpid()}-{_surroundings()}."


def is_ours(name: str) -> bool:
    """Whether a name is none of a file of results: that of a mark, or temporary."""
    return name == MARK or _TEMPORARY.fullmatch(name) is not None


def _kept(name: str) -> str:
    return name.encode("utf-8", "surrogateescape")[:_KEPT_BYTES].decode("utf-8", "ignore")


@cache
def _surroundings() -> str:
    """Where the number of a process is its own: this machine, and what Linux calls a namespace of processes."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    import platform

    return f"{zlib.crc32(f'{platform.node()} {space}'.encode()):08x}"


def clean(folder: _Path, names: Collection[str]) -> None:
    """Remove what processes that are no more left behind under temporary names for these."""
    kept = set(map(_kept, names))
    with suppress(OSError):
        for entry in os.listdir(folder or "."):
            match = _TEMPORARY.fullmatch(entry)
            if match and match[1] in kept and match[3] == _surroundings() and not _lives(int(match[2])):
                _remove(os.path.join(folder, entry))


def _lives(process: int) -> bool:
    if process == os.getpid() or os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def nearest(folder: _Path) -> str:
    """The folder itself if it exists, else the nearest above it that does: where it would be made."""
    path = os.fspath(folder)
    while not os.path.lexists(path) and path != (above := os.path.dirname(path) or "."):
        path = above
    return path


def _refusal(path: _Path, fault: Exception) -> InputError:
    text = getattr(fault, "strerror", None) or str(fault)
    number = getattr(fault, "errno", None)
    remedy = {errno.ENOENT: "create the folder first", errno.EISDIR: "name a file in it"}.get(number or 0)
    return InputError(f"the file cannot be written: {text}", file=os.fspath(path), remedy=remedy)
