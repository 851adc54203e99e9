"""A program that is captured, watched from beside: what it is at, and whether it comes to an end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from chakrasim.collect.capture_loops import Loops, own_place
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
    loops: asked for values; see there.
    steps: that the program has taken.
    """

    def __init__(self, script: str | None, patience_s: float) -> None:
        self.loops = Loops()
        self.steps = 0
        self._script = script
        self._patience_s = patience_s
        self._since = time.monotonic()
        self._thread = threading.get_ident()

    def step(self) -> None:
        """The program has made progress."""
        self.steps += 1
        self._since = time.monotonic()
        self.loops.restart()

    @contextmanager
    def running(
        self, nodes: Callable[[], int], say: Callable[[str], None], end: Callable[[InputError], None]
    ) -> Iterator[None]:
        """Within the block, ``say`` is told what the program is at, ``end``, which does not return, why it must end.

        Both are called by a thread of their own. ``nodes`` are those of the step so far.
        """
        done = threading.Event()

        def look() -> None:
            while not done.wait(_INTERVAL_S):
                frame = sys._current_frames().get(self._thread)
                place = own_place(frame)
                reason = self._reason(place)
                if reason is not None:
                    end(reason)
                say(f"step {self.steps + 1}, {nodes():,} nodes, at {place}")

        thread = threading.Thread(target=look, daemon=True, name="chakrasim capture watch")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _reason(self, place: str) -> InputError | None:
        """Why the program, which is at a place, does not come to an end; None if nothing says so."""
        loop = self.loops.endless(sys._current_frames().get(self._thread), self._patience_s)
        longer = f"if it does end, give it longer: --patience {self._patience_s * 10:g}"
        if loop is not None:
            where = f"{loop.file}:{loop.first}"
            return InputError(
                "this loop goes on until a tensor's value ends it, and a capture has no values",
                file=self._script,
                place=place if place.rpartition(":")[0] == loop.file else f"{place}, in the loop at {where}",
                found=f"{loop.rounds:,} values asked in {self._patience_s:g} s",
                remedy=f"give the loop a bound, as in `for _ in range(n)`, that no tensor decides; {longer}",
            )
        if time.monotonic() - self._since > OTHERWISE * self._patience_s:
            return InputError(
                f"the program has taken no step in {OTHERWISE * self._patience_s:g} s",
                file=self._script,
                place=place,
                remedy=f"see what it waits for there; {longer}",
            )
        return None
