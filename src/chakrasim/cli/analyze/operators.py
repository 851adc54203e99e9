"""``chakrasim analyze operators``: which operators launch which kernels."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Say which operators launch which kernels, and after what delay"
EXAMPLES = """\
examples:
  chakrasim analyze operators trace.json.gz
  chakrasim analyze operators trace.json.gz --csv operators.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.operators import operator_kernels

    return {"operators": operator_kernels(traces)}
