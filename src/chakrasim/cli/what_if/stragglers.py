"""What-if on the open straggler traces: recorded steps as Parquet."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.scenarios.straggler_answer import StragglerAnswer

_MAGIC = b"PAR1"


def takes(path: str | None) -> bool:
    """Whether this is (or is named as) a Parquet file."""
    if path is None or not os.path.isfile(path):
        return path is not None and path.endswith(".parquet")
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC or path.endswith(".parquet")


def run(options: argparse.Namespace, notes: Notes) -> StragglerAnswer:
    """Read and answer. Raises InputError."""
    from chakrasim.scenarios.open_traces import read_open_trace, read_sizes
    from chakrasim.scenarios.straggler_answer import answer_stragglers

    sizes = None if options.meta is None else read_sizes(options.meta, notes)
    rows = read_open_trace(options.prefix, sizes)
    return answer_stragglers(rows, changes=options.set, draws=options.draws, seed=options.seed or 0, notes=notes)
