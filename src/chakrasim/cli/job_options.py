"""The options that say which job is simulated on what, and how: of ``simulate`` and of those that ask about a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from chakrasim.cli.machine_options import add_machine, add_routing, changes_machine, machine_of
from chakrasim.cli.options import add_reading, amount, real_number, truth, whole_number
from chakrasim.cli.output import tell_warnings
from chakrasim.errors import InputError
from chakrasim.notes import Notes

if TYPE_CHECKING:
    from chakrasim.simulator.context import Protocol
    from chakrasim.simulator.outcome.result import SimulationResult

SCALES = ("compute_scale", "comm_scale")
NETWORK = ("network_model", "congestion", "changes")
PACKETS = ("logical_topology", "settings", "compat")
NO_EFFECT = ("logging_configuration", "logging_folder", "path", "run_name", "total_stat_rows", "stat_row")


def add_inputs(parser: argparse.ArgumentParser, *, settings: bool = True) -> argparse._ArgumentGroup:
    """Traces and the machine; returns their group."""
    inputs = parser.add_argument_group("input")
    what = "traces: PREFIX.0.et, PREFIX.1.et, ... (or .et.gz), or a job: PREFIX.ranks.json"
    inputs.add_argument("prefix", nargs="?", metavar="PREFIX", help=what)
    inputs.add_argument("--workload-configuration", metavar="PREFIX", help="the same under ASTRA-sim's name")
    inputs.add_argument("--ranks", type=whole_number(1, 2**31 - 1), metavar="N", help="run one trace on N ranks")
    add_machine(inputs, settings=settings)
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
    return inputs


def add_model(parser: argparse.ArgumentParser) -> None:
    """How it runs."""
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


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Bounds."""
    limits = parser.add_argument_group("limits that end absurd inputs")
    limits.add_argument("--max-events", type=amount, metavar="N", help="events, for instance 1e9")
    limits.add_argument(
        "--max-bytes",
        type=amount,
        metavar="N",
        help="memory of the simulation and of reading a trace: 8GiB",
    )
    limits.add_argument("--max-nodes", type=amount, metavar="N", help="graph nodes over all simulated ranks")


@contextmanager
def simulated(options: argparse.Namespace) -> Iterator[SimulationResult]:
    """The run that the options describe; of a folder of PyTorch traces, the replay of what was recorded.

    Raises InputError and StallError.
    """
    with TemporaryDirectory() as folder:
        if options.prefix is not None and os.path.isdir(options.prefix):
            options = _converted(options, folder)
        from chakrasim.cli.progress import progress_bar
        from chakrasim.simulator.api import replay_recorded, simulate

        notes = Notes()
        settings = settings_of(options, notes)
        tell_warnings(notes.warnings, options)
        show = not options.quiet and sys.stderr.isatty()
        with progress_bar() if show else nullcontext() as progress:
            run_it = replay_recorded if options.replay_durations else simulate
            result = run_it(**settings, progress=progress)
        yield result


def _converted(options: argparse.Namespace, folder: str) -> argparse.Namespace:
    """The options for Chakra traces of the PyTorch traces of a folder, written below ``folder``; without a machine,
    their durations are replayed, with collectives that begin when their last rank has come where that is known."""
    from chakrasim.converter.folder.trace_folder import trace_directory

    made = trace_directory(options.prefix, os.path.join(folder, "chakra"), lenient=options.lenient)
    replay = options.replay_durations
    if options.machine is None and options.system is None and replay is None:
        replay = "recorded" if made.missing or len(made.ranks) == 1 else "transfer"
    prefix = made.prefix if replay is None or not made.missing else made.replayable
    return argparse.Namespace(**{**vars(options), "prefix": prefix, "comm_group": made.comm_group,
                                 "replay_durations": replay})  # fmt: skip


def settings_of(options: argparse.Namespace, notes: Notes) -> dict[str, Any]:
    """The arguments of `simulate` or `replay_recorded`; options without effect add warnings."""
    workload, machine = _workload(options), _machine(options, notes)
    given = {
        "workload": workload,
        "comm_groups": _groups(options.comm_group, notes),
        "ranks": options.ranks,
        "fold": not options.no_fold,
        "common_start": options.common_start,
        "limits": limits_of(options, notes),
        "check": getattr(options, "check", False),
        "lenient": options.lenient,
        "strict": options.strict,
    }
    if options.replay_durations is not None:
        from chakrasim.simulator.api import HAS_NO_MACHINE

        told = [HAS_NO_MACHINE] * any(value is not None for value in machine.values())
        return given | {"how": options.replay_durations, "notes": Notes(*told)}
    network = {name: getattr(options, name) for name in (*NETWORK, *PACKETS)}
    return given | machine | network | {"protocol": protocol_of(options)}


def files_of(options: argparse.Namespace) -> list[str | None]:
    """What a run may read: files, folders, prefixes, and names that are none of these."""
    names = ("prefix", "workload_configuration", "machine", "device_profile", "system", "network", "memory",
             "comm_group", "jobs", "changes", "logical_topology", "settings", "meta", "scenarios")  # fmt: skip
    return [getattr(options, name, None) for name in names]


def protocol_of(options: argparse.Namespace) -> Protocol:
    """How messages and collectives are carried out."""
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
    return {"machine": scaled_machine(options, notes), **{name: getattr(options, name) for name in names}}


def scaled_machine(options: argparse.Namespace, notes: Notes) -> Any:
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


def limits_of(options: argparse.Namespace, notes: Notes) -> Any:
    """The bounds that are given; warns of options without effect."""
    from chakrasim.simulator.context import Limits

    for name in NO_EFFECT:
        if getattr(options, name) is not None:
            notes.warn(f"--{name.replace('_', '-')} has no effect")
    names = ("max_events", "max_bytes", "max_nodes")
    return Limits(**{name: getattr(options, name) for name in names if getattr(options, name) is not None})
