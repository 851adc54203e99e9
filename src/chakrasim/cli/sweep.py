"""``chakrasim sweep``: many splits and machines, and what nothing else beats."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from chakrasim.cli.options import whole_number
from chakrasim.cli.output import announce_compilation, report
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.cli.progress import count_ranks

METHODS, OWN = ("guess", "optuna"), "guess"

if TYPE_CHECKING:
    from chakrasim.report.page.parts import Page
    from chakrasim.sweeps.sweep import SweepResult

SUMMARY = "Go through many splits and machines, and find what nothing else beats"
EXAMPLES = """\
examples:
  chakrasim sweep splits.yaml -o splits
  chakrasim sweep splits.yaml -o splits --resume --json splits.json
  chakrasim sweep splits.yaml -o front --search --runs 200
  chakrasim sweep splits.yaml -o splits --cluster tcp://host:8786

The sweep (YAML or JSON):
  base: {model: llama-7b, machine: h100, gpus: 64, batch: 64}
  vary:
    tp: [1, 2, 4, 8]
    pp: {from: 1, to: 8, factor: 2}
    micro_batch: [1, 2]
  where: ["dp * tp * pp == gpus"]
  front: [step_s, memory_bytes]      # default: step_s, gpus, memory_bytes, and money where a price is given

Keys are options of chakrasim estimate (with _ for -), dp, price_per_gpu_hour, fabric, oversubscription, library,
places of the machine's file, such as network[0].bandwidth, and keys of a transformer spec, such as overlap.dp. DIR
gets results.csv.gz, of all points in the order of the product, and front.csv. Every point is reckoned, or those that
a search tries; the front and a hundredth of the others are simulated, and the largest difference is said.

exit codes: 0 done; 2 unusable input
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("sweep", metavar="SWEEP", help="the sweep's file")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the tables")
    parser.add_argument("--resume", action="store_true", help="go on with what the folder has of this sweep")
    parser.add_argument("--jobs", type=whole_number(1, 4096), metavar="N", help="processes; default: cores")
    parser.add_argument("--cluster", metavar="ADDRESS", help="workers of Dask's scheduler there instead")
    parser.add_argument(
        "--search", nargs="?", const=OWN, choices=METHODS, metavar="HOW",
        help="try few points, where the front may be: guess (from those tried, the default), or optuna",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=whole_number(1, 4000), metavar="N",
        help="points that a search tries; default: a tenth, 2000 at most",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the front as JSON; '-' is standard output, no tables")
    add_report(parser)
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Sweep and print. Raises InputError."""
    check_outputs(options, [options.sweep])
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.report.tables.answers.sweep import sweep_sections
    from chakrasim.sweeps.sweep import sweep

    found = sweep(
        options.sweep,
        options.output,
        resume=options.resume,
        jobs=options.jobs,
        cluster=options.cluster,
        search=options.search or False,
        runs=options.runs,
        progress=None if options.quiet else _show,
    )
    write_report(options, partial(_page, found, options), [options.sweep])
    report(options, found.to_json, lambda: sweep_sections(found))
    return 0


def _show(done: int, total: int, what: str) -> None:
    count_ranks(what, done, total, "points")


def _page(found: SweepResult, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.sweep import sweep_page

    return sweep_page(found, question=f"Which point of {options.sweep} is best?")
