"""Names that other tools have for what our commands take: their options run as they are, so that a command line of
theirs needs another program's name only. An option that asks for what is always so, or cannot be, adds a warning."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from chakrasim.cli.output import check_targets
from chakrasim.errors import InputError


def add_old_names(
    parser: argparse.ArgumentParser,
    same: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    valued: Mapping[str, str] | None = None,
) -> None:
    """Take options of other tools, which the help does not list: those of ``same`` stand for the options of these
    destinations; ``flags`` and, with a value, ``valued`` have no effect, for the reason that is given with each."""
    known = {action.dest: action for action in parser._actions}
    for old, dest in (same or {}).items():
        own = known[dest]
        parser.add_argument(
            old, dest=dest, type=own.type or str, choices=own.choices, default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    for names, nargs in ((flags, 0), (valued, None)):
        for old, reason in (names or {}).items():
            parser.add_argument(
                *(old, *_also(old)), dest="without_effect", action=_WithoutEffect, nargs=nargs, const=reason,
                default=argparse.SUPPRESS, help=argparse.SUPPRESS,
            )  # fmt: skip


def _also(option: str) -> tuple[str, ...]:
    """The same option with hyphens for underscores, if it has any."""
    other = option.replace("_", "-")
    return () if other == option else (other,)


class _WithoutEffect(argparse.Action):
    """Notes that an option was given, and why nothing comes of it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        noted = getattr(namespace, self.dest, [])
        setattr(namespace, self.dest, [*noted, f"{option} has no effect: {self.const}"])


def old_name_warnings(options: argparse.Namespace) -> list[str]:
    """What to say of options of other tools that were given and have no effect."""
    said: list[str] = getattr(options, "without_effect", [])
    return said


def new_form(*words: str) -> str:
    """A command line of ours, to be pasted."""
    return f"chakrasim {shlex.join(words)}"


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
