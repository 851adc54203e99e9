"""Inputs and outputs of a node as fields, each with where it comes from: the reference is not what it says.

A field is an element of a port, as text; of a tensor among the values its offset, number of elements and bytes of each
(number and storage name it in the recording, and are no fields). Where it comes from:

("tensor",)             as this tensor had it last
("product",)            a number of elements: of the tensor's shape
("own", i, listed)      field i of the node itself, alone in a list if ``listed``
("caller", i, listed)   that of the first node which it waits for by control
("more", d)             d more than with the last of its role
("is", text)            this
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any, Final

from chakrasim.trace.chakra.graph import Trace

PORTS: Final = ("values", "shapes", "types")
FIELD = "\1"
"""Where a field stood in the text of a port."""
TENSORS: Final = {"\2": ", ", "\3": ","}
"""Where a tensor's numbers stood, and what stood between them: PyTorch writes no space there, Python does."""
_MARKS: Final = {between: mark for mark, between in TENSORS.items()}
SAID: Final = ("offset", "elements", "bytes")
MOST: Final = 6
"""Fields of one node that are looked at, of those that say the same."""
_ORDER: Final = (1, 2, 0, 4, 5, 3)
"""Of ports, those of inputs first: shapes and types are told before values, whose numbers of elements are products."""
_NUMBER: Final = "(0|[1-9][0-9]{0,18})"
_TENSOR: Final = re.compile(rf"\[{_NUMBER}(, ?){_NUMBER}\2{_NUMBER}\2{_NUMBER}\2{_NUMBER}\2(?=[\"'])")
_WHOLE: Final = re.compile("0|[1-9][0-9]{0,17}")
_SHAPE: Final = re.compile(r"\[(?:[0-9]{1,18}(?:, ?[0-9]{1,18}){0,15})?\]")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[({})\]]|, ?')

Ports = tuple[str | None, ...]
"""Texts of inputs and outputs, `PORTS` each, with marks for fields and tensors; None: the message is absent."""
Tensors = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""Of inputs and outputs: number and storage."""
Source = tuple[Any, ...]


def taken(trace: Trace, at: int) -> tuple[Ports, list[str], Tensors]:
    """The ports of a node, its fields in their order, and its tensors."""
    tensors: Tensors = ([], [])
    found: list[tuple[str | None, list[str]]] = []
    for place, index in enumerate(chain(trace.inputs[at].tolist(), trace.outputs[at].tolist())):
        text = trace.strings[index] if index >= 0 else None
        found.append((None, []) if text is None else _port(text, None if place % 3 else tensors[place // 3]))
    return tuple(text for text, _ in found), [one for place in _ORDER for one in found[place][1]], tensors


def _port(text: str, tensors: list[tuple[int, int]] | None) -> tuple[str, list[str]]:
    """A text with marks, and its fields; ``tensors`` gets what stands in a text of values."""
    elements, between = _elements(text)
    if elements is None or any(mark in text for mark in (FIELD, *TENSORS)):
        return FIELD, [text]
    shells, fields = list[str](), list[str]()
    for element in elements:
        known = [*_TENSOR.finditer(element)] if tensors is not None else []
        shells.append(_TENSOR.sub(lambda one: "[" + _MARKS[one[2]], element) if known else FIELD)
        fields += [one[at] for one in known for at in (4, 5, 6)] if known else [element]
        if tensors is not None:
            tensors += [(int(one[1]), int(one[3])) for one in known]
    return f"[{between.join(shells)}]", fields


def _elements(text: str) -> tuple[list[str] | None, str]:
    """What stands in a list, as texts, and what between them; None for what is no list, or where that differs."""
    if len(text) < 2 or text[0] != "[" or text[-1] != "]":
        return None, ""
    found, between, depth, begin = [], set[str](), 0, 1
    for token in _TOKEN.finditer(text, 1, len(text) - 1):
        one = token[0]
        depth += (one in "[({") - (one in "])}")
        if one[0] == "," and not depth:
            found.append(text[begin : token.start()])
            between.add(one)
            begin = token.end()
    if len(between) > 1:
        return None, ""
    return [*found, text[begin:-1]] if len(text) > 2 else [], "".join(between)


@lru_cache(maxsize=1 << 12)
def places(ports: Ports) -> tuple[tuple[str, int], ...]:
    """Of each field in order what it says of which of the node's tensors (-1: of none)."""
    found: list[list[tuple[str, int]]] = []
    count = 0
    for side in (0, 3):
        values: list[tuple[str, int]] = []
        alone = []
        for element in [FIELD] if ports[side] == FIELD else _elements(ports[side] or "[]")[0] or ():
            here = _tensors_in(element)
            alone.append(count if here == 1 else -1)
            values += [(what, count + i) for i in range(here) for what in SAID] or [("", -1)]
            count += here
        found.append(values)
        for part in (1, 2):
            fields = (ports[side + part] or "").count(FIELD)
            found.append([(PORTS[part], one) for one in (*alone, *[-1] * fields)[:fields]])
    return tuple(one for place in _ORDER for one in found[place])


def named(ports: Ports, numbers: Iterator[int]) -> Tensors:
    """The tensors of ports, from their numbers and storages."""
    takes, gives = ([(next(numbers), next(numbers)) for _ in range(_tensors_in(ports[at] or ""))] for at in (0, 3))
    return takes, gives


def _tensors_in(marks: str) -> int:
    return sum(map(marks.count, TENSORS))


def put_together(ports: Ports, fields: Sequence[str], tensors: Tensors) -> list[dict[str, str] | None]:
    """Inputs and outputs as they were, None for an absent message."""
    found: list[dict[str, str] | None] = [None, None]
    texts, names = iter(fields), [*map(iter, tensors)]
    filled = {at: "".join(_filled(marks, texts, names[at // 3])) for at in _ORDER if (marks := ports[at]) is not None}
    for at, text in sorted(filled.items()):
        own = found[at // 3] = found[at // 3] or {}
        own[PORTS[at % 3]] = text
    return found


def _filled(marks: str, fields: Iterator[str], tensors: Iterator[tuple[int, int]]) -> Iterator[str]:
    for one in marks:
        if one == FIELD:
            yield next(fields)
        elif one in TENSORS:
            yield "".join(f"{number}{TENSORS[one]}" for number in (*next(tensors), *(next(fields) for _ in SAID)))
        else:
            yield one


@dataclass(frozen=True, eq=False)
class Asking:
    """A node: its role, `places` of its fields, the numbers of its tensors, and what it waits for first (-1)."""

    role: int
    places: tuple[tuple[str, int], ...]
    tensors: Sequence[int]
    caller: int


def asking_of(role: int, ports: Ports, tensors: Tensors, ctrl: Sequence[int], at: int) -> Asking:
    """The node at place ``at``, which waits by control for those at ``ctrl``."""
    numbers = [number for side in tensors for number, _ in side]
    return Asking(role, places(ports), numbers, next((one for one in ctrl if 0 <= one < at), -1))


@dataclass(eq=False)
class Told:
    """The fields of the nodes so far; ``index``: of each node that was asked for `sources`, where each text stands."""

    fields: list[Sequence[str]] = field(default_factory=list)
    tensors: dict[tuple[str, int], str] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    index: list[dict[str, list[int]]] = field(default_factory=list)

    def add(self, node: Asking, fields: Sequence[str]) -> None:
        """The next node."""
        for (what, tensor), text in zip(node.places, fields, strict=True):
            if tensor >= 0:
                self.tensors[what, node.tensors[tensor]] = text
        self.last[node.role] = len(self.fields)
        self.fields.append(fields)

    def sources(self, node: Asking, fields: Sequence[str]) -> Iterator[list[Source]]:
        """Of each field of the next node all that give it."""
        own: dict[str, list[int]] = {}
        around = self.index[node.caller] if node.caller >= 0 else {}
        for at, (text, (what, tensor)) in enumerate(zip(fields, node.places, strict=True)):
            found: list[Source] = []
            if tensor >= 0 and self.tensors.get((what, node.tensors[tensor])) == text:
                found.append(("tensor",))
            if what == "elements" and _product(node, fields, tensor) == text:
                found.append(("product",))
            forms = [(text, False), (text[1:-1], True)] if f"[{text[1:-1]}]" == text else [(text, False)]
            for where, index in (("own", own), ("caller", around)):
                for one, listed in forms:
                    found += [(where, i, listed) for i in index.get(one, ())[:MOST]]
            before = self._before(node, at)
            if before is not None and _WHOLE.fullmatch(text):
                found.append(("more", int(text) - before))
            yield [*found, ("is", text)]
            own.setdefault(text, []).append(at)
        self.index.append(own)

    def answer(self, source: Source, node: Asking, fields: Sequence[str]) -> str:
        """The field behind ``fields``. Raises IndexError, KeyError or TypeError if there is none."""
        what, tensor = node.places[len(fields)]
        match source:
            case ("tensor",):
                return self.tensors[what, node.tensors[tensor]]
            case ("product",):
                return _product(node, fields, tensor) or ""
            case (("own" | "caller") as where, i, listed):
                text = (fields if where == "own" else self.fields[node.caller])[i]
                return f"[{text}]" if listed else text
            case ("more", d):
                return str((self._before(node, len(fields)) or 0) + int(d))
        return str(source[1])

    def _before(self, node: Asking, at: int) -> int | None:
        """The number that the last of the role has in a place."""
        theirs = self.fields[self.last[node.role]] if node.role in self.last else ()
        return int(theirs[at]) if at < len(theirs) and _WHOLE.fullmatch(theirs[at]) else None


def _product(node: Asking, fields: Sequence[str], tensor: int) -> str | None:
    """How many elements a tensor of the node has, by its shape."""
    at = node.places.index(("shapes", tensor)) if ("shapes", tensor) in node.places else -1
    if at < 0 or not _SHAPE.fullmatch(fields[at]):
        return None
    return str(prod(map(int, re.findall("[0-9]+", fields[at]))))


def sources_of(
    trace: Trace, roles: Sequence[int], ctrl: Sequence[Sequence[int]]
) -> tuple[list[Ports], list[Tensors], list[tuple[Source, ...]]]:
    """Of each node its ports, tensors, and where its fields come from: of all sources that are right the one that is
    right most often for nodes of its role. ``ctrl``: places of what it waits for by control."""
    told, every, ports, tensors = Told(), [], list[Ports](), list[Tensors]()
    often: dict[tuple[int, int], Counter[Source]] = defaultdict(Counter)
    for at, role in enumerate(roles):
        marks, fields, names = taken(trace, at)
        node = asking_of(role, marks, names, ctrl[at], at)
        every.append([*told.sources(node, fields)])
        for i, each in enumerate(every[-1]):
            often[role, i].update(each)
        told.add(node, fields)
        ports.append(marks)
        tensors.append(names)
    best = [tuple(max(each, key=often[role, i].__getitem__) for i, each in enumerate(own))
            for role, own in zip(roles, every, strict=True)]  # fmt: skip
    return ports, tensors, best
