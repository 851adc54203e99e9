"""``chakrasim analyze annotations``: how long user annotations take."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say how long user annotations take, on the host and on devices"
EXAMPLES = """\
examples:
  chakrasim analyze annotations trace.json.gz
  chakrasim analyze annotations trace.json.gz --work --csv work.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument("--work", action="store_true", help="each piece of device work with its annotation instead")


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.user_annotations import annotated_work, annotation_breakdown

    return {"work": annotated_work(traces)} if options.work else {"annotations": annotation_breakdown(traces)}
