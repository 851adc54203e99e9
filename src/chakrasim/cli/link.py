"""``chakrasim link``: the host and the device trace of a rank into one linked trace."""

from __future__ import annotations

import argparse
import os
from typing import Any

from chakrasim.cli.options import whole_number
from chakrasim.cli.output import announce_compilation, check_targets, print_warnings, write_json, write_out
from chakrasim.errors import InputError

SUMMARY = "Link a host trace and a device trace of PyTorch"
EXAMPLES = """\
examples:
  chakrasim link --host host.0.json --device device.0.json -o linked.0.json
  chakrasim link --device device.0.json.gz --step 12 -o linked.0.json.gz
  chakrasim link --chakra-host-trace host.0.json --chakra-device-trace device.0.json --rank 0 \\
      --output-file linked.0.json --compat chakra
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
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
        "-o", "--output", "--output-file", metavar="FILE", required=True, help="linked trace to write; gzip if .gz"
    )
    parser.add_argument(
        "--rank", type=whole_number(0, 2**31 - 1), metavar="N", help="the rank, if the files do not say"
    )
    parser.add_argument(
        "--step", type=_step, default="all", metavar="N|all", help="keep ProfilerStep#N only; default: all"
    )
    parser.add_argument(
        "--compat",
        choices=("chakra",),
        help="exactly what chakra_trace_link 1.0.0 writes, its faults included, for chakrasim convert --compat chakra",
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse damaged files and traces that do not fit together"
    )
    parser.add_argument("--force", action="store_true", help="replace the output if it exists (--compat always does)")
    parser.add_argument("--json", metavar="FILE", help="write what was found as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    parser.add_argument("--log-level", help=argparse.SUPPRESS)  # of the reference, where it has no effect either


def _step(text: str) -> int | str:
    return text if text == "all" else whole_number(0)(text)


def run(options: argparse.Namespace) -> int:
    """Link and write. Raises InputError."""
    check_targets({"--output": options.output, "--json": options.json}, [options.host, options.device])
    if not options.force and options.compat is None and os.path.exists(options.output):
        raise InputError("the output exists", file=options.output, remedy="add --force, or name another file")
    warnings: list[str] = []
    content = _compat(options, warnings) if options.compat else _default(options, warnings)
    print_warnings(warnings)
    if options.json is not None:
        write_json({**content, "warnings": warnings}, options.json)
    if not options.quiet and options.json != "-":
        write_out(f"{options.output}: {content['nodes']:,} nodes")
        write_out(f", {content['dependencies']:,} dependencies\n" if "dependencies" in content else "\n")
    return 0


def _compat(options: argparse.Namespace, warnings: list[str]) -> dict[str, Any]:
    for option, given in (("--chakra-host-trace", options.host), ("--chakra-device-trace", options.device)):
        if given is None:
            raise InputError(f"--compat chakra needs {option}", remedy="add it, or leave out --compat")
    if options.step != "all":
        raise InputError("--step cannot be used with --compat chakra: the reference links whole traces")
    for room in ("trace", "linker"):
        announce_compilation(room)
    from chakrasim.linker.compat import link_compat, node_count
    from chakrasim.report.files import write_whole

    data = link_compat(options.host, options.device, options.rank or 0, warnings)
    write_whole(options.output, data)
    return {"output": options.output, "nodes": node_count(data)}


def _default(options: argparse.Namespace, warnings: list[str]) -> dict[str, Any]:
    for room in ("trace", "linker"):
        announce_compilation(room)
    import numpy as np

    from chakrasim.linker.api import link
    from chakrasim.trace.linked import EdgeKind
    from chakrasim.trace.linked_file import write_linked

    linked = link(
        options.host, options.device, rank=options.rank, step=options.step, strict=options.strict, warnings=warnings
    )
    write_linked(options.output, linked)
    kinds = np.bincount(linked.edge_kind, minlength=len(EdgeKind)).tolist()
    return {
        "output": options.output,
        "rank": linked.rank,
        "nodes": len(linked),
        "dependencies": len(linked.edge_source),
        "dependencies_by_kind": {kind.name.lower(): kinds[kind] for kind in EdgeKind if kinds[kind]},
        "collectives": len(linked.communication),
        "counts": linked.counts,
    }
