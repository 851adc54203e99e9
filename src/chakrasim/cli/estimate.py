"""``chakrasim estimate``: how long a training step of a model takes on a machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, write_report
from chakrasim.cli.step_options import add_numbers, asked_of
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.report.page.parts import Page

SUMMARY = "Estimate how long a training step of a model takes on a machine, with an interval"
EXAMPLES = """\
examples:
  chakrasim estimate llama3-70b --machine h100 --gpus 256
  chakrasim estimate llama3-8b --machine h100 --gpus 64 --dp-kind fsdp --batch 512 --seq 4096 --recompute full
  chakrasim estimate llama3-70b --machine h100 --gpus 512 --tp 8 --pp 4 --vp 5 --batch 1024 --nic 200G --json step.json
  chakrasim estimate my-model.yaml --machine my-machine.yaml --strict

What is left open is chosen and told: the smallest tp within a node, then pp, that fits in memory.

exit codes: 0 done; 2 unusable input (or, with --strict, what does not fit in memory, or any other warning)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "model", metavar="MODEL", help="a model's name, such as llama3-70b, or a transformer spec's file"
    )
    parser.add_argument(
        "--machine", required=True, metavar="NAME|FILE",
        help="a board such as h100 (see chakrasim machines), a preset, or a machine file with a device profile",
    )  # fmt: skip
    parser.add_argument("--gpus", type=whole_number(1, 2**20), metavar="N", help="how many GPUs of a board")
    parser.add_argument("--nic", metavar="SPEED", help="of each NIC, such as 400G; default: the board's")
    parser.add_argument(
        "--device-profile", metavar="NAME|FILE",
        help="instead of the machine's: a shipped device, or a profile such as calibrate steps writes",
    )  # fmt: skip
    add_numbers(parser)
    parser.add_argument(
        "--dp-kind", metavar="KIND",
        help="data parallelism: ddp; fsdp, parameters sharded over all replicas; hsdp, over those of a node",
    )  # fmt: skip
    parser.add_argument(
        "--zero", type=whole_number(0, 3), metavar="0-3",
        help="what data parallelism shards: optimizer states (1), gradients too (2), parameters too (3)",
    )  # fmt: skip
    parser.add_argument(
        "--recompute", metavar="WHAT",
        help="none, selective, full, or names of what is computed again, such as norm,activation; default: none",
    )  # fmt: skip
    parser.add_argument(
        "--dtype", metavar="TYPE",
        help="what is computed in: bf16, fp16, fp32; or products in fp8, mxfp8, nvfp4, the rest in bf16; default: bf16",
    )  # fmt: skip
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction,
        help="kernels as torch.compile fuses them, or one for each operator; default: fused as by Megatron-LM",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    add_report(parser)
    add_strict(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Estimate and print. Raises InputError."""
    inputs = [options.model, options.machine, options.device_profile]
    check_outputs(options, inputs)
    if not options.quiet:
        announce_compilation("simulator")
    from chakrasim.estimation.api import estimate
    from chakrasim.report.tables.prediction import step_sections

    asked = asked_of(options, "dp_kind", "zero", "recompute", "dtype", "compile")
    notes = Notes()
    found = estimate(
        options.model, machine=options.machine, gpus=options.gpus, nic=options.nic,
        device_profile=options.device_profile, strict=options.strict, notes=notes, **asked,
    )  # fmt: skip
    tell_warnings(notes.warnings, options)
    write_report(options, lambda: _page(found, notes, options), inputs)
    report(options, found.to_json, lambda: step_sections(found))
    return 0


def _page(found: StepEstimate, notes: Notes, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.estimate import estimate_page

    question = f"How long does a training step of {options.model} take on {found.gpus:,} GPUs of {found.machine}?"
    return estimate_page(found, question=question, warnings=tuple(notes.warnings))
