"""``chakrasim doctor``: whether traces can be trusted."""

from __future__ import annotations

import argparse
from functools import partial

from chakrasim.cli.output import announce_compilation, check_targets, print_sections, write_json
from chakrasim.cli.progress import count_ranks

SUMMARY = "Say which traces a folder or file holds, and whether they can be trusted"
EXAMPLES = """\
examples:
  chakrasim doctor traces
  chakrasim doctor traces --json findings.json
  chakrasim doctor device.0.json.gz
  chakrasim doctor traces --map ranks.json             # {"0": {"host": "a.json", "device": "b.json"}, ...}

exit codes: 0 trustworthy, 1 usable with warnings, 2 unusable
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "directory", metavar="DIR|FILE", help="host and device traces, plain or gzip: a folder, or one file"
    )
    parser.add_argument("--map", metavar="FILE", help="JSON that says which files belong to which rank")
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON; '-' is standard output, no tables")
    parser.add_argument("--quiet", action="store_true", help="print the verdict only")


def run(options: argparse.Namespace) -> int:
    """Examine and print; the exit code is the verdict. Raises InputError."""
    check_targets({"--json": options.json}, [options.map, options.directory])
    announce_compilation("trace", "linker")
    from chakrasim.diagnosis.doctor import diagnose
    from chakrasim.report.tables.diagnosis import diagnosis_sections

    diagnosis = diagnose(
        options.directory, map_file=options.map, progress=None if options.quiet else partial(count_ranks, "examined")
    )
    # What comes next reads these traces as the doctor does.
    options.lenient = any(finding.code == "damaged-file" for finding in diagnosis.findings)
    if options.json is not None:
        write_json(diagnosis.to_mapping(), options)
    if options.json != "-":
        sections = diagnosis_sections(diagnosis)
        print_sections(sections[:1] if options.quiet else sections)
    return diagnosis.exit_code
