"""``chakrasim predict``: how long something takes, without a workload."""

from __future__ import annotations

import argparse
from typing import Final

from chakrasim.cli.machine_options import add_size, sized_machine
from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import check_target, check_targets, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import amount_of

SUMMARY = "Predict how long a collective takes on a machine, with an interval"
EXAMPLES = """\
examples:
  chakrasim predict collective --machine h100 --collective all_reduce --size 1MiB --ranks 16
  chakrasim predict collective --machine h100 --collective all_gather --sizes 8:16GiB --ranks 8 --plot bandwidth.svg
  chakrasim predict collective --machine h100 --gpus 256 --fabric fat-tree --oversubscription 2 \\
      --collective all_reduce --size 1GiB
  chakrasim predict collective --machine machine.yaml --collective alltoall --size 64MiB --library nccl-2.27.7
"""
_MOST_SIZES: Final = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What there is to predict, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", title="kinds", required=True)
    collective = kinds.add_parser(
        "collective",
        help="a collective as NCCL or RCCL runs it",
        description="How long a collective takes alone on a machine, as NCCL or RCCL runs it: time, what nine of ten "
        "measured\nones lie between, bandwidths as nccl-tests counts them, algorithm, protocol, channels, what limits.",
    )
    collective.add_argument(
        "--machine", required=True, metavar="NAME|FILE",
        help="a board such as h100, which gets as many GPUs as there are ranks, a preset, or a machine file",
    )  # fmt: skip
    collective.add_argument(
        "--collective", required=True, metavar="NAME",
        help="all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter, sendrecv",
    )  # fmt: skip
    size = collective.add_mutually_exclusive_group(required=True)
    size.add_argument(
        "--size", metavar="BYTES", help="of the larger buffer of a rank, as nccl-tests counts: 65536, 1MiB, 16GiB"
    )
    size.add_argument(
        "--sizes", metavar="FROM:TO[:FACTOR]", help="nccl-tests' table: sizes that double, or grow by a factor: 8:16GiB"
    )
    collective.add_argument(
        "--ranks", type=whole_number(2, 2**20), metavar="N", help="how many; default: all of the machine"
    )
    add_size(collective)
    collective.add_argument(
        "--library", metavar="NAME", help="who runs it: nccl, nccl-2.27.7, rccl; default: as the machine says, else "
        "the newest of the GPUs' maker",
    )  # fmt: skip
    collective.add_argument("--plot", metavar="FILE", help="with --sizes: bus bandwidth over size, as SVG")
    collective.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no table"
    )
    add_strict(collective)
    collective.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    collective.set_defaults(predict=_collective)


def run(options: argparse.Namespace) -> int:
    """Predict and print. Raises InputError."""
    return int(options.predict(options))


def _collective(options: argparse.Namespace) -> int:
    check_targets({"--json": options.json, "--plot": options.plot}, [options.machine])
    if options.plot is not None:
        if options.sizes is None:
            raise InputError("--plot draws several sizes", expected="--sizes, such as 8:16GiB")
        if options.plot == "-" or not options.plot.lower().endswith(".svg"):
            raise InputError("--plot writes SVG", found=options.plot, expected="a file that ends in .svg")
        check_target(options.plot)
    sizes = [_size("--size", options.size)] if options.sizes is None else _sizes(options.sizes)
    from chakrasim.report.tables.prediction import prediction_json, prediction_sections
    from chakrasim.simulator.prediction import predict_collectives

    notes = Notes()
    found = predict_collectives(
        sized_machine(options, notes, options.ranks),
        options.collective,
        sizes,
        options.ranks,
        library=options.library,
        notes=notes,
    )
    tell_warnings(notes.warnings, options)
    if options.plot is not None:
        from chakrasim.report.picture.bandwidth import write_bandwidth

        write_bandwidth(options.plot, found)
    report(
        options,
        lambda: prediction_json(found, one=options.sizes is None),
        lambda: prediction_sections(found, one=options.sizes is None),
    )
    return 0


def _size(option: str, text: str) -> int:
    amount = amount_of(text)
    if amount is None or amount.denominator != 1 or not 1 <= amount <= 1 << 50:
        raise InputError(f"{option} is no size", found=repr(text), expected="1 B to 1 PiB: 65536, 1MiB, 16GiB")
    return int(amount)


def _sizes(text: str) -> list[int]:
    """``8:16GiB`` or ``8:16GiB:4``: from the first to the last, each so many times the one before."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        raise InputError("--sizes is no range", found=repr(text), expected="FROM:TO or FROM:TO:FACTOR: 8:16GiB")
    first, last = _size("--sizes", parts[0]), _size("--sizes", parts[1])
    if first > last:
        raise InputError("--sizes begins above its end", found=repr(text), expected="the smaller size first",
                         remedy=f"write {parts[1]}:{parts[0]}")  # fmt: skip
    factor = amount_of(parts[2]) if len(parts) == 3 else 2
    if factor is None or not 1 < factor <= 1024:
        raise InputError("--sizes grows by no factor", found=repr(parts[2]), expected="a factor above 1, at most 1024")
    found = [first]
    while found[-1] * factor <= last:
        found.append(max(int(found[-1] * factor), found[-1] + 1))
        if len(found) > _MOST_SIZES:
            raise InputError("--sizes has too many sizes", found=repr(text), expected=f"at most {_MOST_SIZES}")
    return found
