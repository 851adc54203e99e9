"""``chakrasim calibrate``: fit models of devices to measurements, and say how far they are off."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_strict
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.cli.page import add_report, check_report, write_tables
from chakrasim.cli.progress import count_ranks
from chakrasim.errors import InputError

if TYPE_CHECKING:
    from chakrasim.calibration import Calibration
    from chakrasim.calibration.collectives.calibrate import CollectiveCalibration
    from chakrasim.text.layout import Section

SUMMARY = "Fit a device, or collectives of a machine, to measured times, with the error on what was held out"
EXAMPLES = """\
examples:
  chakrasim calibrate compute --data measured
  chakrasim calibrate compute --data measured/H100 --model-config models.yaml --holdout Llama-3.1-70B --json errors.json
  chakrasim calibrate compute --data mine --gpu L40S --device-profile l40s-data-sheet.yaml --output l40s.yaml
  chakrasim calibrate collectives --data nccl-tests.log --output machine.yaml
  chakrasim calibrate collectives --data logs --machine h100 --output machine.yaml --json errors.json
  chakrasim calibrate collectives --data measured --holdout held-out.csv --json predicted.json
  chakrasim calibrate steps my-steps.csv --device h100 --output h100-mine.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What there is to calibrate, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", title="kinds", required=True)
    compute = kinds.add_parser(
        "compute",
        help="a device profile from measured layer times",
        description="Fit how well a device does matrix products and other layers to measured times, in files "
        "DIR/DEVICE/ORGANISATION/MODEL/tpN/layers.csv\n(or .csv.gz), and compare with the models left out of the fit.",
    )
    compute.add_argument(
        "--data", required=True, metavar="DIR", help="measured times: the whole tree, or a folder of it"
    )
    compute.add_argument(
        "--model-config",
        metavar="FILE",
        help="dimensions of the models, as in config.json: YAML or JSON by model, one config.json, or a folder of "
        "them; well-known models are built in",
    )
    compute.add_argument(
        "--holdout",
        action="append",
        default=[],
        metavar="NAME",
        help="model to predict from a fit of the others, may be repeated; default: each in its turn",
    )
    compute.add_argument("--gpu", metavar="NAME", help="which of the data's devices; default: all")
    compute.add_argument(
        "--device-profile",
        metavar="NAME|FILE",
        help="peak and bandwidth of the device; default: the shipped device that the data's folder is named after",
    )
    compute.add_argument("--dtype", default="float16", metavar="TYPE", help="type measured in; default: float16")
    compute.add_argument("--output", metavar="FILE", help="write the fitted profile, of one device, as YAML")
    compute.add_argument("--json", metavar="FILE", help="write the errors as JSON; '-' is standard output, no tables")
    add_strict(compute)
    add_report(compute)
    compute.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    compute.set_defaults(calibrate=_compute)
    _collectives_arguments(kinds)
    _steps_arguments(kinds)


def _collectives_arguments(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    collectives = kinds.add_parser(
        "collectives",
        help="a machine file from measured collectives",
        description="Fit how fast NCCL or RCCL runs collectives on a machine to times of nccl-tests or rccl-tests, at "
        "most 12 constants,\nsay how far off it is on sizes left out of the fit, and call out measurements that the "
        "hardware contradicts.",
    )
    collectives.add_argument(
        "--data", required=True, nargs="+", metavar="PATH",
        help="measured times: logs of nccl-tests or rccl-tests with or without NCCL_DEBUG, their JSON or CSV, folders "
        "of them, or a folder with curves.csv, points.csv and machines.csv",
    )  # fmt: skip
    collectives.add_argument(
        "--holdout", metavar="FILE|SHARE",
        help="points to predict that the fit does not see: a CSV file with the columns curve, place, bytes (no bytes: "
        "the whole curve), or a share of the sizes of each curve; default: 0.25",
    )  # fmt: skip
    collectives.add_argument(
        "--machine", metavar="NAME|FILE",
        help="the machine that was measured, where the data do not describe it: a board such as h100, or a machine "
        "file; default: the board of the GPUs' name",
    )  # fmt: skip
    collectives.add_argument(
        "--output", metavar="FILE",
        help="write the machine with its constants, as YAML; of several machines the largest, the others beside it",
    )  # fmt: skip
    collectives.add_argument(
        "--json", metavar="FILE", help="write predictions and errors as JSON; '-' is standard output, no tables"
    )
    add_strict(collectives)
    add_report(collectives)
    collectives.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    collectives.set_defaults(calibrate=_collectives)


def _steps_arguments(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    steps = kinds.add_parser(
        "steps",
        help="a device profile from measured training steps",
        description="Fit what short bursts of kernels do not tell of a device to measured training steps: the share of "
        "their speed that\nmatrix products keep in long runs, the shares of attention and of element-wise kernels, "
        "and the cost of starting one.",
    )
    steps.add_argument(
        "data", metavar="DATA",
        help="a table of steps with their times (docs/reference-steps.md), or a folder with one and PyTorch's traces "
        "of its rows",
    )  # fmt: skip
    steps.add_argument(
        "--device", metavar="NAME|FILE",
        help="the shipped device or profile to begin with; default: the only one that the table has steps of",
    )  # fmt: skip
    steps.add_argument("--output", "-o", metavar="FILE", help="write the fitted profile, as YAML")
    steps.add_argument("--json", metavar="FILE", help="write constants and errors as JSON; '-' is standard output")
    add_report(steps)
    steps.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    steps.set_defaults(calibrate=_steps)


def run(options: argparse.Namespace) -> int:
    """Fit, compare, print. Raises InputError."""
    return int(options.calibrate(options))


def _compute(options: argparse.Namespace) -> int:
    outputs = {"--json": options.json, "--output": options.output, "--report": options.report}
    check_report(options.report)
    check_targets(outputs, [options.model_config, options.device_profile])
    from chakrasim.calibration import calibrate_compute
    from chakrasim.calibration.measured import FILES

    for option, path in outputs.items():
        if path and path != "-" and os.path.basename(path).lower() in FILES and os.path.exists(path):
            raise InputError(f"{option} would replace measured times", file=path, remedy="name another file")
    if options.output == "-":
        raise InputError("--output takes a file", found="-", expected="the profile's name, such as device.yaml")
    from chakrasim.calibration.json_form import calibration_json
    from chakrasim.report.tables.calibration import calibration_sections

    calibration = calibrate_compute(
        options.data,
        model_config=options.model_config,
        holdout=options.holdout,
        gpu=options.gpu,
        device_profile=options.device_profile,
        dtype=options.dtype,
    )
    tell_warnings(calibration.warnings, options)
    if options.output is not None:
        _write_profile(calibration, options.output)
    question = "How fast is the device, by measured layers?"
    inputs = [options.data, options.model_config, options.device_profile]
    write_tables(options, question, lambda: calibration_sections(calibration), inputs)
    report(options, lambda: calibration_json(calibration), lambda: calibration_sections(calibration))
    return 0


def _steps(options: argparse.Namespace) -> int:
    outputs = {"--json": options.json, "--output": options.output, "--report": options.report}
    check_targets(outputs, [options.data, options.device])
    check_report(options.report)
    if options.output == "-":
        raise InputError("--output takes a file", found="-", expected="the profile's name, such as device.yaml")
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.report.tables.calibration import steps_calibration_sections
    from chakrasim.validation.steps.calibrate import calibrate_steps

    show = None if options.quiet else _count
    found = calibrate_steps(options.data, device=options.device, progress=show)
    if options.output is not None:
        from chakrasim.files.outputs import write_whole
        from chakrasim.machine import dump_device

        write_whole(options.output, dump_device(found.profile).encode())
    question = "How fast is the device, by measured training steps?"
    inputs = [options.data, options.device]
    write_tables(options, question, lambda: steps_calibration_sections(found), inputs, found)
    report(options, found.to_json, lambda: steps_calibration_sections(found))
    return 0


def _count(done: int, total: int, name: str) -> None:
    count_ranks(f"{name},", done, total, "simulations")


def _write_profile(calibration: Calibration, path: str) -> None:
    """The profile of the only device. Raises InputError if there are several."""
    from chakrasim.files.outputs import write_whole
    from chakrasim.machine import dump_device

    if len(calibration.devices) != 1:
        raise InputError(
            "--output takes one profile, but several devices were fitted",
            found=", ".join(one.device for one in calibration.devices),
            remedy="choose one with --gpu NAME",
        )
    write_whole(path, dump_device(calibration.devices[0].profile).encode())


def _collectives(options: argparse.Namespace) -> int:
    outputs = {"--json": options.json, "--output": options.output, "--report": options.report}
    check_report(options.report)
    check_targets(outputs, [*options.data, options.holdout, options.machine])
    if options.output == "-":
        raise InputError("--output takes a file", found="-", expected="the machine's name, such as machine.yaml")
    from chakrasim.calibration.collectives.calibrate import calibrate_collectives
    from chakrasim.calibration.collectives.json_form import collective_calibration_json
    from chakrasim.report.tables.collective_calibration import collective_calibration_sections

    calibration = calibrate_collectives(options.data, holdout=options.holdout, machine=options.machine)
    tell_warnings(calibration.warnings, options)
    written = _write_machines(calibration, options) if options.output is not None else []
    inputs = [*options.data, options.holdout, options.machine]

    def sections() -> list[Section]:
        return collective_calibration_sections(calibration, written)

    write_tables(options, "How fast are the machine's collectives, by measured ones?", sections, inputs)
    report(options, lambda: collective_calibration_json(calibration), sections)
    return 0


def _write_machines(calibration: CollectiveCalibration, options: argparse.Namespace) -> list[str]:
    """The machine files, the largest group's under the name asked for. Raises InputError if nothing was fitted."""
    from chakrasim.calibration.collectives.machine_text import file_names, machine_text
    from chakrasim.files.outputs import write_whole

    if not calibration.groups:
        raise InputError("no machine was fitted: no point of the data has a time", remedy="leave --output out")
    names = file_names(calibration.groups, options.output)
    check_targets({name: name for name in names}, [*options.data, options.holdout, options.json])
    for name, group in zip(names, calibration.groups, strict=True):
        write_whole(name, machine_text(group).encode())
    return names
