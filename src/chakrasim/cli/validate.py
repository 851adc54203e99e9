"""``chakrasim validate``: predictions against published measurements."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_strict
from chakrasim.cli.output import announce_compilation, report, tell_warnings
from chakrasim.cli.page import add_report, check_outputs, write_tables
from chakrasim.cli.progress import count_ranks

SUMMARY = "Compare predictions with published measurements"
EXAMPLES = """\
examples:
  chakrasim validate megatron
  chakrasim validate megatron --json errors.json
  chakrasim validate collectives
  chakrasim validate collectives --data measured --json scoreboard.json
  chakrasim validate collectives --data measured --refit --plots plots
  chakrasim validate steps --data steps.csv --json predicted.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What there is to compare with, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", title="kinds", required=True)
    megatron = kinds.add_parser(
        "megatron",
        help="eight iteration times of Megatron-LM on A100",
        description="One training step of GPT models of 22 billion to a trillion parameters, generated, simulated on a "
        "model of Selene, and compared with arXiv:2205.05198, table 5.",
    )
    megatron.add_argument(
        "--device-profile", default="a100", metavar="NAME", help="device, or a profile's file; default: a100"
    )
    megatron.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no table")
    add_report(megatron)
    megatron.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    megatron.set_defaults(compare=_megatron)
    collectives = kinds.add_parser(
        "collectives",
        help="measured collectives of NCCL and RCCL",
        description="Predict measured collectives from the descriptions of their machines, and compare: errors, how "
        "often the 90 % interval holds,\nand what simpler models come to.",
    )
    collectives.add_argument(
        "--data",
        metavar="DIR",
        help="folder with curves.csv, points.csv and machines.csv, whose times may be blank; default: the package's",
    )
    collectives.add_argument(
        "--refit",
        action="store_true",
        help="predict each machine by weights fitted to the others, and what is hidden of a machine from the rest; "
        "takes minutes",
    )
    collectives.add_argument("--plots", metavar="DIR", help="draw predicted against measured times, as SVG")
    collectives.add_argument(
        "--json", metavar="FILE", help="write all points as JSON; '-' is standard output, no tables"
    )
    add_strict(collectives)
    add_report(collectives)
    collectives.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    collectives.set_defaults(compare=_collectives)
    steps = kinds.add_parser(
        "steps",
        help="published training steps",
        description="Generate and simulate the training steps of a table from their descriptions, and compare with "
        "what was measured.",
    )
    steps.add_argument(
        "--data", metavar="FILE", help="CSV file with a row for each step, whose times may be blank; default: the "
        "package's, which takes minutes",
    )  # fmt: skip
    steps.add_argument("--json", metavar="FILE", help="write all rows as JSON; '-' is standard output, no tables")
    add_report(steps)
    steps.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    steps.set_defaults(compare=_steps)


def run(options: argparse.Namespace) -> int:
    """Predict, compare, print. Raises InputError."""
    return int(options.compare(options))


def _show(done: int, total: int, name: str) -> None:
    count_ranks(f"predicting {name},", done, total, "runs")


def _megatron(options: argparse.Namespace) -> int:
    check_outputs(options, [])
    announce_compilation("simulator")
    from chakrasim.report.tables.validation import validation_sections
    from chakrasim.validation.megatron import validate_megatron

    validation = validate_megatron(device=options.device_profile, progress=None if options.quiet else _show)
    question = "How near do predictions come to the training steps of Megatron-LM?"
    write_tables(options, question, lambda: validation_sections(validation), [options.device_profile], validation)
    report(options, validation.to_json, lambda: validation_sections(validation))
    return 0


def _collectives(options: argparse.Namespace) -> int:
    check_outputs(options, [])
    from chakrasim.notes import Notes
    from chakrasim.report.tables.scoreboard import scoreboard_sections
    from chakrasim.validation.scoreboard.api import validate_collectives

    notes = Notes()
    progress = None if options.quiet else _count
    board = validate_collectives(options.data, refit=options.refit, notes=notes, progress=progress)
    tell_warnings(notes, options)
    if options.plots is not None:
        from chakrasim.report.picture.scoreboard import write_plots

        write_plots(options.plots, board)
    question = "How near do predictions come to measured collectives?"
    write_tables(options, question, lambda: scoreboard_sections(board), [options.data], board)
    report(options, board.to_json, lambda: scoreboard_sections(board))
    return 0


def _steps(options: argparse.Namespace) -> int:
    check_outputs(options, [])
    announce_compilation("simulator")
    from chakrasim.report.tables.validation import steps_sections
    from chakrasim.validation.steps.api import validate_steps

    board = validate_steps(options.data, progress=None if options.quiet else _count)
    question = "How near do predictions come to measured training steps?"
    write_tables(options, question, lambda: steps_sections(board), [options.data], board)
    report(options, board.to_json, lambda: steps_sections(board))
    return 0


def _count(done: int, total: int, name: str) -> None:
    count_ranks(f"{name},", done, total, "steps")
