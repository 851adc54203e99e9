"""``chakrasim link``: the host and the device trace of a rank into one linked trace."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from chakrasim.cli.options import add_reading, step, whole_number
from chakrasim.cli.output import (
    announce_compilation,
    check_targets,
    refuse_existing,
    shows,
    tell_warnings,
    write_json,
    write_out,
)
from chakrasim.cli.progress import count_ranks
from chakrasim.compat.option_names import add_old_names
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.trace.linked.columns import LinkedTrace

SUMMARY = "Link host and device traces of PyTorch, of one rank or of all in a folder"
EXAMPLES = """\
examples:
  chakrasim link --host host.0.json --device device.0.json -o linked.0.json
  chakrasim link --device device.0.json.gz --step 12 -o linked.0.json.gz
  chakrasim link traces/ -o linked/
  chakrasim link --chakra-host-trace host.0.json --chakra-device-trace device.0.json --rank 0 \\
      --output-file linked.0.json --compat chakra
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument("directory", nargs="?", metavar="DIR", help="a folder with the traces of all ranks")
    parser.add_argument(
        "--host",
        "--chakra-host-trace",
        metavar="FILE",
        help="host trace (ExecutionTraceObserver), plain or gzip; may be left out",
    )
    parser.add_argument(
        "--device",
        "--chakra-device-trace",
        metavar="FILE",
        help="device trace (Kineto), plain or gzip; may be left out",
    )
    parser.add_argument(
        "-o",
        "--output",
        "--output-file",
        metavar="FILE",
        required=True,
        help="linked trace to write (gzip if .gz), or with DIR a folder",
    )
    parser.add_argument(
        "--rank",
        type=whole_number(0, 2**31 - 1),
        metavar="N",
        help="the rank, if the files do not say, or say it wrong",
    )
    parser.add_argument(
        "--step", type=step, default="all", metavar="N|all", help="keep ProfilerStep#N only; default: all"
    )
    parser.add_argument(
        "--compat",
        choices=("chakra",),
        help="exactly what chakra_trace_link 1.0.0 writes, its faults included, for chakrasim convert --compat chakra",
    )
    add_reading(parser)
    parser.add_argument("--force", action="store_true", help="replace the output if it exists (--compat always does)")
    parser.add_argument("--map", metavar="FILE", help="with DIR: JSON that says which files belong to which rank")
    parser.add_argument("--jobs", type=whole_number(1, 1 << 16), metavar="N", help="with DIR: most processes at once")
    parser.add_argument("--json", metavar="FILE", help="write what was found as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    parser.add_argument("--log-level", help=argparse.SUPPRESS)  # of the reference, where it has no effect either
    add_old_names(
        parser,
        {"--pytorch-et-file": "host", "--kineto-file": "device", "--kineto-trace-file": "device"},
        {"--exact-match": "only operators of equal names are joined, always"},
    )


def run(options: argparse.Namespace) -> int:
    """Link and write. Raises InputError."""
    if options.directory is not None:
        return _directory(options)
    for option in ("map", "jobs"):
        if getattr(options, option) is not None:
            raise InputError(f"--{option} is for a folder of traces", remedy="name the folder, or leave it out")
    check_targets({"--output": options.output, "--json": options.json}, [options.host, options.device])
    if not options.force and options.compat is None:
        refuse_existing([options.output])
    notes = Notes()
    content = _compat(options, notes) if options.compat else _default(options, notes)
    if options.json is not None:
        write_json({**content, "warnings": list(notes.warnings)}, options)
    if shows(options):
        write_out(f"{options.output}: {content['nodes']:,} nodes")
        write_out(f", {content['dependencies']:,} dependencies\n" if "dependencies" in content else "\n")
    return 0


def _compat(options: argparse.Namespace, notes: Notes) -> dict[str, Any]:
    for option, given in (("--chakra-host-trace", options.host), ("--chakra-device-trace", options.device)):
        if given is None:
            raise InputError(f"--compat chakra needs {option}", remedy="add it, or leave out --compat")
    if options.step != "all":
        raise InputError("--step cannot be used with --compat chakra: the reference links whole traces")
    announce_compilation("trace", "compat")
    from chakrasim.compat.chakra_link.link import link_compat, node_count
    from chakrasim.files.outputs import write_whole

    data = link_compat(options.host, options.device, options.rank or 0, notes)
    tell_warnings(notes.warnings, options)
    write_whole(options.output, data)
    return {"output": options.output, "nodes": node_count(data)}


def _directory(options: argparse.Namespace) -> int:
    for option in ("host", "device", "rank", "compat"):
        if getattr(options, option) is not None:
            raise InputError(f"--{option} is for a single rank", remedy="leave out the folder or the option")
    check_targets({"--json": options.json}, [])
    announce_compilation("trace", "linker")
    from chakrasim.converter.folder.link_folder import link_directory

    notes = Notes()
    linked = link_directory(
        options.directory,
        options.output,
        map_file=options.map,
        step=options.step,
        lenient=options.lenient,
        strict=options.strict,
        force=options.force,
        jobs=options.jobs,
        notes=notes,
        progress=None if options.quiet else partial(count_ranks, "linked"),
    )
    tell_warnings(notes.warnings, options)
    ranks = [{"output": os.path.join(options.output, f"linked.{one.rank}.json"), **_figures(one)} for one in linked]
    if options.json is not None:
        write_json({"ranks": ranks, "warnings": list(notes.warnings)}, options)
    if shows(options):
        lines = (f"{one['output']}: {one['nodes']:,} nodes, {one['dependencies']:,} dependencies\n" for one in ranks)
        write_out(*lines)
    return 0


def _default(options: argparse.Namespace, notes: Notes) -> dict[str, Any]:
    announce_compilation("trace", "linker")
    from chakrasim.linker.api import link
    from chakrasim.trace.linked.file import write_linked

    linked = link(
        options.host, options.device, rank=options.rank, step=options.step, lenient=options.lenient, notes=notes
    )
    tell_warnings(notes.warnings, options)
    write_linked(options.output, linked)
    return {"output": options.output, **_figures(linked)}


def _figures(linked: LinkedTrace) -> dict[str, Any]:
    import numpy as np

    from chakrasim.trace.linked.columns import EdgeKind

    kinds = np.bincount(linked.edge_kind, minlength=len(EdgeKind)).tolist()
    return {
        "rank": linked.rank,
        "nodes": len(linked),
        "dependencies": len(linked.edge_source),
        "dependencies_by_kind": {kind.name.lower(): kinds[kind] for kind in EdgeKind if kinds[kind]},
        "collectives": len(linked.communication),
        "start_offset_ns": linked.start_offset_ns,
        "counts": linked.counts,
    }
