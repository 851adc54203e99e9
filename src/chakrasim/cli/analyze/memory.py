"""``chakrasim analyze memory``: what tensors took on the devices."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say how much memory tensors took, at most and over time"
EXAMPLES = """\
examples:
  chakrasim analyze memory trace.json.gz
  chakrasim analyze memory trace.json.gz --picture memory.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser, compat=False)
    parser.add_argument("--series", action="store_true", help="the bytes over time instead of their summary")
    parser.add_argument("--picture", metavar="FILE", help="draw the bytes over time: FILE.svg")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.memory import memory_series, summarise

    series = memory_series(traces)
    if options.picture is not None:
        series.plot().save(options.picture)
    return {"memory": series} if options.series else {"memory_summary": summarise(series)}
