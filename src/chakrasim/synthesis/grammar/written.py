"""One trace written as a grammar, from which it comes back as it was: kinds of nodes (a role, its numbers, the reasons
of what it waits for), in the order in which they come on each thread and stream. Beside it lie what a clock says
(times, and with them how the threads and streams interleave), and the numbers by which a recording names things.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chakrasim.synthesis.grammar.fields import Ports, Source, Tensors, Told, asking_of, named, put_together, sources_of
from chakrasim.synthesis.grammar.pairs import Grammar, grammar_of
from chakrasim.synthesis.grammar.why import LINKS, Known, Past, Reason, reasons_of
from chakrasim.synthesis.roles import DURATION, HOLE, STREAM, Role, Roles, attributes_of, filled, metadata
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace

NAMES: Final = frozenset({*LINKS, "rf_id", "host_id", "external_id", "seq_id", "fw_parent", "fw_tid", "tid", "step"})
"""Numbers that name something of the recording, or count on through it."""


@dataclass(frozen=True)
class Kind:
    """Nodes that are the same but for what lies beside: ``numbers`` are those of the role, in its order, without those
    beside; ``sources`` those of the fields of the ports."""

    role: int
    numbers: tuple[int, ...]
    ports: Ports
    sources: tuple[Source, ...]
    ctrl: tuple[Reason, ...]
    data: tuple[Reason, ...]


@dataclass(frozen=True, eq=False)
class Written:
    """A trace as a grammar.

    Attributes
    ----------
    roles, kinds: by number.
    counted: names of numbers of which a kind has what they are more than at the node before that has them.
    grammar: of kinds, lane after lane, a number beyond the kinds behind each.
    order: the lane of each node in file order; empty for one lane.
    beside: of each node in file order its id, its start in microseconds, its numbers of time and name, and number and
        storage of its tensors.
    head: version, metadata and source.
    """

    roles: tuple[Role, ...]
    kinds: tuple[Kind, ...]
    counted: frozenset[str]
    grammar: Grammar
    order: tuple[int, ...]
    beside: list[tuple[int, ...]]
    head: tuple[str, dict[str, object], str]

    @property
    def ratio(self) -> float:
        """Nodes by symbols."""
        return len(self.beside) / max(self.grammar.symbols, 1)


def is_beside(name: str) -> bool:
    """Whether a number is one of time or name."""
    return name in NAMES or name == DURATION or name.endswith("_ns")


def written(trace: Trace, *, sizes: bool = True) -> Written:
    """The trace as a grammar. Without ``sizes`` all numbers and ports lie beside, and it does not come back: what is
    left is its structure, to be counted."""
    roles = Roles()
    nodes = roles.nodes(trace, timed=True)
    names = [role.numbers() for role in roles.known]
    lanes: dict[tuple[int, ...], int] = {}
    known: list[Known] = []
    waits = _waits(trace)
    ports, tensors_of, sources = sources_of(trace, nodes.role, waits[0])
    kept: list[list[tuple[str, int]]] = []
    beside: list[tuple[int, ...]] = []
    for at, (role, numbers, tensors) in enumerate(zip(nodes.role, nodes.numbers, tensors_of, strict=True)):
        known.append(_known(role, roles.known[role], dict(zip(names[role], numbers, strict=True)), tensors, lanes))
        pairs = [*zip(names[role], numbers, strict=True)]
        kept.append([(name, number) for name, number in pairs if not is_beside(name)])
        own = (number for name, number in pairs if is_beside(name))
        each = (number for side in tensors for one in side for number in one)
        beside.append((int(trace.ids[at]), int(trace.start_micros[at]), *own, *each))
    listed: list[list[int]] = [[] for _ in lanes]
    kinds: dict[Kind, int] = {}
    counting, numbers_of = counted([(node.role, node.lane) for node in known], kept)
    each_of = zip(known, numbers_of, ports, sources, reasons_of(known, waits), strict=True)
    for node, numbers, own_ports, own_sources, why in each_of:
        kind = Kind(node.role, numbers, own_ports, own_sources, *why) if sizes else Kind(node.role, (), (), (), *why)
        listed[node.lane].append(kinds.setdefault(kind, len(kinds)))
    whole = [one for lane, own_kinds in enumerate(listed) for one in (*own_kinds, len(kinds) + lane)]
    said, meta = metadata(trace.meta, trace)
    order = tuple(node.lane for node in known) if len(lanes) > 1 else ()
    return Written(tuple(roles.known), (*kinds,), counting, grammar_of(whole), order, beside,
                   (trace.version, attributes_of(said, [*meta.values()]), trace.source))  # fmt: skip


def counted(
    nodes: Iterable[tuple[int, int]], kept: Iterable[Sequence[tuple[str, int]]]
) -> tuple[frozenset[str], list[tuple[int, ...]]]:
    """Names of the numbers that differ less from one node of a lane to the next than among nodes of one role, and the
    numbers of each node, these as differences. ``nodes``: role and lane of each; ``kept``: its numbers by name."""
    last: dict[tuple[int, str], int] = {}
    plain: dict[str, set[tuple[int, int]]] = defaultdict(set)
    steps: dict[str, set[tuple[int, int]]] = defaultdict(set)
    found = []
    for (role, lane), own in zip(nodes, kept, strict=True):
        both = []
        for name, number in own:
            more = number - last.get((lane, name), 0)
            last[lane, name] = number
            plain[name].add((role, number))
            steps[name].add((role, more))
            both.append((name, number, more))
        found.append(both)
    names = frozenset(name for name in plain if len(steps[name]) < len(plain[name]))
    return names, [tuple(more if name in names else number for name, number, more in both) for both in found]


def _known(number: int, role: Role, own: dict[str, int], tensors: Tensors, lanes: dict[tuple[int, ...], int]) -> Known:
    """What reasons go by; lanes are told apart where the nodes are recorded."""
    recorded = "tid" in own or "start_ns" in own
    key = tuple(own.get(name, -1) for name in ("tid", "device", STREAM)) if recorded else ()
    links = {name: own[name] for name in LINKS if name in own}
    call = "is_gap" not in {said[0] for said in role.attributes}
    return Known(number, role.name, lanes.setdefault(key, len(lanes)), "part" in own, call, links, *tensors)


def _waits(trace: Trace) -> tuple[list[list[int]], list[list[int]]]:
    """Places of the nodes that each waits for; of nodes that are absent -1 - their ids."""
    place = {number: at for at, number in reversed([*enumerate(trace.ids.tolist())])}
    ctrl, data = ([[place.get(one, -1 - one) for one in csr[at].tolist()] for at in range(len(trace))]
                  for csr in (trace.ctrl_deps, trace.data_deps))  # fmt: skip
    return ctrl, data


def unwritten(trace: Written) -> Trace:
    """The trace that was written with its sizes."""
    version, meta, source = trace.head
    made = TraceBuilder(version, meta, source)
    lanes = _lanes(trace)
    past, told, ids = Past(), Told(), [own[0] for own in trace.beside]
    known_lanes: dict[tuple[int, ...], int] = {}
    last: dict[tuple[int, str], int] = {}
    for at, (number, start, *rest) in enumerate(trace.beside):
        lane = trace.order[at] if trace.order else 0
        kind = trace.kinds[next(lanes[lane])]
        role, aside, kept = trace.roles[kind.role], iter(rest), iter(kind.numbers)
        names, numbers = role.numbers(), []
        for name in names:
            one = next(aside if is_beside(name) else kept) + (last.get((lane, name), 0) if name in trace.counted else 0)
            last[lane, name] = one
            numbers.append(one)
        tensors = named(kind.ports, aside)
        node = _known(kind.role, role, dict(zip(names, numbers, strict=True)), tensors, known_lanes)
        ctrl, data = (
            [-1 - one[1] if one[0] == "absent" else past.answer(one, node, (which, i)) for i, one in enumerate(each)]
            for which, each in enumerate((kind.ctrl, kind.data))
        )
        past.add(node, (ctrl, data))
        asking, fields = asking_of(kind.role, kind.ports, tensors, ctrl, at), list[str]()
        for where in kind.sources:
            fields.append(told.answer(where, asking, fields))
        told.add(asking, fields)
        inputs, outputs = put_together(kind.ports, fields, tensors)
        count = role.name.count(HOLE)
        made.add(
            id=number,
            name=filled(role.name, numbers[:count]),
            type=role.type,
            start_micros=start,
            duration_micros=numbers[-1],
            ctrl_deps=[ids[one] if one >= 0 else -1 - one for one in ctrl],
            data_deps=[ids[one] if one >= 0 else -1 - one for one in data],
            attrs=attributes_of(role.attributes, numbers[count:]),
            inputs=inputs,
            outputs=outputs,
        )
    return made.build()


def _lanes(trace: Written) -> list[Iterator[int]]:
    """The kinds of each lane."""
    lanes: list[list[int]] = [[]]
    for one in trace.grammar.sequence():
        if one < len(trace.kinds):
            lanes[-1].append(one)
        else:
            lanes.append([])
    return [iter(own) for own in lanes]
