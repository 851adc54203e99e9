"""``chakrasim analyze launches``: what launching costs."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common
from chakrasim.cli.options import whole_number

SUMMARY = "Say what launching work costs the host, and how long work takes to start"
EXAMPLES = """\
examples:
  chakrasim analyze launches trace.json.gz
  chakrasim analyze launches trace.json.gz --all --csv launches.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument("--all", action="store_true", help="every launch instead of figures by call")
    parser.add_argument("--no-copies", action="store_true", help="kernels only, no copies and fills of memory")
    parser.add_argument(
        "--long-call-us",
        type=whole_number(0, 10**9),
        default=50,
        metavar="US",
        help="calls of more microseconds are long; default: 50",
    )
    parser.add_argument(
        "--long-delay-us",
        type=whole_number(0, 10**9),
        default=100,
        metavar="US",
        help="delays of more microseconds are long; default: 100",
    )


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.launches import launch_list, launch_summary

    copies = not options.no_copies
    if options.all:
        return {"launch": launch_list(traces, copies=copies)}
    limits = {"long_call_ns": options.long_call_us * 1000, "long_delay_ns": options.long_delay_us * 1000}
    return {"launch_summary": launch_summary(traces, copies=copies, **limits)}
