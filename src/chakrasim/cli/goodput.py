"""``chakrasim goodput``: how long a training job takes with failures."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_strict
from chakrasim.cli.output import check_targets, report, tell_warnings
from chakrasim.notes import Notes

SUMMARY = "Say how much of a job's time is training, with failures, checkpoints and restarts"
EXAMPLES = """\
examples:
  chakrasim goodput --spec job.yaml
  chakrasim goodput --spec job.yaml --json goodput.json

The spec (YAML or JSON):
  step_s: 5.2                    # a step, from chakrasim estimate, say
  nodes: 2048
  failures: {gpu: 0.0021, network: 0.0005}        # a day and node
  checkpoint_write_s: 30         # or model: llama3-70b and storage_bytes_per_s: 1e11
  checkpoint_interval_s: best    # or seconds, the checkpoint included
  restart_s: 300
  days: 54

exit codes: 0 done; 2 unusable input (or, with --strict, any warning)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--spec", required=True, metavar="FILE", help="the job and what goes wrong")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    add_strict(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Reckon and print. Raises InputError."""
    check_targets({"--json": options.json}, [options.spec])
    from chakrasim.reliability.goodput import goodput
    from chakrasim.report.tables.answers.goodput import goodput_sections

    notes = Notes()
    found = goodput(options.spec, notes=notes)
    tell_warnings(notes.warnings, options)
    report(options, found.to_dict, lambda: goodput_sections(found))
    return 0
