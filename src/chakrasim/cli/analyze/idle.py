"""``chakrasim analyze idle``: why devices stand idle."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Say why streams and devices stand idle"
EXAMPLES = """\
examples:
  chakrasim analyze idle trace.json.gz
  chakrasim analyze idle trace.json.gz --kernel-gap-us 10
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument(
        "--kernel-gap-us",
        type=whole_number(0, 10**9),
        default=30,
        metavar="US",
        help="gaps of less than this many microseconds are kernel wait; default: 30",
    )


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.idle import idle_breakdown

    return {"idle": idle_breakdown(traces, kernel_gap_ns=options.kernel_gap_us * 1000)}
