"""Flows with given routes run to their ends: the loop of the kernels, and what it is fed with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import numpy as np

from chakrasim.machine.graph.routing.routes import Routes
from chakrasim.simulator.flow.alone.flows import NONE, CapacityChanges, Floats, Flows, Ints
from chakrasim.simulator.flow.alone.fold import folded
from chakrasim.simulator.flow.loop import DONE, ENDED, NEEDS_ROOM, WANTED, Course, run
from chakrasim.simulator.flow.state import ACTIVE, CHANGED, FILLS, NOWHERE, SOLVES, Places, Sharing, grown, new_sharing

Progress = Callable[[int, int, int], None]

ALL_ABOVE: Final = 0.2
"""When more than this share of the flows under way are sought, seeking all at once is cheaper."""
CALL_S: Final = 0.1
"""How long the kernel is to run at a time, about: signals and ``progress`` wait for it to return."""
MOST_INSTANTS: Final = 1 << 14


@dataclass(frozen=True, eq=False)
class Solved:
    """When flows ended (NaN: they cannot), what each has carried, and how much work that was."""

    finish_ns: Floats
    carried_bytes: Floats
    solves: int
    fills: int
    changed: int
    classes: int


@dataclass(frozen=True)
class How:
    """How flows are run; see `chakrasim.run_flows`."""

    exact: bool = False
    merge: float = 0.0
    classes: bool | None = None
    all_above: float | None = None
    progress: Progress | None = None


def solve(
    capacity: Floats, flows: Flows, routes: Routes, delay_ns: Floats, changes: CapacityChanges, how: How
) -> Solved:
    """Run flows over links of these capacities (bytes per ns), each `delay_ns` after its start."""
    few = folded(capacity, flows, routes, delay_ns, changes, how.classes)
    if few is None:
        return _run(capacity, new_course(flows, routes, delay_ns, changes), how)
    solved = _run(few.capacity, new_course(few.flows, few.routes, few.delay_ns, few.changes), how)
    return replace(solved, finish_ns=solved.finish_ns[few.class_of], carried_bytes=solved.carried_bytes[few.class_of])


def _run(capacity: Floats, course: Course, how: How) -> Solved:
    lengths = np.diff(course.route_first)
    slots = course.starts.size  # in a chain one is under way at a time
    longest = int(lengths.max(initial=0))
    entries = min(course.route_link.size, slots * longest)
    sharing = new_sharing(capacity, max(slots, 1), max(entries, 1), longest)
    above = ALL_ABOVE if how.all_above is None else how.all_above
    instants = 1
    while True:
        began_s = perf_counter()
        state = run(sharing, course, not how.exact, how.merge, above, instants)
        slow = perf_counter() - began_s > CALL_S
        instants = max(instants // 2, 1) if slow else min(2 * instants, MOST_INSTANTS)
        if state == DONE:
            break
        if state == NEEDS_ROOM:
            sharing = grown(sharing, int(course.at[WANTED]))
        elif how.progress is not None:
            how.progress(int(course.at[ENDED]), lengths.size, int(course.now[0]))
    count = sharing.count
    return Solved(
        finish_ns=course.finish_ns,
        carried_bytes=_carried(sharing, course),
        solves=int(count[SOLVES]),
        fills=int(count[FILLS]),
        changed=int(count[CHANGED]),
        classes=lengths.size,
    )


def new_course(flows: Flows, routes: Routes, delay_ns: Floats, changes: CapacityChanges) -> Course:
    """The flows as the loop takes them; those whose route is missing never start."""
    count = len(flows)
    free = flows.after == NONE
    free[routes.missing] = False
    start_ns = flows.start_ns + np.where(flows.after == NONE, delay_ns, 0.0)
    starts = np.flatnonzero(free)
    head, following = followers(flows.after, routes)
    by_time = np.argsort(changes.time_ns, kind="stable")
    return Course(
        route_first=np.ascontiguousarray(routes.first, np.int64),
        route_link=np.ascontiguousarray(routes.link, np.uint32),
        route_coefficient=np.ascontiguousarray(routes.coefficient, np.float64),
        weight=flows.weight,
        size_bytes=flows.size_bytes,
        delay_ns=delay_ns,
        start_ns=start_ns,
        starts=starts[np.argsort(start_ns[starts], kind="stable")].astype(np.uint32),
        head_after=head,
        next_after=following,
        waiting=np.zeros(count, np.uint32),
        change_ns=changes.time_ns[by_time],
        change_link=changes.link[by_time].astype(np.uint32),
        change_capacity=changes.capacity[by_time],
        finish_ns=np.full(count, np.nan),
        at=np.zeros(5, np.int64),
        now=np.zeros(1),
    )


def followers(after: Ints, routes: Routes) -> tuple[Places, Places]:
    """Lists of the flows that follow each: the first, and the next after each; ascending, without those of no route."""
    head = np.full(after.size, NOWHERE, np.uint32)
    following = np.full(after.size, NOWHERE, np.uint32)
    follows = after != NONE
    follows[routes.missing] = False
    flow = np.flatnonzero(follows).astype(np.uint32)
    flow = flow[np.argsort(after[flow], kind="stable")]
    leader = after[flow]
    same = leader[1:] == leader[:-1]
    following[flow[:-1][same]] = flow[1:][same]
    first = np.concatenate([[True], ~same])[: flow.size]
    head[leader[first]] = flow[first]
    return head, following


def _carried(sharing: Sharing, course: Course) -> Floats:
    """Bytes that each flow has carried when nothing more happens."""
    carried = np.where(np.isnan(course.finish_ns), 0.0, course.size_bytes)
    left = sharing.slots[sharing.active[: sharing.count[ACTIVE]]]
    carried[left.flow] = course.size_bytes[left.flow] - left.remaining
    return np.asarray(carried)
