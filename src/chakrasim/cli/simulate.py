"""``chakrasim simulate``: run a workload on a machine and say how long it takes and why."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chakrasim.cli.machine_options import add_machine, add_routing, changes_machine, machine_of
from chakrasim.cli.options import add_reading, amount, real_number, truth, whole_number
from chakrasim.cli.output import (
    announce_compilation,
    check_targets,
    check_timeline,
    print_sections,
    tell_warnings,
    write_data,
    write_out,
)
from chakrasim.cli.streams import tell
from chakrasim.errors import InputError, StallError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.estimation.result import StepEstimate
    from chakrasim.simulator.context import Protocol
    from chakrasim.simulator.outcome.result import SimulationResult

SUMMARY = "Simulate Chakra traces on a machine"
EXAMPLES = """\
examples:
  chakrasim simulate traces/step --machine hgx-h100-8 --comm-group groups.json
  chakrasim simulate one.et --ranks 64 --machine my-machine.yaml --timeline step.json.gz
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

SCALES = ("compute_scale", "comm_scale")
BESIDE_JOBS = {
    ("prefix", "workload_configuration"): "the file names the traces of each job",
    ("ranks", "comm_group"): "the file says it of each job",
    ("system", "network", "logical_topology", "memory", "congestion", "compat"): "jobs share the links of a --machine",
    ("device_profile",): "the machine file names the profile",
    ("replay_durations", "common_start", "no_fold"): "every rank is simulated, from the start of its job",
    ("check", "compat_log", "memory_trace"): "it is of one job",
}
"""Options that make no sense with several jobs, and why."""
NETWORK = ("network_model", "congestion", "changes")
PACKETS = ("logical_topology", "settings", "compat")
NO_EFFECT = ("logging_configuration", "logging_folder", "path", "run_name", "total_stat_rows", "stat_row")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The subcommand's options."""
    _input_arguments(parser)
    _model_arguments(parser)
    _output_arguments(parser)
    _limit_arguments(parser)


def _input_arguments(parser: argparse.ArgumentParser) -> None:
    inputs = parser.add_argument_group("input")
    what = "traces: PREFIX.0.et, PREFIX.1.et, ... (or .et.gz), or a job: PREFIX.ranks.json"
    inputs.add_argument("prefix", nargs="?", metavar="PREFIX", help=what)
    inputs.add_argument("--workload-configuration", metavar="PREFIX", help="the same under ASTRA-sim's name")
    inputs.add_argument("--jobs", metavar="FILE", help="several jobs and where each runs, instead of PREFIX")
    inputs.add_argument("--ranks", type=whole_number(1, 2**31 - 1), metavar="N", help="run one trace on N ranks")
    add_machine(inputs)
    inputs.add_argument(
        "--device-profile",
        metavar="NAME|FILE",
        help="a shipped device or a profile: it times the compute nodes that say what they compute",
    )
    inputs.add_argument(
        "--system", "--system-configuration", metavar="FILE", help="ASTRA-sim's system JSON, instead of --machine"
    )
    what = "ASTRA-sim's network, instead of --machine: a YAML, or the configuration of its ns-3 back end"
    inputs.add_argument("--network", "--network-configuration", metavar="FILE", help=what)
    what = "beside the latter, the JSON with logical-dims, in which the ranks stand"
    inputs.add_argument("--logical-topology", "--logical-topology-configuration", metavar="FILE", help=what)
    inputs.add_argument(
        "--memory", "--remote-memory-configuration", metavar="FILE", help="ASTRA-sim's remote-memory JSON"
    )
    inputs.add_argument(
        "--comm-group",
        "--comm-group-configuration",
        metavar="FILE",
        help="ASTRA-sim's communicator-group JSON; a name that contains 'empty' means none, as in ASTRA-sim",
    )
    add_reading(inputs)


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    _network_arguments(model)
    model.add_argument(
        "--num-queues-per-dim",
        type=whole_number(1, 1 << 16),
        default=1,
        metavar="N",
        help="scheduling queues per network dimension; default: %(default)s",
    )
    model.add_argument(
        "--injection-scale",
        type=real_number,
        default=1.0,
        metavar="X",
        help="factor of the system's endpoint delay; default: 1",
    )
    model.add_argument(
        "--rendezvous-protocol",
        type=truth,
        default=False,
        metavar="true|false",
        help="handshake before point-to-point messages; the option alone means true, a value needs '='",
    )
    model.add_argument(
        "--physics", action="store_true", help="run broadcasts as real collectives, not their recorded duration"
    )
    model.add_argument(
        "--replay-durations",
        nargs="?",
        choices=("recorded", "transfer"),
        const="recorded",
        metavar="recorded|transfer",
        help="replay measured durations instead of simulating a machine: as recorded (the option alone; one rank of a "
        "larger job runs by itself), or with collectives that begin when their last rank has come",
    )
    model.add_argument(
        "--common-start", action="store_true", help="let all ranks start at once, whatever the traces say"
    )
    model.add_argument("--no-fold", action="store_true", help="simulate every rank, also those that do the same")
    for name, what in (("compute", "times of compute nodes"), ("comm", "sizes of collectives and messages")):
        text = f"factor of the {what}, with --machine; without effect with ASTRA-sim's files, as there"
        model.add_argument(f"--{name}-scale", type=real_number, metavar="X", help=text)
    ignored = "accepted for ASTRA-sim's sake, without effect"
    for name in NO_EFFECT:
        model.add_argument(f"--{name.replace('_', '-')}", metavar="X", help=ignored)


def _network_arguments(model: argparse._ArgumentGroup) -> None:
    model.add_argument(
        "--network-model",
        choices=("unaware", "aware", "flow", "packet"),
        help="how bytes share links: ASTRA-sim's two networks, max-min fair flows on a graph of links, or packets that "
        "queue in switches; default: flow for boards and graphs, packet for a configuration of ns-3, else unaware",
    )
    what = "of the packet network of a --machine: keys and values as in ns-3's configuration, such as CC_MODE 3"
    model.add_argument("--settings", metavar="FILE", help=what)
    what = "packets as ns-3's model has them, its faults included"
    model.add_argument("--compat", action="store_true", help=what)
    model.add_argument(
        "--congestion", choices=("aware", "unaware"), help="the first two under their name in ASTRA-sim's binaries"
    )
    add_routing(model)
    what = (
        "who runs the collectives on flow or packet, as it would: nccl, nccl-2.27.7, rccl, none; default: the machine's"
    )
    model.add_argument("--library", metavar="NAME", help=what)
    model.add_argument(
        "--messages", action="store_true", help="collectives message by message on flow, not as one activity each"
    )
    model.add_argument(
        "--group-dimensions",
        action="store_true",
        help="groups that are a product of coordinates take the network's dimensions, as all ranks do, not one ring",
    )
    what = "rings of each collective on flow, of at most 32; default: as many as a board has NICs for its ranks"
    model.add_argument("--channels", type=whole_number(1, 32), default=0, metavar="N", help=what)
    model.add_argument("--changes", metavar="FILE", help="links and switches that fail, come back or change speed")


def _output_arguments(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write the figures as JSON; '-' is standard output, no tables")
    output.add_argument(
        "--timeline", metavar="FILE", help="write a timeline for ui.perfetto.dev: FILE.json or FILE.json.gz"
    )
    output.add_argument(
        "--memory-trace",
        metavar="PREFIX",
        help="write PREFIX.RANK.json, tensors in local memory over time (needs track-local-mem in the system)",
    )
    output.add_argument("--check", action="store_true", help="validate everything, but do not run")
    output.add_argument("--quiet", action="store_true", help="no tables and no progress, only warnings and errors")
    output.add_argument("--compat-log", action="store_true", help="print ASTRA-sim's lines instead of the tables")


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("limits that end absurd inputs")
    limits.add_argument("--max-events", type=amount, metavar="N", help="events, for instance 1e9")
    limits.add_argument(
        "--max-bytes",
        type=amount,
        metavar="N",
        help="memory of the simulation and of reading a trace: 8GiB",
    )
    limits.add_argument("--max-nodes", type=amount, metavar="N", help="graph nodes over all simulated ranks")


def run(options: argparse.Namespace) -> int:
    """Simulate and report. Raises InputError and StallError."""
    notes = Notes()
    if options.jobs is not None:
        return _run_jobs(options, notes)
    settings = _settings(options, notes)
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
    _print(result, options, step)
    return 0


def _run_jobs(options: argparse.Namespace, notes: Notes) -> int:
    """Several jobs beside each other and alone."""
    _refuse_beside_jobs(options)
    machine = _scaled(options, notes)
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
        protocol=_protocol(options),
        limits=_limits(options, notes),
        lenient=options.lenient,
        strict=options.strict,
    )
    tell_warnings(result.result.warnings, options)
    _write_files(result.result, result.to_json, options)
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


def _settings(options: argparse.Namespace, notes: Notes) -> dict[str, Any]:
    """The arguments of `simulate` or `replay_recorded`; options without effect add warnings."""
    workload, machine = _workload(options), _machine(options, notes)
    given = {
        "workload": workload,
        "comm_groups": _groups(options.comm_group, notes),
        "ranks": options.ranks,
        "fold": not options.no_fold,
        "common_start": options.common_start,
        "limits": _limits(options, notes),
        "check": options.check,
        "lenient": options.lenient,
        "strict": options.strict,
    }
    if options.replay_durations is not None:
        from chakrasim.simulator.api import HAS_NO_MACHINE

        told = [HAS_NO_MACHINE] * any(value is not None for value in machine.values())
        return given | {"how": options.replay_durations, "notes": Notes(*told)}
    network = {name: getattr(options, name) for name in (*NETWORK, *PACKETS)}
    return given | machine | network | {"protocol": _protocol(options)}


def _protocol(options: argparse.Namespace) -> Protocol:
    from chakrasim.simulator.context import Protocol

    return Protocol(
        num_queues_per_dim=options.num_queues_per_dim,
        injection_scale=options.injection_scale,
        rendezvous=options.rendezvous_protocol,
        physics=options.physics,
        messages=options.messages,
        channels=options.channels,
        group_dimensions=options.group_dimensions,
    )


def _workload(options: argparse.Namespace) -> str:
    given = [prefix for prefix in (options.prefix, options.workload_configuration) if prefix is not None]
    if len(given) == 2:
        raise InputError(
            "the workload is given twice",
            found=f"{given[0]!r} and --workload-configuration {given[1]!r}",
            remedy="leave one of them out",
        )
    if not given:
        raise InputError("no workload is given", expected="a prefix: chakrasim simulate PREFIX --machine NAME")
    return str(given[0])


def _machine(options: argparse.Namespace, notes: Notes) -> dict[str, Any]:
    parts = {"--system": options.system, "--network": options.network}
    if options.machine is not None:
        extra = [name for name, value in parts.items() if value is not None]
        if extra:
            raise InputError(
                f"--machine cannot be combined with {' and '.join(extra)}", remedy="give one machine, or both parts"
            )
    missing = [name for name, value in parts.items() if value is None]
    if options.machine is None and missing and options.replay_durations is None:
        named = "no machine is given" if len(missing) == 2 else f"{missing[0]} is missing"
        raise InputError(
            named, expected="--machine NAME, or --system FILE and --network FILE", remedy="see chakrasim machines"
        )
    names = ("system", "network", "memory", "device_profile")
    return {"machine": _scaled(options, notes), **{name: getattr(options, name) for name in names}}


def _scaled(options: argparse.Namespace, notes: Notes) -> Any:
    """The machine with the scales that are given; ASTRA-sim's files have none, and a replay needs none."""
    given = {name: getattr(options, name) for name in SCALES if getattr(options, name) is not None}
    if not given and not changes_machine(options):
        return options.machine
    if changes_machine(options) and options.replay_durations is None:
        return replace(machine_of(options), **given)
    if options.machine is None or options.replay_durations is not None:
        notes.warn(*(f"--{name.replace('_', '-')} has no effect" for name in given))
        return options.machine
    return replace(machine_of(options), **given)


def _groups(path: str | None, notes: Notes) -> str | None:
    """The communicator-group file; any name that contains "empty" means none (astra-system.md 1.1)."""
    if path is None or "empty" not in path:
        return path
    if os.path.exists(path):
        notes.warn(f"--comm-group {path!r} is not read: a name that contains 'empty' means no groups, as in ASTRA-sim")
    return None


def _limits(options: argparse.Namespace, notes: Notes) -> Any:
    from chakrasim.simulator.context import Limits

    for name in NO_EFFECT:
        if getattr(options, name) is not None:
            notes.warn(f"--{name.replace('_', '-')} has no effect")
    names = ("max_events", "max_bytes", "max_nodes")
    return Limits(**{name: getattr(options, name) for name in names if getattr(options, name) is not None})


def _check_outputs(options: argparse.Namespace) -> None:
    """Complain about outputs that cannot be before hours of simulation, not after."""
    if options.json == "-" and options.compat_log:
        raise InputError("--json - and --compat-log both want standard output", remedy="write the JSON to a file")
    if options.check and (options.timeline or options.compat_log or options.memory_trace):
        name = "--timeline" if options.timeline else "--compat-log" if options.compat_log else "--memory-trace"
        raise InputError(f"--check runs nothing, so there is nothing for {name}", remedy="leave one of them out")
    if options.timeline == "-":
        raise InputError("a timeline cannot go to standard output", remedy="name a file, for instance step.json.gz")
    inputs = [
        *(options.prefix, options.workload_configuration, options.machine, options.device_profile),
        *(options.system, options.network, options.memory, options.comm_group, options.jobs, options.changes),
        *(options.logical_topology, options.settings),
    ]
    check_targets({"--json": options.json, "--timeline": options.timeline}, inputs)
    check_timeline(options.timeline)


def _write_files(run: SimulationResult, to_json: Callable[[str], str], options: argparse.Namespace) -> None:
    if options.json not in (None, "-"):
        to_json(options.json)
    if options.timeline is not None:
        from chakrasim.report.timeline.simulation import write_timeline

        write_timeline(run, options.timeline)
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
        for what, path in (("figures", options.json), ("timeline", options.timeline)):
            if path is not None:
                write_out(f"\n{what} written to {path}")
        if options.json is not None or options.timeline is not None:
            write_out("\n")


def _step(result: SimulationResult, machine: object, device: str | None) -> StepEstimate | None:
    """The result as an estimate, where a machine with a size ran a job that says what it is a step of."""
    from chakrasim.machine import Machine, load_device

    if not isinstance(machine, Machine) or result.replay is not None:
        return None
    from chakrasim.estimation.simulated import step_of

    return step_of(result, machine if device is None else replace(machine, profile=load_device(device)))
