"""``chakrasim bind``: what was measured in a recorded run, moved to a captured program of any number of ranks."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_reading, real_number, whole_number
from chakrasim.cli.output import announce_compilation, check_job_outputs, refuse_replaced, report, tell_warnings

SUMMARY = "Give a captured program the durations of a recorded run of it"
EXAMPLES = """\
PRE is a job without durations, of any number of ranks (chakrasim capture). POST is a recorded run of the same program,
of one rank or more, with the same sizes for a rank: a folder of PyTorch's traces, a device trace, a linked trace, or
Chakra traces made of these. Operators are found by name, size and order.

examples:
  chakrasim capture train.py --world-size 512 -o step -- --your-options
  chakrasim collect --nproc 2 train.py -o recorded -- --your-options
  chakrasim bind step --measured recorded -o bound --json bound.json
  chakrasim simulate bound --machine my-machine.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("prefix", metavar="PRE", help="the captured job: PREFIX.ranks.json, or PREFIX.0.et, ...")
    parser.add_argument("--measured", required=True, metavar="POST", help="the recorded run: a folder, file or prefix")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="prefix of the new job's files")
    parser.add_argument(
        "--step", type=whole_number(0), action="append", metavar="N", help="a recorded step to take; default: all"
    )
    parser.add_argument(
        "--least",
        type=real_number,
        default=0.8,
        metavar="SHARE",
        help="share of the compute nodes of each trace, 0 to 1, that has to be found; default: 0.8",
    )
    add_reading(parser)
    parser.add_argument("--json", metavar="FILE", help="write what was matched as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Bind and write. Raises InputError."""
    check_job_outputs(options.output, options.json, [options.prefix, options.measured])
    refuse_replaced(options.output, [options.prefix, options.measured])
    if not options.quiet:
        announce_compilation("trace")
    from chakrasim.converter.binding.api import bind
    from chakrasim.report.tables.answers.bind import bind_sections
    from chakrasim.trace.job.file import write_job

    made = bind(
        options.prefix, options.measured, steps=options.step, least_share=options.least, lenient=options.lenient
    )
    tell_warnings(made.warnings, options)
    files = write_job(options.output, made.job)
    report(options, lambda: {**made.to_json(), "files": files}, lambda: bind_sections(made, files))
    return 0
