"""How long one collective takes alone on a machine, without running the engine: the same to the nanosecond."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chakrasim.collectives import Collective
from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME
from chakrasim.collectives.libraries.course import Course
from chakrasim.errors import InputError, near
from chakrasim.machine import Machine
from chakrasim.machine.graph.graph import NIC, NVSWITCH, PCIE, NetworkGraph
from chakrasim.simulator.flow.fill import SLACK_NS
from chakrasim.simulator.lowering.activities import Activities
from chakrasim.simulator.lowering.library import Courses


@dataclass(frozen=True)
class CollectiveTime:
    """One collective, alone on its machine.

    Attributes
    ----------
    time_ns: from its start to its end.
    startup_ns: what of it passes before the first byte.
    rate: bytes of the collective (nccl-tests' size) per ns from then on; infinite where nothing moves.
    limited_by: what keeps it from being faster: NVLink, XGMI, PCIe, NIC, the name of another link, or the protocol.
    link: the name of the link that is slowest, whether it limits or not; "" where no link is crossed.
    course: how the library runs it; None without a library.
    """

    time_ns: int
    startup_ns: float
    rate: float
    limited_by: str
    link: str
    course: Course | None


def collective_alone(
    machine: Machine, kind: str, size_bytes: int, ranks: int | Sequence[int] | None = None, root: int = -1
) -> CollectiveTime:
    """The time of a collective of so many ranks (the first), or of these, alone on the machine's links.

    ``kind`` is as in "all_reduce", ``size_bytes`` that of nccl-tests: of the larger buffer of a rank; a part for each
    rank is rounded down to whole bytes, as there. The machine's library runs it, or without one rings and direct
    messages. Raises :class:`chakrasim.InputError` for what cannot be.
    """
    return collectives_alone(machine, kind, (size_bytes,), ranks, root)[0]


def collectives_alone(
    machine: Machine, kind: str, sizes: Sequence[int], ranks: int | Sequence[int] | None = None, root: int = -1
) -> list[CollectiveTime]:
    """The same for several sizes, whose ways over the links are sought once."""
    if kind not in KINDS_BY_NAME:
        raise InputError("no such collective", found=kind, expected=", ".join(KINDS_BY_NAME),
                         remedy=near(kind, list(KINDS_BY_NAME)) or None)  # fmt: skip
    meaning = KINDS_BY_NAME[kind]
    count = machine.ranks if ranks is None else ranks
    members = tuple(range(count)) if isinstance(count, int) else tuple(count)
    if not members or not 0 <= min(members) <= max(members) < machine.ranks or len(set(members)) < len(members):
        raise InputError("ranks out of range", found=ranks, expected=f"1 to {machine.ranks}, or ranks, each once")
    graph, found = machine.graph, []
    courses = None if machine.library is None else Courses(machine)
    activities = Activities(graph, machine.routing, courses=courses)
    for size_bytes in sizes:
        size = size_bytes // len(members) if meaning.size_is_part else size_bytes
        if meaning.type == Collective.BARRIER:
            size = 0
        if len(members) == 1 or (size <= 0 and meaning.in_place and meaning.type != Collective.BARRIER):
            found.append(CollectiveTime(0, 0.0, math.inf, "nothing", "", None))
            continue
        number = activities.number_of(meaning.type, root if root >= 0 else members[0], members, size)
        found.append(_alone(activities, number, graph, machine, size))
    return found


def _alone(activities: Activities, number: int, graph: NetworkGraph, machine: Machine, size: int) -> CollectiveTime:
    """Its rate is that of the link that is full first, as the network finds it; its end a whole nanosecond."""
    startup, course, alone = (
        float(activities.charges([number], None).latency_ns[0]),
        activities.course(number),
        activities.alone(number),
    )
    link = graph.link_names[alone.link] if alone.link >= 0 else ""
    if not size or math.isinf(alone.rate):
        return CollectiveTime(math.ceil(startup - SLACK_NS), startup, math.inf, "latency", link, course)
    lasts = size / alone.rate
    time_ns = int(startup) + math.ceil(lasts + (startup - math.floor(startup)) - SLACK_NS)
    if course is not None and alone.capped:
        limited_by = f"protocol {course.choice.protocol}"
    else:
        limited_by = what_kind(graph, alone.link, machine.make.vendor)
    key = activities.key(number)
    whole = KINDS[key.kind].whole_bytes(size, len(key.members))
    return CollectiveTime(time_ns, startup, whole / lasts, limited_by, link, course)


def what_kind(graph: NetworkGraph, link: int, vendor: str = "") -> str:
    """What people call a link: by the kinds of its ends, else by its name."""
    ends = graph.source[link], graph.target[link]
    kinds = {int(graph.kind[end]) for end in ends}
    near_by = graph.island[ends[0]] == graph.island[ends[1]] >= 0
    ranks = [end < graph.ranks for end in ends]
    if NVSWITCH in kinds or (near_by and all(ranks)):
        return "XGMI" if vendor == "amd" else "NVLink"
    if PCIE in kinds or (NIC in kinds and any(ranks)):
        return "PCIe"
    return "NIC" if NIC in kinds else graph.link_names[link]
