"""Command lines: a parser that fails with InputError, types of values, and names that are nearly right."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NoReturn

from chakrasim.errors import InputError, near
from chakrasim.text.amounts import amount_of

_LARGEST = 2**62


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, whose errors are InputErrors."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Called by argparse for what it cannot parse."""
        raise InputError(message, remedy=f"see {self.prog} --help")


#: Commands that run a program, whose own arguments stand behind "--".
_RUNNERS = ("collect", "capture")


def add_program_arguments(parser: argparse.ArgumentParser) -> None:
    """Let the parser take what stands behind "--", as the list ``options.arguments``."""
    parser.add_argument("--program-arguments", dest="arguments", type=json.loads, default=[], help=argparse.SUPPRESS)
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- ARG ...]"


def prepare(argv: list[str]) -> list[str]:
    """The arguments as argparse takes them: switches that may stand alone take no following word that is none of their
    values; the reference converter's log file, which stood before its subcommand, stands behind it; the arguments of a
    program that is to be run are one word."""
    if argv and argv[0] in _RUNNERS and "--" in argv:
        at = argv.index("--")
        argv = [*argv[:at], f"--program-arguments={json.dumps(argv[at + 1 :])}"]
    if len(argv) > 2 and argv[0] == "--log-filename":
        argv = [argv[2], *argv[:2], *argv[3:]]
    elif len(argv) > 1 and argv[0].startswith("--log-filename="):
        argv = [argv[1], argv[0], *argv[2:]]
    alone = {"--rendezvous-protocol": "true"}
    if argv and argv[0] == "simulate" and not {"recorded", "transfer"}.intersection(_after(argv, "--replay-durations")):
        alone["--replay-durations"] = "recorded"
    return [f"{word}={alone[word]}" if word in alone else word for word in argv]


def _after(argv: list[str], option: str) -> list[str]:
    """The words that directly follow an option."""
    return [following for word, following in pairwise(argv) if word == option]


def near_option(word: str, parser: argparse.ArgumentParser) -> str:
    """A remedy that names the option most like ``word``, or nothing."""
    known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
    name = word.partition("=")[0][:80]
    if not name.startswith("-"):
        return ""
    if not name.startswith("--"):
        name = f"-{name}"
    started = [option for option in known if option.startswith(name) and len(name) > 3]
    return f"did you mean {started[0]}?" if started else near(name, known)


def whole_number(low: int, high: int = _LARGEST) -> Callable[[str], int]:
    """The type of options whose value is an integer from ``low`` to ``high``."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text, re.ASCII) or not low <= int(text) <= high:
            bound = f"of {low} or more" if high == _LARGEST else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"found {text!r}, expected an integer {bound}")
        return int(text)

    return parse


def rank_list(text: str) -> list[int]:
    """The type of options whose value are ranks, each once: ``3,12`` or ``0-7,16``."""
    found: dict[int, None] = {}
    for piece in text.split(","):
        match = re.fullmatch(r" *([0-9]{1,7})(?:-([0-9]{1,7}))? *", piece, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise argparse.ArgumentTypeError(f"found {text!r}, expected ranks, such as 3,12 or 0-7,16")
        found.update(dict.fromkeys(range(first, last + 1)))
    return [*found]


def step(text: str) -> int | str:
    """The type of options whose value is a step's number, or all of them."""
    return text if text == "all" else whole_number(0)(text)


def real_number(text: str) -> float:
    """The type of options whose value is a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number")
    return value


def interval(text: str) -> int:
    """The type of options whose value is a time above 0: ``500ns``, ``1us``; in ns."""
    match = re.fullmatch(r"([0-9]{1,12})(ns|us|ms|s)", text.strip(), re.ASCII)
    if match is None or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a time above 0, as 500ns or 1us")
    return int(match[1]) * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[match[2]]


def amount(text: str) -> int:
    """The type of options whose value is a positive amount: ``200000``, ``1e9``, ``8GiB``, ``500M``."""
    value = amount_of(text)
    if value is None or not 1 <= value <= _LARGEST:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected an amount such as 200000, 1e9 or 8GiB")
    return int(value)


def truth(text: str) -> bool:
    """The type of options whose value is true or false."""
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected true or false")
    return known[text.lower()]


def add_reading(parser: argparse._ActionsContainer) -> None:
    """The options of commands that read traces: --lenient and --strict."""
    parser.add_argument(
        "--lenient", action="store_true", help="of damaged files, use what is intact and count the loss"
    )
    add_strict(parser)


def add_strict(parser: argparse._ActionsContainer) -> None:
    """The option of commands that may warn; `chakrasim.cli.output.tell_warnings` acts on it."""
    parser.add_argument("--strict", action="store_true", help="treat every warning as an error, and write nothing")
