"""``chakrasim.simulate``: workload and machine in, result out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import ChakrasimError, InputError
from chakrasim.machine import (
    CommGroups,
    Network,
    RemoteMemory,
    System,
    check_dimensions,
    load_groups,
    load_machine,
    load_memory,
    load_network,
    load_system,
)
from chakrasim.simulator.context import Context, Limits, Replay
from chakrasim.simulator.engine import Progress
from chakrasim.simulator.result import SimulationResult
from chakrasim.simulator.session import Session
from chakrasim.startup import without_gc
from chakrasim.trace import Trace, read, read_trace

PathOr = str | PathLike[str]
Workload = PathOr | Trace | Sequence[Trace]


def simulate(
    workload: Workload,
    *,
    system: PathOr | Mapping[str, Any] | System | None = None,
    network: PathOr | Mapping[str, Any] | Network | None = None,
    memory: PathOr | Mapping[str, Any] | RemoteMemory | None = None,
    comm_groups: str | Path | Mapping[Any, Any] | CommGroups | None = None,
    machine: Any = None,
    ranks: int | None = None,
    congestion: Literal["aware", "unaware"] = "unaware",
    fold: bool = True,
    num_queues_per_dim: int = 1,
    injection_scale: float = 1.0,
    rendezvous: bool = False,
    physics: bool = False,
    replay_durations: Replay | None = None,
    common_start: bool = False,
    limits: Limits | None = None,
    progress: Progress | None = None,
    check: bool = False,
    lenient: bool = False,
    strict: bool = False,
) -> SimulationResult:
    """Simulate a training job: one Chakra trace per rank, on a described machine.

    Parameters
    ----------
    workload:
        A path prefix (``PREFIX.i.et``, else ``PREFIX.i.et.gz``), a list of traces (entries may be one object), or one
        trace (also the path of its file) together with ``ranks``.
    system, network, memory, comm_groups:
        ASTRA-sim's configurations: a path, a mapping as the file holds it, or the typed config.
    machine:
        A preset's name, a machine file or a ``Machine``, instead of ``system`` and ``network``.
    ranks:
        Number of ranks when there is one trace for all of them.
    congestion:
        Whether messages contend for links.
    fold:
        Simulate equal ranks once, where that is exact; False simulates every rank.
    num_queues_per_dim, injection_scale, rendezvous:
        The reference's options of these names.
    physics:
        Run broadcasts as real collectives instead of replaying their recorded duration.
    replay_durations:
        Replay measured durations instead of simulating a machine, which is then not needed: "recorded" gives every node
        the time that it took where the trace was recorded, communication included, so that one rank of a larger job
        runs by itself; "transfer" lets collectives and messages begin when the last of their ranks has come and take
        what was not waiting, which needs the traces of all ranks, converted together. Nodes then wait for what they
        depend on and nothing else.
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
    warnings: list[str] = []
    with without_gc(), _told(warnings):
        groups = load_groups(comm_groups, warnings) if comm_groups is not None else None
        traces: Sequence[Trace] | None
        if replay_durations is not None:
            _check_replay(replay_durations, (system, network, memory, machine), warnings)
            traces = _read_workload(workload, ranks, lenient, warnings, one=True)
            count = ranks if ranks is not None and len(traces) == 1 else len(traces)
            network_config, system_config, memory_config = _no_machine(count)
        else:
            network_config, system_config, memory_config = _machine(system, network, memory, machine, warnings)
            count, traces = network_config.ranks, None
        if congestion not in ("aware", "unaware"):
            raise InputError("unknown congestion model", found=repr(congestion), expected="'aware' or 'unaware'")
        _check_options(num_queues_per_dim, injection_scale)
        if traces is None:
            traces = _read_workload(workload, ranks, lenient, warnings)
        distinct = _by_rank(traces, ranks, count)
        context = Context(
            system=system_config,
            network=network_config,
            memory=memory_config,
            groups={} if groups is None else dict(groups.members),
            ranks=count,
            aware=congestion == "aware",
            queues_per_dim=num_queues_per_dim,
            injection_scale=injection_scale,
            rendezvous=rendezvous,
            physics=physics,
            replay=replay_durations,
            common_start=common_start,
            limits=limits or Limits(),
            warnings=warnings,
        )
        if groups is not None and replay_durations is None:
            groups.check_ranks(count)
        check_dimensions(system_config, network_config, warnings)
        memory_config.check_ranks(count)
        session = Session(context, *distinct)
        _refuse_warnings(strict, warnings)
        if check:
            return session.check()
        result = session.run(fold=fold, progress=progress)
        _refuse_warnings(strict, warnings)
        return result


@contextmanager
def _told(warnings: list[str]) -> Iterator[None]:
    """Let an error carry what had been warned of before it."""
    try:
        yield
    except ChakrasimError as error:
        error.warnings = tuple(warnings)
        raise


def _refuse_warnings(strict: bool, warnings: list[str]) -> None:
    if strict and warnings:
        listed = "; ".join(warnings)
        raise InputError(f"{len(warnings)} warning{'s' if len(warnings) > 1 else ''} in strict mode: {listed}")


def _machine(
    system: Any, network: Any, memory: Any, machine: Any, warnings: list[str]
) -> tuple[Network, System, RemoteMemory]:
    """The three configurations, from a machine or one by one."""
    if machine is not None:
        if system is not None or network is not None:
            raise InputError(
                "machine cannot be combined with system or network", remedy="give one machine, or both parts"
            )
        loaded = load_machine(machine, warnings)
        return loaded.network, loaded.system, load_memory(memory, warnings) if memory is not None else loaded.memory
    if system is None or network is None:
        missing = " and ".join(name for name, value in (("system", system), ("network", network)) if value is None)
        raise InputError(f"no {missing} configuration given", remedy="give system and network, or a machine")
    return load_network(network, warnings), load_system(system, warnings), load_memory(memory, warnings)


def _check_replay(replay: str, given: tuple[Any, ...], warnings: list[str]) -> None:
    if replay not in ("recorded", "transfer"):
        raise InputError("unknown kind of replay", found=repr(replay), expected="'recorded' or 'transfer'")
    if any(config is not None for config in given):
        warnings.append("the machine has no effect: measured durations are replayed")


def _no_machine(ranks: int) -> tuple[Network, System, RemoteMemory]:
    """What stands for a machine that nothing is asked of; a network has two ends at least."""
    return Network(("Switch",), (max(ranks, 2),), (1.0,), (0.0,)), System(preferred_dataset_splits=1), RemoteMemory()


def _check_options(num_queues_per_dim: int, injection_scale: float) -> None:
    if not 1 <= num_queues_per_dim <= 1 << 16:
        raise InputError("num_queues_per_dim is out of range", found=num_queues_per_dim, expected="1 to 65536")
    if not 0 <= injection_scale < 1e9:
        raise InputError("injection_scale is out of range", found=injection_scale, expected="0 to 10^9")


def _read_workload(
    workload: Workload, ranks: int | None, lenient: bool, warnings: list[str], *, one: bool = False
) -> Sequence[Trace]:
    """The traces as they are given; ``one``: a single one needs no number of ranks."""
    if isinstance(workload, str | PathLike):
        if (one or ranks is not None) and isfile(workload):
            return [read_trace(workload, lenient=lenient, warnings=warnings)]
        return read(workload, lenient=lenient, warnings=warnings)
    if isinstance(workload, Trace):
        if ranks is None and not one:
            raise InputError("one trace needs to be told how many ranks run it", remedy="give ranks=N")
        return [workload]
    traces = list(workload)
    if not all(isinstance(trace, Trace) for trace in traces):
        raise InputError("the workload is neither a path nor a list of traces", found=repr(workload)[:80])
    return traces


def _by_rank(traces: Sequence[Trace], ranks: int | None, count: int) -> tuple[list[Trace], NDArray[np.int64]]:
    """Distinct traces, and by rank which of them it runs."""
    if ranks is not None and len(traces) == 1:
        if ranks != count:
            raise InputError(
                f"{ranks} ranks are asked for, but the network has {count} NPUs", remedy="make the two numbers equal"
            )
        return [traces[0]], np.zeros(count, np.int64)
    if len(traces) != (count if ranks is None else ranks) or len(traces) != count:
        raise InputError(
            f"the workload has {len(traces)} ranks, but the network has {count} NPUs",
            remedy="give one trace per NPU (or one trace and the number of ranks), or another network",
        )
    distinct: dict[int, int] = {}
    which = np.array([distinct.setdefault(id(trace), len(distinct)) for trace in traces], np.int64)
    first = {index: trace for trace, index in zip(reversed(traces), which[::-1], strict=True)}
    return [first[i] for i in range(len(distinct))], which
