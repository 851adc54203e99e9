"""The order in which libstdc++'s hash sets and maps of 64-bit unsigned keys list their elements.

Custom collectives issue their nodes in this order, and messages of one tick keep it on the links, so results depend on
it (astra-system.md, section 16). Elements are kept in one list; those of a bucket (key mod bucket count) stand
together. A new element goes before the first of its bucket, or to the front of the list if the bucket is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

GROWTH = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153)


class HashOrder:
    """A set of keys 0 to 2^64 - 1, iterated as ``std::unordered_set<uint64_t>`` iterates.

    ``buckets`` is the bucket count, 1 while the set has never held anything. All operations take O(1) but for growth.
    """

    def __init__(self, keys: Iterable[int] = ()) -> None:
        self.buckets = 1
        self._after: dict[int, int | None] = {}
        self._before: dict[int, int | None] = {}
        self._first: int | None = None
        self._heads: dict[int, int] = {}
        for key in keys:
            self.insert(key)

    def __len__(self) -> int:
        return len(self._after)

    def __contains__(self, key: int) -> bool:
        return key in self._after

    def __iter__(self) -> Iterator[int]:
        key = self._first
        while key is not None:
            yield key
            key = self._after[key]

    def insert(self, key: int) -> None:
        """Add a key; nothing happens if it is there."""
        if key in self._after:
            return
        if len(self) + 1 > (0 if self.buckets == 1 else self.buckets):
            self._grow()
        self._place(key)

    def erase(self, key: int) -> None:
        """Remove a key, which must be there; the bucket count stays."""
        before, after = self._before.pop(key), self._after.pop(key)
        if before is None:
            self._first = after
        else:
            self._after[before] = after
        if after is not None:
            self._before[after] = before
        bucket = key % self.buckets
        if self._heads[bucket] == key:
            if after is not None and after % self.buckets == bucket:
                self._heads[bucket] = after
            else:
                del self._heads[bucket]

    def _grow(self) -> None:
        keys = list(self)
        self.buckets = _grown(self.buckets)
        self._after, self._before, self._first, self._heads = {}, {}, None, {}
        for key in keys:
            self._place(key)

    def _place(self, key: int) -> None:
        bucket = key % self.buckets
        after = self._heads.get(bucket, self._first)
        before = None if after is None else self._before[after]
        self._after[key], self._before[key] = after, before
        if before is None:
            self._first = key
        else:
            self._after[before] = key
        if after is not None:
            self._before[after] = key
        self._heads[bucket] = key


def _grown(buckets: int) -> int:
    """The bucket count that follows ``buckets``; past the known list, which ends above a million, odd numbers serve."""
    if buckets == 1:
        return GROWTH[0]
    return next((count for count in GROWTH if count >= 2 * buckets), 2 * buckets + 1)
