"""``chakrasim simulate``: run a workload on a machine and say how long it takes and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from chakrasim.cli.job_options import (
    add_inputs,
    add_limits,
    add_model,
    files_of,
    limits_of,
    protocol_of,
    scaled_machine,
    settings_of,
)
from chakrasim.cli.options import rank_list
from chakrasim.cli.output import (
    announce_compilation,
    check_targets,
    check_timeline,
    print_sections,
    tell_warnings,
    write_data,
    write_out,
)
from chakrasim.cli.page import add_report, check_report, question_of, write_report
from chakrasim.cli.streams import tell
from chakrasim.errors import InputError, StallError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.report.page.parts import Page
    from chakrasim.simulator.outcome.result import SimulationResult
    from chakrasim.simulator.together import JobsResult

SUMMARY = "Simulate Chakra traces on a machine"
EXAMPLES = """\
examples:
  chakrasim simulate traces/step --machine hgx-h100-8 --comm-group groups.json
  chakrasim simulate one.et --ranks 64 --machine my-machine.yaml --timeline step.json.gz
  chakrasim simulate traces/step --machine hgx-h100-16 --timeline step.pftrace --timeline-ranks 3,12
  chakrasim simulate traces/step --system system.json --network network.yml --congestion aware --json result.json
  chakrasim simulate traces/step --machine h100 --gpus 256 --nic 200G --slow 5=1.3
  chakrasim simulate traces/step --machine h100 --gpus 16 --network-model packet
  chakrasim simulate --jobs jobs.yaml --machine h100 --gpus 64 --changes failures.yaml
  chakrasim simulate traces/step --machine hgx-h100-8 --check --strict
  chakrasim simulate traces/step --machine hgx-h100-8 --set network[0].latency='1 us' --slow 5=1.3
  chakrasim simulate out/chakra.3.et --replay-durations
  chakrasim simulate out/chakra --replay-durations=transfer

ASTRA-sim's own options, and its lines instead of the tables:
  chakrasim simulate --workload-configuration traces/step --system-configuration system.json \\
      --network-configuration network.yml --remote-memory-configuration memory.json --compat-log
  chakrasim simulate --workload-configuration traces/step --system-configuration system.json \\
      --network-configuration config.txt --logical-topology-configuration logical.json --compat

exit codes: 0 done; 2 unusable input (or, with --strict, any warning); 3 a rank or job can never finish; 130 interrupted
"""

RESULTS = ("timeline", "report", "compat_log", "memory_trace")
"""Options for what a run that only checks does not have."""

BESIDE_JOBS = {
    ("prefix", "workload_configuration"): "the file names the traces of each job",
    ("ranks", "comm_group"): "the file says it of each job",
    ("system", "network", "logical_topology", "memory", "congestion", "compat"): "jobs share the links of a --machine",
    ("device_profile",): "the machine file names the profile",
    ("replay_durations", "common_start", "no_fold"): "every rank is simulated, from the start of its job",
    ("check", "compat_log", "memory_trace"): "it is of one job",
}
"""Options that make no sense with several jobs, and why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    inputs = add_inputs(parser)
    inputs.add_argument("--jobs", metavar="FILE", help="several jobs and where each runs, instead of PREFIX")
    add_model(parser)
    _output_arguments(parser)
    add_limits(parser)


def _output_arguments(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    what = "write a timeline for ui.perfetto.dev: FILE.json, or FILE.pftrace, with arrows and more counters; .gz packs"
    output.add_argument("--timeline", metavar="FILE", help=what)
    what = "show these ranks on it, such as 3,12 or 0-7; default: all, those that do the same once"
    output.add_argument("--timeline-ranks", type=rank_list, metavar="RANKS", help=what)
    add_report(output)
    output.add_argument(
        "--memory-trace",
        metavar="PREFIX",
        help="write PREFIX.RANK.json, tensors in local memory over time (needs track-local-mem in the system)",
    )
    output.add_argument("--check", action="store_true", help="validate everything, but do not run")
    output.add_argument("--quiet", action="store_true", help="no tables and no progress, only warnings and errors")
    output.add_argument("--compat-log", action="store_true", help="print ASTRA-sim's lines instead of the tables")


def run(options: argparse.Namespace) -> int:
    """Simulate and report. Raises InputError and StallError."""
    notes = Notes()
    if options.jobs is not None:
        return _run_jobs(options, notes)
    settings = settings_of(options, notes)
    _check_outputs(options)
    tell_warnings(notes.warnings, options)
    if not options.quiet:
        announce_compilation("trace", "simulator")
    from chakrasim.cli.progress import progress_bar
    from chakrasim.simulator.api import replay_recorded, simulate

    show = not options.quiet and not options.check and sys.stderr.isatty()
    with progress_bar() if show else nullcontext() as progress:
        run_it = replay_recorded if options.replay_durations else simulate
        result = run_it(**settings, progress=progress)
    step, told = _step(result, settings.get("machine"), options.device_profile), Notes(*result.warnings)
    if step is not None:
        from chakrasim.estimation.api import check_fit

        check_fit(step, told, options.strict)
    tell_warnings(told.warnings, options)
    if options.compat_log and options.json != "-" and not result.records:
        tell_warnings(["the times of single nodes were not kept, so the log has no statistics"], options)
    _write_files(result, result.to_json, options)
    write_report(options, lambda: _page(result, step, options), files_of(options))
    _print(result, options, step)
    return 0


def _run_jobs(options: argparse.Namespace, notes: Notes) -> int:
    """Several jobs beside each other and alone."""
    _refuse_beside_jobs(options)
    machine = scaled_machine(options, notes)
    if machine is None:
        raise InputError("no machine is given", expected="--machine NAME", remedy="see chakrasim machines")
    _check_outputs(options)
    tell_warnings(notes.warnings, options)
    if not options.quiet:
        announce_compilation("trace", "simulator")
    from chakrasim.report.tables.jobs import jobs_sections
    from chakrasim.simulator.together import simulate_jobs

    result = simulate_jobs(
        options.jobs,
        machine=machine,
        changes=options.changes,
        network_model=options.network_model,
        settings=options.settings,
        protocol=protocol_of(options),
        limits=limits_of(options, notes),
        lenient=options.lenient,
        strict=options.strict,
    )
    tell_warnings(result.result.warnings, options)
    _write_files(result.result, result.to_json, options)
    write_report(options, lambda: _jobs_page(result, options), files_of(options))
    if options.json == "-":
        write_data(result.to_json())
    if not options.quiet and options.json != "-":
        print_sections(jobs_sections(result))
    stuck = [job for job in result.jobs if job.error]
    for job in stuck:
        for line in f"chakrasim: error: job {job.name}: {job.error}".split("\n"):
            tell(line)
    return StallError.exit_code if stuck else 0


def _refuse_beside_jobs(options: argparse.Namespace) -> None:
    """Complain about options that say what a jobs file says for each job, or what is not there for several."""
    if options.network_model not in (None, "flow", "packet"):
        raise InputError(f"--jobs runs on flow or packet, not on {options.network_model}", remedy="leave it out")
    for names, why in BESIDE_JOBS.items():
        for name in names:
            if getattr(options, name) not in (None, False):
                said = "a prefix" if name == "prefix" else f"--{name.replace('_', '-')}"
                raise InputError(f"{said} does not go with --jobs: {why}", remedy="leave one of them out")


def _check_outputs(options: argparse.Namespace) -> None:
    """Complain about outputs that cannot be before hours of simulation, not after."""
    if options.json == "-" and options.compat_log:
        raise InputError("--json - and --compat-log both want standard output", remedy="write the JSON to a file")
    if options.check and (named := next((one for one in RESULTS if getattr(options, one)), "")):
        name = f"--{named.replace('_', '-')}"
        raise InputError(f"--check runs nothing, so there is nothing for {name}", remedy="leave one of them out")
    if options.timeline == "-":
        raise InputError("a timeline cannot go to standard output", remedy="name a file, for instance step.json.gz")
    if options.timeline is None and options.timeline_ranks is not None:
        raise InputError("--timeline-ranks are those of a timeline", remedy="add --timeline FILE.pftrace")
    outputs = {"--json": options.json, "--timeline": options.timeline, "--report": options.report}
    check_targets(outputs, files_of(options))
    check_timeline(options.timeline)
    check_report(options.report)


def _write_files(run: SimulationResult, to_json: Callable[[str], str], options: argparse.Namespace) -> None:
    if options.json not in (None, "-"):
        to_json(options.json)
    if options.timeline is not None:
        from chakrasim.report.timeline.simulation import write_timeline

        write_timeline(run, options.timeline, ranks=options.timeline_ranks)
    if options.memory_trace is not None:
        from chakrasim.report.timeline.memory import write_memory_traces

        write_memory_traces(run, options.memory_trace)


def _print(result: SimulationResult, options: argparse.Namespace, step: StepEstimate | None) -> None:
    if options.json == "-":
        write_data(result.to_json())
    elif options.compat_log:
        from chakrasim.compat.astra_sim.log import compat_log

        write_data(*(f"{line}\n" for line in compat_log(result)))
    elif options.check and not options.quiet:
        count = len(result.warnings)
        noted = f"{count} warning{'s' if count != 1 else ''}" if count else "no warnings"
        write_out(f"the input is valid: {len(result.finish_ns):,} ranks, {noted}; nothing was simulated\n")
    elif not options.quiet:
        from chakrasim.report.tables.prediction import step_sections
        from chakrasim.report.tables.simulation import summary_sections

        head = [] if step is None else step_sections(step)[:1]
        print_sections([*head, *summary_sections(result)])
        for what, path in (("figures", options.json), ("timeline", options.timeline), ("page", options.report)):
            if path is not None:
                write_out(f"\n{what} written to {path}")
        if any(path is not None for path in (options.json, options.timeline, options.report)):
            write_out("\n")


def _page(result: SimulationResult, step: StepEstimate | None, options: argparse.Namespace) -> Page:
    from chakrasim.report.page.simulation import simulation_page

    return simulation_page(result, question=question_of(options, "How long does {} take{}?"), step=step)


def _jobs_page(jobs: JobsResult, options: argparse.Namespace) -> Page:
    """The page of the run with all jobs, the tables of each before it."""
    from chakrasim.report.page.parts import table_of
    from chakrasim.report.page.simulation import simulation_page
    from chakrasim.report.tables.jobs import jobs_sections

    page = simulation_page(jobs.result, question=f"How long do the jobs of {options.jobs} take on {options.machine}?")
    return replace(page, parts=(*map(table_of, jobs_sections(jobs)), *page.parts))


def _step(result: SimulationResult, machine: object, device: str | None) -> StepEstimate | None:
    """The result as an estimate, where a machine with a size ran a job that says what it is a step of."""
    from chakrasim.machine import Machine, load_device

    if not isinstance(machine, Machine) or result.replay is not None:
        return None
    from chakrasim.estimation.simulated import step_of

    return step_of(result, machine if device is None else replace(machine, profile=load_device(device)))
