"""``chakrasim explain``: why a job takes as long as it does, over all ranks."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from chakrasim.cli.job_options import add_inputs, add_limits, add_model, files_of, simulated
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, question_of, write_report

if TYPE_CHECKING:
    from chakrasim.explanation.result import Explanation
    from chakrasim.report.page.parts import Page

SUMMARY = "Explain why a job takes as long as it does: the critical path over all ranks, who waits for whom"
EXAMPLES = """\
examples:
  chakrasim explain traces/step --machine hgx-h100-8
  chakrasim explain traces/step --machine h100 --gpus 64 --slow 5=1.3 --json why.json
  chakrasim explain out/chakra --replay-durations=transfer       # recorded, not simulated
  chakrasim explain recorded                                     # a folder of PyTorch traces of all ranks

The job is simulated as by chakrasim simulate, whose options these are, or its recorded durations are replayed.

exit codes: 0 done; 2 unusable input (or, with --strict, any warning); 3 a rank can never finish; 130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    add_inputs(parser)
    add_model(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    add_report(output)
    output.add_argument("--quiet", action="store_true", help="no tables and no progress, only warnings and errors")
    add_limits(parser)


def run(options: argparse.Namespace) -> int:
    """Simulate, explain and print. Raises InputError and StallError."""
    inputs = files_of(options)
    check_outputs(options, inputs)
    if not options.quiet:
        announce_compilation("trace", "simulator", "event_graph")
    with simulated(options) as result:
        tell_warnings(result.warnings, options)
        from chakrasim.explanation.explain import explain
        from chakrasim.report.tables.answers.explanation import explanation_sections

        found = explain(result)
    write_report(options, partial(_page, found, options), inputs)
    report(options, found.to_dict, lambda: explanation_sections(found))
    return 0


def _page(found: Explanation, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.explanation import explanation_page

    return explanation_page(found, question=question_of(options, "Why does {} take so long{}?"))
