"""``chakrasim plan``: the best split of a model over so many GPUs."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.cli.progress import count_ranks
from chakrasim.cli.step_options import add_numbers, asked_of
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.report.page.parts import Page
    from chakrasim.sweeps.plan import Plan

SUMMARY = "Find the best split of a model over GPUs that fits in memory"
EXAMPLES = """\
examples:
  chakrasim plan llama3-70b --machine h100 --gpus 256
  chakrasim plan llama3-70b --machine h100 --gpus 256 --batch 1024 --tp 8 --json plan.json

tp within a node, pp, vp, micro-batches, recomputation and, of experts, ep are tried; what is given is kept. All splits
are reckoned, the fastest of those that fit are simulated.

exit codes: 0 done; 2 unusable input, or nothing fits (or, with --strict, any warning)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="MODEL", help="a model's name, or a transformer spec's file")
    parser.add_argument("--machine", required=True, metavar="NAME|FILE", help="a board such as h100, or a machine file")
    parser.add_argument("--gpus", type=whole_number(1, 2**20), metavar="N", help="how many GPUs of a board")
    parser.add_argument("--nic", metavar="SPEED", help="of each NIC, such as 400G; default: the board's")
    add_numbers(parser, ", not to be chosen")
    parser.add_argument("--zero", type=whole_number(0, 3), metavar="0-3", help="what data parallelism shards")
    parser.add_argument("--recompute", metavar="WHAT", help="none, selective or full, not to be chosen")
    parser.add_argument("--dtype", metavar="TYPE", help="what is computed in: bf16, fp16, fp32, fp8, mxfp8, nvfp4")
    parser.add_argument("--jobs", type=whole_number(1, 4096), metavar="N", help="processes; default: cores")
    parser.add_argument("--json", metavar="FILE", help="write the plan as JSON; '-' is standard output, no tables")
    add_report(parser)
    add_strict(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Plan and print. Raises InputError."""
    inputs = [options.model, options.machine]
    check_outputs(options, inputs)
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.report.tables.answers.plan import plan_sections
    from chakrasim.sweeps.plan import plan

    asked = asked_of(options, "zero", "recompute", "dtype")
    notes = Notes()
    found = plan(
        options.model, machine=options.machine, gpus=options.gpus, nic=options.nic, jobs=options.jobs,
        progress=None if options.quiet else _show, notes=notes, **asked,
    )  # fmt: skip
    notes.refuse(options.strict)
    tell_warnings(notes.warnings, options)
    write_report(options, partial(_page, found, notes, options), inputs)
    report(options, found.to_json, lambda: plan_sections(found))
    return 0


def _show(done: int, total: int, what: str) -> None:
    count_ranks(what, done, total, "reckoned")


def _page(found: Plan, notes: Notes, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.sweep import plan_page

    question = f"Which split of {options.model} is fastest on {found.machine}?"
    return plan_page(found, question=question, warnings=tuple(notes.warnings))
