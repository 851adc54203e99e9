"""Many seeds gone through by hand: ``python tests/fuzz/test_fuzz_....py LOW HIGH``."""

from __future__ import annotations

import faulthandler
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Final

from chakrasim import jit
from chakrasim.cli import main as cli
from chakrasim.files.inputs import LEAST_BYTES

LONGEST_S: Final = 10
HANGS_S: Final = 60
"""After so long, by the clock, a seed hangs: the process ends and says where, as `test_fuzz_tools` does."""


def watched(seconds: float) -> Callable[[], None]:
    """To be called at each seed: should none be begun for so long, by the clock, the process ends and says where. The
    watch is set anew after a tenth of that at the earliest: each time it is a thread that begins and one that ends."""
    due = 0.0

    def begun() -> None:
        nonlocal due
        if time.monotonic() >= due:
            faulthandler.dump_traceback_later(1.1 * seconds, exit=True)
            due = time.monotonic() + seconds / 10

    return begun


class TooLong(AssertionError):
    """A seed took longer than `LONGEST_S`."""


def in_time(began: float, what: object) -> None:
    """Raise TooLong where ``what`` is, by `time.process_time`, worked on since ``began`` for longer than it may."""
    took = time.process_time() - began
    if took > LONGEST_S:
        raise TooLong(f"{what} took {took:.1f} s")


def keep_what_stays() -> None:
    """Ask whether code is compiled, and make the parser of a command, once: both are half of the time of a small run,
    and no damage reaches them."""
    if hasattr(jit.is_cold, "cache_info"):
        return
    jit.is_cold = cache(jit.is_cold)
    made = cache(cli._parsers)
    cli._parsers = lambda names: made(tuple(names))


def go_through(outcome: Callable[[int], str]) -> None:
    """Go through the seeds of the command line, print what goes wrong; one line at the end."""
    keep_what_stays()
    low, high = int(sys.argv[1]), int(sys.argv[2])
    seen, bad, begun = Counter[str](), 0, watched(HANGS_S)
    for seed in range(low, high):
        begun()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{seed}", file=sys.stderr, end="\r", flush=True)
        try:
            try:
                found = outcome(seed)
            except TooLong:
                found = outcome(seed)  # The first of its kind may have waited for code to be compiled.
            seen[found] += 1
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
            assert grown <= LEAST_BYTES >> 10, f"took {grown >> 10} MiB, more than a reader may that is not asked to"
        except (Exception, SystemExit) as fault:
            bad += 1
            print(f"== {seed}: {type(fault).__name__}: {str(fault)[:600]}", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{low}..{high}: {bad} wrong; {dict(sorted(seen.items()))}")
