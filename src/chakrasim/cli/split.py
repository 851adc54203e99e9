"""``chakrasim split``: the ranks of a master trace."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_reading
from chakrasim.cli.output import announce_compilation, check_target, check_targets, tell_warnings, write_out
from chakrasim.errors import InputError
from chakrasim.notes import Notes

SUMMARY = "Split a master trace into one trace for each rank"
EXAMPLES = """\
examples:
  chakrasim split all.et --output traces/step          # traces/step.0.et, traces/step.1.et, ...
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("master", metavar="MASTER", help="a trace made by chakrasim merge, plain or gzip")
    parser.add_argument("-o", "--output", required=True, metavar="PREFIX", help="write PREFIX.0.et, PREFIX.1.et, ...")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Read, split and write. Raises InputError."""
    check_target(f"{options.output}.0.et")
    announce_compilation("trace")
    from chakrasim.converter.master import split_trace
    from chakrasim.trace import read_trace, write

    notes = Notes()
    traces = split_trace(read_trace(options.master, lenient=options.lenient, notes=notes))
    if not traces:
        raise InputError("the master trace has no ranks", file=options.master)
    check_targets({f"--output (rank {r})": f"{options.output}.{r}.et" for r in range(len(traces))}, [options.master])
    tell_warnings(notes.warnings, options)
    paths = write(options.output, traces)
    if not options.quiet:
        nodes = sum(map(len, traces))
        write_out(f"{nodes:,} nodes of {len(paths):,} ranks written to {paths[0]} to {paths[-1]}\n")
    return 0
