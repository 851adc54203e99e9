"""``chakrasim analyze kernels``: which kernels take the time."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Say which kernels take the time, by class and by name"
EXAMPLES = """\
examples:
  chakrasim analyze kernels trace.json.gz --top 20
  chakrasim analyze kernels traces/ --csv kernels.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument(
        "--top",
        type=whole_number(1),
        metavar="N",
        help="the N that take most time, of each rank (with --compat: of each class; default: 10)",
    )


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.kernels import kernel_breakdown, kernel_types

    return {"kernel": kernel_breakdown(traces, top=options.top), "kernel_type": kernel_types(traces)}
