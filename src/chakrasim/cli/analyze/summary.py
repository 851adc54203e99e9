"""``chakrasim analyze summary``: the most important tables at once."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from chakrasim.cli.analyze.options import Tables, add_common, analyse
from chakrasim.cli.output import tell_warnings

SUMMARY = "Show the most important figures of traces at once"
EXAMPLES = """\
examples:
  chakrasim analyze summary trace.json.gz
  chakrasim analyze summary traces/ --compat hta --json -
"""

#: The table that only traces without work of a device have.
_HOST = "annotations"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    add_common(parser, csv=False)


def run(options: argparse.Namespace) -> int:
    """Analyse and print. Raises InputError."""
    return analyse(_tables, options, printed=partial(_printed, options))


def _tables(options: argparse.Namespace, traces: Any) -> dict[str, Any]:
    from chakrasim.analysis.idle import idle_breakdown
    from chakrasim.analysis.kernels import kernel_breakdown, kernel_types
    from chakrasim.analysis.launches import launch_summary
    from chakrasim.analysis.overlap import comm_overlap
    from chakrasim.analysis.queue_length import queue_summary
    from chakrasim.analysis.stragglers import find_stragglers
    from chakrasim.analysis.temporal import temporal_breakdown
    from chakrasim.analysis.user_annotations import annotation_breakdown

    tables: dict[str, Any] = {
        "temporal": temporal_breakdown(traces),
        "overlap": comm_overlap(traces, steps=False),
        "kernel_type": kernel_types(traces),
        "kernel": kernel_breakdown(traces, top=10),
        "idle": idle_breakdown(traces),
        "launch_summary": launch_summary(traces),
        "queue_length_summary": queue_summary(traces),
    }
    if not any(one.work.busy.any() for one in traces):
        tables[_HOST] = annotation_breakdown(traces)
    return tables | ({"stragglers": find_stragglers(traces)} if len(traces) > 1 else {})


def _printed(options: argparse.Namespace, tables: Tables) -> Tables:
    """What the traces know something of: all tables, or, without work of a device, those of the host."""
    if _HOST not in tables:
        return tables
    tell_warnings(["no work of a device was recorded: these are times of the host"], options)
    return {name: table for name, table in tables.items() if name in (_HOST, "stragglers")}
