"""``chakrasim compare``: two runs, before and after, and the causes of the difference."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.comparison.result import Comparison
    from chakrasim.report.page.parts import Page

SUMMARY = "Compare two runs, simulated or recorded: the causes of the difference, which sum to it"
EXAMPLES = """\
A and B are each a result of simulate --json, one of estimate --json, a device trace of PyTorch, a folder of them (one
rank is compared), or a linked trace. Recorded work is compared by the operator that launched it, its shapes, and its
place, so that the GPUs may be of different makers. What two different kinds of runs do not both tell apart is compared
as a whole, and that is said.

examples:
  chakrasim compare before.json after.json                       # simulate --json, or estimate --json
  chakrasim compare before.json.gz after.json.gz --json why.json # recorded by PyTorch
  chakrasim compare h100/ mi300x/ --rank-a 0 --rank-b 0 --step-a 3
  chakrasim compare device.0.json.gz result.json --report why.html   # measured against simulated
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    for side, what in (("a", "the run before"), ("b", "the run after")):
        parser.add_argument(side, metavar=side.upper(), help=what)
    for side in ("a", "b"):
        upper = side.upper()
        what = f"rank of {upper}; default: that which computes longest, of recorded traces the lowest"
        parser.add_argument(f"--rank-{side}", type=whole_number(0, 2**31 - 1), metavar="R", help=what)
        what = f"profiler step of {upper}; default: the mean of all complete ones"
        parser.add_argument(f"--step-{side}", type=whole_number(0, 2**31 - 1), metavar="N", help=what)
    parser.add_argument("--json", metavar="FILE", help="write all causes as JSON; '-' is standard output, no tables")
    add_report(parser)
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="no tables, only warnings and errors")


def run(options: argparse.Namespace) -> int:
    """Compare and print. Raises InputError."""
    inputs = [options.a, options.b]
    check_outputs(options, inputs)
    if not options.quiet:
        announce_compilation("trace")
    from chakrasim.comparison.compare import compare
    from chakrasim.report.tables.answers.comparison import comparison_sections

    notes = Notes()
    asked = {name: getattr(options, name) for name in ("rank_a", "rank_b", "step_a", "step_b")}
    found = compare(options.a, options.b, **asked, lenient=options.lenient, notes=notes)
    tell_warnings(notes.warnings, options)
    write_report(options, lambda: _page(found, options, notes), inputs)
    report(options, found.to_json, lambda: comparison_sections(found))
    return 0


def _page(found: Comparison, options: argparse.Namespace, notes: Notes) -> Page:
    from chakrasim.report.page.comparison import comparison_page

    question = f"Why does {options.b} take longer than {options.a}, or less long?"
    return comparison_page(found, question=question, warnings=tuple(notes.warnings))
