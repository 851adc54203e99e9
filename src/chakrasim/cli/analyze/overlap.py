"""``chakrasim analyze overlap``: how much communication is hidden."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say how much of the communication is hidden behind compute"
EXAMPLES = """\
examples:
  chakrasim analyze overlap traces/
  chakrasim analyze overlap trace.json.gz --compat hta-pinned --json -
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument("--no-steps", action="store_true", help="whole traces only, not each profiler step")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.overlap import comm_overlap

    return {"overlap": comm_overlap(traces, steps=not options.no_steps)}
