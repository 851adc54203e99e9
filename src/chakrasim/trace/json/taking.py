"""Taking records: what a kernel makes of the scanner's tokens, and the arrays that it fills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.trace.json import tokens as js
from chakrasim.trace.json.rare import RareColumns
from chakrasim.trace.json.records import Records, StringPool

T = TypeVar("T")


class Taker(ABC, Generic[T]):
    """Takes all records of a file; ``T`` is what becomes of them.

    ``slots`` is the module of the kernel, whose numbers say what stands where in its state, ``count``; ``options`` are
    set there at first.
    """

    #: What is said of a record that the kernel refuses: message, what was expected, how much of it is shown.
    refusal: ClassVar[tuple[str, str, int]]
    #: What of the counts becomes a warning.
    said: ClassVar[Mapping[str, str]]

    def __init__(self, records: Records, slots: Any, rare: Sequence[str], options: Mapping[int, bool]) -> None:
        self.records, self.slots = records, slots
        self._rare_names, self._options = rare, options
        self.restarts = 0
        self._begin()

    def _begin(self) -> None:
        self.count = np.zeros(self.slots.COUNT_SIZE, np.int64)
        for slot, value in self._options.items():
            self.count[slot] = value
        self.strings = StringPool(self.count)
        self.rare = RareColumns(self._rare_names)

    def read(self, notes: Notes) -> T:
        """What the file holds. Raises InputError for damage that cannot be passed over."""
        for _ in self.records.batches():
            self.take()
        self.records.require_records()
        header = self.records.header(notes)
        self._restart_at_a_second_list()
        return self.build(header, notes)

    def take(self) -> None:
        """Take what the scanner has found."""
        self._restart_at_a_second_list()
        count, slots = self.count, self.slots
        count[slots.TAKEN] = 0
        while (status := self.run()) == slots.GROW:
            self.grow(*self.records.next_record(int(count[slots.TAKEN])))
        if status != slots.DONE:
            raise self._refused()
        self.records.check_memory(self.arrays(), self.strings)
        self.rare.settle(int(count[slots.RARES]), self.records.buffer)

    def _restart_at_a_second_list(self) -> None:
        if self.restarts != self.records.restarts:
            self.restarts = self.records.restarts
            self._begin()

    def _refused(self) -> InputError:
        start = int(self.count[self.slots.BAD_PLACE])
        message, expected, size = self.refusal
        return InputError(
            message,
            file=self.records.path,
            place=self.records.place_in_buffer(start),
            found=self.records.found(start, size),
            expected=expected,
            remedy=f"correct the {self.records.form.name}, or read the file leniently (--lenient) to leave it out",
        )

    def reserve_values(self, tokens: int, texts: int, size: int) -> None:
        """Make room for the texts and rare values of a record of so many tokens, texts and bytes."""
        self.strings.reserve(texts, 3 * size + 16)
        if self.count[self.slots.RARES] + tokens + 4 > len(self.rare.pool[0]):
            self.empty_rare_pool()
            self.rare.reserve(tokens + 4)

    def empty_rare_pool(self) -> None:
        """Bring the rare values to their columns."""
        used = int(self.count[self.slots.RARES])
        self.rare.settle(used, self.records.buffer)
        self.rare.flush(used)
        self.count[self.slots.RARES] = 0

    def report(self, notes: Notes, slots: Mapping[str, int], lists: str) -> dict[str, int]:
        """Say what was lost or repaired; the counts in ``slots`` that are not zero. ``lists``: what to call lists that
        another one followed."""
        counts = {name: int(self.count[slot]) for name, slot in slots.items() if self.count[slot]}
        if self.records.state[js.NON_FINITE]:
            counts["numbers that are not finite"] = int(self.records.state[js.NON_FINITE])
        if self.restarts:
            counts[lists] = self.restarts
        self.records.report(int(self.count[self.slots.ROWS]), notes, counts)
        return counts

    def tell(self, notes: Notes, counts: Mapping[str, int], *first: str) -> None:
        """Warn of what of the counts deserves it."""
        texts = (text.format(counts[name]) for name, text in self.said.items() if counts.get(name))
        notes.warn(*(f"{self.records.path}: {text}" for text in (*first, *texts)))

    @abstractmethod
    def arrays(self) -> Sequence[NDArray[Any]]:
        """What the kernel fills, beside texts and rare values."""

    @abstractmethod
    def run(self) -> Any:
        """Call the kernel."""

    @abstractmethod
    def grow(self, tokens: int, size: int) -> None:
        """Make room for the next record, of so many tokens and bytes."""

    @abstractmethod
    def build(self, header: dict[str, Any], notes: Notes) -> T:
        """What was taken; nothing may be taken afterwards."""
