"""``chakrasim what-if``: what would be if something were faster, slower or ideal."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.cli.what_if import stragglers
from chakrasim.notes import Notes

SUMMARY = "Ask what would be if something were faster, slower or ideal"
EXAMPLES = """\
examples:
  chakrasim what-if steps.parquet --meta job.yaml --json stragglers.json
  chakrasim what-if steps.parquet --meta job.yaml --set backward-compute=0.5 --set worker:1/3=ideal
  chakrasim what-if steps.parquet --meta job.yaml --draws 600 --seed 1

exit codes: 0 done; 2 unusable input (or, with --strict, any warning)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("trace", metavar="FILE", help="recorded steps as Parquet")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TARGET=FACTOR",
        help="how many times as long something takes, or ideal, for instance stage:3=0.9; may be repeated",
    )  # fmt: skip
    stragglers.add_arguments(parser)
    parser.add_argument("--seed", type=whole_number(0), default=0, metavar="N", help="of what is drawn; default: 0")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    add_strict(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Answer and print. Raises InputError."""
    check_targets({"--json": options.json}, [options.trace, options.meta])
    if not options.quiet:
        announce_compilation("event_graph")
    from chakrasim.report.tables.stragglers import straggler_sections

    notes = Notes()
    found = stragglers.run(options, notes)
    tell_warnings(notes.warnings, options)
    report(options, found.to_dict, lambda: straggler_sections(found))
    return 0
