"""``chakrasim generate``: Chakra traces made from a description."""

from __future__ import annotations

import argparse
import os

from chakrasim.cli.generate_jobs import add_collective, add_transformer
from chakrasim.cli.options import whole_number
from chakrasim.cli.output import check_target, write_out
from chakrasim.errors import InputError

SUMMARY = "Make Chakra traces without a recording"
EXAMPLES = """\
examples:
  chakrasim generate transformer --spec llama.yaml --output step/llama
  chakrasim generate transformer --spec llama.yaml --output step/llama --expand --json totals.json
  chakrasim generate collective --type all_reduce --size 1MiB --ranks 8 --output all-reduce
  chakrasim generate reference-set --num-npus 2 --output-dir traces
  chakrasim generate reference-set --num-npus 2 --output-dir traces --default-comm-size 1048576
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The kinds of traces, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", title="kinds", required=True)
    add_transformer(kinds)
    add_collective(kinds)
    reference = kinds.add_parser(
        "reference-set",
        help="the test traces of chakra_generator 1.0.0",
        description="Fourteen families of one or two nodes, FAMILY.RANK.et, as chakra_generator 1.0.0 writes them.",
    )
    reference.add_argument(
        "--num-npus", "--num_npus", type=whole_number(1, 2**20), default=64, metavar="N", help="ranks; default: 64"
    )
    reference.add_argument("--output-dir", default=".", metavar="DIR", help="folder for the files; default: this one")
    for name, default, what in (
        ("runtime", 5, "microseconds of a computation"),
        ("tensor-size", 1024, "bytes of a tensor"),
        ("comm-size", 65536, "bytes of a collective"),
    ):
        reference.add_argument(
            f"--default-{name}",
            f"--default_{name.replace('-', '_')}",
            type=whole_number(0),
            default=default,
            metavar="N",
            help=f"{what}; default: {default}",
        )
    reference.add_argument("--force", action="store_true", help="replace files that exist")
    reference.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    reference.set_defaults(make=_reference_set)


def run(options: argparse.Namespace) -> int:
    """Make the traces. Raises InputError."""
    return int(options.make(options))


def _reference_set(options: argparse.Namespace) -> int:
    from chakrasim.compat.chakra_generator import Defaults, file_names, write_reference_set

    names = file_names(options.num_npus)
    if not options.output_dir:
        raise InputError("this is no name of a folder", found=repr(options.output_dir), place="--output-dir")
    check_target(os.path.join(options.output_dir, names[0]))
    there = [path for path in (os.path.join(options.output_dir, name) for name in names) if os.path.exists(path)]
    if there and not options.force:
        raise InputError("an output exists", file=there[0], remedy="add --force, or name another folder")
    defaults = Defaults(options.default_runtime, options.default_tensor_size, options.default_comm_size)
    paths = write_reference_set(options.output_dir, options.num_npus, defaults)
    if not options.quiet:
        write_out(f"{options.output_dir}: {len(paths):,} traces\n")
    return 0
