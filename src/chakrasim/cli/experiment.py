"""``chakrasim experiment``: published experiments, run again."""

from __future__ import annotations

import argparse

from chakrasim.cli.output import announce_compilation, report
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.cli.progress import count_ranks
from chakrasim.errors import InputError

SUMMARY = "Run published experiments again: machines, figures and examples of others"
EXAMPLES = """\
examples:
  chakrasim experiment                                              # which there are
  chakrasim experiment chakra-paper --report paper.html
  chakrasim experiment mlsys26-figure-12 --json figure-12.json

exit codes: 0 done; 2 unusable input, or something is not installed that the experiment needs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the experiment; without it they are listed")
    parser.add_argument(
        "--data", metavar="PATH", help="traces or measurements of yours, where the experiment takes some: see the list"
    )
    parser.add_argument("--json", metavar="FILE", help="write all figures as JSON; '-' is standard output, no tables")
    add_report(parser)
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Run and print. Raises InputError."""
    check_outputs(options, [options.data])
    from chakrasim.experiments.api import EXPERIMENTS, experiment
    from chakrasim.report.page.experiment import experiment_page
    from chakrasim.report.tables.answers.experiment import experiment_sections, experiments_sections

    if options.name is None:
        if options.report or options.data:
            raise InputError("no experiment is named", place="NAME", expected=f"one of {', '.join(EXPERIMENTS)}")
        listed = {name: {"summary": one.summary, "data": one.data} for name, one in EXPERIMENTS.items()}
        report(options, lambda: {"experiments": listed}, lambda: experiments_sections(EXPERIMENTS))
        return 0
    if not options.quiet:
        announce_compilation("simulator")
    found = experiment(options.name, data=options.data, progress=None if options.quiet else _show)
    write_report(options, lambda: experiment_page(found), [options.data])
    report(options, found.to_json, lambda: experiment_sections(found))
    return 0


def _show(done: int, total: int, what: str) -> None:
    count_ranks(f"{what},", done, total, "steps")
