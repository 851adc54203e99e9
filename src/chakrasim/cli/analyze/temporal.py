"""``chakrasim analyze temporal``: where the time of each device goes."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say where the time goes: compute, exposed communication and copies, idle"
EXAMPLES = """\
examples:
  chakrasim analyze temporal trace.json.gz
  chakrasim analyze temporal traces/ --no-steps --json -
  chakrasim analyze temporal trace.json.gz --compat hta
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument("--no-steps", action="store_true", help="whole traces only, not each profiler step")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.temporal import temporal_breakdown

    return {"temporal": temporal_breakdown(traces, steps=not options.no_steps)}
