"""What-if on PyTorch's trace of one rank."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.scenarios.asked import asked_of

if TYPE_CHECKING:
    from chakrasim.scenarios.recorded import RecordedAnswer


def takes(path: str | None) -> bool:
    """Whether this is a file that looks like a PyTorch trace: JSON, plain or gzip, and no part of a Chakra job."""
    if path is None or not os.path.isfile(path) or path.endswith((".ranks.json", ".et", ".et.gz")):
        return False
    return path.endswith((".json", ".gz"))


def run(options: argparse.Namespace, notes: Notes) -> RecordedAnswer:
    """Link, replay and answer. Raises InputError."""
    from chakrasim.linker.api import link
    from chakrasim.scenarios.recorded import ask_recorded

    if not options.set:
        raise InputError("nothing is asked", expected="--set TARGET=FACTOR", remedy="--set communication=0, say")
    asked = [asked_of(text) for text in options.set]
    linked = link(None, options.prefix, lenient=options.lenient, notes=notes)
    return ask_recorded(linked, asked)
