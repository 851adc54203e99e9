"""Collectives that nothing else meets on its links: what they take can be said before anything is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME
from chakrasim.estimation.result import LimitingLink
from chakrasim.generator.layers.condense import Alone
from chakrasim.generator.mesh import process_groups
from chakrasim.machine.device.profile import PROCESSORS
from chakrasim.simulator.closed_form import collective_alone

if TYPE_CHECKING:
    from chakrasim.estimation.recipes import Recipe
    from chakrasim.generator.layers.condense import AloneOf
    from chakrasim.generator.layers.tape import Row
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.generator.transformer import Generated
    from chakrasim.machine import Machine
    from chakrasim.machine.graph.graph import NetworkGraph

Groups = Mapping[str, tuple[int, ...]]
WAITED_FOR: Final = ("tp", "ep", "cp")
"""Roles whose collectives what is computed next waits for."""
MOST_HELD: Final = 0.5
"""Of the processors, by any collective."""


def groups_inside(spec: Spec, machine: Machine) -> Groups:
    """By role, the first of its groups, if all of them are inside an NVLink or xGMI domain, or have whole domains to
    themselves, and these are alike.

    What leaves a domain may still meet messages between stages and sums of gradients: that is left out, being little
    beside what experts exchange. There are none where ranks or links differ, so that ranks wait for each other inside.
    """
    if machine.slow or machine.changes or machine.comm_scale != 1.0 or not equal_islands(machine.graph):
        return {}
    graph = machine.graph
    island = graph.island[: graph.ranks]
    if (island < 0).any():
        return {}
    sizes = np.bincount(island)

    def alone(group: Sequence[int]) -> bool:
        own = island[list(group)]
        return bool((own == own[0]).all()) or len(group) == sizes[np.unique(own)].sum()

    return {
        role: groups[0]
        for role, groups in process_groups(spec).items()
        if role in WAITED_FOR and all(map(alone, groups))
    }


def equal_islands(graph: NetworkGraph) -> bool:
    """Whether islands have as many links, of the same speed altogether."""
    island = graph.island[graph.source]
    inner = (island >= 0) & (island == graph.island[graph.target])
    counts, speeds = np.bincount(island[inner]), np.bincount(island[inner], graph.capacity[inner])
    return bool(len(counts)) and len({*counts.tolist()}) == 1 and bool(np.ptp(speeds) <= 1e-9 * speeds.max())


def alone_of(inside: Groups, machine: Machine, recipe: Recipe) -> AloneOf:
    """What collectives of these groups take as a framework runs them; None for others, which meet other traffic."""
    profile = machine.profile
    processors = (profile.processors if profile is not None else 0) or PROCESSORS

    @cache
    def found(role: str, number: int, size: int) -> Alone:
        group, kind = inside[role], KINDS[number]
        alone = collective_alone(machine, kind.name, kind.whole_bytes(size, len(group)), group)
        channels = alone.course.choice.channels if alone.course is not None else 0
        return Alone(round(alone.time_ns * recipe.collective(role)), min(channels / processors, MOST_HELD))

    def of(row: Row) -> Alone | None:
        role = str(row.values["pg_name"])
        if role not in inside:
            return None
        return found(role, int(row.values["comm_type"]), int(row.values["comm_size"]))

    return of


def link_inside(made: Generated, machine: Machine, inside: Groups, seconds: float) -> LimitingLink | None:
    """The link that collectives of these groups cross, and how busy they keep it in a step, in the mean over ranks."""
    busy, most, found = 0.0, 0.0, None
    for (what, role), (count, size) in made.totals.communication.items():
        if role not in inside:
            continue
        group, kind = inside[role], KINDS_BY_NAME[what]
        one = collective_alone(machine, what, kind.whole_bytes(size // count, len(group)), group)
        if not one.link:
            continue
        crossed = kind.whole_bytes(size, len(group)) * kind.bus_factor(len(group)) / machine.ranks
        busy += crossed / float(machine.graph.capacity[machine.graph.link_number[one.link]])
        if crossed > most:
            most, found = crossed, (one.link, f"{kind.name} of {role}, limited by {one.limited_by}")
    return None if found is None else LimitingLink(found[0], busy / seconds / 1e9, found[1])
