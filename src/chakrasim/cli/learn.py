"""``chakrasim learn``: the program of many jobs, as a model that makes others."""

from __future__ import annotations

import argparse

from chakrasim.cli.options import add_reading
from chakrasim.cli.output import announce_compilation, check_targets, report, tell_warnings
from chakrasim.cli.progress import count_ranks
from chakrasim.notes import Notes

SUMMARY = "Learn a program from the traces of many jobs, to make jobs of other sizes"
EXAMPLES = """\
A job is a prefix of Chakra traces, or a folder that holds jobs. What a job was made with is read from its ranks file
(generate writes it there), from PREFIX.parameters.json, an object of numbers and words, from what all its traces say of
themselves, and from the sizes of its process groups.

examples:
  chakrasim learn jobs/ -o dense.chakrasim-model
  chakrasim learn a/step b/step c/step -o step.chakrasim-model --json laws.json
  chakrasim synthesize dense.chakrasim-model --set dp=64,tp=8 -o big/step
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("jobs", metavar="JOBS", nargs="+", help="prefixes of Chakra traces, or folders of jobs")
    parser.add_argument("-o", "--output", required=True, metavar="M", help="the model file")
    parser.add_argument("--json", metavar="FILE", help="write what was learned, law by law; '-' is standard output")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Learn, write, print. Raises InputError."""
    check_targets({"--output": options.output, "--json": options.json}, options.jobs)
    if not options.quiet:
        announce_compilation("trace")
    from chakrasim.report.tables.answers.synthesis import learned_json, learned_sections
    from chakrasim.synthesis.api import learn
    from chakrasim.synthesis.file import write_model

    notes = Notes()
    show = None if options.quiet else _show
    learned = learn(options.jobs, lenient=options.lenient, notes=notes, progress=show)
    tell_warnings(notes.warnings, options)
    size = write_model(options.output, learned)
    report(options, lambda: learned_json(learned, size), lambda: learned_sections(learned, options.output, size))
    return 0


def _show(done: int, total: int, what: str) -> None:
    count_ranks(what, done, total, "kinds of nodes")
