"""``chakrasim analyze collectives``: who came late to each collective, by how much, and whom it cost."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_reading
from chakrasim.cli.output import check_targets, print_sections, tell_warnings, write_json
from chakrasim.cli.progress import count_ranks
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.diagnosis.files.pairing import RankFiles

SUMMARY = "Split every collective into waiting and transfer by comparing ranks"
EXAMPLES = """\
examples:
  chakrasim analyze collectives traces
  chakrasim analyze collectives rank0.json.gz rank1.json.gz
  chakrasim analyze collectives traces --most 50 --json split.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The analysis' options."""
    parser.add_argument(
        "traces",
        metavar="TRACE",
        nargs="+",
        help="a folder of device traces (and host traces), or the traces of some ranks",
    )
    parser.add_argument("--map", metavar="FILE", help="JSON that says which files of the folder belong to which rank")
    parser.add_argument(
        "--most", type=int, default=20, metavar="N", help="print the N collectives that cost most (default: 20)"
    )
    parser.add_argument("--json", metavar="FILE", help="write all of it as JSON; '-' is standard output, no tables")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="print the share of waiting only")


def run(options: argparse.Namespace) -> int:
    """Link the ranks, compare them and print. Raises InputError."""
    check_targets({"--json": options.json}, [*options.traces, options.map])
    from chakrasim.analysis.collectives import collective_split
    from chakrasim.linker.api import link
    from chakrasim.report.tables.collective import collective_sections

    notes = Notes()
    ranks = _files(options.traces, options.map, notes)
    linked = []
    for done, files in enumerate(ranks):
        count_ranks("linked", done, len(ranks))
        linked.append(link(files.host, files.device, rank=files.rank, lenient=options.lenient, notes=notes))
    count_ranks("linked", len(ranks), len(ranks))
    split = collective_split(linked)
    tell_warnings(notes.warnings, options)
    if options.json is not None:
        write_json(split.to_mapping(), options)
    if options.json != "-":
        sections = collective_sections(split, most=max(options.most, 0))
        print_sections(sections[:1] if options.quiet else sections)
    return 0


def _files(traces: list[str], map_file: str | None, notes: Notes) -> list[RankFiles]:
    """The files of each rank: of a folder, or as they are named."""
    from chakrasim.diagnosis.files.discover import discover

    if len(traces) == 1 and os.path.isdir(traces[0]):
        return discover(traces[0], map_file=map_file, notes=notes)
    from chakrasim.diagnosis.checks.findings import Severity
    from chakrasim.diagnosis.files.pairing import pair
    from chakrasim.diagnosis.files.sniff import FileKind, sniff
    from chakrasim.errors import InputError

    if map_file is not None:
        raise InputError("--map is for a folder of traces", found=f"{len(traces)} files", remedy="name the folder")
    facts = [sniff(Path(path)) for path in traces]
    for fact in facts:
        if fact.kind not in (FileKind.HOST, FileKind.DEVICE):
            raise InputError(
                "this is no trace of the PyTorch profiler",
                file=fact.path,
                found=fact.note or None,
                expected="a folder of traces, or device traces (Kineto) with their host traces",
            )
    ranks, findings = pair(facts)
    notes.warn(*(str(finding) for finding in findings if finding.severity > Severity.NOTE))
    return ranks
