"""``chakrasim info``: what is in a workload."""

from __future__ import annotations

import argparse
import os

from chakrasim.cli.options import whole_number
from chakrasim.cli.output import announce_compilation, check_targets, print_sections, print_warnings, write_out

SUMMARY = "Say what a workload's traces hold"
EXAMPLES = """\
examples:
  chakrasim info traces/step
  chakrasim info step.0.et
  chakrasim info traces/step --json -
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("prefix", metavar="PREFIX", help="traces: PREFIX.0.et, PREFIX.1.et, ... (or .et.gz), or a file")
    parser.add_argument("--ranks", type=whole_number(1, 2**31 - 1), metavar="N", help="expect, and read, N ranks")
    parser.add_argument("--json", metavar="FILE", help="write the counts as JSON; '-' is standard output, no tables")
    parser.add_argument("--lenient", action="store_true", help="of damaged traces, use the intact beginning")


def run(options: argparse.Namespace) -> int:
    """Read, count and print. Raises InputError."""
    check_targets({"--json": options.json}, [options.prefix])
    announce_compilation()
    from chakrasim.report.info_tables import info_sections
    from chakrasim.report.workload_info import workload_info
    from chakrasim.trace import read, read_trace

    warnings: list[str] = []
    if os.path.isfile(options.prefix):
        traces = [read_trace(options.prefix, lenient=options.lenient, warnings=warnings)] * (options.ranks or 1)
    else:
        traces = read(options.prefix, ranks=options.ranks, lenient=options.lenient, warnings=warnings)
    print_warnings(warnings)
    info = workload_info(traces)
    if options.json is not None:
        _write_json(info.to_mapping(), options.json)
    if options.json != "-":
        print_sections(info_sections(info))
    return 0


def _write_json(content: dict[str, object], path: str) -> None:
    import json

    text = json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"
    if path == "-":
        write_out(text.decode())
        return
    from chakrasim.report.files import write_whole

    write_whole(path, text)
