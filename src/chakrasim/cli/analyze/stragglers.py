"""``chakrasim analyze stragglers``: which rank the others wait for."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.analyze.options import add_common, analyse
from chakrasim.cli.options import whole_number

SUMMARY = "Say which rank the others wait for"
EXAMPLES = """\
examples:
  chakrasim analyze stragglers traces/
  chakrasim analyze stragglers traces/ --compat hta --candidates 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser, rank=False)
    parser.add_argument(
        "--step", type=whole_number(0), action="append", metavar="N", help="only this profiler step (repeatable)"
    )
    parser.add_argument(
        "--candidates",
        type=whole_number(1, 10**6),
        default=2,
        metavar="N",
        help="with --compat: how many ranks to name; default: 2",
    )


def run(options: argparse.Namespace) -> int:
    """Analyse and print. Raises InputError."""
    return analyse(options, lambda traces: _default(options, traces), lambda ranks: _hta(options, ranks))


def _default(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    from chakrasim.analysis.stragglers import find_stragglers

    return {"stragglers": find_stragglers(traces, steps=options.step)}


def _hta(options: argparse.Namespace, ranks: Any) -> dict[str, Any]:
    from chakrasim.compat.hta.compare import hta_profiler_steps, hta_stragglers
    from chakrasim.compat.hta.ranks import table_of

    found = hta_stragglers(ranks, options.candidates, options.step)
    table = table_of("stragglers", ("rank",), [(rank,) for rank in found])
    return {"stragglers": table, "stragglers_list": found, "profiler_steps": hta_profiler_steps(ranks)}
