"""``chakrasim.explain``: where the time of a simulated job goes, over all ranks, and what would move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.event_graph.graph import NONE, Floats, Indices, Ints
from chakrasim.event_graph.lanes import lanes_of
from chakrasim.event_graph.path import Decided, decided, delay_costs, path_to, slack, targets
from chakrasim.event_graph.slopes import Slopes, slopes
from chakrasim.explanation import families
from chakrasim.explanation.families import Family
from chakrasim.explanation.job_events import JobEvents, job_events
from chakrasim.explanation.rerun import Rerun, Slope
from chakrasim.explanation.result import CHANGES, Explanation, PathPiece, Share, SlowRank
from chakrasim.simulator.outcome.result import SimulationResult

SLOW: Final = 0.01
MOST_CHECKED: Final = 120_000
"""Nodes of the job, once for each row that simulations with other durations check, for each of two families."""
MOST_GROUPS: Final = 200
MOST_EDGES: Final = 60_000_000
"""So many groups of a family get derivatives and changes, at most, and as many as there are edges for, each group
going through all: those with most time on the path first, then those that make others wait."""


def explain(result: SimulationResult, *, check: bool = True) -> Explanation:
    """Why a simulated job takes as long as it does.

    The figures are those of the job's events in the order in which they came (`JobEvents`): exact as long as no change
    makes nodes take a resource in another order, or bytes contend otherwise. Derivatives are checked by simulations
    with other durations, which take most of the time, unless ``check`` is False. Raises InputError for results without
    the times of nodes.
    """
    job = result.job
    events = job_events(result)
    assert job is not None
    ended = decided(events.graph, events.owner)
    duration = events.graph.duration
    by_family = {
        "ranks": families.ranks(events.nodes, duration),
        "links": families.links(events.nodes, job, duration),
        "kinds": families.kinds(events.nodes, duration),
        "op_classes": families.op_classes(events.nodes, duration),
        "modules": families.modules(events.nodes, duration),
    }
    view = _View(events, ended)
    shares = {name: view.shares(family, name) for name, family in by_family.items()}
    if check and not events.folded and Rerun.knows(job):
        again = Rerun(events.nodes, job, result.makespan_ns)
        for name in ("ranks", "op_classes"):
            shares[name] = _checked(shares[name], by_family[name], again)
    return Explanation(
        makespan_ns=result.makespan_ns,
        path=view.path(),
        **shares,
        slow_ranks=_slow_ranks(events, by_family["ranks"].total_ns),
        rank_classes=result.classes if events.folded else None,
        warnings=result.warnings,
        fixed_order=result.congestion == "unaware",
    )


def explain_path(result: SimulationResult) -> Explanation:
    """The critical path and who waits for whom: without derivatives, links and kinds of work this costs a tenth of
    `explain`. Raises InputError for results without the times of nodes."""
    events = job_events(result)
    view = _View(events, decided(events.graph, events.owner))
    ranks = families.ranks(events.nodes, events.graph.duration)
    return Explanation(
        makespan_ns=result.makespan_ns,
        path=view.path(),
        ranks=view.shares(ranks, "ranks", moved=False),
        links=(),
        kinds=(),
        op_classes=(),
        modules=(),
        slow_ranks=_slow_ranks(events, ranks.total_ns),
        rank_classes=result.classes if events.folded else None,
        warnings=result.warnings,
        fixed_order=result.congestion == "unaware",
    )


def _slow_ranks(events: JobEvents, compute_ns: Floats) -> tuple[SlowRank, ...]:
    """Ranks that compute longer than those with as many nodes."""
    nodes = events.nodes
    count = np.bincount(nodes.owner, minlength=len(nodes.ranks))
    found = []
    for several in np.unique(count).tolist():
        own = np.flatnonzero(count == several)
        weighed = np.repeat(compute_ns[own], nodes.copies[own])
        median = float(np.median(weighed))
        slow = own[compute_ns[own] > (1 + SLOW) * median]
        found += [SlowRank(int(nodes.ranks[i]), float(compute_ns[i]), median, len(weighed)) for i in slow.tolist()]
    return tuple(sorted(found, key=lambda one: -one.compute_ns / max(one.median_ns, 1.0)))


def _checked(rows: tuple[Share, ...], family: Family, again: Rerun) -> tuple[Share, ...]:
    """Derivatives that the engine agrees with, those of most time on the path first, as far as that is soon done."""
    place = {name: i for i, name in enumerate(family.names)}
    checked = dict(enumerate(rows))
    rest = MOST_CHECKED
    for i in sorted(checked, key=lambda i: -rows[i].on_path_ns):
        row = rows[i]
        chosen = np.flatnonzero((family.group == place[row.name]) & again.nodes.computes)
        if row.slower is None or row.faster is None or len(chosen) < (family.group == place[row.name]).sum():
            continue
        rest -= len(again.nodes.kind)
        if rest < 0:
            break
        slower = again.check(chosen, row.total_ns, 1, Slope(row.slower, row.slower_until_ns))
        faster = again.check(chosen, row.total_ns, -1, Slope(row.faster, row.faster_until_ns))
        checked[i] = replace(
            row,
            slower=slower.slope,
            slower_until_ns=slower.until_ns,
            faster=faster.slope,
            faster_until_ns=row.total_ns if faster.until_ns is None else faster.until_ns,
            by_engine=True,
        )
    return tuple(checked.values())


@dataclass(frozen=True, eq=False)
class _Measured:
    """By node: ns on the path, slack, waiting suffered, waiting caused."""

    on_path: Floats
    slack: Floats
    waiting: Floats
    cost: Floats


class _View:
    """What is asked of the events of one job."""

    def __init__(self, events: JobEvents, ended: Decided) -> None:
        self.events, self.ended = events, ended
        self.nodes, self.graph = events.nodes, events.graph
        self.target = targets(self.graph)
        finish = events.last[np.argmax(ended.at[events.last])] if events.last.size else 0
        self.edges = path_to(ended, int(finish))
        self.node_of_edge = self._node_of_edge()
        self.measured = self._measured()

    def _node_of_edge(self) -> Indices:
        """The node whose time each edge is: its activity's, else the one that it leads to or comes from."""
        known = self.events.node_of_event
        after, before = known[self.target], known[self.graph.source]
        return np.where(self.graph.activity >= 0, self.graph.activity, np.where(after >= 0, after, before))

    def _measured(self) -> _Measured:
        nodes, graph, at = self.nodes, self.graph, self.ended.at
        count = len(nodes.kind)
        on_path = np.zeros(count)
        np.add.at(on_path, self.node_of_edge[self.edges], self._lengths(self.edges))
        free = slack(graph, at, self.events.last)
        least = np.full(count, np.inf)
        own = graph.activity >= 0
        np.minimum.at(least, graph.activity[own], free[own])
        waits = np.flatnonzero(self.events.met >= 0)
        copies = nodes.copies[nodes.owner[waits]].astype(np.float64)
        cost, waited = delay_costs(self.ended, self.events.begin[waits], self.events.met[waits], copies)
        waiting, caused = np.zeros(count), np.zeros(count)
        waiting[waits] = waited * copies
        np.add.at(caused, self.node_of_edge, cost)
        return _Measured(on_path, least, waiting, caused)

    def _lengths(self, edges: Ints) -> Floats:
        return self.ended.at[self.target[edges]] - self.ended.at[self.graph.source[edges]]

    def path(self) -> tuple[PathPiece, ...]:
        """The critical path, piece by piece."""
        at, nodes = self.ended.at, self.nodes
        pieces = []
        for edge in self.edges.tolist():
            node = int(self.node_of_edge[edge])
            graph, number = nodes.graphs[nodes.owner[node]], int(nodes.number[node])
            position = int(graph.order[number])
            met = int(self.events.met[node])
            works = self.graph.activity[edge] >= 0
            waited = at[met] - at[self.events.begin[node]] if met >= 0 and works else 0.0
            pieces.append(
                PathPiece(
                    rank=int(nodes.ranks[nodes.owner[node]]),
                    node=int(graph.trace.ids[position]),
                    name=graph.trace.name(position),
                    kind=self._kind(node, graph, works),
                    start_ns=int(at[self.graph.source[edge]]),
                    end_ns=int(at[self.target[edge]]),
                    waited_ns=max(int(waited), 0),
                )
            )
        return tuple(pieces)

    def _kind(self, node: int, graph: Any, works: bool) -> str:
        if not works:
            return "launch" if self.nodes.launched[node] else "delay"
        return families.kind_of(graph, int(self.nodes.number[node]))

    def shares(self, family: Family, name: str, *, moved: bool = True) -> tuple[Share, ...]:
        """A row for each group of a family, those with most time on the path first; ``moved``: with what longer or
        shorter nodes would change."""
        every = name == "ranks"
        member = self.nodes.owner if every else family.group
        count = len(family.names)
        inside = member >= 0
        sums = {
            key: np.bincount(member[inside], column[inside], count)
            for key, column in vars(self.measured).items()
            if key != "slack"
        }
        least = np.full(count, np.inf)
        own = family.group >= 0
        np.minimum.at(least, family.group[own], self.measured.slack[own])
        chosen = np.lexsort((least, -sums["cost"], -sums["on_path"]))[: self._most_groups() if moved else 0]
        rising = self._slopes(family, chosen)
        finite = self._finite(family, chosen)
        rows = [
            Share(
                name=family.names[i],
                total_ns=float(family.total_ns[i]),
                on_path_ns=int(sums["on_path"][i]),
                slack_ns=None if np.isinf(least[i]) else int(least[i]),
                waiting_ns=int(sums["waiting"][i]),
                delay_cost_ns=int(sums["cost"][i]),
                slower=_number(rising.slower[i]),
                faster=_number(rising.faster[i]),
                slower_until_ns=_number(rising.slower_until[i]),
                faster_until_ns=_number(rising.faster_until[i]),
                by_engine=False,
                changes_ns=finite.get(i),
            )
            for i in range(count)
        ]
        return tuple(rows) if every else tuple(sorted(rows, key=lambda row: (-row.on_path_ns, -row.total_ns)))

    def _most_groups(self) -> int:
        return max(4, min(MOST_GROUPS, MOST_EDGES // max(len(self.graph.source), 1)))

    def _places(self, family: Family, chosen: NDArray[np.intp]) -> Indices:
        """int32[nodes]: which of the ``chosen`` groups each node is in, -1: none."""
        place = np.full(len(family.names) + 1, NONE, np.int32)
        place[chosen] = np.arange(len(chosen))
        return place[family.group]

    def _slopes(self, family: Family, chosen: NDArray[np.intp]) -> Slopes:
        """Derivatives by the ``chosen`` groups; nan of the others."""
        found = slopes(self.graph, self._places(family, chosen), family.total_ns[chosen], self.events.last)
        spread = [np.full(len(family.names), np.nan) for _ in range(4)]
        for to, one in zip(spread, vars(found).values(), strict=True):
            to[chosen] = one
        return Slopes(*spread)

    def _finite(self, family: Family, chosen: NDArray[np.intp]) -> dict[int, tuple[float, ...]]:
        """By ``chosen`` group: change of the end if all of its nodes take so much longer or shorter, for each of
        `CHANGES`."""
        base, group = self.graph.duration, self._places(family, chosen)
        lanes = len(chosen) * len(CHANGES)

        def durations(part: slice) -> Floats:
            lane = np.arange(part.start, part.stop)
            own = group[:, None] == lane[None, :] // len(CHANGES)
            return np.where(own, base[:, None] * (1 + np.array(CHANGES)[lane % len(CHANGES)]), base[:, None])

        ends = lanes_of(self.graph, durations, lanes, self.events.last.astype(np.int64)).max(axis=0, initial=0.0)
        moved = (ends - self.ended.at.max(initial=0.0)).reshape(len(chosen), len(CHANGES)).tolist()
        return {i: tuple(own) for i, own in zip(chosen.tolist(), moved, strict=True)}


def _number(value: float) -> float | None:
    return None if np.isnan(value) or np.isinf(value) else float(value)
