"""``chakrasim analyze operators``: which operators launch which kernels."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common, analyse

SUMMARY = "Say which operators launch which kernels, and after what delay"
EXAMPLES = """\
examples:
  chakrasim analyze operators trace.json.gz
  chakrasim analyze operators trace.json.gz --csv operators.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    """Analyse and print. Raises InputError."""
    return analyse(options, lambda traces: _default(options, traces))


def _default(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    from chakrasim.analysis.operators import operator_kernels

    return {"operators": operator_kernels(traces)}
