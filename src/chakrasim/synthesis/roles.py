"""Nodes as roles and numbers: what a node is, with every number in its name and attributes taken out, and these."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chakrasim.errors import InputError
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Attributes, Trace
from chakrasim.trace.kinds import BOOL, INT64, INTEGER_KINDS, KIND_NAMES, STRING
from chakrasim.trace.work import KERNELS

HOLE: Final = "\0"
"""Where a number stood in a text."""
STREAM: Final = "stream"
DURATION: Final = "duration_micros"
_ONE_KERNEL: Final = {KIND_NAMES[INT64]: 1}
_NUMBER: Final = re.compile(r"(?<![0-9])(?<![0-9]\.)(?:0|[1-9][0-9]{0,17})(?![0-9]|\.[0-9])")
"""A whole number, such as a layer's in layers.3.mlp; numbers with a point between them are versions, or fractions."""

Said = tuple[str, int, Any]
"""An attribute: its name, the number of its kind in the schema, and its value: of integers None, of texts with holes
for numbers, of others as it is."""


def number_names(said: Said) -> list[str]:
    """Names of the numbers of an attribute, in order."""
    name, kind, value = said
    if value is None and kind in INTEGER_KINDS:
        return [name]
    return [f"{name} {i}" for i in range(value.count(HOLE))] if isinstance(value, str) else []


@dataclass(frozen=True)
class Role:
    """What nodes are that differ in numbers alone.

    Attributes
    ----------
    type: of Chakra's schema.
    name: with holes.
    attributes: in the order of the file.
    timed: whether the nodes have durations of their own.
    place: where they come, if the rest does not tell them from others.
    """

    type: int
    name: str
    attributes: tuple[Said, ...]
    timed: bool
    place: str = ""

    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers that nodes of the role have, in order."""
        found = [f"name {i}" for i in range(self.name.count(HOLE))]
        found += [name for said in self.attributes for name in number_names(said)]
        return (*found, DURATION) if self.timed else tuple(found)

    @property
    def title(self) -> str:
        """For people."""
        return self.name.replace(HOLE, "#") + (f" at {self.place}" if self.place else "")


def titles(roles: Sequence[Role]) -> list[str]:
    """Of each role its title, with a number behind those that others have, too."""
    seen: Counter[str] = Counter()
    found = []
    for role in roles:
        seen[role.title] += 1
        found.append(f"{role.title} ({seen[role.title]})" if seen[role.title] > 1 else role.title)
    return found


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a trace in file order: role and numbers of each; what it waits for, as places in the same order."""

    role: list[int]
    numbers: list[tuple[int, ...]]
    waits: tuple[list[tuple[int, ...]], list[tuple[int, ...]]]
    missing: int = 0
    """Waits for nodes that the trace does not have, which are left out."""

    def __len__(self) -> int:
        return len(self.role)


@dataclass
class Roles:
    """All roles that were met, by number."""

    known: list[Role] = field(default_factory=list)
    number: dict[Role, int] = field(default_factory=dict)

    def of(self, role: Role) -> int:
        """The role's number."""
        if role not in self.number:
            self.number[role] = len(self.known)
            self.known.append(role)
        return self.number[role]

    def nodes(self, trace: Trace, *, timed: bool = False) -> Nodes:
        """The nodes of a trace; all ``timed``, or those whose duration is not 0."""
        place = {int(number): i for i, number in enumerate(trace.ids.tolist())}
        role, numbers = [], []
        read = _Reader(trace)
        for i in range(len(trace)):
            what, own = read.node(i, timed)
            role.append(self.of(what))
            numbers.append(own)
        lists = [[tuple(place.get(int(one), -1) for one in waits[i].tolist()) for i in range(len(trace))]
                 for waits in (trace.ctrl_deps, trace.data_deps)]  # fmt: skip
        missing = sum(one == -1 for each in lists for own in each for one in own)
        ctrl, data = ([tuple(one for one in own if one >= 0) for own in each] for each in lists)
        return Nodes(role, numbers, (ctrl, data), missing)


class _Reader:
    """Decodes the attributes of a trace; each distinct text once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.texts: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.titles: dict[int, str] = {}
        self.names = trace.name_index.tolist()
        self.types = trace.types.tolist()
        self.durations = trace.duration_micros.tolist()
        self.columns = tuple(column.tolist() for column in (trace.attrs.offsets, trace.attrs.name, trace.attrs.kind))
        self.bits = trace.attrs.bits.tolist()

    def text(self, index: int) -> tuple[str, tuple[int, ...]]:
        if index not in self.texts:
            self.texts[index] = holes(self.trace.strings[index])
        return self.texts[index]

    def node(self, i: int, timed: bool) -> tuple[Role, tuple[int, ...]]:
        offsets, names, kinds = self.columns
        title, numbers = self.text(self.names[i])
        own = list(numbers)
        said = []
        for at in range(offsets[i], offsets[i + 1]):
            one, more = self.said(names[at], kinds[at], self.bits[at])
            said.append(one)
            own += more
        duration = self.durations[i]
        timed = timed or bool(duration)
        if timed:
            own.append(duration)
        return Role(self.types[i], title, tuple(said), timed), tuple(own)

    def said(self, name: int, kind: int, bits: int) -> tuple[Said, tuple[int, ...]]:
        if name not in self.titles:
            self.titles[name] = self.trace.strings[name]
        title = self.titles[name]
        if kind in INTEGER_KINDS and kind != BOOL:
            return (title, kind, None), (int(self.trace.decode(kind, bits)),)
        if kind == STRING:
            text, numbers = self.text(bits)
            return (title, kind, text), numbers
        value = self.trace.decode(kind, bits)
        return (title, kind, tuple(value) if isinstance(value, list) else value), ()


def holes(text: str) -> tuple[str, tuple[int, ...]]:
    """A text with a hole for each of its numbers, and these. Raises InputError for one that holds the hole itself."""
    if HOLE in text:
        raise InputError("a text of the trace has a zero character", found=repr(text[:60]))
    return _NUMBER.sub(HOLE, text), tuple(int(one) for one in _NUMBER.findall(text))


def filled(text: str, numbers: Sequence[int]) -> str:
    """The text with these numbers."""
    parts = text.split(HOLE)
    return parts[0] + "".join(f"{number}{part}" for number, part in zip(numbers, parts[1:], strict=True))


def metadata(attributes: Attributes, trace: Trace) -> tuple[tuple[Said, ...], dict[str, int]]:
    """The metadata of a trace in the same way: what is said, and its numbers by name."""
    read = _Reader(trace)
    said: list[Said] = []
    numbers: dict[str, int] = {}
    for at in range(len(attributes)):
        one, own = read.said(int(attributes.name[at]), int(attributes.kind[at]), int(attributes.bits[at]))
        said.append(one)
        numbers |= dict(zip(number_names(one), own, strict=True))
    return tuple(said), numbers


def attributes_of(said: Sequence[Said], numbers: Sequence[int]) -> dict[str, object]:
    """What a node's attributes are, for `TraceBuilder`: ``numbers`` are those of `Role.numbers` behind the name's."""
    found: dict[str, object] = {}
    at = 0
    for name, kind, value in said:
        if value is None and kind in INTEGER_KINDS:
            found[name] = {KIND_NAMES[kind]: int(numbers[at])}
            at += 1
        elif isinstance(value, str) and kind == STRING:
            count = value.count(HOLE)
            found[name] = filled(value, numbers[at : at + count])
            at += count
        else:
            found[name] = {KIND_NAMES[kind]: list(value) if isinstance(value, tuple) else value}
    return found


def add_node(
    made: TraceBuilder, at: int, role: Role, numbers: Sequence[int], waits: tuple[Sequence[int], Sequence[int]]
) -> None:
    """Add the node ``at`` of a role: its ``numbers`` as `Role.numbers` names them, the nodes of its control and data
    ``waits``. A duration below 0 is 0, and one kernel is not said."""
    count = role.name.count(HOLE)
    attributes = attributes_of(role.attributes, numbers[count:])
    if attributes.get(KERNELS) == _ONE_KERNEL:
        del attributes[KERNELS]
    made.add(
        id=at,
        name=filled(role.name, numbers[:count]),
        type=role.type,
        ctrl_deps=waits[0],
        data_deps=waits[1],
        duration_micros=max(numbers[-1], 0) if role.timed else 0,
        attrs=attributes,
    )
