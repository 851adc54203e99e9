"""``chakrasim trace``: from a folder of PyTorch's traces to Chakra traces."""

from __future__ import annotations

import argparse
from shlex import quote
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_reading, amount, step, whole_number
from chakrasim.cli.output import print_sections, tell_warnings, write_json, write_out
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.cli.progress import count_ranks
from chakrasim.text.amounts import ranks_text, share_text, time_text
from chakrasim.text.layout import Section

if TYPE_CHECKING:
    from chakrasim.converter.folder.trace_folder import TraceReport
    from chakrasim.diagnosis.doctor import Diagnosis
    from chakrasim.report.page.parts import Page

SUMMARY = "Make Chakra traces of a folder of PyTorch traces"
EXAMPLES = """\
examples:
  chakrasim trace recorded -o out
  chakrasim simulate out/chakra --comm-group out/comm_group.json --machine hgx-h100-8
  chakrasim simulate out/chakra --replay-durations=transfer

  chakrasim trace recorded -o out --step 12 --force
  chakrasim trace recorded -o out --map ranks.json     # {"0": {"host": "a.json", "device": "b.json"}, ...}

exit codes: 0 done; 2 unusable input (or, with --strict, any warning); nothing is written then
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("directory", metavar="DIR", help="folder of host and device traces, plain or gzip")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="new folder for chakra.RANK.et, comm_group.json, report.json",
    )
    parser.add_argument("--map", metavar="FILE", help="JSON that says which files belong to which rank")
    parser.add_argument(
        "--step", type=step, default="all", metavar="N|all", help="keep ProfilerStep#N only; default: all"
    )
    add_reading(parser)
    parser.add_argument("--force", action="store_true", help="replace earlier results in OUT")
    parser.add_argument("--jobs", type=whole_number(1, 4096), metavar="N", help="most processes; default: one a core")
    parser.add_argument(
        "--memory-limit",
        type=amount,
        metavar="N",
        help="memory of all processes together, for instance 8GiB; default: 70 %% of what is free",
    )
    parser.add_argument("--json", metavar="FILE", help="write the report also here; '-' is standard output, no tables")
    add_report(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Make the traces and say what was met. Raises InputError."""
    inputs = [options.map, options.directory]
    check_outputs(options, inputs)
    from chakrasim.converter.folder.trace_folder import trace_directory

    quiet = options.quiet or options.json == "-"
    report = trace_directory(
        options.directory,
        options.output,
        map_file=options.map,
        step=options.step,
        lenient=options.lenient,
        strict=options.strict,
        force=options.force,
        jobs=options.jobs,
        memory_limit=options.memory_limit,
        progress=None if quiet else count_ranks,
        told=None if quiet else _print_findings,
    )
    tell_warnings(report.warnings, options)
    tell_warnings((warning for rank in report.ranks for warning in rank.warnings), options)
    if options.json is not None:
        write_json(report.to_mapping(), options)
    write_report(options, lambda: _page(report), inputs)
    if not quiet:
        print_sections([_section(report)])
    return 0


def _print_findings(diagnosis: Diagnosis) -> None:
    from chakrasim.report.tables.diagnosis import diagnosis_sections

    print_sections(diagnosis_sections(diagnosis))
    write_out("\n")


def _page(report: TraceReport) -> Page:
    from chakrasim.report.page.answer import trace_page
    from chakrasim.report.tables.diagnosis import diagnosis_sections

    sections = [_section(report), *diagnosis_sections(report.diagnosis)]
    return trace_page(report, sections, question=f"What do the traces of {report.output} hold?")


def _section(report: TraceReport) -> Section:
    rows = tuple(
        (
            str(rank.rank),
            f"{rank.nodes:,}",
            f"{rank.collectives:,}",
            ranks_text(list(rank.steps)) if rank.steps else "-",
            time_text(rank.start_offset_ns),
            time_text(rank.clock_shift_ns),
            share_text(max(rank.delay_only_share.values(), default=0), 1 if rank.delay_only_share else 0),
        )
        for rank in report.ranks
    )
    columns = ("rank", "nodes", "collectives", "steps", "starts after", "clock moved by", "delay only")
    lines = (f"written to {report.output}; next, for instance:", *_next(report))
    return Section("Chakra traces", columns, rows, (), lines)


def _next(report: TraceReport) -> list[str]:
    """Commands that run what was written."""
    replayable, prefix, groups = map(quote, (report.replayable, report.prefix, report.comm_group))
    lines = [f"chakrasim simulate {replayable} --replay-durations"]
    if report.missing:
        lines.append(f"a machine runs all ranks together, and there is no trace of {ranks_text(list(report.missing))}")
    else:
        lines.append(f"chakrasim simulate {prefix} --comm-group {groups} --machine NAME")
    return lines
