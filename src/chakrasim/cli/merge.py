"""``chakrasim merge``: one master trace of all ranks."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, tell_warnings, write_out
from chakrasim.notes import Notes

SUMMARY = "Merge the traces of all ranks into one master trace"
EXAMPLES = """\
examples:
  chakrasim merge traces/step --output all.et
  chakrasim merge traces/step --output all.et.gz       # compressed
  chakrasim split all.et --output traces/step
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("prefix", metavar="PREFIX", help="traces: PREFIX.0.et, PREFIX.1.et, ... (or .et.gz)")
    parser.add_argument("-o", "--output", required=True, metavar="MASTER", help="the file to write")
    parser.add_argument("--ranks", type=whole_number(1, 2**31 - 1), metavar="N", help="expect, and read, N ranks")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Read, merge and write. Raises InputError."""
    check_targets({"--output": options.output}, [options.prefix])
    announce_compilation("trace")
    from chakrasim.converter.master import merge_traces
    from chakrasim.trace import read, write_trace

    notes = Notes()
    traces = read(options.prefix, ranks=options.ranks, lenient=options.lenient, notes=notes)
    tell_warnings(notes.warnings, options)
    master = merge_traces(traces)
    write_trace(options.output, master)
    if not options.quiet:
        write_out(f"{len(master):,} nodes of {len(traces):,} ranks written to {options.output}\n")
    return 0
