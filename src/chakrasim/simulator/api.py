"""``chakrasim.simulate``: workload and machine in, result out; ``chakrasim.replay_recorded``: without a machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import wraps
from os import PathLike
from typing import Any, Final, ParamSpec

from chakrasim.config.section import Source
from chakrasim.errors import ChakrasimError, InputError
from chakrasim.machine import (
    CommGroups,
    DeviceProfile,
    Machine,
    Network,
    RemoteMemory,
    System,
    check_dimensions,
    load_device,
    load_groups,
    load_machine,
    load_memory,
    load_network,
    load_system,
)
from chakrasim.machine.graph.changes import Change
from chakrasim.machine.groups import GroupSource
from chakrasim.notes import Notes
from chakrasim.simulator.arena.engine import Progress
from chakrasim.simulator.context import Context, Limits, NetworkModel, Protocol, Replay
from chakrasim.simulator.lowering.workload import Workload, check_count, check_memory, load_workload
from chakrasim.simulator.networks import (
    Congestion,
    PacketOptions,
    SettingsSource,
    described_packets,
    model_of,
    network_of,
)
from chakrasim.simulator.outcome.gather import empty_result
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.simulator.outcome.steps import delay_only_warnings
from chakrasim.simulator.session import Session
from chakrasim.startup import without_gc
from chakrasim.trace import Job

P = ParamSpec("P")
HAS_NO_MACHINE: Final = "the machine has no effect: measured durations are replayed"
_OF_MACHINES: Final = ("system", "network", "memory", "machine", "device_profile")
_OF_PROTOCOL: Final = tuple(one.name for one in fields(Protocol))


def _as_before(function: Callable[P, SimulationResult]) -> Callable[P, SimulationResult]:
    """For one more release, take what `Protocol` holds, and let ``replay_durations`` turn a run into a replay."""

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> SimulationResult:
        how: Any = named.pop("replay_durations", None)
        old: Any = {name: named.pop(name) for name in _OF_PROTOCOL if name in named}
        if how is None and old:
            said = ", ".join(f"{name}={value!r}" for name, value in old.items())
            text = f"simulate(..., {said}) is simulate(..., protocol=Protocol({said})); it goes with the next release"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            protocol: Any = named.get("protocol") or Protocol()
            named["protocol"] = replace(protocol, **old)
        if how is None:
            return function(*given, **named)
        text = (
            f"simulate(..., replay_durations={how!r}) is replay_recorded(..., {how!r}); it goes with the next release"
        )
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        machines = [named.pop(name, None) for name in _OF_MACHINES]
        notes = Notes(*[HAS_NO_MACHINE] * any(one is not None for one in machines))
        for name in ("congestion", "protocol"):
            named.pop(name, None)
        replay: Any = replay_recorded
        return replay(*given, how=how, notes=notes, **named)

    return call


@_as_before
def simulate(
    workload: Workload,
    *,
    system: Source | System | None = None,
    network: Source | Network | None = None,
    logical_topology: Source | None = None,
    memory: Source | RemoteMemory | None = None,
    comm_groups: GroupSource | CommGroups | None = None,
    machine: Source | Machine | None = None,
    gpus: int | None = None,
    library: str | None = None,
    device_profile: str | PathLike[str] | Mapping[str, Any] | DeviceProfile | None = None,
    ranks: int | None = None,
    network_model: NetworkModel | None = None,
    congestion: Congestion | None = None,
    changes: Source | Sequence[Change] | None = None,
    compat: bool = False,
    settings: SettingsSource | None = None,
    protocol: Protocol | None = None,
    fold: bool = True,
    common_start: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
    check: bool = False,
    lenient: bool = False,
    strict: bool = False,
) -> SimulationResult:
    """Simulate a training job: one Chakra trace per rank, on a described machine.

    Long because all its options are described here.

    Parameters
    ----------
    workload:
        A path prefix (of a job, ``PREFIX.ranks.json``, else of ``PREFIX.i.et``, else of ``PREFIX.i.et.gz``), a ``Job``,
        a list of traces (entries may be one object), or one trace (also the path of its file) together with ``ranks``.
    system, network, memory, comm_groups:
        ASTRA-sim's configurations: a path, a mapping as the file holds it, or the typed config. A job brings its
        process groups itself.
    machine:
        A preset's or board's name, a machine file or a ``Machine``, instead of ``system`` and ``network``.
    gpus:
        Number of GPUs of a board's machine.
    library:
        Who runs the collectives on the flow network, as it would: "nccl", "nccl-2.27.7", "rccl"; "none" for rings and
        direct messages. By default as the machine says.
    device_profile:
        A shipped device's name, a profile's file, mapping or ``DeviceProfile``: it times the compute nodes that say
        what they compute (``num_ops``, ``tensor_size``), instead of the machine's profile or roofline, which leave
        durations alone that were measured on a device (``is_recorded``). Other nodes keep their recorded duration.
    ranks:
        Number of ranks when there is one trace for all of them.
    network_model:
        How bytes share links: "unaware" and "aware" are ASTRA-sim's two networks, "flow" shares the links of a graph
        by max-min fairness, "packet" lets packets queue in switches, on any machine, or on the network of ASTRA-sim's
        ns-3 front end: ``network`` is then its configuration file, or a mapping of ``topology``, ``config`` and
        ``logical_dims``. By default what the machine names: graphs flow, others are unaware.
    logical_topology:
        Beside ns-3's configuration: the file, or mapping, of ``logical-dims``, in which the ranks stand.
    congestion:
        The same for ASTRA-sim's two, under its name there.
    changes:
        What happens to links and switches on the way, on the flow network: a file, the mapping that it holds, or
        `Change` objects.
    compat:
        Of the packet network: the reference's faults, each of which is described in `Faults` of the engine, too.
    settings:
        Of the packet network on a machine: keys and values of ns-3's configuration, a file or a mapping, which come
        before those of the machine.
    protocol:
        How messages and collectives are carried out, where there is a choice.
    fold:
        Simulate equal ranks once, where that is exact; False simulates every rank.
    common_start:
        Let all ranks start at once, whatever the traces say of their start.
    limits:
        Bounds on nodes, events and bytes.
    progress:
        Called now and then with nodes done, nodes in total, and the simulated time in ns.
    check:
        Stop before the clock starts: everything is validated and the result is empty.
    lenient:
        Of damaged trace files, use the intact beginning, with a warning that counts what was lost.
    strict:
        Treat every warning as an error.

    Raises
    ------
    InputError
        For unusable input.
    StallError
        When some rank cannot finish; it says who waits for what.
    """
    notes, limits = Notes(), limits or Limits()
    with without_gc(), told(notes):
        groups = load_groups(comm_groups, notes)
        options = PacketOptions(compat, logical_topology, settings)
        packets, network = described_packets(network, network_model, options, notes)
        on = _machine(system, network, memory, machine, gpus, library, device_profile, notes)
        model = model_of("packet" if packets is not None else network_model, congestion, on)
        job = load_workload(workload, ranks, lenient, notes, max_bytes=limits.max_bytes)
        check_count(job, ranks, on.ranks)
        groups.check_ranks(on.ranks)
        context = Context(
            system=on.system,
            memory=on.memory,
            groups=dict(groups.members),
            ranks=on.ranks,
            issue=on.issue,
            **network_of(on, model, protocol or Protocol(), changes, notes, options, packets),
            slow={rank: factor for rank, factor in enumerate(on.compute_factors.tolist()) if factor != 1.0},
            compute_scale=on.compute_scale,
            comm_scale=on.comm_scale,
            profile=on.profile,
            profile_is_given=device_profile is not None,
            common_start=common_start,
            limits=limits,
            notes=notes,
        )
        return _run(context, job, fold=fold, progress=progress, check=check, strict=strict)


def replay_recorded(
    workload: Workload,
    how: Replay = "recorded",
    *,
    comm_groups: GroupSource | CommGroups | None = None,
    ranks: int | None = None,
    fold: bool = True,
    common_start: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
    check: bool = False,
    lenient: bool = False,
    strict: bool = False,
    notes: Notes | None = None,
) -> SimulationResult:
    """Replay the measured durations of a training job; no machine is simulated, and none is needed.

    Nodes wait for what they depend on and nothing else. What is not described here is as in `simulate`, and so are the
    errors.

    Parameters
    ----------
    how:
        "recorded" gives every node the time that it took where the trace was recorded, communication included, so that
        one rank of a larger job runs by itself; "transfer" lets collectives and messages begin when the last of their
        ranks has come and take what was not waiting, which needs the traces of all ranks, converted together.
    notes:
        Receives the warnings, which the result has too.
    """
    notes, limits = Notes() if notes is None else notes, limits or Limits()
    with without_gc(), told(notes):
        groups = load_groups(comm_groups, notes)
        if how not in ("recorded", "transfer"):
            raise InputError("unknown kind of replay", found=repr(how), expected="'recorded' or 'transfer'")
        job = load_workload(workload, ranks, lenient, notes, one=True, max_bytes=limits.max_bytes)
        check_count(job, ranks, job.ranks)
        on = _no_machine(job.ranks)
        context = Context(
            system=on.system,
            network=on.dimensions,
            memory=on.memory,
            groups=dict(groups.members),
            ranks=job.ranks,
            replay=how,
            common_start=common_start,
            limits=limits,
            notes=notes,
        )
        return _run(context, job, fold=fold, progress=progress, check=check, strict=strict)


def _run(
    context: Context, job: Job, *, fold: bool, progress: Progress | None, check: bool, strict: bool
) -> SimulationResult:
    """Check everything and, unless that is all, run."""
    session, notes = _session(context, job), context.notes
    notes.refuse(strict)
    if check:
        return empty_result(context)
    result = session.run(fold=fold, progress=progress)
    if context.replay is not None:
        notes.warn(*delay_only_warnings(result.steps))
    notes.refuse(strict)
    return replace(result, warnings=notes.warnings)


def _session(context: Context, job: Job) -> Session:
    """The checked simulation of the job, with the groups that it brings."""
    check_memory(context.ranks, context.limits.arena_bytes)
    if context.activities is None:
        check_dimensions(context.system, context.network, context.notes)
    context.memory.check_ranks(context.ranks)
    return Session.of_job(context, job)


@contextmanager
def told(notes: Notes) -> Iterator[None]:
    """Let an error carry what had been warned of before it."""
    try:
        yield
    except ChakrasimError as error:
        error.warnings = notes.warnings
        raise


def _machine(
    system: Source | System | None,
    network: Source | Network | None,
    memory: Source | RemoteMemory | None,
    machine: Source | Machine | None,
    gpus: int | None,
    library: str | None,
    device_profile: str | PathLike[str] | Mapping[str, Any] | DeviceProfile | None,
    notes: Notes,
) -> Machine:
    """What is simulated on, from a machine or its parts one by one; a device profile given here wins."""
    profile = load_device(device_profile) if device_profile is not None else None
    if machine is not None:
        if system is not None or network is not None:
            raise InputError(
                "machine cannot be combined with system or network", remedy="give one machine, or both parts"
            )
        loaded = load_machine(machine, notes, gpus=gpus, library=library)
        remote = load_memory(memory, notes) if memory is not None else loaded.memory
        if loaded.system.replay_only and loaded.comm_scale != 1.0:
            notes.warn("comm-scale has no effect: every node takes its recorded duration ('replay-only')")
        return _without_profile(replace(loaded, memory=remote, profile=profile or loaded.profile), notes)
    for name, given in (("number of GPUs", gpus), ("library", library)):
        if given is not None:
            raise InputError(f"only a machine has a {name}", remedy="give machine='h100', say, or leave it out")
    if system is None or network is None:
        missing = " and ".join(name for name, value in (("system", system), ("network", network)) if value is None)
        raise InputError(f"no {missing} configuration given", remedy="give system and network, or a machine")
    parts = load_network(network, notes), load_system(system, notes), load_memory(memory, notes)
    return _without_profile(Machine(*parts, profile=profile), notes)


def _without_profile(machine: Machine, notes: Notes) -> Machine:
    """The machine without its profile if all nodes take their recorded duration ('replay-only')."""
    if machine.profile is None or not machine.system.replay_only:
        return machine
    notes.warn("the device profile has no effect: the system is configured to replay durations ('replay-only')")
    return replace(machine, profile=None)


def _no_machine(ranks: int) -> Machine:
    """What stands for a machine that nothing is asked of; a network has two ends at least."""
    return Machine(Network(("Switch",), (max(ranks, 2),), (1.0,), (0.0,)), System(preferred_dataset_splits=1))
