"""``chakrasim analyze critical-path``: what determines how long a trace takes."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import (
    announce_compilation,
    check_targets,
    check_timeline,
    print_sections,
    tell_warnings,
    write_json,
)
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
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
_VERSIONS = {"hta": "new", "hta-pinned": "pinned"}


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
    compat.add_argument("--compat", choices=tuple(_VERSIONS), help="that tool's result, quirks included")
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
    check_timeline(options.overlay)
    if options.compat is None and (options.zero_weight_launch_edges or options.data_load_event):
        raise InputError("--zero-weight-launch-edges and --data-load-event need --compat")
    if options.compat is not None and options.host is not None:
        raise InputError("--compat and --host cannot be combined: HTA knows no host trace")
    if not options.quiet:
        announce_compilation("analysis")
    notes = Notes()
    trace = _one_rank(options, notes)
    tell_warnings(notes.warnings, options)
    return _run_compat(options, trace) if options.compat else _run_linked(options, trace)


def _one_rank(options: argparse.Namespace, notes: Notes) -> RankTrace:
    from chakrasim.analysis.table.traces import open_traces

    found = open_traces(options.trace, rank=options.rank, lenient=options.lenient, notes=notes)
    if len(found) > 1:
        ranks = ", ".join(str(one.rank) for one in found[:20])
        raise InputError(
            "the folder holds several ranks", file=options.trace, found=f"ranks {ranks}", remedy="choose one by --rank"
        )
    return found[0]


def _run_linked(options: argparse.Namespace, trace: RankTrace) -> int:
    from chakrasim.analysis.critical_path.path import linked_critical_path, path_figures
    from chakrasim.linker.api import link
    from chakrasim.report.tables.critical_path import path_sections
    from chakrasim.trace.kineto.read import read_kineto

    notes = Notes()
    device = read_kineto(trace.kineto.source, keep="work", lenient=options.lenient)
    linked = link(options.host, device, rank=trace.rank, lenient=options.lenient, notes=notes)
    tell_warnings(notes.warnings, options)
    annotation = options.annotation or ""
    instance = None if options.instance == () else options.instance
    path = linked_critical_path(linked, annotation=annotation, instance=instance)
    if options.overlay is not None:
        from chakrasim.analysis.critical_path.overlay import linked_arrows, write_overlay

        events, arrows, missing = linked_arrows(linked, path, device)
        if missing:
            tell_warnings([f"{missing} pieces of the path were not found in the trace, and are not drawn"], options)
        write_overlay(trace.kineto.source, options.overlay, events, arrows, options.show_all)
    if options.json is not None:
        write_json(_head(options, trace.rank, annotation, instance) | path_figures(linked, path), options.json)
    if options.json != "-" and not options.quiet:
        print_sections(path_sections(linked, path))
    return 0


def _run_compat(options: argparse.Namespace, trace: RankTrace) -> int:
    from chakrasim.compat.hta_critical_path.path import critical_path
    from chakrasim.compat.hta_critical_path.result import compat_figures
    from chakrasim.report.tables.critical_path import compat_sections

    annotation = "ProfilerStep" if options.annotation is None else options.annotation
    instance = 0 if options.instance == () else options.instance
    path = critical_path(
        trace.kineto,
        version="new" if options.compat == "hta" else "pinned",
        annotation=annotation,
        instance=instance,
        zero_weight_launch_edges=options.zero_weight_launch_edges,
        data_load_events=options.data_load_event,
    )
    figures = compat_figures(path, trace.kineto)
    if options.json is not None:
        write_json(_head(options, trace.rank, annotation, instance) | figures, options.json)
    if path.failure is not None:
        raise InputError(
            f"HTA fails here ({'it returns nothing' if path.failure == 'None' else path.failure}): {path.reason}",
            file=trace.kineto.source,
            remedy="analyse without --compat",
        )
    if not path.success:
        text = f"{trace.kineto.source}: HTA says that the graph is not valid, so it has no critical path"
        tell_warnings([text], options)
    if options.overlay is not None and path.success:
        from chakrasim.analysis.critical_path.overlay import compat_arrows, write_overlay

        events, arrows = compat_arrows(path, options.show_all)
        write_overlay(trace.kineto.source, options.overlay, events, arrows, options.show_all)
    if options.json != "-" and not options.quiet:
        print_sections(compat_sections(figures))
    return 0


def _head(options: argparse.Namespace, rank: int, annotation: str, instance: object) -> dict[str, Any]:
    return {"trace": options.trace, "rank": rank, "annotation": annotation, "instance": str(instance)}
