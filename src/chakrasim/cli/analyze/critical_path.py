"""``chakrasim analyze critical-path``: what determines how long a trace takes."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from chakrasim.cli.analyze.options import COMPAT
from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import (
    announce_compilation,
    check_targets,
    check_timeline,
    print_sections,
    shows,
    tell_warnings,
    write_json,
)
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.analysis.critical_path.shown import ShownPath
    from chakrasim.analysis.table.traces import RankTrace

SUMMARY = "Find the chain of work that determines how long a trace takes"
EXAMPLES = """\
examples:
  chakrasim analyze critical-path trace.json.gz
  chakrasim analyze critical-path traces --rank 3 --annotation ProfilerStep --instance 1:2
  chakrasim analyze critical-path trace.json.gz --overlay critical.json.gz
  chakrasim analyze critical-path trace.json.gz --annotation ProfilerStep --instance 0 --compat hta --json -

The window is the whole trace, or the time of annotations whose name contains TEXT. With --compat the result is that of
Holistic Trace Analysis, its newest version (hta) or the one that Chakra's users are told to install (hta-pinned); the
window is then by default the first ProfilerStep, and where HTA fails the exit code is 2.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="a Kineto trace, or a folder of them (then --rank picks one)"
    )
    parser.add_argument("--rank", type=whole_number(0), metavar="R", help="which rank's trace")
    parser.add_argument("--host", metavar="FILE", help="the host trace of the same rank, for more dependencies")
    parser.add_argument("--annotation", metavar="TEXT", help="annotations that bound the window; '' is the whole trace")
    parser.add_argument(
        "--instance",
        type=_instance,
        default=(),
        metavar="N|A:B|none",
        help="which of them, from 0; none is all of them (with --compat: the first)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    parser.add_argument("--overlay", metavar="FILE", help="write the trace with the path drawn in, for a trace viewer")
    parser.add_argument("--show-all", action="store_true", help="keep events off the path in the overlay")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="no tables, only warnings and errors")
    parser.add_argument("--input", help=argparse.SUPPRESS)  # of scripts around HTA
    compat = parser.add_argument_group("as Holistic Trace Analysis")
    compat.add_argument("--compat", choices=COMPAT, help="that tool's result, quirks included")
    compat.add_argument("--zero-weight-launch-edges", action="store_true", help="also link launches that delay nothing")
    compat.add_argument(
        "--data-load-event", action="append", metavar="TEXT", help="events whose name contains TEXT load data"
    )


def _instance(text: str) -> int | tuple[int, int] | None:
    if text == "none":
        return None
    match = re.fullmatch(r"(-?[0-9]{1,9})(?::(-?[0-9]{1,9}))?", text, re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, two numbers A:B, or none")
    return int(match[1]) if match[2] is None else (int(match[1]), int(match[2]))


def run(options: argparse.Namespace) -> int:
    """Analyse and print. Raises InputError."""
    options.trace = options.input if options.trace is None else options.trace
    if options.trace is None:
        raise InputError("no trace is given", remedy="name a Kineto trace, or a folder of them")
    check_targets({"--json": options.json, "--overlay": options.overlay}, [options.trace, options.host])
    check_timeline(options.overlay, perfetto=False)
    if options.compat is None and (options.zero_weight_launch_edges or options.data_load_event):
        raise InputError("--zero-weight-launch-edges and --data-load-event need --compat")
    if options.compat is not None and options.host is not None:
        raise InputError("--compat and --host cannot be combined: HTA knows no host trace")
    if not options.quiet:
        announce_compilation("trace", *(("compat",) if options.compat else ("linker", "analysis")))
    notes = Notes()
    trace = _one_rank(options, notes)
    tell_warnings(notes.warnings, options)
    _default_window(options)
    if options.compat is None:
        shown = _linked(options, trace)
    else:
        from chakrasim.compat.hta_critical_path.shown import hta_path

        shown = hta_path(options, trace)
    tell_warnings(shown.warnings, options)
    return _show(options, trace, shown)


def _default_window(options: argparse.Namespace) -> None:
    """The whole trace, or HTA's first step."""
    annotation, instance = ("ProfilerStep", 0) if options.compat else ("", None)
    options.annotation = annotation if options.annotation is None else options.annotation
    options.instance = instance if options.instance == () else options.instance


def _one_rank(options: argparse.Namespace, notes: Notes) -> RankTrace:
    from chakrasim.analysis.table.traces import open_traces

    lenient = options.lenient or options.compat is not None  # HTA uses what is intact
    found = open_traces(options.trace, rank=options.rank, lenient=lenient, notes=notes)
    if len(found) > 1:
        ranks = ", ".join(str(one.rank) for one in found[:20])
        raise InputError(
            "the folder holds several ranks", file=options.trace, found=f"ranks {ranks}", remedy="choose one by --rank"
        )
    return found[0]


def _linked(options: argparse.Namespace, trace: RankTrace) -> ShownPath:
    from chakrasim.analysis.critical_path.overlay import linked_arrows
    from chakrasim.analysis.critical_path.path import linked_critical_path, path_figures
    from chakrasim.analysis.critical_path.shown import ShownPath
    from chakrasim.linker.api import link
    from chakrasim.report.tables.critical_path import path_sections
    from chakrasim.trace.kineto.only_work import only_work

    notes = Notes()
    device = only_work(trace.kineto)
    linked = link(options.host, device, rank=trace.rank, lenient=options.lenient, notes=notes)
    tell_warnings(notes.warnings, options)
    path = linked_critical_path(linked, annotation=options.annotation, instance=options.instance)
    sections = tuple(path_sections(linked, path))
    if options.overlay is None:
        return ShownPath(path_figures(linked, path), sections)
    events, arrows, missing = linked_arrows(linked, path, device)
    said = (f"{missing} pieces of the path were not found in the trace, and are not drawn",) if missing else ()
    return ShownPath(path_figures(linked, path), sections, (events, arrows), said)


def _show(options: argparse.Namespace, trace: RankTrace, shown: ShownPath) -> int:
    source = trace.kineto.source
    if options.overlay is not None and shown.drawn is not None:
        from chakrasim.analysis.critical_path.overlay import write_overlay

        write_overlay(source, options.overlay, *shown.drawn, options.show_all)
    if options.json is not None:
        window = {"annotation": options.annotation, "instance": str(options.instance)}
        write_json({"trace": options.trace, "rank": trace.rank, **window, **shown.figures}, options)
    if shown.failure is not None:
        raise InputError(shown.failure, file=source, remedy="analyse without --compat")
    if shows(options):
        print_sections(shown.sections)
    return 0
