"""``chakrasim timeline``: recorded traces, or a simulation's log, for ui.perfetto.dev."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chakrasim.cli.files import add_files, files
from chakrasim.cli.options import add_reading, rank_list, whole_number
from chakrasim.cli.output import announce_compilation, check_timeline, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import ranks_text

if TYPE_CHECKING:
    from chakrasim.diagnosis.files.sniff import FileKind
    from chakrasim.report.timeline.recorded import RankEvents

SUMMARY = "Draw traces or a simulation's log on a time line"
EXAMPLES = """\
examples:
  chakrasim timeline device.0.json.gz -o timeline.json.gz
  chakrasim timeline traces -o timeline.json.gz              # all ranks of a folder, on one clock
  chakrasim timeline traces -o timeline.pftrace --ranks 0,3  # two of them, in Perfetto's own format
  chakrasim timeline chakra.0.et chakra.1.et -o timeline.json
  chakrasim timeline simulation.log --npu-frequency 1000 -o timeline.json
  chakrasim timeline --input_filename simulation.log --output_filename t.json --num_npus 8 --npu_frequency 1000 \\
      --compat chakra
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    what = "device, linked, or Chakra traces with start times, a folder of device traces, or a simulation's log"
    add_files(parser, what, "file to write: .json, Perfetto's own .pftrace, or either with .gz", several=True)
    parser.add_argument("--map", metavar="FILE", help="of a folder: JSON that says which files belong to which rank")
    parser.add_argument("--ranks", type=rank_list, metavar="RANKS", help="of traces: only these, such as 3,12 or 0-7")
    add_reading(parser)
    parser.add_argument(
        "--num-npus", "--num_npus", type=whole_number(1), metavar="N", help="of a log: how many NPUs there are"
    )
    parser.add_argument(
        "--npu-frequency",
        "--npu_frequency",
        metavar="MHZ",
        help="of a log: cycles a microsecond, such as 1000 or 1.5GHz; default: 1000, cycles are ns",
    )
    parser.add_argument(
        "--log-filename", "--log_filename", metavar="FILE", help="accepted and not needed: messages go to the terminal"
    )
    parser.add_argument(
        "--compat",
        choices=("chakra",),
        help="of a log: what chakra_timeline_visualizer writes, milliseconds in fields of microseconds included",
    )


def run(options: argparse.Namespace) -> int:
    """Read, align and write. Raises InputError."""
    inputs, output = files(options)
    if not options.compat:
        check_timeline(output)
    notes = Notes()
    from chakrasim.diagnosis.files.sniff import FileKind, sniff
    from chakrasim.trace.job.file import is_job

    kinds = {path: sniff(Path(path)).kind if Path(path).is_file() else None for path in inputs}
    if len(inputs) == 1 and kinds[inputs[0]] is FileKind.OTHER and not is_job(inputs[0]):
        if options.ranks is not None:
            raise InputError("--ranks are those of traces", file=inputs[0], remedy="leave it out")
        from chakrasim.files.job_formats import foreign_kind, remedy_of

        if kind := foreign_kind(inputs[0]):
            raise InputError("this is no log", file=inputs[0], found=kind, remedy=remedy_of(kind))
        _log(inputs[0], output, options, notes)
    elif options.compat:
        raise InputError("--compat chakra is for logs of a simulation", file=inputs[0], remedy="leave it out")
    else:
        _traces(kinds, output, options, notes)
    return 0


# -- recorded traces ---------------------------------------------------------------------------------------------------


def _traces(kinds: dict[str, FileKind | None], output: str, options: argparse.Namespace, notes: Notes) -> None:
    from chakrasim.report.timeline.recorded import clock_shifts, write_trace_timeline

    ranks = list(_ranks(kinds, options, notes))
    if options.ranks is not None:
        known = sorted(rank.rank for rank in ranks)
        for missing in (rank for rank in options.ranks if rank not in known):
            raise InputError(f"there is no trace of rank {missing}", found=f"ranks {ranks_text(known)}")
        ranks = [rank for rank in ranks if rank.rank in options.ranks]
    if not ranks:
        raise InputError("there is nothing with times to draw", file=", ".join(kinds), remedy="name device traces")
    shifts, shared = clock_shifts(ranks)
    if len(ranks) > 1 and not shared and any(rank.linked is not None for rank in ranks):
        notes.warn("no shared collectives tell how the ranks' clocks differ: times are as recorded")
    tell_warnings(notes.warnings, options)
    write_trace_timeline(ranks, shifts, output)


def _ranks(kinds: dict[str, FileKind | None], options: argparse.Namespace, notes: Notes) -> Iterator[RankEvents]:
    from chakrasim.diagnosis.files.sniff import FileKind
    from chakrasim.trace.job.file import is_job

    given: list[tuple[int, str]] = []
    chakra: list[str] = []
    joined: list[str] = []
    for path, kind in kinds.items():
        if kind is None and Path(path).is_dir():
            from chakrasim.diagnosis.files.discover import discover

            found = discover(path, map_file=options.map, notes=notes)
            given += [(files.rank, str(files.device)) for files in found if files.device is not None]
        elif kind is FileKind.DEVICE:
            given.append((-1, path))
        elif kind is FileKind.CHAKRA:
            chakra.append(path)
        elif kind is FileKind.JOINED:
            joined.append(path)
        else:
            raise InputError(
                "this file has no times to draw",
                file=path,
                found="a job" if is_job(path) else kind.value if kind else "no such file or folder",
                expected="a device, linked or Chakra trace, a folder of device traces, or a log of a simulation",
                remedy=f"simulate the job: chakrasim simulate {path} --timeline FILE" if is_job(path) else None,
            )
    yield from _device_ranks(given, options.lenient, notes)
    yield from _joined_ranks(joined)
    yield from _chakra_ranks(chakra, options.lenient, notes)


def _device_ranks(given: Sequence[tuple[int, str]], lenient: bool, notes: Notes) -> Iterator[RankEvents]:
    if not given:
        return
    announce_compilation("trace")
    from chakrasim.diagnosis.files.names import read_name
    from chakrasim.diagnosis.files.sniff import distributed_rank
    from chakrasim.report.timeline.recorded import kineto_events
    from chakrasim.trace.kineto.read import read_kineto

    seen: set[int] = set()
    for number, (rank, path) in enumerate(given):
        trace = read_kineto(path, lenient=lenient, notes=notes)
        for candidate in (rank, distributed_rank(trace.header)[0], read_name(Path(path).name).rank, number):
            if candidate >= 0 and candidate not in seen:
                rank = candidate
                break
        else:
            rank = max(seen) + 1
        seen.add(rank)
        yield kineto_events(rank, trace)


def _joined_ranks(paths: Sequence[str]) -> Iterator[RankEvents]:
    if not paths:
        return
    from dataclasses import replace

    from chakrasim.report.timeline.recorded import linked_events
    from chakrasim.trace.linked.file import read_linked

    for number, path in enumerate(paths):
        linked = read_linked(path)
        yield linked_events(linked if linked.rank >= 0 else replace(linked, rank=number))


def _chakra_ranks(paths: Sequence[str], lenient: bool, notes: Notes) -> Iterator[RankEvents]:
    if not paths:
        return
    announce_compilation("trace")
    from chakrasim.report.timeline.recorded import chakra_events
    from chakrasim.trace import read_trace

    for number, path in enumerate(paths):
        match = re.search(r"\.([0-9]{1,7})\.et(\.gz)?$", path)
        yield chakra_events(int(match[1]) if match else number, read_trace(path, lenient=lenient, notes=notes))


# -- logs --------------------------------------------------------------------------------------------------------------


def _log(path: str, output: str, options: argparse.Namespace, notes: Notes) -> None:
    from chakrasim.compat.astra_sim.read_log import compat_timeline, log_lines, log_processes, megahertz, read_log

    mhz = megahertz(options.npu_frequency)
    lines = log_lines(path)
    if options.compat:
        if options.num_npus is None or options.npu_frequency is None or mhz != int(mhz):
            raise InputError("--compat chakra needs --num-npus and --npu-frequency, a whole number of MHz")
        import json

        from chakrasim.files.outputs import write_whole

        document = compat_timeline(lines, path, options.num_npus, int(mhz))
        write_whole(output, json.dumps(document).encode())
        return
    from chakrasim.report.timeline.write import write_processes

    spans = read_log(lines, path, notes)
    tell_warnings(notes.warnings, options)
    write_processes(output, log_processes(spans, options.num_npus, mhz, path))
