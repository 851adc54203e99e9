"""Collectives that nothing else meets on its links: what they take can be said before anything is simulated."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from chakrasim.collectives.kinds import KINDS
from chakrasim.generator.layers.condense import Alone
from chakrasim.generator.mesh import process_groups
from chakrasim.simulator.closed_form import collective_alone

if TYPE_CHECKING:
    from chakrasim.generator.layers.condense import AloneOf
    from chakrasim.generator.layers.tape import Row
    from chakrasim.generator.spec.spec import Spec
    from chakrasim.machine import Machine

WAITED_FOR: Final = ("tp", "ep", "cp")
"""Roles whose collectives what is computed next waits for."""
USUAL_PROCESSORS: Final = 132
"""Of a device whose profile does not say: an H100's."""


def alone_of(spec: Spec, machine: Machine) -> AloneOf:
    """What collectives inside one NVLink or xGMI domain take; None for others, which meet other traffic."""
    inside = _groups_inside(spec, machine)
    profile = machine.profile
    processors = (profile.processors if profile is not None else 0) or USUAL_PROCESSORS

    @cache
    def found(role: str, kind: int, size: int) -> Alone:
        group, meaning = inside[role], KINDS_BY_TYPE[kind]
        alone = collective_alone(machine, meaning.name, meaning.whole_bytes(size, len(group)), group)
        channels = alone.course.choice.channels if alone.course is not None else 0
        return Alone(alone.time_ns, min(channels / processors, MOST_HELD))

    def of(row: Row) -> Alone | None:
        role = str(row.values["pg_name"])
        if role not in inside:
            return None
        return found(role, int(row.values["comm_type"]), int(row.values["comm_size"]))

    return of


MOST_HELD: Final = 0.5
"""Of the processors, by any collective."""
KINDS_BY_TYPE: Final = {int(kind.type): kind for kind in KINDS.values()}


def _groups_inside(spec: Spec, machine: Machine) -> dict[str, tuple[int, ...]]:
    """By role, the first of its groups, if all of them are inside a domain."""
    graph = machine.graph
    if graph is None:
        return {}
    island = graph.island[: graph.ranks]
    found = {}
    for role, groups in process_groups(spec).items():
        if role in WAITED_FOR and all(island[group[0]] == island[group[-1]] >= 0 for group in groups):
            found[role] = groups[0]
    return found
