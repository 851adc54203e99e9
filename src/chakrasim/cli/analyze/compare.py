"""``chakrasim analyze compare``: what changed between two traces."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chakrasim.cli.analyze.options import add_common, check_outputs, compat_tables, emit, hta_tables, read
from chakrasim.cli.options import whole_number
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.analysis.table.result import Result
    from chakrasim.analysis.table.traces import RankTrace

SUMMARY = "Say what changed between two traces: operators and kernels, how often and how long"
EXAMPLES = """\
examples:
  chakrasim analyze compare before.json.gz after.json.gz
  chakrasim analyze compare before/ after/ --rank-a 0 --rank-b 3 --side device --short-names
  chakrasim analyze compare before.json.gz after.json.gz --step-a 10 --step-b 12 --compat hta --csv changes.csv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    number = whole_number(0, 2**62)
    for side, what in (("a", "the first trace: a Kineto file, or a folder of them"), ("b", "the second")):
        parser.add_argument(side, metavar=side.upper(), help=what)
    add_common(parser, traces=False, rank=False)
    for side in ("a", "b"):
        parser.add_argument(
            f"--rank-{side}", type=number, metavar="R", help=f"rank of {side.upper()}; default: the lowest"
        )
        parser.add_argument(
            f"--step-{side}",
            type=number,
            metavar="N",
            help=f"step of {side.upper()}; default: the mean step (with --compat: the first)",
        )
    parser.add_argument(
        "--side", choices=("all", "host", "device"), default="all", help="operators, device work, or both"
    )
    parser.add_argument("--short-names", action="store_true", help="names without template and call arguments")


def run(options: argparse.Namespace) -> int:
    """Compare and print. Raises InputError."""
    check_outputs(options, [options.a, options.b])
    notes = Notes()
    a, b = (read([path], options.lenient, rank, notes)
            for path, rank in ((options.a, options.rank_a), (options.b, options.rank_b)))  # fmt: skip
    if options.compat is not None:
        return emit(options, compat_tables(options, lambda: {"trace_diff": _hta(options, a, b)}), notes)
    from chakrasim.analysis.compare import compare_traces

    steps = {"step_a": options.step_a, "step_b": options.step_b}
    found = compare_traces(a, b, **steps, side=options.side, short_names=options.short_names)
    return emit(options, {"trace_diff": found}, notes)


def _hta(options: argparse.Namespace, a: list[RankTrace], b: list[RankTrace]) -> Result:
    from chakrasim.compat.hta.compare import hta_compare

    tables = [hta_tables(traces, options.compat, step_filter=False) for traces in (a, b)]
    steps = (options.step_a, options.step_b)
    return hta_compare(*tables, iterations=steps, side=options.side, short_names=options.short_names)
