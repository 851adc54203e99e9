"""What-if on simulated jobs: durations changed in the job's events, many scenarios as lanes of one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import near
from chakrasim.event_graph.graph import Floats, Ints
from chakrasim.event_graph.lanes import lanes_of
from chakrasim.explanation import families
from chakrasim.explanation.families import Family
from chakrasim.explanation.job_events import UNFOLDED_NODES, JobEvents, job_events
from chakrasim.explanation.rerun import Rerun
from chakrasim.scenarios.asked import Asked, asked_of
from chakrasim.simulator.kernels import layout as at
from chakrasim.simulator.outcome.result import SimulationResult
from chakrasim.simulator.outcome.steps import StepMark, step_marks

Mask = NDArray[np.bool_]
WORDS: Final = ("all", "compute", "communication")
TARGETS: Final = (*WORDS, "rank:N", "stage:N", "op:CLASS", "kind:COLLECTIVE", "link:DIM", "module:NAME", "node:NAME")


@dataclass(frozen=True)
class Outcome:
    """What a scenario makes of the makespan.

    ``after_ns`` is by the order in which things happened, unless ``by_engine``: then the job was simulated again.
    """

    asked: tuple[str, ...]
    before_ns: int
    after_ns: float
    by_engine: bool
    steps: tuple[tuple[int, float, float], ...] = ()
    """Of recorded jobs that are replayed: the number of each step, and what it takes before and after, in ns, the mean
    over ranks, by the order in which things happened."""

    @property
    def change(self) -> float:
        """Of the makespan, as a share of what it was."""
        return self.after_ns / self.before_ns - 1 if self.before_ns else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = {
            "set": list(self.asked),
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
            "change": self.change,
            "by_engine": self.by_engine,
        }
        if self.steps:
            found["steps"] = [dict(zip(("step", "before_ns", "after_ns"), row, strict=True)) for row in self.steps]
        return found


class SimulatedScenarios:
    """A simulated job and what could be otherwise. Raises InputError for results without the times of nodes."""

    def __init__(self, result: SimulationResult, unfolded_nodes: int = UNFOLDED_NODES) -> None:
        self.result = result
        self.events: JobEvents = job_events(result, unfolded_nodes)
        self.nodes, self.graph = self.events.nodes, self.events.graph

    @cached_property
    def families(self) -> dict[str, Family]:
        """Nodes by class of operator (``op``), kind of communication, link and module."""
        job, duration = self.result.job, self.graph.duration
        assert job is not None
        return {
            "op": families.op_classes(self.nodes, duration),
            "kind": families.kinds(self.nodes, duration),
            "link": families.links(self.nodes, job, duration),
            "module": families.modules(self.nodes, duration),
        }

    @cached_property
    def ideal_ns(self) -> Floats:
        """float64[nodes]: what equal nodes take, of computation in the mean, as if work were spread evenly, of
        communication in the median. Nodes are equal that have one name and come equally often before on their ranks."""
        names: dict[str, int] = {}
        key = np.empty(len(self.nodes.kind), np.int64)
        for i, (owner, number) in enumerate(zip(self.nodes.owner.tolist(), self.nodes.number.tolist(), strict=True)):
            graph = self.nodes.graphs[owner]
            key[i] = names.setdefault(graph.trace.name(int(graph.order[number])), len(names))
        order = np.lexsort((np.arange(len(key)), key, self.nodes.owner))
        same = np.zeros(len(key), np.int64)
        for place in range(1, len(order)):
            a, b = order[place - 1], order[place]
            if key[a] == key[b] and self.nodes.owner[a] == self.nodes.owner[b]:
                same[b] = same[a] + 1
        groups = np.unique(np.stack([key, same]), axis=1, return_inverse=True)[1].reshape(-1)
        duration = self.graph.duration
        weight = self.nodes.copies[self.nodes.owner].astype(np.float64)
        mean = np.bincount(groups, duration * weight) / np.maximum(np.bincount(groups, weight), 1e-300)
        return np.where(self.computes, mean[groups], _medians(groups, duration)[groups])

    @cached_property
    def computes(self) -> Mask:
        """bool[nodes]: which of them no other rank takes part in."""
        return np.isin(self.nodes.kind, families.LOCAL) & ~self._is("kind")

    def _is(self, family: str) -> Mask:
        own: Mask = self.families[family].group >= 0
        return own

    def chosen(self, asked: Asked) -> Mask:
        """bool[nodes]: the nodes that a change is of; of several targets with ``&``, those that all are of. Raises
        InputError."""
        if "&" in asked.target:
            parts = [replace(asked, target=part.strip()) for part in asked.target.split("&")]
            both: Mask = np.logical_and.reduce([self.chosen(part) for part in parts])
            return both
        if asked.target in WORDS:
            every = np.ones(len(self.computes), np.bool_)
            return {"all": every, "compute": self.computes, "communication": self._is("kind")}[asked.target]
        if asked.family in ("rank", "stage"):
            return self._of_ranks(asked)
        if asked.family == "node":
            own = self._named(asked)
        elif asked.family in self.families:
            family = self.families[asked.family]
            which = [i for i, name in enumerate(family.names) if asked.names(str(name))]
            own = np.isin(family.group, which)
        else:
            raise asked.refusal("no such target", asked.target, ", ".join(TARGETS), near(asked.target, WORDS) or None)
        if not own.any():
            known = self.families[asked.family].names if asked.family in self.families else ("names of nodes",)
            raise asked.refusal(f"the job has no such {asked.family}", asked.name, ", ".join(map(str, known[:20])))
        return own

    def _of_ranks(self, asked: Asked) -> Mask:
        ranks = len(self.result.classes)
        if asked.family == "stage":
            wanted = set(np.flatnonzero(np.isin(self._stages(asked), asked.numbers(ranks))).tolist())
        else:
            wanted = set(asked.numbers(ranks))
        if self.events.folded:
            whole = [set(np.flatnonzero(self.result.classes == c).tolist()) for c in range(len(self.nodes.ranks))]
            if any(own & wanted and not own <= wanted for own in whole):
                raise asked.refusal("equal ranks were simulated as one", asked.name, "all ranks of a class",
                                    "simulate the change: --slow, say")  # fmt: skip
        owners = [i for i, rank in enumerate(self.nodes.ranks.tolist()) if rank in wanted]
        return np.isin(self.nodes.owner, owners) & self.computes

    def _stages(self, asked: Asked) -> Ints:
        """int64[ranks]: the place of each in its pipeline."""
        context = self.result.job.context if self.result.job is not None else None
        stages = np.full(len(self.result.classes), -1, np.int64)
        for group, role in (context.role_of if context is not None else {}).items():
            if role == "pp" and context is not None:
                stages[list(context.groups[group])] = np.arange(len(context.groups[group]))
        if (stages < 0).all():
            raise asked.refusal("the job names no pipeline", asked.target, "process groups of the role pp")
        return stages

    def _named(self, asked: Asked) -> Mask:
        own = np.zeros(len(self.nodes.kind), np.bool_)
        known: dict[int, Mask] = {}
        for owner, graph in enumerate(self.nodes.graphs):
            key = id(graph.columns)
            if key not in known:
                known[key] = np.array([asked.names(graph.trace.name(n)) for n in graph.order.tolist()], np.bool_)
            part = slice(int(self.nodes.first[owner]), int(self.nodes.first[owner + 1]))
            own[part] = known[key][self.nodes.number[part]]
        return own

    def durations(self, asked: Sequence[Asked]) -> Floats:
        """float64[nodes]: how long each takes in a scenario of several changes. Raises InputError."""
        found = self.graph.duration.copy()
        for one in asked:
            own = self.chosen(one)
            found[own] = self.ideal_ns[own] if one.factor is None else found[own] * one.factor
        return found

    def makespans(self, scenarios: Sequence[Sequence[Asked]]) -> Floats:
        """float64[scenarios]: the makespan in ns of each, by the order in which things happened. Raises InputError."""

        def durations(part: slice) -> Floats:
            return np.stack([self.durations(scenarios[i]) for i in range(part.start, part.stop)], axis=1)

        return self.ends(durations, len(scenarios))

    def ends(self, durations: Any, lanes: int) -> Floats:
        """float64[lanes]: the makespan with durations float64[nodes, lanes], or a function of a slice of lanes."""
        found: Floats = lanes_of(self.graph, durations, lanes, self.events.last.astype(np.int64)).max(axis=0, initial=0)
        return found

    def outcomes(self, scenarios: Sequence[Sequence[Asked]], *, engine: bool = True) -> list[Outcome]:
        """What each scenario makes of the makespan; with ``engine``, those that only change what is computed are
        simulated again where the network allows it. Raises InputError."""
        ends = self.makespans(scenarios)
        texts = [tuple(one.text for one in asked) for asked in scenarios]
        return [
            Outcome(text, self.result.makespan_ns, *self._end(asked, float(end), engine), self.steps(asked))
            for text, asked, end in zip(texts, scenarios, ends.tolist(), strict=True)
        ]

    def steps(self, asked: Sequence[Asked]) -> tuple[tuple[int, float, float], ...]:
        """As `Outcome.steps`. Raises InputError."""
        marks = self._marks
        if not marks:
            return ()
        both = [self.graph.times()[self.events.end], self.graph.times(self.durations(asked))[self.events.end]]
        sums: dict[int, list[float]] = {}
        for mark, base in marks:
            own = sums.setdefault(mark.step, [0.0, 0.0, 0.0])
            own[2] += 1
            for i, ends in enumerate(both):
                own[i] += ends[base + mark.last] - mark.last_ns - (ends[base + mark.first] - mark.first_ns)
        return tuple((step, before / ranks, after / ranks) for step, (before, after, ranks) in sorted(sums.items()))

    @cached_property
    def _marks(self) -> list[tuple[StepMark, int]]:
        """The steps of each rank, and where its nodes begin; none for jobs that are not replayed as recorded."""
        if self.result.replay is None:
            return []
        records = [self.result.records[c] for c in self.result.classes[self.nodes.ranks].tolist()]
        return [(mark, base) for record, base in zip(records, self.nodes.first[:-1].tolist(), strict=True)
                if (record.start_ns >= 0).all() for mark in step_marks(record)]  # fmt: skip

    def _end(self, asked: Sequence[Asked], end: float, engine: bool) -> tuple[float, bool]:
        job = self.result.job
        if not engine or job is None or self.events.folded or not Rerun.knows(job):
            return end, False
        wanted = self.durations(asked)
        moved = np.flatnonzero(wanted != self.graph.duration)
        if not (self.nodes.computes[moved] & np.isin(self.nodes.kind[moved], (at.RUN_DELAY, at.RUN_WORK))).all():
            return end, False
        again = Rerun(self.nodes, job, self.result.makespan_ns)
        return float(again.makespan(moved, wanted[moved] / np.maximum(self.graph.duration[moved], 1e-300))), True


def what_if(result: SimulationResult, *changes: str) -> Outcome:
    """What changes, all at once, make of a simulated or replayed job: ``what_if(result, "rank:3=1.2", "op:gemm=0.9")``.

    Each is ``TARGET=FACTOR`` as of ``chakrasim what-if``. Raises InputError.
    """
    return SimulatedScenarios(result).outcomes([[asked_of(text) for text in changes]])[0]


def _medians(groups: Ints, values: Floats) -> Floats:
    """float64[groups]: the median of the values of each."""
    order = np.lexsort((values, groups))
    count = np.bincount(groups)
    first = np.cumsum(count) - count
    low, high = first + (count - 1) // 2, first + count // 2
    found: Floats = (values[order][low] + values[order][high]) / 2
    return found
