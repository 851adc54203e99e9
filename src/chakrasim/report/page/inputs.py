"""The files that a result was made from, with their hashes: of these and no others it is the result."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import escape, glob
from hashlib import sha256
from typing import Final

from chakrasim.report.page.parts import Input

MOST_NAMED: Final = 16
"""Of so many traces under one prefix each has a row; of more all have one, with the hash of their hashes."""
_PIECE: Final = 1 << 20


def inputs_of(paths: Iterable[str | None]) -> tuple[Input, ...]:
    """Files, prefixes of traces, and folders, each once; names that are no files (``h100``) are left out."""
    found = [one for path in dict.fromkeys(path for path in paths if path) for one in _inputs(path)]
    return tuple(dict.fromkeys(found))


def _inputs(path: str) -> list[Input]:
    if os.path.isfile(path):
        return [_input(path)]
    if os.path.isdir(path):
        below = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        return _several(path, [one for one in below if os.path.isfile(one)])
    patterns = (".ranks.json", ".*.et", ".*.et.gz")
    return _several(f"{path}.*", sorted({one for end in patterns for one in glob(f"{escape(path)}{end}")}))


def _several(name: str, paths: list[str]) -> list[Input]:
    each = [_input(path) for path in paths]
    if len(each) <= MOST_NAMED:
        return each
    whole = sha256("".join(f"{one.sha256}  {os.path.basename(one.name)}\n" for one in each).encode())
    return [Input(name, len(each), sum(one.size_bytes for one in each), whole.hexdigest())]


def _input(path: str) -> Input:
    digest, size = sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return Input(path, 1, size, digest.hexdigest())
