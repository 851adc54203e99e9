"""``chakrasim analyze bandwidth``: copies and fills of memory."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say how much memory is copied and filled, and how fast"
EXAMPLES = """\
examples:
  chakrasim analyze bandwidth trace.json.gz
  chakrasim analyze bandwidth trace.json.gz --counters with_counters.json.gz
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument("--series", action="store_true", help="the rate over time instead of its summary")
    parser.add_argument(
        "--counters", metavar="FILE", help="write the trace with counters of queues and copy rates (one trace)"
    )


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.bandwidth import bandwidth_series, memory_bandwidth

    if options.counters is not None:
        from chakrasim.report.timeline.counters import write_with_counters

        write_with_counters(traces, options.counters)
    return (
        {"memory_bw": bandwidth_series(traces)} if options.series else {"memory_bw_summary": memory_bandwidth(traces)}
    )
