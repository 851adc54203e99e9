"""``chakrasim collect``: run a training script and record some of its steps."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import suppress

from chakrasim.cli.options import add_program_arguments, whole_number
from chakrasim.cli.output import tell_warnings
from chakrasim.errors import InputError
from chakrasim.startup import own_python

_GRACE_S = 30.0

SUMMARY = "Run a PyTorch training script and record some of its steps"
EXAMPLES = """\
examples:
  chakrasim collect train.py -o traces -- --epochs 1
  chakrasim collect --nproc 4 train.py -o traces --wait 10 --active 5 -- --epochs 1
  torchrun --nproc-per-node 4 -m chakrasim collect train.py -o traces -- --epochs 1

A step ends when the script's first optimizer has stepped. Rank 0 prints the doctor's verdict at the end.

exit codes: that of chakrasim doctor; 2 too if the script fails or no step was recorded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("script", metavar="SCRIPT", help="the training script, run unchanged")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the traces of all ranks")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("--nproc", type=whole_number(1, 4096), metavar="N", help="start N ranks, as torchrun does")
    parser.add_argument("--wait", type=whole_number(0), default=1, metavar="N", help="steps that pass; default: 1")
    parser.add_argument(
        "--warmup", type=whole_number(0), default=2, metavar="N", help="then, steps that warm up; default: 2"
    )
    parser.add_argument(
        "--active", type=whole_number(1), default=3, metavar="N", help="then, steps to record; default: 3"
    )
    parser.add_argument("--stop", action="store_true", help="end the script once its steps are recorded")
    parser.add_argument("--force", action="store_true", help="replace earlier traces in DIR")
    parser.add_argument(
        "--patience",
        type=whole_number(0, 86400),
        default=60,
        metavar="SECONDS",
        help="how long rank 0 waits for the traces of the others; default: 60",
    )
    parser.add_argument("--no-verdict", action="store_true", help="record only; the exit code is 0")
    add_program_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Record; the exit code is the doctor's. Raises InputError."""
    from chakrasim.collect.capturing.script_modules import check_script
    from chakrasim.collect.observing.job import require_torch

    check_script(options.script, options.module)
    require_torch()
    if options.nproc is not None:
        return _run_ranks(options)
    from chakrasim.collect.observing.observation import Schedule
    from chakrasim.collect.observing.script import run_script

    steps = run_script(
        options.script,
        options.arguments,
        options.output,
        is_module=options.module,
        schedule=Schedule(options.wait, options.warmup, options.active),
        force=options.force,
        stop=options.stop,
    )
    if not steps.number:
        raise _no_step(options.script)
    if not steps.recorded or steps.place is None:
        raise InputError(steps.shortfall, file=options.script)
    tell_warnings([steps.shortfall] if steps.shortfall else [], options)
    if options.no_verdict or steps.place.rank:
        return 0
    return _verdict(options, steps.place.world_size)


def _verdict(options: argparse.Namespace, world_size: int) -> int:
    from pathlib import Path

    from chakrasim.collect.observing.verdict import print_verdict

    diagnosis = print_verdict(Path(options.output), world_size, options.patience)
    return 2 if diagnosis is None else diagnosis.exit_code


def _no_step(script: str) -> InputError:
    return InputError(
        "no step was seen: no optimizer of torch.optim stepped in this process",
        file=script,
        expected="a program that calls optimizer.step() in the process that is started",
        remedy="start its ranks with torchrun rather than from within, or call chakrasim.collect.observe in its loop",
    )


def _run_ranks(options: argparse.Namespace) -> int:
    """Start the ranks through torchrun's module; the verdict is given here, once all have ended."""
    if "RANK" in os.environ:
        raise InputError("--nproc starts the ranks, and this is one already", remedy="leave --nproc or torchrun out")
    schedule = [f"--{name}={getattr(options, name)}" for name in ("wait", "warmup", "active")]
    switches = [f"--{name}" for name in ("module", "stop", "force") if getattr(options, name)]
    words = ("collect", options.script, "--output", options.output, "--no-verdict", *schedule, *switches)
    command = [
        *(sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.nproc}"),
        *("--no-python", *own_python("chakrasim", *words, "--", *options.arguments)),
    ]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    if _wait(subprocess.Popen(command, env=environment)):
        raise InputError("the ranks failed", file=options.script, remedy="see what they printed")
    return 0 if options.no_verdict else _verdict(options, options.nproc)


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The exit status; whoever ends this command ends the ranks, which remove what they have half written."""
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        process.kill()
        process.wait()
        raise
