"""``chakrasim demo``: what chakrasim does, in a minute."""

from __future__ import annotations

import argparse
from pathlib import Path

from chakrasim.cli.output import announce_compilation, write_out
from chakrasim.errors import InputError

SUMMARY = "Show what chakrasim does: a real run, and machines of up to 1,024 GPUs"
EXAMPLES = """\
examples:
  chakrasim demo
  chakrasim demo --live --out shown      # observes and captures a program, with PyTorch
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "--out",
        default="demo-out",
        metavar="DIR",
        help="folder for traces, pictures; default: demo-out",
    )
    parser.add_argument("--live", action="store_true", help="with PyTorch: observe and capture a program as well")


def run(options: argparse.Namespace) -> int:
    """Show. Raises InputError."""
    if not options.out:
        raise InputError("this is no name of a folder", place="--out", found="''")
    announce_compilation("trace", "linker", "simulator")
    from chakrasim.demo.show import show

    folder = Path(options.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as fault:
        raise InputError(f"the folder cannot be made: {getattr(fault, 'strerror', fault)}", file=folder) from None
    show(folder, lambda line: write_out(line, "\n"), with_torch=options.live)
    return 0
