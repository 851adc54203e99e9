"""``chakrasim analyze sequences``: sequences of kernels that operators repeat."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common, analyse
from chakrasim.cli.options import whole_number
from chakrasim.errors import InputError

SUMMARY = "Find sequences of kernels that operators launch again and again"
EXAMPLES = """\
examples:
  chakrasim analyze sequences trace.json.gz
  chakrasim analyze sequences trace.json.gz --operator aten::linear --least 3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser)
    parser.add_argument(
        "--operator", default="", metavar="NAME", help="operators whose name contains NAME; default: the outermost"
    )
    parser.add_argument(
        "--least",
        type=whole_number(1, 10**6),
        default=3,
        metavar="N",
        help="sequences of N or more kernels; default: 3",
    )
    parser.add_argument("--top", type=whole_number(1), metavar="N", help="the N most frequent of each rank")


def run(options: argparse.Namespace) -> int:
    """Analyse and print. Raises InputError."""
    return analyse(options, lambda traces: _default(options, traces), lambda ranks: _hta(options, ranks))


def _default(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    from chakrasim.analysis.sequences import kernel_sequences

    return {"sequences": kernel_sequences(traces, options.operator, least=options.least, top=options.top)}


def _hta(options: argparse.Namespace, ranks: Any) -> dict[str, Any]:
    from chakrasim.compat.hta.sequences import hta_sequences

    if not options.operator:
        raise InputError("HTA needs the name of an operator", remedy="give --operator")
    # HTA takes one rank; the tables of several have their ranks in their names.
    if len(ranks) == 1:
        return {"sequences": hta_sequences(ranks[0], options.operator, options.least)}
    return {f"sequences {one.rank}": hta_sequences(one, options.operator, options.least) for one in ranks}
