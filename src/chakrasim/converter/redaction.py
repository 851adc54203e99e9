"""Stable pseudonyms: the same name gets the same one in every trace, so that redacted traces can still be compared."""

from __future__ import annotations

from hashlib import blake2s

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.assemble import Strings
from chakrasim.trace.graph import StringTable
from chakrasim.trace.linked import RowKind

_PREFIXES = {
    RowKind.OPERATOR: "op",
    RowKind.RUNTIME: "call",
    RowKind.GAP: "gap",
    RowKind.KERNEL: "kernel",
    RowKind.MEMCPY: "copy",
    RowKind.MEMSET: "set",
    RowKind.HOST_COLLECTIVE: "collective",
}


def pseudonym(prefix: str, name: str | bytes) -> str:
    """``prefix_`` and twelve digits that depend on the name alone."""
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return f"{prefix}_{blake2s(raw, digest_size=6, person=b'chakrasi').hexdigest()}"


class Pseudonyms:
    """The pseudonyms of names, each made when it is first met, as indices into ``strings``."""

    def __init__(self, table: StringTable, strings: Strings) -> None:
        self._table, self._strings = table, strings
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
            name = pseudonym(_PREFIXES[RowKind(number)], self._table.raw(index))
            self._known[pair] = self._strings.add(name)
        return self._known[pair] if index else 0
