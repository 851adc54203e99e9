"""``chakrasim replay``: the communication of a trace, run for real on torch.distributed."""

from __future__ import annotations

import argparse
import os
import sys

from chakrasim.cli.options import add_reading, real_number, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, print_sections, tell_warnings, write_json
from chakrasim.cli.reference_names import add_old_names, new_form
from chakrasim.errors import InputError

SUMMARY = "Run the communication of a trace for real, on torch.distributed"
EXAMPLES = """\
examples:
  chakrasim replay out/chakra --backend gloo --ranks 2 --json replay.json
  chakrasim replay recorded --dry-run                                 # a folder of PyTorch's traces; without PyTorch
  chakrasim replay out/chakra --compute sleep --iterations 20 --csv latencies.csv
  torchrun --nproc-per-node 8 -m chakrasim replay out/chakra --backend nccl --json replay.json

exit codes: 0 done; 2 unusable input, ranks that do not agree; 3 a rank failed or waited for longer than --timeout
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "prefix",
        nargs="?",
        metavar="PREFIX",
        help="Chakra traces (PREFIX.0.et, PREFIX.ranks.json), or PyTorch's: folder or prefix",
    )
    parser.add_argument("--backend", choices=("gloo", "nccl", "mpi", "ucc"), default="gloo", help="default: gloo")
    parser.add_argument(
        "--ranks", type=whole_number(1, 1 << 16), metavar="N", help="processes to start; default: as the trace has"
    )
    parser.add_argument(
        "--comm-group", metavar="FILE", help="ASTRA-sim's group file; default: the one beside the traces"
    )
    parser.add_argument(
        "--compute",
        choices=("none", "sleep", "matmul"),
        default="none",
        help="what stands in for compute: its recorded duration, or a product of as many operations; default: none",
    )
    parser.add_argument("--blocking", action="store_true", help="only one collective at a time")
    parser.add_argument("--warmup", type=whole_number(0, 10**6), default=2, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--iterations", type=whole_number(1, 10**6), default=5, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--timeout", type=real_number, default=60.0, metavar="S", help="seconds for one operation; default: 60"
    )
    add_reading(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be run; needs no PyTorch")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    parser.add_argument(
        "--csv", metavar="FILE", help="write collective, bytes, group size and latencies, for calibration"
    )
    parser.add_argument("--quiet", action="store_true", help="no tables, only warnings and errors")
    _add_names_of_param(parser)


def _add_names_of_param(parser: argparse.ArgumentParser) -> None:
    """Options of PARAM's comm_replay (commsTraceReplay) and et_replay."""
    parser.add_argument("--trace-path", "--input", dest="trace_path", help=argparse.SUPPRESS)
    parser.add_argument("--trace-type", help=argparse.SUPPRESS)
    parser.add_argument("--use-one-trace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--output-path", help=argparse.SUPPRESS)
    iterations = {"--num-replays": "iterations", "--iter": "iterations", "--warmup-iter": "warmup"}
    flags = {
        "--auto-shrink": "a job always shrinks to the ranks there are, where that can be",
        "--disable-parallel-read": "each file is read once",
        "--do-warm-up": "there is always a warm-up; --warmup N says how long",
        "--reuse-tensors": "memory is always used again",
    }
    valued = {
        "--device": "the back end decides",
        "--log": "messages go to the terminal",
        "--master-ip": "the environment says it (MASTER_ADDR)",
        "--master-port": "the environment says it (MASTER_PORT)",
        "--nw-stack": "torch.distributed is used",
    }
    add_old_names(parser, iterations, flags, valued)


def _traces(options: argparse.Namespace) -> str:
    """The name of the traces, ours or PARAM's. Raises InputError with the new command where PARAM means another."""
    given = [name for name in (options.prefix, options.trace_path) if name is not None]
    if len(given) != 1:
        raise InputError(
            "no traces are given" if not given else "the traces are given twice",
            found=" and ".join(given) or None,
            expected="one name: chakrasim replay PREFIX",
        )
    (name,) = given
    if options.trace_type not in (None, "et", "kineto"):
        raise InputError(
            "this type of trace is not known",
            found=f"--trace-type {options.trace_type}",
            expected="traces of PyTorch or Chakra, which are told by what is in them",
            remedy=f"say {new_form('replay', name)}",
        )
    if options.use_one_trace and os.path.isdir(name):
        one = next((file for file in sorted(os.listdir(name)) if file.endswith((".json", ".json.gz"))), "rank-0.json")
        remedy = f"say {new_form('replay', os.path.join(name, one))}"
        raise InputError("one trace for all ranks is named by its file", file=name, found="a folder", remedy=remedy)
    if options.output_path is not None:
        words = new_form("replay", name, "--json", os.path.join(options.output_path, "replay.json"))
        raise InputError(
            "results go into one file", found=f"--output-path {options.output_path}", remedy=f"say {words}"
        )
    return str(name)


def _count(done: int, total: int) -> None:
    """Say how far the replay is, on one line of the terminal that is gone at the end."""
    end = "\r" if done < total else "\r\033[K"
    print(f"replaying {done:,} of {total:,} operations" if done < total else "", end=end, file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> int:
    """Replay and report; of several processes, the first reports. Raises InputError and StallError."""
    from chakrasim.replay.api import replay
    from chakrasim.replay.environment import launched

    name = _traces(options)
    check_targets({"--json": options.json, "--csv": options.csv}, [name])
    announce_compilation("trace")
    result = replay(
        name,
        options.ranks,
        backend=options.backend,
        comm_group=options.comm_group,
        compute=options.compute,
        blocking=options.blocking,
        warmup=options.warmup,
        iterations=options.iterations,
        timeout_s=options.timeout,
        dry_run=options.dry_run,
        lenient=options.lenient,
        strict=options.strict,
        progress=_count if sys.stderr.isatty() and not options.quiet else None,
    )
    joined = launched()
    if joined is not None and joined.rank > 0:
        return 0
    tell_warnings(result.warnings, options)
    if options.json is not None:
        write_json(result.to_json(), options.json)
    if options.csv is not None:
        from chakrasim.files.outputs import write_whole

        write_whole(options.csv, result.calibration_csv().encode())
    if not options.quiet and options.json != "-":
        from chakrasim.report.tables.replay import replay_sections

        print_sections(replay_sections(result))
    return 0
