"""Pseudonyms under a key: with the same key the same name gets the same one in every trace, so that redacted traces can
still be compared; without the key nobody finds a name by trying."""

from __future__ import annotations

import hmac
import os
import secrets
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.files.storage import read_bytes
from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.chakra.graph import StringTable
from chakrasim.trace.linked.columns import RowKind

LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 1 << 16

_PREFIXES = {
    RowKind.OPERATOR: "op",
    RowKind.RUNTIME: "call",
    RowKind.GAP: "gap",
    RowKind.KERNEL: "kernel",
    RowKind.MEMCPY: "copy",
    RowKind.MEMSET: "set",
    RowKind.HOST_COLLECTIVE: "collective",
}


def key_of(redact: bool | bytes) -> bytes:
    """The key of a run: the given one, or a new one, which nobody keeps. Raises InputError if it is too short."""
    return secrets.token_bytes(32) if isinstance(redact, bool) else _checked(redact, "or more")


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The key in a file: all its bytes. Raises InputError if it cannot be read or is too short."""
    key = read_bytes(os.fspath(path), _MOST_KEY_BYTES, "the key of the pseudonyms")
    return _checked(key, "random bytes or more", path, "make one: head -c 32 /dev/urandom > FILE")


def _checked(key: bytes, least: str, file: object = None, remedy: str | None = None) -> bytes:
    if len(key) >= LEAST_KEY_BYTES:
        return key
    raise InputError(
        "the key of the pseudonyms is too short",
        file=file,
        found=f"{len(key)} bytes",
        expected=f"{LEAST_KEY_BYTES} {least}",
        remedy=remedy,
    )


def pseudonym(prefix: str, name: str | bytes, key: bytes) -> str:
    """``prefix_`` and sixteen digits that depend on the name and the key (HMAC-SHA256)."""
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return f"{prefix}_{hmac.new(key, raw, sha256).hexdigest()[:16]}"


class Pseudonyms:
    """The pseudonyms of names, each made when it is first met, as indices into ``strings``."""

    def __init__(self, table: StringTable, strings: Strings, key: bytes) -> None:
        self._table, self._strings, self._key = table, strings, key
        self._known: dict[int, int] = {}

    def of(self, kind: NDArray[np.uint8], name: NDArray[np.int32]) -> NDArray[np.int32]:
        """The pseudonym of each row's name, by its kind; rows without a name keep none."""
        pairs, which = np.unique(name.astype(np.int64) * len(RowKind) + kind, return_inverse=True)
        texts = np.array([self._text(pair) for pair in pairs.tolist()], np.int32)
        chosen: NDArray[np.int32] = texts[which.reshape(-1)]
        return chosen

    def _text(self, pair: int) -> int:
        index, number = divmod(pair, len(RowKind))
        if index and pair not in self._known:
            name = pseudonym(_PREFIXES[RowKind(number)], self._table.raw(index), self._key)
            self._known[pair] = self._strings.add(name)
        return self._known[pair] if index else 0
