"""Compiled code on disk, for the next process: what is loaded is run, so only what this user wrote, as it was written.

Owner and mode of the folders keep others out. The digest in front of each file finds what a disk or a copy damaged; it
is taken over the bytes that are then loaded. Folders are checked as they are opened and files are opened in them by
descriptor, so that nothing can be put in their place between the check and the use.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chakrasim.errors import NotKept

_BY_DESCRIPTOR = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
"""Elsewhere (Windows) folders of this user are closed to others by what they inherit, and files have no owner here."""
_PLAIN = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class _Unsafe(Exception):
    """A folder that others could have written to: its name, and why."""


@dataclass(frozen=True)
class Store:
    """The files of one folder in ``root``, both made for this user alone when first needed."""

    root: Path
    name: str

    def read(self, name: str) -> bytes | None:
        """What was written under this name; None if that is not there, not whole, or not of this user."""
        try:
            with self._opened() as folder:
                handle = os.open(self._at(folder, name), os.O_RDONLY | _PLAIN, dir_fd=folder)
                with os.fdopen(handle, "rb") as file:
                    if _fault(os.fstat(handle), stat.S_ISREG):
                        return None
                    digest, _, data = file.read().partition(b"\n")
        except (OSError, _Unsafe):
            return None
        if digest != _digest(name, data):
            _warn_of_damage(str(self.root / self.name))
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Keep ``data`` under this name; where that fails, nothing is kept and the next process compiles again."""
        part = f"{name}.{os.urandom(6).hex()}.part"
        with suppress(OSError, _Unsafe), self._opened() as folder:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN
                with os.fdopen(os.open(self._at(folder, part), flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(_digest(name, data) + b"\n" + data)
                os.replace(self._at(folder, part), self._at(folder, name), src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(self._at(folder, part), dir_fd=folder)
                raise

    def holds(self, pattern: str) -> bool:
        """Whether there is a file of such a name."""
        return next((self.root / self.name).glob(pattern), None) is not None

    def check(self) -> None:
        """Raise OSError if nothing can be kept here, _Unsafe if nothing may be."""
        with self._opened() as folder:
            if not os.access(self._at(folder, "."), os.W_OK | os.X_OK, dir_fd=folder):
                raise PermissionError

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The folder's descriptor (None on systems where paths have to do)."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        if not _BY_DESCRIPTOR:
            (self.root / self.name).mkdir(parents=True, exist_ok=True)
            yield None
            return
        root = _open_folder(str(self.root), None, self.root)
        try:
            folder = _open_folder(self.name, root, self.root / self.name)
        finally:
            os.close(root)
        try:
            yield folder
        finally:
            os.close(folder)

    def _at(self, folder: int | None, name: str) -> str:
        return name if folder is not None else str(self.root / self.name / name)


@cache
def store(name: str) -> Store | None:
    """Where code is kept under this name: in ``CHAKRASIM_CACHE_DIR``, the user's cache folder or, if that cannot be
    written, the temporary folder. None where it cannot be kept, or may not be: a warning says so, once a folder."""
    base = os.environ.get("CHAKRASIM_CACHE_DIR")
    if base is None:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(home, "chakrasim")
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    for root in (base, os.path.join(tempfile.gettempdir(), f"chakrasim-{user}")):
        try:
            found = Store(Path(os.path.abspath(root)), name)
            found.check()
            return found
        except _Unsafe as fault:
            _warn(*map(str, fault.args))
            return None
        except OSError:
            continue
    return None


@cache
def _warn_of_damage(folder: str) -> None:
    text = f"{folder}: kept compiled code is not as it was written, so it is compiled again"
    warnings.warn(f"{text}; check the disk if this comes back", NotKept, stacklevel=2)


@cache
def _warn(folder: str, fault: str) -> None:
    remedy = "remove it, or name a folder of your own in CHAKRASIM_CACHE_DIR"
    text = f"{folder}: {fault}, so compiled code is neither loaded from there nor kept; {remedy}"
    warnings.warn(text, NotKept, stacklevel=2)


def _open_folder(name: str, above: int | None, shown: Path) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    try:
        handle = os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=above).st_mode):
            raise _Unsafe(shown, "it is a symbolic link") from None
        raise
    fault = _fault(os.fstat(handle), stat.S_ISDIR)
    if fault:
        os.close(handle)
        raise _Unsafe(shown, fault)
    return handle


def _fault(status: os.stat_result, is_kind: Callable[[int], bool]) -> str | None:
    """Why what was opened cannot be trusted, if it cannot."""
    if not is_kind(status.st_mode):
        return "it is of another kind"
    if not _BY_DESCRIPTOR:
        return None
    if status.st_uid != os.geteuid():
        return f"it belongs to another user ({status.st_uid})"
    return f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})" if status.st_mode & 0o022 else None


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + data).hexdigest().encode()
