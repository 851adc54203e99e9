"""A folder of results that appears whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chakrasim.errors import InputError
from chakrasim.files.outputs import folder_beside, is_ours, nearest, put_folder
from chakrasim.text.amounts import some_of

_OURS = re.compile(r"chakra\.[0-9]+\.et|linked\.[0-9]+\.json|comm_group\.json|report\.json")


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise InputError for what names no folder."""
    if "\0" in os.fspath(path) or not os.fspath(path):
        raise InputError("this is no name of a folder", found=repr(os.fspath(path)))


def refuse_others(path: str | os.PathLike[str], foreign: Sequence[str]) -> None:
    """Raise InputError if the folder holds these files, which are none of its results."""
    if foreign:
        raise InputError(
            "the folder holds other files",
            file=path,
            found=some_of(foreign, 3),
            expected="no such folder, or an empty one",
            remedy="name another folder",
        )


def check_folder(path: str | os.PathLike[str], *, force: bool) -> Path:
    """The folder's real path. Raises InputError unless a folder can be put there: the place must be free or an empty
    folder; with ``force`` it may be an earlier folder of results, but never one that holds anything else."""
    check_name(path)
    target = Path(os.path.realpath(path))
    try:
        if target.exists():
            _check_existing(path, target, force=force)
        parent = nearest(target.parent)
        if not os.path.isdir(parent):
            raise InputError("the folder cannot be made", file=path, found=f"no folder: {parent}")
        if not os.access(parent, os.W_OK):
            raise InputError("the folder cannot be made: the one that it is to be in is read-only", file=path)
    except OSError as fault:
        raise _refusal(path, fault) from None
    return target


def _check_existing(path: str | os.PathLike[str], target: Path, *, force: bool) -> None:
    if not target.is_dir():
        raise InputError("the results go into a folder, and this is a file", file=path, remedy="name another folder")
    if target == Path.cwd():
        raise InputError("the results cannot replace the current folder", file=path, remedy="name a folder in it")
    names = sorted(name for name in os.listdir(target) if not is_ours(name))
    refuse_others(path, [name for name in names if not _OURS.fullmatch(name)])
    if names and not force:
        raise InputError(
            "the folder holds earlier results",
            file=path,
            found=f"{len(names)} files",
            remedy="name another folder, or replace them with --force",
        )


@contextmanager
def whole_folder(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A temporary folder that takes the place of ``path`` when the block ends without an exception.

    Raises InputError as `check_folder` does, and for whatever the operating system refuses.
    """
    target = check_folder(path, force=force)
    try:
        with folder_beside(os.fspath(target)) as staging:
            yield Path(staging)
            put_folder(staging, os.fspath(check_folder(path, force=force)))
    except OSError as fault:
        raise _refusal(path, fault) from None


def _refusal(path: str | os.PathLike[str], fault: OSError) -> InputError:
    return InputError(f"the folder cannot be written: {fault.strerror or fault}", file=os.fspath(path))
