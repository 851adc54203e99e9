"""``chakrasim analyze serving``: iterations of inference servers."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common

SUMMARY = "Take traces of inference servers apart: prefill and decode, time per token, host or device"
EXAMPLES = """\
examples:
  chakrasim analyze serving vllm.pt.trace.json.gz
  chakrasim analyze serving sglang-TP-0.trace.json.gz --csv iterations.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser, compat=False)


def tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    """What is printed and written, by name."""
    from chakrasim.analysis.serving.iterations import serving_iterations
    from chakrasim.analysis.serving.summary import serving_summary

    iterations = serving_iterations(traces)
    return {"iterations": iterations, "by_kind": serving_summary(iterations)}
