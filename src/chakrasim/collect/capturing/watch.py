"""A program that is captured, watched from beside: what it is at, and whether it comes to an end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from chakrasim.collect.capturing.loops import Loops, own_place
from chakrasim.collect.capturing.workers import End, Say
from chakrasim.errors import InputError

PATIENCE_S: Final = 40.0
"""How long a loop goes on whose end hangs on values that a capture does not have, before it is given up."""
OTHERWISE: Final = 20
"""How many times as long a program may go without a step that is in no such loop."""

_INTERVAL_S: Final = 0.5


class Watch:
    """Of one rank's program.

    Attributes
    ----------
    steps: that the program has taken.
    """

    def __init__(self, script: str | None, patience_s: float, say: Say, end: End) -> None:
        """``say`` is told what the program is at, ``end``, which does not return, why it must end; from any thread."""
        self.steps = 0
        self._loops = Loops()
        self._script = script
        self._patience_s = patience_s
        self._say, self._end = say, end
        self._since = time.monotonic()
        self._thread = threading.get_ident()
        self._is_asked, self._place = False, ""

    def step(self) -> None:
        """The program has made progress."""
        self.steps += 1
        self._since = time.monotonic()
        self._loops.restart()

    def ask(self) -> None:
        """The program asks for a value that is not known."""
        loop = self._loops.ask(self._patience_s)
        if loop is None:
            return
        place, where = own_place(sys._getframe(1)), f"{loop.file}:{loop.line}"
        self._end(
            InputError(
                "this loop goes on until a tensor's value ends it, and a capture has no values",
                file=self._script,
                place=place if place.rpartition(":")[0] == loop.file else f"{place}, in the loop at {where}",
                found=f"{loop.rounds:,} values asked in {self._patience_s:g} s",
                remedy=f"give the loop a bound, as in `for _ in range(n)`, that no tensor decides; {self._longer()}",
            )
        )

    def operator(self) -> None:
        """The program runs an operator: notes where, if that is asked. Another thread that looked would hold its
        tensors, and memory would hang on the clock."""
        if self._is_asked:
            self._place, self._is_asked = own_place(sys._getframe(1)), False

    @contextmanager
    def running(self, nodes: Callable[[], int]) -> Iterator[None]:
        """Look at the program from a thread of its own within the block. ``nodes`` are those of the step so far."""
        done = threading.Event()
        self._since = time.monotonic()

        def look() -> None:
            while not done.wait(_INTERVAL_S):
                place = self._waits_at() if self._is_asked else self._place
                self._is_asked = True
                if time.monotonic() - self._since > OTHERWISE * self._patience_s:
                    self._end(self._stands_still(self._waits_at()))
                if place:
                    self._say(f"step {self.steps + 1}, {nodes():,} nodes, at {place}")

        thread = threading.Thread(target=look, daemon=True, name="chakrasim capture watch")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _waits_at(self) -> str:
        """Where a program is that runs no operators."""
        return own_place(sys._current_frames().get(self._thread))

    def _stands_still(self, place: str) -> InputError:
        return InputError(
            f"the program has taken no step in {OTHERWISE * self._patience_s:g} s",
            file=self._script,
            place=place,
            remedy=f"see what it waits for there; {self._longer()}",
        )

    def _longer(self) -> str:
        return f"if it does end, give it longer: --patience {self._patience_s * 10:g}"
