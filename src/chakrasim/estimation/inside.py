"""Collectives with which nothing else shares links: their times are known before the simulation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME
from chakrasim.estimation.result import LimitingLink
from chakrasim.generator.layers.condense import Alone
from chakrasim.generator.mesh import process_groups
from chakrasim.simulator.closed_form import collective_alone

if TYPE_CHECKING:
    from chakrasim.generator.layers.condense import AloneOf
    from chakrasim.generator.layers.tape import Row
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.generator.transformer import Generated
    from chakrasim.machine import Machine

PROCESSORS: Final = 132
"""Of a device that does not say how many it has: those of an H100."""
MOST_HELD: Final = 0.5


def role_inside(spec: Spec, machine: Machine) -> str:
    """The role whose groups each stay on one of the machine's equal islands, where no other role has two ranks of a
    group on an island; "" where there is none."""
    groups, places = process_groups(spec), machine.places
    near = [role for role, own in groups.items() if any(len({*places[list(group)].tolist()}) < len(group)
                                                        for group in own)]  # fmt: skip
    # Where ranks or links differ, ranks wait for each other inside.
    same = machine.comm_scale == 1.0 and not machine.slow and not machine.changes and _equal_islands(machine)
    if len(near) != 1 or near[0] in ("pp", "embedding") or not same:
        return ""
    whole = all(len({*places[list(group)].tolist()}) == 1 for group in groups[near[0]])
    return near[0] if whole else ""


def _equal_islands(machine: Machine) -> bool:
    """Whether islands have as many links, of the same speed altogether."""
    graph = machine.graph
    island = graph.island[graph.source]
    inner = (island >= 0) & (island == graph.island[graph.target])
    counts = np.bincount(island[inner])
    speeds = np.bincount(island[inner], graph.capacity[inner])
    return bool(len(counts)) and len({*counts.tolist()}) == 1 and bool(np.ptp(speeds) <= 1e-9 * speeds.max())


def alone_inside(spec: Spec, machine: Machine, role: str) -> AloneOf:
    """The times of a role's collectives, for `chakrasim.generator.layers.condense.condense`."""
    members = next(iter(process_groups(spec).get(role, ((),))))
    processors = (machine.profile.processors if machine.profile is not None else 0) or PROCESSORS

    @cache
    def found(number: int, size: int) -> Alone:
        kind = KINDS[number]
        one = collective_alone(machine, kind.name, kind.whole_bytes(size, len(members)), members)
        channels = one.course.choice.channels if one.course is not None else 0
        return Alone(one.time_ns, min(channels / processors, MOST_HELD))

    def of(row: Row) -> Alone | None:
        if not role or row.values["pg_name"] != role:
            return None
        return found(int(row.values["comm_type"]), int(row.values["comm_size"]))

    return of


def link_inside(made: Generated, machine: Machine, role: str, seconds: float) -> LimitingLink | None:
    """The link that a role's collectives cross in the nodes of `alone_inside`, and how busy they keep it in a step."""
    members = next(iter(process_groups(made.spec).get(role, ((),))))
    busy, most, found = 0.0, 0.0, None
    for (what, whose), (count, size) in made.totals.communication.items():
        if whose != role:
            continue
        kind = KINDS_BY_NAME[what]
        one = collective_alone(machine, what, kind.whole_bytes(size // count, len(members)), members)
        if not one.link:
            continue
        crossed = kind.whole_bytes(size, len(members)) * kind.bus_factor(len(members)) / machine.ranks
        busy += crossed / float(machine.graph.capacity[machine.graph.link_number[one.link]])
        if crossed > most:
            most, found = crossed, (one.link, f"{kind.name} of {role}, {one.limited_by}")
    return None if found is None else LimitingLink(found[0], busy / seconds / 1e9, found[1])
