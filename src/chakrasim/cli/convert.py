"""``chakrasim convert``: a linked trace, a text workload of ASTRA-sim 1.0, or a job of another maker's format into
Chakra traces; and jobs into such formats."""

from __future__ import annotations

import argparse
import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from chakrasim.cli.options import add_strict, whole_number
from chakrasim.cli.output import (
    check_job_outputs,
    check_target,
    check_targets,
    json_bytes,
    refuse_existing,
    refuse_replaced,
    shows,
    tell_warnings,
    write_json,
    write_out,
)
from chakrasim.compat.option_names import add_old_names, new_form
from chakrasim.errors import InputError, near
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.machine.device.profile import DeviceProfile
    from chakrasim.trace import Job

SUMMARY = "Convert linked traces and other makers' jobs to Chakra traces, and jobs to other formats"
EXAMPLES = """\
examples:
  chakrasim convert linked.0.json -o chakra.0.et
  chakrasim convert Text --input resnet50.txt --output chakra --num-npus 8 --num-passes 2    # chakra.0.et, ...
  chakrasim convert PyTorch --input linked.0.json --output chakra.0.et --compat chakra
  chakrasim convert Text --input resnet50.txt --output chakra --num-npus 8 --num-passes 2 --compat chakra
  chakrasim convert schedule.goal -o job/schedule            # also a SimAI workload or an AICB table, told by content
  chakrasim convert job/step --to goal -o step.goal --device-profile h100
  chakrasim convert job/step --to simai -o step.txt --device-profile h100
  chakrasim convert schedule.goal --to astra-sim -o astra/schedule    # a trace for each rank, and a group file
  chakrasim convert job/step --to parquet -o step.parquet
"""
KINDS = ("PyTorch", "Text")
WRITTEN = {"goal": "GOAL", "simai": "SimAI", "astra-sim": "ASTRA-sim", "parquet": "Parquet"}
JOB = "a job"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PyTorch|Text",
        help="what the input is (default: PyTorch, or told by content); the input may follow",
    )
    parser.add_argument(
        "-i", "--input", "--input_filename", metavar="FILE", help="linked trace, text workload, GOAL, SimAI, AICB"
    )
    parser.add_argument(
        "-o",
        "--output",
        "--output_filename",
        metavar="FILE",
        required=True,
        help="Chakra trace to write; of a text workload the prefix: PREFIX.0.et, PREFIX.1.et, ...",
    )
    parser.add_argument(
        "--num-npus", type=whole_number(1, 2**20), metavar="N", help="ranks, where the file does not say"
    )
    parser.add_argument("--num-passes", type=whole_number(0, 2**20), metavar="N", help="passes of a text workload")
    what = "write the job of a prefix (or file) for others: traces and groups for ASTRA-sim, or a file"
    parser.add_argument("--to", choices=tuple(WRITTEN), help=what)
    what = "with --to: a shipped device or a profile, which times the nodes that say what they compute"
    parser.add_argument("--device-profile", metavar="NAME|FILE", help=what)
    parser.add_argument(
        "--compat", choices=("chakra",), help="exactly what chakra_converter 1.0.0 writes, its faults included"
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="with --compat: also the reference's rough check of a converted linked trace, into --log-filename",
    )
    parser.add_argument("--log-filename", metavar="FILE", help="file for the lines of --simulate; default: none")
    add_strict(parser)
    parser.add_argument("--force", action="store_true", help="replace outputs that exist (--compat always does)")
    parser.add_argument("--json", metavar="FILE", help="write what was converted as JSON; '-' is standard output")
    parser.add_argument("--quiet", action="store_true", help="print warnings and errors only")
    parser.add_argument("--input_type", "--input-type", metavar="KIND", help=argparse.SUPPRESS)
    names = {f"--{name}": name for name in ("num_npus", "num_passes", "log_filename")}
    names |= {"--input-filename": "input", "--output-filename": "output"}
    add_old_names(parser, names, valued={"--num_dims": "collectives run in all dimensions of the machine"})


def run(options: argparse.Namespace) -> int:
    """Convert and write. Raises InputError."""
    kind, source = _words(options)
    _check_options(options, kind)
    notes = Notes()
    makers = {"Text": _text, "PyTorch": _pytorch, JOB: _job, "GOAL": _goal, "SimAI": _simai}
    makers |= {"ASTRA-sim": _astra_sim, "Parquet": _parquet}
    content = makers[kind](options, source, notes)
    if options.json is not None:
        write_json({**content, "warnings": list(notes.warnings)}, options)
    if shows(options):
        for line in content.pop("lines"):
            write_out(line, "\n")
    return 0


def _words(options: argparse.Namespace) -> tuple[str, str]:
    """What the input is, and its name."""
    words = list(options.words)
    if options.input_type is not None:
        if words and words[0] in KINDS:
            raise InputError("the kind of input is given twice", found=f"{words[0]} and --input_type")
        words.insert(0, _kind(options.input_type))
    kind = words.pop(0) if words and words[0] in KINDS else KINDS[0]
    if options.input is not None:
        words.append(options.input)
    if not words:
        raise InputError("no input is given", remedy="name a file, or add --input FILE")
    if len(words) > 1 or not (options.to or os.path.exists(words[0])):
        _refuse_words(words)
    return _told(options, kind, words[0]), words[0]


def _told(options: argparse.Namespace, kind: str, source: str) -> str:
    """The kind of conversion: as asked for, or by what the input is."""
    from chakrasim.files.job_formats import EARLY, foreign_kind

    given = options.input_type is not None or any(word in KINDS for word in options.words)
    if options.to:
        if given:
            raise InputError("--to takes a job, whatever it is", found=kind, remedy="leave the kind of input out")
        return WRITTEN[options.to]
    found = foreign_kind(source)
    if found and given and not (kind == "Text" and found == EARLY):
        raise InputError(f"this is {found}", file=source, expected=kind, remedy=f"leave out {kind}: content tells")
    return JOB if found and not given else kind


def _refuse_words(words: list[str]) -> None:
    """Raise InputError for several words, or one that seems to be a misspelt kind."""
    lowered = {name.lower(): name for name in KINDS}
    meant = near(words[0].lower(), lowered)
    known = next((name for low, name in lowered.items() if low in meant), None)
    if len(words) > 1 or known:
        raise InputError(
            f"unexpected word {words[0]!r}",
            expected="PyTorch or Text, then one input",
            remedy=f"did you mean {known}?" if known else "see chakrasim convert --help",
        )


def _kind(name: str) -> str:
    """What older versions of chakra_converter call a kind of input, whatever its case."""
    found = next((kind for kind in KINDS if kind.lower() == name.lower()), None)
    if found is None:
        raise InputError("--input_type is not known", found=repr(name), expected=" or ".join(KINDS))
    return found


def _check_options(options: argparse.Namespace, kind: str) -> None:
    text_only = [("--num-npus", options.num_npus is not None), ("--num-passes", options.num_passes is not None)]
    linked_only = [("--simulate", options.simulate)]
    passes, tables = text_only[1:], [("--compat", options.compat is not None), *linked_only]
    device = [("--device-profile", options.device_profile is not None)]
    wrong = {
        "Parquet": [*text_only, *tables, *device],
        "Text": [*linked_only, *device],
        "PyTorch": [*text_only, *device],
        JOB: [*passes, *tables, *device],
    }
    for option, given in wrong.get(kind, [*text_only, *tables]):
        if given:
            raise InputError(f"{option} cannot be used with {kind}", remedy="leave it out")
    if options.simulate and not options.compat:
        raise InputError("--simulate needs --compat chakra", remedy="or run the trace with chakrasim simulate")


def _pytorch(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    log = options.log_filename if options.simulate else None
    outputs = {"--output": options.output, "--json": options.json, "--log-filename": log}
    check_targets(outputs, [source])
    if not options.force and not options.compat:
        refuse_existing([options.output])
    if options.compat:
        from chakrasim.compat.chakra_convert.report import convert_and_report

        return convert_and_report(source, options.output, rough_check=options.simulate, log=log)
    from chakrasim.converter.linked.api import write_converted
    from chakrasim.trace.linked.file import read_linked

    try:
        linked = read_linked(source)
    except InputError:
        _refuse_reference_form(options, source)
        raise
    nodes = write_converted(options.output, linked, strict=options.strict, notes=notes)
    tell_warnings(notes.warnings, options)
    return {"output": options.output, "nodes": nodes, "lines": [f"{options.output}: {nodes:,} nodes"]}


def _refuse_reference_form(options: argparse.Namespace, source: str) -> None:
    """What chakra_trace_link wrote is for its converter: raise InputError with the command that converts it so."""
    from pathlib import Path

    from chakrasim.diagnosis.files.sniff import FileKind, sniff

    if sniff(Path(source)).kind is FileKind.LINKED:
        words = new_form("convert", "PyTorch", "--input", source, "--output", options.output, "--compat", "chakra")
        raise InputError(
            "this is a linked trace of chakra_trace_link",
            file=source,
            expected="one of chakrasim link",
            remedy=f"link again with chakrasim link, or say {words}",
        )


def _text(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.converter.text_workload.api import TextTraces, check_counts, convert_text

    ranks, passes = check_counts(options.num_npus, options.num_passes)
    paths = [f"{options.output}.{rank}.et" for rank in range(ranks)]
    groups_path = f"{options.output}.comm_group.json"
    check_targets({"--json": options.json}, [source])
    check_target(paths[0])
    if not options.force and not options.compat:
        refuse_existing([*paths, groups_path])
    from chakrasim.files.outputs import write_together
    from chakrasim.trace.job.ranks import rank_contents

    if options.compat:
        from chakrasim.compat.chakra_convert.text_workload import convert_text as convert_as_the_reference

        made = TextTraces(convert_as_the_reference(source, ranks, passes))
    else:
        made = convert_text(source, ranks, passes, notes=notes)
    tell_warnings(notes.warnings, options)
    files = rank_contents(options.output, made.traces)
    groups = [(groups_path, json_bytes(made.groups))] if made.groups else []
    write_together(chain(files, groups))
    nodes = sum(len(trace) for trace in made.traces)
    lines = [f"{paths[0]} to {paths[-1]}: {nodes:,} nodes" if ranks > 1 else f"{paths[0]}: {nodes:,} nodes"]
    content: dict[str, Any] = {"output": paths, "nodes": nodes, "lines": lines}
    if made.groups:
        content["comm_group"] = groups_path
        lines.append(f"{groups_path}: {len(made.groups)} communicator groups, for simulate --comm-group")
    return content


def _job(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    """A job of another maker's format."""
    from chakrasim.trace.foreign.read import read_foreign
    from chakrasim.trace.job.file import write_job

    check_job_outputs(options.output, options.json, [source])
    if not options.force:
        refuse_existing([f"{options.output}.ranks.json"])
    job = read_foreign(source, ranks=options.num_npus, notes=notes)
    tell_warnings(notes.warnings, options)
    paths = write_job(options.output, job)
    nodes = sum(map(len, job.traces))
    line = f"{options.output}.ranks.json: {job.ranks:,} ranks, {len(job.traces):,} traces, {nodes:,} nodes"
    return {"output": paths, "nodes": nodes, "lines": [line]}


def _goal(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.exchange.goal import goal_text, goal_traces

    check_targets({"--output": options.output, "--json": options.json}, [source, options.device_profile])
    job, profile = _written_job(options, source, notes, options.output)
    text = "".join(goal_text(goal_traces(job, profile=profile, notes=notes), job.ranks))
    return _write_text(options, text, job, "GOAL", notes)


def _simai(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.exchange.simai import simai_text

    check_targets({"--output": options.output, "--json": options.json}, [source, options.device_profile])
    job, profile = _written_job(options, source, notes, options.output)
    text = simai_text(job, profile=profile, notes=notes)
    return _write_text(options, text, job, "a SimAI workload", notes)


def _astra_sim(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.exchange.astra_sim import astra_sim_job
    from chakrasim.trace.job.file import write_job

    check_job_outputs(options.output, options.json, [source])
    refuse_replaced(options.output, [source])
    job, profile = _written_job(options, source, notes, f"{options.output}.0.et", f"{options.output}.comm_group.json")
    made = astra_sim_job(job, profile=profile, notes=notes)
    tell_warnings(notes.warnings, options)
    paths = write_job(options.output, made, expand=True)
    nodes = sum(len(made.traces[which]) for which in job.trace_of_rank.tolist())
    line = f"{options.output}.0.et, ...: {job.ranks:,} ranks for ASTRA-sim, {nodes:,} nodes"
    return {"output": paths, "nodes": nodes, "lines": [line]}


def _parquet(options: argparse.Namespace, source: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.exchange.parquet import parquet_bytes
    from chakrasim.files.outputs import write_together

    check_targets({"--output": options.output, "--json": options.json}, [source])
    job, _ = _written_job(options, source, notes, options.output)
    data = parquet_bytes(job)
    tell_warnings(notes.warnings, options)
    write_together([(options.output, data)])
    nodes = sum(map(len, job.traces))
    line = f"{options.output}: {nodes:,} nodes of {len(job.traces):,} traces, which {job.ranks:,} ranks run"
    return {"output": options.output, "nodes": nodes, "lines": [line]}


def _written_job(
    options: argparse.Namespace, source: str, notes: Notes, *outputs: str
) -> tuple[Job, DeviceProfile | None]:
    """The job to write, and what times it. ``outputs``: what must not be there yet."""
    if not options.force:
        refuse_existing(list(outputs))
    from chakrasim.converter.retarget.job_input import load_job
    from chakrasim.machine import load_device

    job = load_job(source, notes=notes)
    return job, None if options.device_profile is None else load_device(options.device_profile)


def _write_text(options: argparse.Namespace, text: str, job: Job, what: str, notes: Notes) -> dict[str, Any]:
    from chakrasim.files.outputs import write_together

    tell_warnings(notes.warnings, options)
    write_together([(options.output, text.encode())])
    line = f"{options.output}: {job.ranks:,} ranks as {what}, {text.count(chr(10)):,} lines"
    return {"output": options.output, "nodes": sum(map(len, job.traces)), "lines": [line]}
