"""``chakrasim capture``: one step of a training script for any number of GPUs, without one."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from chakrasim.cli.machine_options import machine_for
from chakrasim.cli.options import add_program_arguments, add_strict, real_number, whole_number
from chakrasim.cli.output import announce_compilation, check_job_outputs, report, shows, tell_warnings, write_out
from chakrasim.cli.progress import progress_line
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.collect.capturing.api import Capture
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.machine import Machine

SUMMARY = "Take one step of a PyTorch script for any number of GPUs, on fake tensors"
EXAMPLES = """\
examples:
  chakrasim capture train.py --world-size 8 --output step -- --epochs 1
  chakrasim capture train.py --world-size 1024 --output step --device-profile h100 --json summary.json
  chakrasim capture train.py --world-size 64 --output step --machine h100 --tokens 1048576
  chakrasim capture train.py --world-size 16 --ranks all --expand --output step
  chakrasim capture train.py --world-size 16 --ranks 0,8 --output step
  chakrasim capture -m package.train --world-size 8 --output step -- --epochs 1

The script is run unchanged, as torchrun would run each rank; its prints are not shown. A step ends when the
script's first optimizer has stepped; the second step is recorded, then the script is stopped.

exit codes: 0 done; 2 the script fails, or does what cannot be captured (or, with --strict, what does not fit in
the memory of the --machine, or any other warning)
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
    parser.add_argument(
        "--machine", metavar="NAME|FILE", help="say how long the step takes there: a board such as h100, or a file"
    )
    parser.add_argument(
        "--tokens", type=whole_number(1), metavar="N", help="of the step, over all ranks: says tokens a second"
    )
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
    notes = Notes()
    machine = None if options.machine is None else _machine(options, notes)
    from chakrasim.collect.capturing.api import capture

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
            device_profile=options.device_profile if machine is None else machine.profile,
            with_gpu=not options.cpu,
            devices_per_node=options.gpus_per_node,
            verify=options.verify,
            workers=options.workers,
            progress=progress,
            patience_s=options.patience,
            tokens=options.tokens,
        )
    notes.warn(*done.warnings)
    step = None if machine is None else _step(done, machine, options, notes)
    from chakrasim.report.tables.capture import sections

    tell_warnings(notes.warnings, options)
    written = done.write(options.output, expand=options.expand, compress=options.compress)
    told = {} if step is None else {"step": step.to_json()}
    report(options, lambda: {**done.to_mapping(), **told}, lambda: sections(done, step))
    if shows(options):
        write_out(f"\n{options.output}: {len(written):,} files\n")
    return 0


def _machine(options: argparse.Namespace, notes: Notes) -> Machine:
    """The machine that the step is to run on, with the device that is named instead of its own. Raises InputError."""
    from chakrasim.estimation.api import profile_of
    from chakrasim.machine.device.file import load_device

    if options.ranks not in ("representative", "all"):
        raise InputError("a step is that of all ranks", place="--ranks", found=repr(options.ranks),
                         expected="representative or all", remedy="leave --machine or --ranks out")  # fmt: skip
    machine = machine_for(options.machine, options.world_size, notes)
    if options.device_profile is not None:
        machine = replace(machine, profile=load_device(options.device_profile))
    profile_of(machine)
    return machine


def _step(done: Capture, machine: Machine, options: argparse.Namespace, notes: Notes) -> StepEstimate:
    """How long the step takes there. Raises InputError, with --strict also for what does not fit in memory."""
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.estimation.api import check_fit
    from chakrasim.estimation.simulated import estimate_job

    found = estimate_job(done.job, machine, done.assumptions, notes=notes)
    check_fit(found, notes, options.strict)
    return found
