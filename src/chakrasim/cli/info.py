"""``chakrasim info``: what is in a workload, or in a trace of the PyTorch profiler."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_reading, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of

if TYPE_CHECKING:
    from chakrasim.diagnosis.files.sniff import FileFacts, FileKind
    from chakrasim.trace import Trace

SUMMARY = "Say what traces hold"
EXAMPLES = """\
examples:
  chakrasim info traces/step
  chakrasim info step.0.et
  chakrasim info traces/step --json -
  chakrasim info device.0.json.gz                # also host and linked traces, told by what is in them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "prefix",
        metavar="PREFIX",
        help="Chakra traces PREFIX.0.et, PREFIX.1.et, ... (or .et.gz), a job, PREFIX.ranks.json, or a file: Chakra, "
        "host, device or linked trace, GOAL, SimAI or AICB",
    )
    parser.add_argument("--ranks", type=whole_number(1, 2**31 - 1), metavar="N", help="expect, and read, N ranks")
    parser.add_argument("--json", metavar="FILE", help="write the counts as JSON; '-' is standard output, no tables")
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    """Read, count and print. Raises InputError."""
    check_targets({"--json": options.json}, [options.prefix])
    from chakrasim.diagnosis.files.sniff import FileKind, sniff

    if os.path.isfile(options.prefix) and not options.prefix.endswith(".ranks.json"):
        facts = sniff(Path(options.prefix))
        if facts.kind in (FileKind.DEVICE, FileKind.HOST, FileKind.LINKED, FileKind.JOINED):
            return _profile(options, facts.kind)
        if facts.members is not None:
            raise _unknown(options.prefix, facts)
    return _workload(options)


def _unknown(path: str, facts: FileFacts) -> InputError:
    """The error for a JSON document that is none of those which info reads."""
    names = [repr(name) for name in facts.members or ()]
    return InputError(
        "there is nothing to say of this file",
        file=path,
        found=facts.note + (f", with the members {first_of(names, 6)}" if names else ""),
        expected="a Chakra trace (.et), the ranks file of a job, a device trace (Kineto), a host trace "
        "(ExecutionTraceObserver) or a linked trace",
    )


def _profile(options: argparse.Namespace, kind: FileKind) -> int:
    """A trace of the PyTorch profiler."""
    announce_compilation("trace")
    from chakrasim.analysis.info.profile import host_info, kineto_info
    from chakrasim.diagnosis.files.sniff import FileKind
    from chakrasim.report.tables.profile import profile_sections

    notes = Notes()
    lenient = options.lenient
    if kind is FileKind.DEVICE:
        from chakrasim.trace.kineto.read import read_kineto

        info = kineto_info(read_kineto(options.prefix, lenient=lenient, notes=notes))
    elif kind is FileKind.JOINED:
        from chakrasim.analysis.info.profile import linked_info
        from chakrasim.trace.linked.file import read_linked

        info = linked_info(read_linked(options.prefix), options.prefix)
    else:
        from chakrasim.trace.host.read import read_host

        info = host_info(read_host(options.prefix, lenient=lenient, notes=notes), kind.value)
    tell_warnings(notes.warnings, options)
    report(options, info.to_mapping, lambda: profile_sections(info))
    return 0


def _workload(options: argparse.Namespace) -> int:
    """Chakra traces."""
    announce_compilation("trace")
    from chakrasim.analysis.info.workload import job_info, workload_info
    from chakrasim.files.job_formats import foreign_kind
    from chakrasim.report.tables.info import info_sections
    from chakrasim.trace import read, read_trace
    from chakrasim.trace.foreign.read import read_foreign
    from chakrasim.trace.job.file import is_job, read_job

    notes = Notes()
    traces: list[Trace] = []
    job = None
    times = 1
    if is_job(options.prefix):
        job = read_job(options.prefix, ranks=options.ranks, lenient=options.lenient, notes=notes)
    elif foreign_kind(options.prefix):
        job = read_foreign(options.prefix, ranks=options.ranks, notes=notes)
    elif os.path.isfile(options.prefix):
        traces = [read_trace(options.prefix, lenient=options.lenient, notes=notes)]
        times = options.ranks or 1
    else:
        traces = read(options.prefix, ranks=options.ranks, lenient=options.lenient, notes=notes)
    tell_warnings(notes.warnings, options)
    info = workload_info(traces, times) if job is None else job_info(job)
    report(options, info.to_mapping, lambda: info_sections(info))
    return 0
