"""Many seeds gone through by hand: ``python tests/fuzz/test_fuzz_....py LOW HIGH``."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

LONGEST_S: Final = 10
HANGS_S: Final = 60
"""After so long, by the clock, a seed hangs: the process ends and says where, as `test_fuzz_tools` does."""


class TooLong(AssertionError):
    """A seed took longer than `LONGEST_S`."""


def in_time(began: float, what: object) -> None:
    """Raise TooLong where ``what`` is, by `time.process_time`, worked on since ``began`` for longer than it may."""
    took = time.process_time() - began
    if took > LONGEST_S:
        raise TooLong(f"{what} took {took:.1f} s")


def go_through(outcome: Callable[[int], str]) -> None:
    """Go through the seeds of the command line, print what goes wrong; one line at the end."""
    low, high = int(sys.argv[1]), int(sys.argv[2])
    seen, bad = Counter[str](), 0
    for seed in range(low, high):
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        print(f"{seed}", file=sys.stderr, end="\r", flush=True)
        try:
            try:
                found = outcome(seed)
            except TooLong:
                found = outcome(seed)  # The first of its kind may have waited for code to be compiled.
            seen[found] += 1
        except (Exception, SystemExit) as fault:
            bad += 1
            print(f"== {seed}: {type(fault).__name__}: {str(fault)[:600]}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{low}..{high}: {bad} wrong; {dict(sorted(seen.items()))}")
