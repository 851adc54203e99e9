"""``chakrasim analyze sequences``: sequences of kernels that operators repeat."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Find sequences of kernels that operators launch again and again"
EXAMPLES = """\
examples:
  chakrasim analyze sequences trace.json.gz
  chakrasim analyze sequences trace.json.gz --operator aten::linear --least 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument(
        "--operator", default="", metavar="NAME", help="operators whose name contains NAME; default: the outermost"
    )
    parser.add_argument(
        "--least",
        type=whole_number(1, 10**6),
        default=3,
        metavar="N",
        help="sequences of N or more kernels; default: 3",
    )
    parser.add_argument("--top", type=whole_number(1), metavar="N", help="the N most frequent of each rank")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.sequences import kernel_sequences

    return {"sequences": kernel_sequences(traces, options.operator, least=options.least, top=options.top)}
