"""Options of commands that are asked for a training step: how ranks share the model, and what a step is."""

from __future__ import annotations

import argparse
from typing import Any, Final

from chakrasim.cli.options import whole_number

_NUMBERS: Final = {
    "tp": "ranks that share every matrix",
    "pp": "pipeline stages",
    "vp": "pieces of the model on each stage (interleaved schedule)",
    "cp": "ranks that share each sequence",
    "ep": "ranks that share the experts of a layer",
    "batch": "sequences of a step, of the whole job",
    "micro-batch": "sequences that a replica computes at a time",
    "seq": "tokens of a sequence",
}


def add_numbers(parser: argparse.ArgumentParser, more: str = "") -> None:
    """The options that are numbers; ``more`` is said of each."""
    for name, what in _NUMBERS.items():
        parser.add_argument(f"--{name}", type=whole_number(1, 2**40), metavar="N", help=f"{what}{more}")


def asked_of(options: argparse.Namespace, *others: str) -> dict[str, Any]:
    """What was asked for, by the names of `chakrasim.estimate`: the numbers, and ``others``."""
    names = (*(name.replace("-", "_") for name in _NUMBERS), *others)
    return {name: getattr(options, name) for name in names}
