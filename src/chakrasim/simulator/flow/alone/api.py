"""Flows on a network, without a workload."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chakrasim.errors import InputError
from chakrasim.machine.graph.changes import Change
from chakrasim.machine.graph.graph import NetworkGraph
from chakrasim.machine.graph.routing import Routes, Routing, find_routes
from chakrasim.simulator.flow.alone.flows import NO_CHANGES, CapacityChanges, Floats, Flows, Ints
from chakrasim.simulator.flow.alone.moving import capacities_over_time, run_moving
from chakrasim.simulator.flow.alone.result import FlowResult
from chakrasim.simulator.flow.alone.solve import How, Progress, Solved, solve


def run_flows(
    graph: NetworkGraph,
    flows: Flows,
    *,
    routing: Routing | None = None,
    exact: bool = False,
    merge: float = 0.0,
    changes: CapacityChanges | Sequence[Change] | None = None,
    classes: bool | None = None,
    all_above: float | None = None,
    progress: Progress | None = None,
) -> FlowResult:
    """When flows end that share the links of a network by max-min fairness.

    Long because all its options are described here.

    Each flow waits for the sum of the latencies on its way, which takes no bandwidth, then its bytes move at the rate
    that max-min fair sharing gives at every instant. One without bytes takes the latency alone, one to its own rank
    nothing.

    Parameters
    ----------
    graph:
        The network.
    flows:
        What is to flow. With ``routes`` of their own they take these; else ``routing`` finds them.
    routing:
        A ``Routing``; the default is that of the package: the shortest way, ties by a stated hash.
    exact:
        Times are doubles. Without it each end is rounded up to a whole nanosecond (a millionth below does not count),
        so that runs where one end starts another do not depend on the order of additions.
    merge:
        For very many unequal flows: those that would end within this share of the time (0.01 is one per cent) leave
        together, in the middle of it, each with the end that its rate says. With 0.01, ends of an all-to-all of 64
        ranks with random sizes are off by 0.06 % on average, 0.6 % at most.
    changes:
        Capacities that change on the way; or what `chakrasim.simulate` takes, as `Change` objects: links and vertices
        that fail and come back. Then flows take other ways, as they do where the network has a schedule of its own.
        Flows with ``routes`` of their own keep these.
    classes:
        Whether flows that must have equal rates are found and solved as one. None: where that leaves at most a quarter
        of them to solve.
    all_above:
        The share of the flows under way above which an event has all rates sought, instead of those that it touches.
    progress:
        Called now and then with flows that have ended, all flows, and the time in ns.

    Raises :class:`chakrasim.InputError`.
    """
    check_ranks(graph, flows)
    routing = routing or Routing()
    how = How(exact, merge, classes, all_above, progress)
    if flows.routes is None and _finds_ways_later(graph, flows, routing, changes):
        return _moving(graph, flows, routing, changes, how)
    if not isinstance(changes, CapacityChanges):
        changes = capacities_over_time(graph, changes or ())
    routes = _routes(graph, flows, routing)
    delay_ns = np.where(flows.source == flows.destination, 0.0, routes.latency_ns(graph))
    medium = graph.medium[routes.link]
    used = Routes(routes.first, np.ascontiguousarray(medium, np.int32), routes.coefficient, routes.missing)
    _check_changes(changes, graph.links)
    on_media = CapacityChanges(changes.time_ns, graph.medium[changes.link], changes.capacity)
    solved = solve(graph.capacity, flows, used, delay_ns, on_media, how)
    return outcome(graph.link_names, graph.capacity, flows, routes, on_media, solved, how, graph.medium)


def _finds_ways_later(graph: NetworkGraph, flows: Flows, routing: Routing, changes: object) -> bool:
    """Whether some flow takes its way, or another one, after others have begun."""
    if graph.planned or (changes is not None and not isinstance(changes, CapacityChanges)):
        return True
    together = (flows.after < 0).all() and np.unique(flows.start_ns).size <= 1
    return routing.rule == "adaptive" and not together


def _moving(
    graph: NetworkGraph,
    flows: Flows,
    routing: Routing,
    changes: CapacityChanges | Sequence[Change] | None,
    how: How,
) -> FlowResult:
    if isinstance(changes, CapacityChanges):
        remedy = "give load_changes(...) instead, or flows with routes"
        raise InputError("these flows find their ways later than capacities change", file="changes", remedy=remedy)
    if how.merge:
        remedy = "leave merge out, or give flows with routes"
        raise InputError("ends are not merged where flows find their ways later", file="merge", remedy=remedy)
    solved, routes, link_bytes = run_moving(graph, flows, routing, changes or (), how)
    over_time = capacities_over_time(graph, changes or ())
    found = outcome(graph.link_names, graph.capacity, flows, routes, over_time, solved, how, graph.medium, link_bytes)
    return found


def share_links(
    link_names: tuple[str, ...],
    capacity: Floats,
    flows: Flows,
    *,
    exact: bool = False,
    merge: float = 0.0,
    changes: CapacityChanges | None = None,
    classes: bool | None = None,
    all_above: float | None = None,
    progress: Progress | None = None,
) -> FlowResult:
    """The same for links without a graph around them, and flows with routes.

    ``capacity`` is float64[l], bytes per ns, 0 for a link that is down. Raises InputError.
    """
    routes = flows.routes
    if routes is None:
        raise InputError("the flows have no routes", file="flows", remedy="give routes, or a graph to find them on")
    _check_routes(routes, capacity.size)
    changes = changes or NO_CHANGES
    _check_changes(changes, capacity.size)
    how = How(exact, merge, classes, all_above, progress)
    solved = solve(capacity, flows, routes, np.zeros(len(flows)), changes, how)
    return outcome(link_names, capacity, flows, routes, changes, solved, how)


def outcome(
    names: tuple[str, ...],
    capacity: Floats,
    flows: Flows,
    routes: Routes,
    changes: CapacityChanges,
    solved: Solved,
    how: How,
    medium: Ints | None = None,
    link_bytes: Floats | None = None,
) -> FlowResult:
    """The result of a run; links of one ``medium`` are busy together. ``link_bytes`` are known where ways changed."""
    follows = flows.after >= 0
    begin_ns = flows.start_ns + np.where(follows, solved.finish_ns[flows.after], 0.0)
    begin_ns[routes.missing] = np.nan
    if link_bytes is None:
        moved = np.repeat(solved.carried_bytes, np.diff(routes.first)) * routes.coefficient
        link_bytes = np.bincount(routes.link, weights=moved, minlength=capacity.size).astype(np.float64)
    ended = solved.finish_ns[~np.isnan(solved.finish_ns)]
    could = could_carry(capacity, changes, float(ended.max(initial=0.0)))
    cut_by = np.full(len(flows), -1)
    if ended.size < len(flows):
        down = _at_last(capacity, changes)[routes.link if medium is None else medium[routes.link]] <= 0
        crossings = np.flatnonzero(down)[::-1]  # the first of a flow is written last
        cut_by[np.searchsorted(routes.first, crossings, side="right") - 1] = routes.link[crossings]
    shared = link_bytes if medium is None else np.bincount(medium, weights=link_bytes, minlength=capacity.size)[medium]
    busy_share = np.divide(shared, could, out=np.zeros(capacity.size), where=could > 0)
    return FlowResult(
        finish_ns=solved.finish_ns,
        begin_ns=begin_ns,
        link_bytes=link_bytes,
        busy_share=busy_share,
        link_names=names,
        flows=flows,
        routes=routes,
        solves=solved.solves,
        fills=solved.fills,
        changed=solved.changed,
        classes=solved.classes,
        exact=how.exact,
        cut_by=cut_by,
        merge=how.merge,
    )


def _at_last(capacity: Floats, changes: CapacityChanges) -> Floats:
    """float64[l]: the capacities behind all changes."""
    now = capacity.copy()
    for place in np.argsort(changes.time_ns, kind="stable").tolist():
        now[changes.link[place]] = changes.capacity[place]
    return now


def could_carry(capacity: Floats, changes: CapacityChanges, end_ns: float) -> Floats:
    """float64[l]: bytes that each link could have carried from 0 to the end."""
    could = capacity * end_ns
    now = capacity.copy()
    for place in np.argsort(changes.time_ns, kind="stable").tolist():
        link, left_ns = int(changes.link[place]), max(end_ns - float(changes.time_ns[place]), 0.0)
        could[link] += (changes.capacity[place] - now[link]) * left_ns
        now[link] = changes.capacity[place]
    return could


def check_ranks(graph: NetworkGraph, flows: Flows) -> None:
    """Raise InputError for flows from or to what is no rank of the graph."""
    for name, ranks in (("source", flows.source), ("destination", flows.destination)):
        wrong = np.flatnonzero((ranks < 0) | (ranks >= graph.ranks))
        if wrong.size:
            raise InputError(
                f"flow {wrong[0]}: its {name} is no rank",
                file=name,
                found=ranks[wrong[0]],
                expected=f"0 to {graph.ranks - 1}",
            )


def _routes(graph: NetworkGraph, flows: Flows, routing: Routing) -> Routes:
    """The flows' own routes, or those that the rule finds."""
    if flows.routes is not None:
        _check_routes(flows.routes, graph.links)
        return flows.routes
    return find_routes(graph, flows.source, flows.destination, flows.label, routing)


def _check_routes(routes: Routes, links: int) -> None:
    wrong = np.flatnonzero((routes.link < 0) | (routes.link >= links))
    if wrong.size:
        flow = int(np.searchsorted(routes.first, wrong[0], side="right")) - 1
        raise InputError(
            f"flow {flow}: there is no such link", file="routes", found=routes.link[wrong[0]], expected=f"below {links}"
        )
    bad = np.flatnonzero(~((routes.coefficient > 0) & (routes.coefficient < np.inf)))
    if bad.size:
        flow = int(np.searchsorted(routes.first, bad[0], side="right")) - 1
        raise InputError(f"flow {flow}: a coefficient is not above 0", file="routes", found=routes.coefficient[bad[0]])


def _check_changes(changes: CapacityChanges, links: int) -> None:
    wrong = np.flatnonzero((changes.link < 0) | (changes.link >= links))
    if wrong.size:
        raise InputError(
            f"change {wrong[0]}: there is no such link",
            file="changes",
            found=changes.link[wrong[0]],
            expected=f"below {links}",
        )
