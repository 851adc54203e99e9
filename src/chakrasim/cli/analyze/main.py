"""``chakrasim analyze``: one command for all analyses of traces; each analysis is a module of its own."""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from typing import Final

from chakrasim.cli.analyze.options import analyse

SUMMARY = "Analyse recorded traces: where time goes, the critical path, who waits for whom"
EXAMPLES = """\
examples:
  chakrasim analyze summary trace.json.gz
  chakrasim analyze collectives traces
  chakrasim analyze critical-path trace.json.gz
  chakrasim analyze critical-path trace.json.gz --annotation ProfilerStep --instance 0 --compat hta
"""

#: The analyses, each a module of this package (with underscores for hyphens): SUMMARY, EXAMPLES, add_arguments, and
#: either ``tables``, which makes tables of traces, or ``run``, like a command's, where more is to be done.
ANALYSES: Final = (
    "summary",
    "temporal",
    "overlap",
    "kernels",
    "idle",
    "queue",
    "launches",
    "bandwidth",
    "memory",
    "annotations",
    "operators",
    "sequences",
    "serving",
    "compare",
    "stragglers",
    "collectives",
    "critical-path",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analyses, each with its options."""
    analyses = parser.add_subparsers(dest="analysis", metavar="ANALYSIS", title="analyses")
    for name in ANALYSES:
        module = import_module(f"chakrasim.cli.analyze.{name.replace('-', '_')}")
        own = analyses.add_parser(name, help=module.SUMMARY, description=f"{module.SUMMARY}.", epilog=module.EXAMPLES)
        module.add_arguments(own)
        own.set_defaults(analyze=module.run if hasattr(module, "run") else partial(analyse, module.tables))
    parser.set_defaults(analyze=lambda options: parser.print_help())


def run(options: argparse.Namespace) -> int:
    """Carry out the chosen analysis; without one, print what there is."""
    return int(options.analyze(options) or 0)
