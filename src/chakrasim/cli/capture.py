"""``chakrasim capture``: one step of a training script for any number of GPUs, without one."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext

from chakrasim.cli.options import add_program_arguments, add_strict, real_number, whole_number
from chakrasim.cli.output import check_job_outputs, report, shows, tell_warnings, write_out
from chakrasim.cli.progress import progress_line

SUMMARY = "Take one step of a PyTorch script for any number of GPUs, on fake tensors"
EXAMPLES = """\
examples:
  chakrasim capture train.py --world-size 8 --output step -- --epochs 1
  chakrasim capture train.py --world-size 1024 --output step --device-profile h100 --json summary.json
  chakrasim capture train.py --world-size 16 --ranks all --expand --output step
  chakrasim capture train.py --world-size 16 --ranks 0,8 --output step
  chakrasim capture -m package.train --world-size 8 --output step -- --epochs 1

The script is run unchanged, as torchrun would run each rank; its prints are not shown. A step ends when the
script's first optimizer has stepped; the second step is recorded, then the script is stopped.

exit codes: 0 done; 2 the script fails, or does what cannot be captured
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("script", metavar="SCRIPT", help="the training script, run unchanged")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument(
        "--world-size", required=True, type=whole_number(1, 2**20), metavar="N", help="ranks that there seem to be"
    )
    parser.add_argument(
        "--ranks",
        default="representative",
        metavar="WHICH",
        help="representative: equal ranks once (default); all; or a list such as 0,1,8: only these are written",
    )
    parser.add_argument("--output", "-o", required=True, metavar="PREFIX", help="what the files' names begin with")
    parser.add_argument("--device-profile", metavar="NAME", help="durations and a verdict on memory for this device")
    parser.add_argument("--expand", action="store_true", help="a file for every rank, for other tools")
    parser.add_argument("--compress", action="store_true", help="write .et.gz")
    parser.add_argument("--json", metavar="FILE", help="write the summary as JSON; '-' is standard output, no tables")
    parser.add_argument(
        "--step", type=whole_number(0), default=2, metavar="N", help="step to record; 0: the whole run; default: 2"
    )
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        help="capture a second rank of every class and compare; default: if that is cheap",
    )
    parser.add_argument("--cpu", action="store_true", help="tell the script that there is no GPU")
    parser.add_argument(
        "--gpus-per-node", type=whole_number(1), default=8, metavar="N", help="ranks of a node; default: 8"
    )
    parser.add_argument("--workers", type=whole_number(1), metavar="N", help="ranks captured at the same time")
    parser.add_argument(
        "--patience",
        type=real_number,
        metavar="SECONDS",
        help="how long a loop may go on that only a tensor's value ends; 20 times as long without a step; default: 40",
    )
    add_strict(parser)
    parser.add_argument("--traceback", action="store_true", help="show where in PyTorch a failure came from")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    add_program_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Capture, write and print. Raises InputError."""
    check_job_outputs(options.output, options.json, [] if options.module else [options.script])
    from chakrasim.collect.capturing.api import capture
    from chakrasim.report.tables.capture import sections

    if options.traceback:
        os.environ["CHAKRASIM_CAPTURE_TRACEBACK"] = "1"
    with nullcontext() if options.quiet or not sys.stderr.isatty() else progress_line("capturing") as progress:
        done = capture(
            options.script,
            world_size=options.world_size,
            ranks=options.ranks,
            arguments=options.arguments,
            is_module=options.module,
            step=options.step,
            device_profile=options.device_profile,
            with_gpu=not options.cpu,
            devices_per_node=options.gpus_per_node,
            verify=options.verify,
            workers=options.workers,
            progress=progress,
            patience_s=options.patience,
        )
    tell_warnings(done.warnings, options)
    written = done.write(options.output, expand=options.expand, compress=options.compress)
    report(options, done.to_mapping, lambda: sections(done))
    if shows(options):
        write_out(f"\n{options.output}: {len(written):,} files\n")
    return 0
