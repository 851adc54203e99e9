"""How many options each command has: one more is a decision, and so is one less."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from test_cli_help import all_parsers

from chakrasim.cli.main import COMMANDS, _parsers

PAGE = Path(__file__).parents[2] / "docs" / "reference-cli.md"
COUNTS = {
    "collect": 10,
    "capture": 19,
    "doctor": 3,
    "trace": 11,
    "link": 13,
    "convert": 13,
    "bind": 8,
    "retarget": 10,
    "learn": 5,
    "synthesize": 8,
    "obfuscate": 15,
    "generate transformer": 8,
    "generate collective": 9,
    "generate reference-set": 7,
    "simulate": 55,
    "explain": 49,
    "what-if": 55,
    "flows": 27,
    "replay": 21,
    "predict collective": 14,
    "estimate": 21,
    "plan": 19,
    "sweep": 9,
    "goodput": 4,
    "calibrate collectives": 8,
    "calibrate compute": 11,
    "calibrate steps": 5,
    "validate megatron": 4,
    "validate collectives": 7,
    "validate steps": 4,
    "experiment": 4,
    "analyze summary": 6,
    "analyze temporal": 8,
    "analyze overlap": 8,
    "analyze kernels": 8,
    "analyze idle": 8,
    "analyze queue": 9,
    "analyze launches": 11,
    "analyze bandwidth": 9,
    "analyze memory": 8,
    "analyze annotations": 8,
    "analyze operators": 7,
    "analyze sequences": 10,
    "analyze serving": 6,
    "analyze compare": 12,
    "analyze stragglers": 8,
    "analyze collectives": 6,
    "analyze critical-path": 13,
    "compare": 9,
    "compare-jobs": 6,
    "info": 4,
    "jsonize": 6,
    "draw": 17,
    "timeline": 11,
    "split": 4,
    "merge": 5,
    "machines": 4,
    "network": 6,
    "demo": 2,
}
"""Without --help, positional arguments, and names of other tools, which the help does not list."""


def shown() -> dict[str, list[argparse.Action]]:
    """The options that the help of each command lists."""
    leaves = [own for own in all_parsers(_parsers(COMMANDS)[0]) if own._subparsers is None]
    return {
        own.prog.removeprefix("chakrasim "): [
            action
            for action in own._actions
            if action.option_strings and action.help != argparse.SUPPRESS and action.dest != "help"
        ]
        for own in leaves
    }


def test_no_command_gains_or_loses_an_option_by_accident() -> None:
    assert {command: len(options) for command, options in shown().items()} == COUNTS


def test_the_page_names_every_option() -> None:
    """Of analyses with common options only, the page shows the first in full."""
    named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", PAGE.read_text(encoding="utf-8")))
    missing = {
        (command, name) for command, options in shown().items() for o in options for name in o.option_strings
        if name not in named
    }  # fmt: skip
    assert not missing
