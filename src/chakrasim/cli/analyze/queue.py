"""``chakrasim analyze queue``: how much launched work waits."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Say how much launched work waits on each stream"
EXAMPLES = """\
examples:
  chakrasim analyze queue trace.json.gz
  chakrasim analyze queue trace.json.gz --series --csv queue.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument(
        "--full", type=whole_number(1), default=1024, metavar="N", help="launches that fill a queue; default: 1024"
    )
    parser.add_argument("--series", action="store_true", help="the length over time instead of its summary")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.queue_length import queue_series, summarise

    series = queue_series(traces)
    return {"queue_length": series} if options.series else {"queue_length_summary": summarise(series, options.full)}
