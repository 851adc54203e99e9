"""``chakrasim compare-jobs``: two jobs, or two sets of jobs, and how alike they are."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_reading
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, write_tables
from chakrasim.notes import Notes

SUMMARY = "Compare two jobs, or two sets of them: structure, work, times, decisions, privacy"
EXAMPLES = """\
A and B are each a job (PREFIX.ranks.json, or PREFIX.0.et, ...) or a folder of jobs, such as synthetic or obfuscated
ones and those that they stand for. Jobs of the same name are compared with one another.

examples:
  chakrasim compare-jobs synthetic/job held-out/job
  chakrasim compare-jobs synthetic held-out --machine h100 --machine mi300x --json alike.json --report alike.html
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("a", metavar="A", help="the job, or folder of jobs, that is judged")
    parser.add_argument("b", metavar="B", help="the job, or folder of jobs, that it stands for")
    parser.add_argument(
        "--machine",
        action="append",
        metavar="NAME",
        help="board, preset or machine file to time both on; default: the boards h100, a100 and mi300x",
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures as JSON; '-' is standard output, no tables")
    add_report(parser)
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="no tables, only warnings and errors")


def run(options: argparse.Namespace) -> int:
    """Compare and print. Raises InputError."""
    inputs = [options.a, options.b]
    check_outputs(options, inputs)
    if not options.quiet:
        announce_compilation("trace", "simulator")
    from chakrasim.comparison.jobs.api import MACHINES, compare_jobs
    from chakrasim.report.tables.answers.compare_jobs import compare_jobs_sections

    notes = Notes()
    found = compare_jobs(
        options.a, options.b, machines=options.machine or MACHINES, lenient=options.lenient, notes=notes
    )
    tell_warnings(notes.warnings, options)
    question = f"How alike are the jobs of {options.a} and {options.b}?"
    write_tables(options, question, lambda: compare_jobs_sections(found), inputs)
    report(options, found.to_json, lambda: compare_jobs_sections(found))
    return 0
