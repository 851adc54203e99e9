"""``chakrasim generate transformer`` and ``chakrasim generate collective``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from chakrasim.cli.machine_options import machine_for
from chakrasim.cli.options import add_strict, amount, whole_number
from chakrasim.cli.output import check_job_outputs, report, shows, tell_warnings, write_json, write_out
from chakrasim.errors import InputError

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.trace.job.job import Job

COLLECTIVE_NOTE = """\
Each rank runs one collective, or messages in a pattern: send_recv (a ring: to the next rank, from
the one before) or all_pairs. --size is comm_size: of all_gather and gather the part of one rank, of
reduce_scatter and all_to_all the whole input of each rank, of scatter all parts, else what a rank
has. KiB, MiB and GiB are powers of 1024, kB, MB and GB powers of 1000. A broadcast runs as a real
one with simulate --physics only, as in ASTRA-sim. Files of that prefix are replaced.
"""


def add_transformer(kinds: Any) -> None:
    """The kind ``transformer``."""
    parser = kinds.add_parser(
        "transformer",
        help="a training step of a transformer on many ranks, from a short description",
        description="One training step as traces of all ranks; docs/reference-transformer-spec.md has all keys.\n"
        "Files of that prefix are replaced.",
    )
    parser.add_argument("--spec", required=True, metavar="FILE", help="model, parallelism and batch, as YAML")
    parser.add_argument(
        "--device-profile", metavar="NAME|FILE", help="durations, and whether memory suffices, of this device"
    )
    parser.add_argument(
        "--machine", metavar="NAME|FILE", help="say how long the step takes there: a board such as h100, or a file"
    )
    add_strict(parser)
    _common(parser)
    parser.set_defaults(make=make_transformer)


def add_collective(kinds: Any) -> None:
    """The kind ``collective``."""
    from chakrasim.collectives.kinds import KINDS

    types = (*(kind.name for kind in KINDS.values() if kind.spellings), "send_recv", "all_pairs")
    parser = kinds.add_parser(
        "collective", help="one collective, or messages in a pattern, on N ranks", description=COLLECTIVE_NOTE
    )
    parser.add_argument(
        "--type", type=_type, required=True, choices=types, metavar="TYPE", help="one of " + ", ".join(types)
    )
    parser.add_argument(
        "--size", type=amount, default=0, metavar="SIZE", help="bytes, or 1MiB, 1GB; a barrier has none"
    )
    parser.add_argument("--ranks", type=whole_number(2, 2**20), required=True, metavar="N", help="how many ranks")
    parser.add_argument(
        "--repeat", type=whole_number(1, 10**6), default=1, metavar="N", help="so many, one after another; default: 1"
    )
    parser.add_argument("--root", type=whole_number(0), default=0, metavar="RANK", help="of a rooted one; default: 0")
    _common(parser)
    parser.set_defaults(make=make_collective)


def _type(text: str) -> str:
    """A type as machine files and result tables spell it too: all-reduce."""
    return text.lower().replace("-", "_")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        "-o",
        required=True,
        metavar="PREFIX",
        help="PREFIX.ranks.json and the traces that equal ranks share",
    )
    parser.add_argument(
        "--expand",
        action="store_true",
        help="one trace for each rank, PREFIX.RANK.et, and PREFIX.comm_group.json: for other tools",
    )
    parser.add_argument("--json", metavar="FILE", help="write what was made as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")


def make_transformer(options: argparse.Namespace) -> int:
    """Read the spec, generate, write, say what it amounts to. Raises InputError."""
    check_job_outputs(options.output, options.json, [options.spec])
    from chakrasim.generator.summary import summary
    from chakrasim.generator.transformer import generate_transformer
    from chakrasim.report.tables.generated import generated_sections
    from chakrasim.report.tables.prediction import step_sections

    device = None
    if options.device_profile is not None:
        from chakrasim.machine.device.file import load_device

        device = load_device(options.device_profile)
    generated = generate_transformer(options.spec, device=device)
    step = None if options.machine is None else _step(options, generated.spec)
    files = _write(options, generated.job)
    told = {} if step is None else {"step": step.to_json()}
    head = [] if step is None else step_sections(step)[:1]
    report(
        options,
        lambda: {**summary(generated), **told, "files": files},
        lambda: [*head, *generated_sections(generated, files)],
    )
    return 0


def _step(options: argparse.Namespace, spec: Spec) -> StepEstimate:
    """How long the step takes on a machine. Raises InputError."""
    from chakrasim.estimation.api import check_fit, estimate_step
    from chakrasim.notes import Notes

    notes = Notes()
    found = estimate_step(spec, machine_for(options.machine, spec.parallel.ranks, notes), notes=notes)
    check_fit(found, notes, options.strict)
    tell_warnings(notes.warnings, options)
    return found


def make_collective(options: argparse.Namespace) -> int:
    """Make one collective on all ranks. Raises InputError."""
    check_job_outputs(options.output, options.json, [])
    from chakrasim.generator.collective import SIZES, collective_job
    from chakrasim.text.amounts import plural, size_text

    if options.type != "barrier" and not options.size:
        raise InputError("a size is needed", place="--size", expected="an amount such as 1MiB")
    job = collective_job(options.type, options.size, options.ranks, repeat=options.repeat, root=options.root)
    files = _write(options, job)
    content = {
        "type": options.type,
        "comm_size": options.size,
        "comm_size_is": SIZES[options.type],
        "ranks": options.ranks,
        "repeat": options.repeat,
        "nodes": sum(len(trace) for trace in job.traces),
        "files": files,
    }
    if options.json is not None:
        write_json(content, options)
    if shows(options):
        size = f" of {size_text(options.size)} ({SIZES[options.type]})" if options.type != "barrier" else ""
        times = f", {options.repeat:,} times" if options.repeat > 1 else ""
        write_out(f"{options.output}: {options.type}{size} on {plural(options.ranks, 'rank')}{times}\n")
    return 0


def _write(options: argparse.Namespace, job: Job) -> list[str]:
    from chakrasim.trace.job.file import write_job

    return write_job(options.output, job, expand=options.expand)
