"""What-if on the open straggler traces: recorded steps as Parquet."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import whole_number
from chakrasim.notes import Notes
from chakrasim.scenarios.straggler_answer import StragglerAnswer

MOST_DRAWS = 1_000_000


def add_arguments(parser: argparse._ActionsContainer) -> None:
    """The options that only these traces have."""
    parser.add_argument("--meta", metavar="FILE", help="the job's sizes as YAML; default: as found in the trace")
    parser.add_argument(
        "--draws", type=_draws, metavar="N|auto",
        help="a step's time as a distribution, from so many drawn steps; auto: until the median is known to 0.5 %%",
    )  # fmt: skip


def _draws(text: str) -> int:
    """How many; 0 stands for auto."""
    return 0 if text == "auto" else whole_number(1, MOST_DRAWS)(text)


def run(options: argparse.Namespace, notes: Notes) -> StragglerAnswer:
    """Read and answer. Raises InputError."""
    from chakrasim.scenarios.open_traces import read_open_trace, read_sizes
    from chakrasim.scenarios.straggler_answer import answer_stragglers

    sizes = None if options.meta is None else read_sizes(options.meta, notes)
    rows = read_open_trace(options.trace, sizes)
    return answer_stragglers(rows, changes=options.set, draws=options.draws, seed=options.seed, notes=notes)
