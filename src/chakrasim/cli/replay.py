"""``chakrasim replay``: the communication of a trace, run for real on torch.distributed."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from chakrasim.cli.options import add_reading, real_number, whole_number
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.cli.progress import count_ranks
from chakrasim.compat.option_names import add_names_of_param, traces_of_param

SUMMARY = "Run the communication of a trace for real, on torch.distributed"
EXAMPLES = """\
examples:
  chakrasim replay out/chakra --backend gloo --ranks 2 --json replay.json
  chakrasim replay recorded --dry-run                                 # a folder of PyTorch's traces; without PyTorch
  chakrasim replay out/chakra --compute sleep --iterations 20 --csv latencies.csv
  chakrasim replay out/chakra --only all_to_all --first 100 --check
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
        choices=("none", "sleep", "matmul", "operators"),
        default="none",
        help="what stands in for compute: its recorded duration, a product of as many operations, or the operators"
        " themselves; default: none",
    )
    parser.add_argument("--only", metavar="KINDS", help="only these, e.g. all_reduce,all_to_all,message; default: all")
    parser.add_argument(
        "--first", type=whole_number(0, 10**9), default=0, metavar="N", help="only the first N of an iteration; 0: all"
    )
    parser.add_argument(
        "--rebalance", action="store_true", help="all-to-alls of uneven sizes get their mean, not the largest"
    )
    parser.add_argument(
        "--timestamps", action="store_true", help="begin nothing earlier, from the first on, than in the trace"
    )
    parser.add_argument(
        "--batch", type=whole_number(0, 10**6), default=0, metavar="N", help="measure N at a time, begun together, too"
    )
    parser.add_argument("--check", action="store_true", help="check the data received, after measuring")
    parser.add_argument("--profile", metavar="DIR", help="write a profile of PyTorch of each rank, of one more run")
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
    add_names_of_param(parser)


def run(options: argparse.Namespace) -> int:
    """Replay and report; of several processes, the first reports. Raises InputError and StallError."""
    from chakrasim.replay.api import replay
    from chakrasim.replay.environment import launched
    from chakrasim.report.tables.replay import replay_sections

    name = traces_of_param(options)
    check_targets({"--json": options.json, "--csv": options.csv}, [name])
    announce_compilation("trace")
    shown = sys.stderr.isatty() and not options.quiet
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
        only=None if options.only is None or options.only == "all" else options.only.split(","),
        first=options.first,
        rebalance=options.rebalance,
        timestamps=options.timestamps,
        batch=options.batch,
        check=options.check,
        profile=options.profile,
        dry_run=options.dry_run,
        lenient=options.lenient,
        strict=options.strict,
        progress=partial(count_ranks, "replaying", unit="operations") if shown else None,
    )
    joined = launched()
    if joined is not None and joined.rank > 0:
        return 0
    tell_warnings(result.warnings, options)
    if options.csv is not None:
        from chakrasim.files.outputs import write_whole

        write_whole(options.csv, result.calibration_csv().encode())
    report(options, result.to_json, lambda: replay_sections(result))
    return 0
