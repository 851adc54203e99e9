"""The input and the output of commands that may be called as the reference's are, or as ours."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from chakrasim.cli.output import check_targets
from chakrasim.compat.option_names import new_form
from chakrasim.errors import InputError


def add_files(parser: argparse.ArgumentParser, input_help: str, output_help: str, *, several: bool = False) -> None:
    """A positional input, ``-o``, and the reference's ``--input_filename`` and ``--output_filename``."""
    parser.add_argument("input", metavar="INPUT", nargs="*" if several else "?", help=input_help)
    parser.add_argument("-o", "--output", metavar="FILE", help=output_help)
    for side, ours in (("input", "INPUT"), ("output", "-o")):
        names = f"--{side}_filename", f"--{side}-filename"
        again = "append" if side == "input" else "store"
        parser.add_argument(*names, dest=f"{side}_filename", action=again, metavar="FILE", help=f"the same as {ours}")


def files(options: argparse.Namespace) -> tuple[list[str], str]:
    """The inputs and the output. Raises InputError if one is missing, given twice, or the output cannot be written."""
    inputs = options.input if isinstance(options.input, list) else [options.input] if options.input else []
    if options.input_filename is not None:
        if inputs:
            raise InputError("the input is given twice", found=f"{inputs[0]} and {options.input_filename[0]}")
        inputs = list(dict.fromkeys(options.input_filename))
    if options.output is not None and options.output_filename is not None:
        raise InputError("the output is given twice", found=f"{options.output} and {options.output_filename}")
    output = options.output if options.output is not None else options.output_filename
    if not inputs:
        raise InputError("no input is given", remedy="name a file")
    if output is None:
        raise InputError("no output is given", remedy="add -o FILE")
    if len(inputs) > 1 and not isinstance(options.input, list):
        raise _one_at_a_time(options.command, inputs, output)
    check_targets({"-o": output}, inputs)
    return inputs, output


def _one_at_a_time(command: str, inputs: Iterable[str], output: str) -> InputError:
    lines = [new_form(command, path, "-o", f"{output}.{number}") for number, path in enumerate(inputs)]
    return InputError(
        f"{command} takes one trace at a time, and several are given (the reference takes the last without a word)",
        remedy=f"say {'; '.join(lines)}",
    )
