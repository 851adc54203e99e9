"""``chakrasim analyze compare``: what changed between two traces."""

from __future__ import annotations

import argparse

from chakrasim.cli.analyze.options import add_common, as_hta, check_outputs, emit, read
from chakrasim.cli.options import whole_number
from chakrasim.notes import Notes

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
        return emit(options, as_hta(options, a, b), notes)
    from chakrasim.analysis.compare import compare_traces

    steps = {"step_a": options.step_a, "step_b": options.step_b}
    found = compare_traces(a, b, **steps, side=options.side, short_names=options.short_names)
    return emit(options, {"trace_diff": found}, notes)
