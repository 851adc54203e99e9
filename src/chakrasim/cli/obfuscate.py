"""``chakrasim obfuscate``: traces that can be shared."""

from __future__ import annotations

import argparse
import os

from chakrasim.cli.options import add_reading, real_number, whole_number
from chakrasim.cli.output import announce_compilation, check_target, check_targets, report, tell_warnings
from chakrasim.cli.progress import count_ranks
from chakrasim.errors import InputError
from chakrasim.notes import Notes

SUMMARY = "Make traces that can be shared: pseudonyms, motifs of many jobs, behaviour alone, a model"
EXAMPLES = """\
IN is a trace of one rank (FILE.et), a job (a prefix), or a folder of jobs; OUT is of the same kind, at level population
a model's file. What is printed and written by --json is for the owner: it is no part of the release.

examples:
  chakrasim obfuscate job/step -o shared/step --level names --key secret.key
  chakrasim obfuscate jobs -o shared/jobs --level motifs -k 5
  chakrasim obfuscate job/step -o shared/step --level behaviour --device-profile h100
  chakrasim obfuscate jobs -o shared.chakrasim-model --level population --epsilon 4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("source", metavar="IN", help="a rank's trace, a prefix of a job's traces, or a folder of jobs")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the same of what can be shared")
    parser.add_argument(
        "--level", required=True, metavar="LEVEL", help="names, motifs, behaviour or population: see the how-to page"
    )
    what = "the key of the pseudonyms; a file that is not there gets a new one. Default: a key that nobody keeps"
    parser.add_argument("--key", metavar="FILE", help=what)
    what = "motifs: so many jobs have whatever is released; default: 5"
    parser.add_argument("-k", type=whole_number(2), metavar="JOBS", help=what)
    what = "behaviour: sizes and times are rounded to a grid of this ratio; default: 1.05"
    parser.add_argument("--ratio", type=real_number, metavar="G", help=what)
    what = "population: what one job more or less may change, as epsilon of differential privacy; default: 4"
    parser.add_argument("--epsilon", type=real_number, metavar="E", help=what)
    parser.add_argument("--delta", type=real_number, metavar="D", help="population: and its delta; default: 1e-5")
    what = "population: programs are learned from so many parts of the jobs, of some 50 each; default: 17"
    parser.add_argument("--chunks", type=whole_number(5), metavar="N", help=what)
    what = "behaviour: a shipped device or a profile, which times the nodes that say what they compute"
    parser.add_argument("--device-profile", metavar="NAME|FILE", help=what)
    what = "board, preset or machine file on which the price is found; default: the boards h100, a100 and mi300x"
    parser.add_argument("--machine", action="append", metavar="NAME", help=what)
    parser.add_argument("--expand", action="store_true", help="one trace per rank and a group file, for other tools")
    parser.add_argument("--json", metavar="FILE", help="write guarantee and price as JSON; '-' is standard output")
    add_reading(parser)
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def run(options: argparse.Namespace) -> int:
    """Obfuscate, write, print. Raises InputError."""
    _check(options)
    if not options.quiet:
        announce_compilation("trace", "simulator")
    from chakrasim.obfuscation.api import RATIO, K, obfuscate
    from chakrasim.obfuscation.key import new_key, read_key, write_key
    from chakrasim.obfuscation.population.budget import CHUNKS, DELTA, EPSILON
    from chakrasim.obfuscation.price import MACHINES
    from chakrasim.report.tables.answers.obfuscation import obfuscation_sections

    kept = None if options.key is None else read_key(options.key)
    key = new_key() if kept is None else kept
    notes = Notes()
    found = obfuscate(
        options.source,
        level=options.level,
        key=key,
        k=K if options.k is None else options.k,
        ratio=RATIO if options.ratio is None else options.ratio,
        epsilon=EPSILON if options.epsilon is None else options.epsilon,
        delta=DELTA if options.delta is None else options.delta,
        chunks=CHUNKS if options.chunks is None else options.chunks,
        device=options.device_profile,
        machines=options.machine or MACHINES,
        lenient=options.lenient,
        notes=notes,
        progress=None if options.quiet else _show,
    )
    found.check(options.output)
    tell_warnings(notes.warnings, options)
    if options.key is not None and kept is None:
        write_key(options.key, key)
    files = found.write(options.output, expand=options.expand)
    report(options, lambda: {**found.to_json(), "files": files}, lambda: obfuscation_sections(found, files))
    return 0


def _check(options: argparse.Namespace) -> None:
    """Raise InputError for outputs that cannot be, and for what is the owner's and would be released."""
    check_targets({"--json": options.json}, [options.source, options.key, options.device_profile])
    for option, value, level in (
        ("-k", options.k, "motifs"),
        ("--ratio", options.ratio, "behaviour"),
        ("--device-profile", options.device_profile, "behaviour"),
        ("--epsilon", options.epsilon, "population"),
        ("--delta", options.delta, "population"),
        ("--chunks", options.chunks, "population"),
    ):
        if value is not None and options.level != level:
            raise InputError(f"{option} is for level {level}", remedy="leave it out")
    for option, value in (("--key", options.key), ("--expand", options.expand or None)):
        if value is not None and options.level == "population":
            raise InputError(f"{option} is for levels that release jobs", remedy="leave it out")
    from chakrasim.obfuscation.release import FOLDER, MODEL, check_release
    from chakrasim.trace.job.file import is_file_of_job, prefixes_of

    if options.key is not None:
        check_target(options.key)
    out = os.path.realpath(options.output)
    for what, path in (("key", options.key), ("JSON document", None if options.json == "-" else options.json)):
        if path is None:
            continue
        own = os.path.realpath(path)
        inside = own.startswith((out + os.sep, out + ".") if what == "key" else out + os.sep)
        if own == out or inside or is_file_of_job(options.output, path):
            raise InputError(f"the {what} would be a part of the release", file=path, remedy="keep it somewhere else")
    inputs = prefixes_of(options.source)
    if options.json not in (None, "-") and any(is_file_of_job(one, os.path.realpath(options.json)) for one in inputs):
        raise InputError("--json would replace an input", file=options.json, remedy="name another file")
    if options.level == "population":
        # Before anything of epsilon is spent.
        check_target(options.output)
        check_release(options.output, MODEL, inputs)
    elif os.path.isdir(options.source):
        check_release(options.output, FOLDER, inputs)


def _show(done: int, total: int, what: str) -> None:
    count_ranks(what, done, total, "machines" if what.startswith("price") else "steps")
