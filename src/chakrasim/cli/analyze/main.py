"""``chakrasim analyze``: one command for all analyses of traces; each analysis is a module of its own."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Final

SUMMARY = "Analyse recorded traces: where time goes, the critical path, who waits for whom"
EXAMPLES = """\
examples:
  chakrasim analyze summary trace.json.gz
  chakrasim analyze collectives traces
  chakrasim analyze critical-path trace.json.gz
  chakrasim analyze critical-path trace.json.gz --annotation ProfilerStep --instance 0 --compat hta
"""

#: The analyses: name on the command line, and the module of this package that carries it out (SUMMARY, EXAMPLES,
#: add_arguments, run, like a command's).
ANALYSES: Final = {
    "summary": "summary",
    "temporal": "temporal",
    "overlap": "overlap",
    "kernels": "kernels",
    "idle": "idle",
    "queue": "queue",
    "launches": "launches",
    "bandwidth": "bandwidth",
    "annotations": "annotations",
    "operators": "operators",
    "sequences": "sequences",
    "compare": "compare",
    "stragglers": "stragglers",
    "collectives": "collectives",
    "critical-path": "critical_path",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analyses, each with its options."""
    analyses = parser.add_subparsers(dest="analysis", metavar="ANALYSIS", title="analyses")
    for name, module_name in ANALYSES.items():
        module = import_module(f"chakrasim.cli.analyze.{module_name}")
        own = analyses.add_parser(name, help=module.SUMMARY, description=f"{module.SUMMARY}.", epilog=module.EXAMPLES)
        module.add_arguments(own)
        own.set_defaults(analyze=module.run)
    parser.set_defaults(analyze=lambda options: parser.print_help())


def run(options: argparse.Namespace) -> int:
    """Carry out the chosen analysis; without one, print what there is."""
    return int(options.analyze(options) or 0)
