"""``chakrasim retarget``: the traces of a run on some ranks as those of a run on another number."""

from __future__ import annotations

import argparse
from typing import Any

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import announce_compilation, check_job_outputs, refuse_replaced, report, tell_warnings

SUMMARY = "Make a job of more or fewer data-parallel ranks from recorded traces"
EXAMPLES = """\
examples:
  chakrasim retarget out/chakra --to 64 --output out/job64
  chakrasim retarget out/chakra --to 64 --output out/job64 --grow 1 --keep 2 --comm-group out/comm_group.json
  chakrasim simulate out/job64 --machine my-machine.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "prefix", metavar="PREFIX", help="Chakra traces of all ranks: PREFIX.0.et, ... or PREFIX.ranks.json"
    )
    parser.add_argument(
        "--to", type=whole_number(1, 1 << 20), required=True, metavar="N", help="ranks: a multiple or a divisor"
    )
    parser.add_argument("-o", "--output", required=True, metavar="PREFIX2", help="prefix of the new job's files")
    parser.add_argument(
        "--comm-group", metavar="FILE", help="ASTRA-sim's group file; default: the one beside the traces"
    )
    parser.add_argument(
        "--grow", action="append", default=[], metavar="GROUP", help="a group that has the members of all replicas"
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="GROUP",
        help="a group that every replica has for itself (0: all)",
    )
    parser.add_argument("--expand", action="store_true", help="one trace per rank and a group file, for other tools")
    add_reading(parser)
    parser.add_argument("--json", metavar="FILE", help="write groups and assumptions as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Retarget and write. Raises InputError."""
    check_job_outputs(options.output, options.json, [options.prefix, options.comm_group])
    refuse_replaced(options.output, [options.prefix])
    announce_compilation("trace")
    from chakrasim.converter.retarget.api import retarget
    from chakrasim.report.tables.retarget import retarget_sections
    from chakrasim.trace.job.file import write_job

    groups: dict[str, Any] = {"comm_group": options.comm_group, "grow": options.grow, "keep": options.keep}
    made = retarget(options.prefix, options.to, **groups, lenient=options.lenient)
    tell_warnings(made.warnings, options)
    files = write_job(options.output, made.job, expand=options.expand)
    report(options, lambda: {**made.to_json(), "files": files}, lambda: retarget_sections(made, files))
    return 0
