"""``chakrasim.simulator.simulate_jobs``: several jobs on one machine, and what each would take alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from chakrasim.config.section import Source
from chakrasim.files.outputs import write_whole
from chakrasim.machine import Machine, load_machine
from chakrasim.machine.graph.changes import Change
from chakrasim.notes import Notes
from chakrasim.simulator.api import told
from chakrasim.simulator.arena.engine import Progress
from chakrasim.simulator.arena.flow_network import FlowNetwork
from chakrasim.simulator.context import Context, Limits, NetworkModel, Protocol
from chakrasim.simulator.jobs import JobFigures, PlacedJob, SharedLink
from chakrasim.simulator.jobs_file import load_jobs
from chakrasim.simulator.networks import PacketOptions, SettingsSource, network_of
from chakrasim.simulator.outcome.json_form import json_text
from chakrasim.simulator.outcome.records import PARTS
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.simulator.session import Lowered, Session
from chakrasim.startup import without_gc

MOST_SHARED = 100


@dataclass(frozen=True, eq=False)
class JobsResult:
    """All jobs beside each other: ``result`` by rank of the machine, ``jobs`` in the order in which they were given."""

    result: SimulationResult
    jobs: tuple[JobFigures, ...]

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """The figures of the run as `SimulationResult.to_json` has them, and ``jobs``; written to a file if given."""
        text = json_text({**self.result.figures(), "jobs": self.jobs}, self.result.warnings)
        if path is not None:
            write_whole(path, text.encode())
        return text


def simulate_jobs(
    jobs: Source | Sequence[PlacedJob],
    *,
    machine: Source | Machine,
    gpus: int | None = None,
    changes: Source | Sequence[Change] | None = None,
    network_model: NetworkModel | None = None,
    settings: SettingsSource | None = None,
    protocol: Protocol | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    lenient: bool = False,
    strict: bool = False,
) -> JobsResult:
    """Simulate several training jobs on one machine's links, by flows or packets, together and each alone.

    Parameters
    ----------
    jobs:
        A jobs file, the mapping that it holds, or jobs that are placed.

    The others are those of `chakrasim.simulate`, and so are the errors, but that a job which cannot end stops no other:
    its figures say why. Alone, jobs have the same ranks and meet the same changes of the network. On the packet network
    the figures have no shared links.
    """
    notes, limits = Notes(), limits or Limits()
    with without_gc(), told(notes):
        on = load_machine(machine, notes, gpus=gpus)
        model: NetworkModel = "packet" if (network_model or on.network_model) == "packet" else "flow"
        options = PacketOptions(settings=settings)
        network = network_of(on, model, protocol or Protocol(), changes, notes, options)
        placed = load_jobs(jobs, on.places, notes, lenient=lenient, max_bytes=limits.max_bytes)
        context = Context(
            system=on.system,
            memory=on.memory,
            groups={},
            ranks=on.ranks,
            issue=on.issue,
            **network,
            slow={rank: factor for rank, factor in enumerate(on.compute_factors.tolist()) if factor != 1.0},
            compute_scale=on.compute_scale,
            comm_scale=on.comm_scale,
            profile=on.profile,
            limits=limits,
            notes=notes,
        )
        notes.refuse(strict)
        known: dict[str, Lowered] = {}
        session, result = _run(context, placed, known, progress)
        alone = [_run(_anew(context), [job], known, progress)[1] for job in placed] if len(placed) > 1 else [result]
        notes.refuse(strict)
        figures = _figures(placed, result, alone, session)
        return JobsResult(replace(result, warnings=notes.warnings), figures)


def _run(
    context: Context, jobs: Sequence[PlacedJob], known: dict[str, Lowered], progress: Progress | None
) -> tuple[Session, SimulationResult]:
    session = Session.of_jobs(context, jobs, known)
    return session, session.run(fold=False, progress=progress)


def _anew(context: Context) -> Context:
    """The same setting for another run, whose warnings and counts nobody asks for."""
    activities, alone, unswitched = (
        None if one is None else one.empty() for one in (context.activities, context.alone, context.unswitched)
    )
    channels = None if context.channels is None else context.channels.empty()
    return replace(
        context,
        activities=activities,
        alone=alone,
        unswitched=unswitched,
        channels=channels,
        notes=Notes(),
        counts=type(context.counts)(),
    )


def _figures(
    jobs: Sequence[PlacedJob], together: SimulationResult, alone: Sequence[SimulationResult], session: Session
) -> tuple[JobFigures, ...]:
    shared = [] if session.flows is None else _shared_links(jobs, session.flows)
    figures = []
    for number, (job, single) in enumerate(zip(jobs, alone, strict=True)):
        took, own = _took(job, together), _took(job, single)
        figures.append(
            JobFigures(
                job.name,
                tuple(job.ranks.tolist()),
                job.start_ns,
                None if took is None else job.start_ns + took,
                own,
                None if took is None or own is None else took / max(own, 1),
                round(float(together.parts_ns[job.ranks, PARTS.index("exposed_comm")].mean())),
                tuple(link for link in shared if job.name in link.bytes),
                str(session.stalls.get(number, "")),
            )
        )
    return tuple(figures)


def _took(job: PlacedJob, result: SimulationResult) -> int | None:
    """From a job's start to its end; None if it cannot end."""
    if np.isin(job.ranks, result.unfinished).any():
        return None
    return int(result.finish_ns[job.ranks].max()) - job.start_ns


def _shared_links(jobs: Sequence[PlacedJob], flows: FlowNetwork) -> list[SharedLink]:
    """The links that more than one job used, those with most bytes first."""
    table = flows.table
    owner = np.full(flows.graph.ranks, -1, np.int64)
    for i, job in enumerate(jobs):
        owner[job.ranks] = i
    of_route = owner[flows.ranks_of_routes()]
    route = np.repeat(np.arange(table.latency.size), np.diff(table.first))
    crossed = np.zeros((flows.sharing.links.size, len(jobs)))
    np.add.at(crossed, (table.link, of_route[route]), table.coefficient * table.sent[route])
    links = np.flatnonzero((crossed[: flows.graph.links] > 0).sum(axis=1) > 1)
    links = links[np.argsort(-crossed[links].sum(axis=1), kind="stable")][:MOST_SHARED]
    return [
        SharedLink(
            flows.graph.link_names[link],
            {
                jobs[i].name: round(crossed[link, i])
                for i in np.argsort(-crossed[link], kind="stable")
                if crossed[link, i]
            },
        )
        for link in links.tolist()
    ]
