"""``chakrasim analyze stragglers``: which rank the others wait for."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Say which rank the others wait for"
EXAMPLES = """\
examples:
  chakrasim analyze stragglers traces/
  chakrasim analyze stragglers traces/ --compat hta --candidates 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser, rank=False)
    parser.add_argument(
        "--step", type=whole_number(0), action="append", metavar="N", help="only this profiler step (repeatable)"
    )
    parser.add_argument(
        "--candidates",
        type=whole_number(1, 10**6),
        default=2,
        metavar="N",
        help="with --compat: how many ranks to name; default: 2",
    )


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.stragglers import find_stragglers

    return {"stragglers": find_stragglers(traces, steps=options.step)}
