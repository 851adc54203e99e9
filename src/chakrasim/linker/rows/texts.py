"""A table of texts that grows: those of a reader first, then what linking adds."""

from __future__ import annotations

from chakrasim.trace.chakra.graph import StringTable


class TextPool:
    """The texts of ``base`` under the same indices, and more behind them."""

    def __init__(self, base: StringTable | None) -> None:
        self._base = StringTable.of() if base is None else base
        self._index: dict[bytes, int] | None = None
        self._more: list[bytes] = []

    def __len__(self) -> int:
        return len(self._base) + len(self._more)

    def __getitem__(self, index: int) -> str:
        return self.raw(index).decode("utf-8", "replace")

    def raw(self, index: int) -> bytes:
        """Entry ``index`` as bytes."""
        at = index - len(self._base)
        return self._base.raw(index) if at < 0 else self._more[at]

    def find(self, text: str) -> int:
        """The index of ``text``, -1 if it is not there."""
        return self._known().get(text.encode("utf-8", "surrogatepass"), -1)

    def add(self, text: str | bytes) -> int:
        """The index of ``text``, which is appended if it is new."""
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        known = self._known()
        found = known.get(raw)
        if found is None:
            found = known[raw] = len(self)
            self._more.append(raw)
        return found

    def build(self) -> StringTable:
        """All texts as one table."""
        return self._base.and_more(self._more) if self._more else self._base

    def _known(self) -> dict[bytes, int]:
        if self._index is None:
            blob, ends = self._base.blob.tobytes(), self._base.offsets.tolist()
            self._index = {}
            for index in range(len(ends) - 1):
                self._index.setdefault(blob[ends[index] : ends[index + 1]], index)
        return self._index
