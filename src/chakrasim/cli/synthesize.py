"""``chakrasim synthesize``: jobs from a learned model."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chakrasim.cli.options import whole_number
from chakrasim.cli.output import check_job_outputs, report, tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.trace.job.job import Job, Parameter

SUMMARY = "Make jobs of any size with a model that chakrasim learn has written"
EXAMPLES = """\
What --set leaves open follows from what is set, where the jobs that were learned from say how, or is as in one of them.
Parameters outside of what those jobs had are told; --strict refuses them.

examples:
  chakrasim synthesize dense.chakrasim-model --set dp=64,tp=8 -o big/step
  chakrasim synthesize dense.chakrasim-model --count 100 --seed 7 -o many/step     # many/step-0, many/step-1, ...
  chakrasim simulate big/step --machine h100 --gpus 512
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("model", metavar="M", help="the model file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE,...", help="parameters of the job: dp=64,tp=8"
    )
    parser.add_argument("--count", type=whole_number(1, 10**6), default=1, metavar="K", help="so many jobs; default: 1")
    parser.add_argument(
        "--seed", type=whole_number(0, 2**63 - 1), default=0, metavar="N", help="of what is drawn; default: 0"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PREFIX", help="prefix of the job's files; of several PREFIX-0, ..."
    )
    parser.add_argument("--expand", action="store_true", help="one trace per rank and a group file, for other tools")
    parser.add_argument("--strict", action="store_true", help="treat every warning as an error, and write nothing")
    parser.add_argument("--json", metavar="FILE", help="write what was made as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Make the jobs, check them, write them. Raises InputError."""
    names = [options.output] if options.count == 1 else [f"{options.output}-{i}" for i in range(options.count)]
    check_job_outputs(names[0], options.json, [options.model])
    settings = settings_of(options.set)
    from chakrasim.report.tables.answers.synthesis import synthetic_json, synthetic_sections
    from chakrasim.synthesis.api import Synthetic, synthesize
    from chakrasim.synthesis.file import read_model
    from chakrasim.trace.job.file import write_jobs

    notes, made = Notes(), list[Synthetic]()

    def jobs() -> Iterator[Job]:
        for one in synthesize(read_model(options.model), settings, count=options.count, seed=options.seed, notes=notes):
            notes.refuse(options.strict)
            made.append(one)
            yield one.job

    files = write_jobs(names, jobs(), expand=options.expand)
    tell_warnings(notes.warnings, options)
    told = list(zip(made, files, strict=True))
    report(options, lambda: synthetic_json(told), lambda: synthetic_sections(told))
    return 0


def settings_of(given: list[str]) -> dict[str, Parameter]:
    """The parameters of ``--set``. Raises InputError for text that is none."""
    found: dict[str, Parameter] = {}
    for text in given:
        for each in text.split(","):
            name, equals, value = each.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise InputError(
                    "this sets nothing", place="--set", found=repr(each), expected="NAME=VALUE, such as dp=64"
                )
            name, said = name.strip(), _value(value.strip())
            if found.setdefault(name, said) != said:
                raise InputError(
                    "a parameter is set twice", place=f"--set {name}", found=f"{found[name]!r} and {said!r}"
                )
    return found


def _value(text: str) -> Parameter:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if not abs(number) < 1 << 62:
            raise InputError("the number is too large", place="--set", found=text, expected="less than 2^62")
        return number
    return text
