"""One trace written as a grammar, from which it comes back as it was: kinds of nodes (a role, its numbers, the reasons
of what it waits for), in the order in which they come on each thread and stream. Beside it lie what a clock says
(times, and with them how the threads and streams interleave), and the numbers by which a recording names things.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chakrasim.synthesis.grammar.pairs import Grammar, grammar_of
from chakrasim.synthesis.grammar.why import LINKS, Known, Past, Reason, reasons_of
from chakrasim.synthesis.roles import DURATION, HOLE, STREAM, Role, Roles, attributes_of, filled, holes, metadata
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace

NAMES: Final = frozenset({*LINKS, "rf_id", "host_id", "external_id", "seq_id", "fw_parent", "fw_tid", "tid", "step"})
"""Numbers that name something of the recording, or count on through it."""
PORTS: Final = ("values", "shapes", "types")
_TENSOR: Final = re.compile(r"\[([0-9]+), ([0-9]+), ([0-9]+), ([0-9]+), ([0-9]+), (?=[\"'])")
TENSOR_HOLE: Final = "\1"
NUMBERS_OF_A_TENSOR: Final = 5

Tensors = tuple[list[tuple[int, ...]], list[tuple[int, ...]]]
"""Of inputs and outputs: number, storage, offset, elements, bytes each."""
Ports = tuple[str | None, ...]
"""Texts of inputs and outputs, `PORTS` each, with holes for numbers and for tensors; None: the message is absent."""


@dataclass(frozen=True)
class Kind:
    """Nodes that are the same but for what lies beside: ``numbers`` are those of the role (in its order) and of the
    ports, without those beside."""

    role: int
    ports: Ports
    numbers: tuple[int, ...]
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
    beside: of each node in file order its id, its start in microseconds, its numbers of time and name, and those of
        its tensors.
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
    parts: list[tuple[Ports, tuple[int, ...]]] = []
    kept: list[list[tuple[str, int]]] = []
    beside: list[tuple[int, ...]] = []
    for at, (role, numbers) in enumerate(zip(nodes.role, nodes.numbers, strict=True)):
        ports, port_numbers, tensors = _ports(trace, at)
        known.append(_known(role, roles.known[role], dict(zip(names[role], numbers, strict=True)), tensors, lanes))
        pairs = [*zip(names[role], numbers, strict=True)]
        kept.append([(name, number) for name, number in pairs if not is_beside(name)])
        parts.append((ports, (*port_numbers,)))
        own = (number for name, number in pairs if is_beside(name))
        each = (number for side in tensors for one in side for number in one)
        beside.append((int(trace.ids[at]), int(trace.start_micros[at]), *own, *each))
    listed: list[list[int]] = [[] for _ in lanes]
    kinds: dict[Kind, int] = {}
    counting, numbers_of = counted([(node.role, node.lane) for node in known], kept)
    reasons = reasons_of(known, _waits(trace))
    for node, (ports, more), numbers, why in zip(known, parts, numbers_of, reasons, strict=True):
        kind = Kind(node.role, ports, (*numbers, *more), *why) if sizes else Kind(node.role, (), (), *why)
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
    takes, gives = ([(one[0], one[1]) for one in side] for side in tensors)
    call = "is_gap" not in {said[0] for said in role.attributes}
    return Known(number, role.name, lanes.setdefault(key, len(lanes)), "part" in own, call, links, takes, gives)


def _waits(trace: Trace) -> tuple[list[list[int]], list[list[int]]]:
    """Places of the nodes that each waits for; of nodes that are absent -1 - their ids."""
    place = {number: at for at, number in reversed([*enumerate(trace.ids.tolist())])}
    ctrl, data = ([[place.get(one, -1 - one) for one in csr[at].tolist()] for at in range(len(trace))]
                  for csr in (trace.ctrl_deps, trace.data_deps))  # fmt: skip
    return ctrl, data


def _ports(trace: Trace, at: int) -> tuple[Ports, list[int], Tensors]:
    """Inputs and outputs with holes, their numbers, and the tensors on either side."""
    texts: list[str | None] = []
    numbers: list[int] = []
    tensors: Tensors = ([], [])
    for side, column in enumerate((trace.inputs, trace.outputs)):
        for name, index in zip(PORTS, column[at].tolist(), strict=True):
            if index < 0:
                texts.append(None)
                continue
            text = trace.strings[index]
            if name == "values" and TENSOR_HOLE not in text:
                tensors[side].extend(tuple(map(int, one)) for one in _TENSOR.findall(text))
                text = _TENSOR.sub(TENSOR_HOLE, text)
            text, own = holes(text)
            texts.append(text)
            numbers += own
    return (*texts,), numbers, tensors


def unwritten(trace: Written) -> Trace:
    """The trace that was written with its sizes."""
    version, meta, source = trace.head
    made = TraceBuilder(version, meta, source)
    lanes = _lanes(trace)
    past, ids = Past(), [own[0] for own in trace.beside]
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
        texts, tensors = _texts(kind.ports, kept, aside)
        node = _known(kind.role, role, dict(zip(names, numbers, strict=True)), tensors, known_lanes)
        ctrl, data = ([-1 - one[1] if one[0] == "absent" else past.answer(one, node) for one in each]
                      for each in (kind.ctrl, kind.data))  # fmt: skip
        past.add(node, ctrl)
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
            inputs=texts[0],
            outputs=texts[1],
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


def _texts(ports: Ports, numbers: Iterator[int], aside: Iterator[int]) -> tuple[list[dict[str, str] | None], Tensors]:
    """Texts of inputs and outputs, None for an absent message, and the tensors in them."""
    found: list[dict[str, str] | None] = [None, None]
    tensors: Tensors = ([], [])
    for at, text in enumerate(ports):
        if text is None:
            continue
        side, part = divmod(at, len(PORTS))
        whole = filled(text, [next(numbers) for _ in range(text.count(HOLE))])
        own = found[side] = found[side] or {}
        if PORTS[part] == "values":
            first, *others = whole.split(TENSOR_HOLE)
            for other in others:
                tensor = tuple(next(aside) for _ in range(NUMBERS_OF_A_TENSOR))
                tensors[side].append(tensor)
                first += f"[{', '.join(map(str, tensor))}, {other}"
            whole = first
        own[PORTS[part]] = whole
    return found, tensors
