"""Names under which files and folders are written until they are whole."""

from __future__ import annotations

import os
import tempfile

#: File systems take names of 255 bytes, some of 143; a temporary name keeps so many of the final one.
_KEPT_BYTES = 100


def beginning(name: str) -> str:
    """What temporary names for ``name`` begin with: hidden, and short enough whatever the length of ``name``."""
    kept = name.encode("utf-8", "surrogateescape")[:_KEPT_BYTES].decode("utf-8", "ignore")
    return f".{kept}."


def file_beside(target: str | os.PathLike[str]) -> tuple[int, str]:
    """A new empty file in the folder of ``target``, which is made where there is none: its handle and its name.

    Raises OSError and ValueError for what the operating system refuses.
    """
    folder, name = os.path.split(os.fspath(target))
    os.makedirs(folder or ".", exist_ok=True)
    return tempfile.mkstemp(prefix=beginning(name), suffix=".part", dir=folder or ".")


def nearest(folder: str | os.PathLike[str]) -> str:
    """The folder itself if it exists, else the nearest above it that does: where it would be made."""
    path = os.fspath(folder)
    while not os.path.lexists(path) and path != (above := os.path.dirname(path) or "."):
        path = above
    return path
