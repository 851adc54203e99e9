"""What a trace says of one collective: in the arguments of its event, the attributes of its node, or its operator."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from chakrasim.collectives.c10d import ARGUMENTS, NO_TENSORS
from chakrasim.linker.communication.group_table import GroupTable, parse_ranks, strided_ranks
from chakrasim.trace.element_types import element_bytes
from chakrasim.trace.host import columns as h
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.kineto.columns import INTEGER, REAL, Ints, KinetoTrace

#: Sizes and numbers from here on are damage.
LARGEST = 1 << 62
#: Tensors are nested in lists of lists at most.
_DEEPEST = 3


@dataclass(frozen=True)
class Facts:
    """What one source says of a collective; -1 and "" where it is silent. ``root`` is the rank inside the group of the
    other side of a message or of the root of a rooted collective, ``peer`` the same as a global rank; ``identity``
    tells groups apart where a trace of old PyTorch holds an address instead of a name; ``members`` is the number of
    ranks as far as split sizes prove it."""

    name: str = ""
    in_bytes: int = -1
    out_bytes: int = -1
    dtype: str = ""
    sequence: int = -1
    group: int = -1
    root: int = -1
    peer: int = -1
    identity: int = -1
    members: int = -1

    def filled(self, other: Facts) -> Facts:
        """These facts, with those of ``other`` where these are silent."""
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        mine, others = self.__dict__, other.__dict__
        gaps = {name: others[name] for name in mine if mine[name] in (-1, "") and others[name] not in (-1, "")}
        return replace(self, **gaps) if gaps else self


#: What a source without anything to say says.
NOTHING = Facts()


@dataclass(frozen=True)
class Message:
    """One collective or message before the groups are settled: its row, what is known, and when it was launched.
    ``place``, where it ran: ("stream", device, stream) of a kernel, ("thread", pid, tid) of a worker thread of a host
    back end, ("caller", 0, 0) of a message that has neither. ``operation``: that of the name, unless more is known."""

    row: int
    start_ns: int
    end_ns: int
    launch_ns: int
    facts: Facts
    evidence: str
    place: tuple[str, int, int]
    operation: int

    def of_group(self, group: int) -> Message:
        """The same with its group."""
        return replace(self, facts=replace(self.facts, group=group))


class _Arguments:
    """What PyTorch writes of a collective beside its record. Arguments are called as in device traces; ``NAMES``: how
    the file calls them where that differs."""

    NAMES: ClassVar[dict[str, str]] = {}

    def __init__(self, trace: KinetoTrace | HostTrace, groups: GroupTable) -> None:
        self.columns, self.strings, self.groups = trace, trace.strings, groups

    def stated(self, row: int) -> Facts:
        """What the arguments of a row say."""
        dtype, name = self.text("dtype", row), self.text("Collective name", row)
        size = element_bytes(dtype) if name else 0
        inside, outside = self.whole("In msg nelems", row), self.whole("Out msg nelems", row)
        return Facts(
            name,
            inside * size if size and inside >= 0 else -1,
            outside * size if size and outside >= 0 else -1,
            dtype if size else "",
            self.whole("Seq", row),
            self._group(row),
            self.whole("Rank", row),
            max(self.whole("Src Rank", row), self.whole("Dst Rank", row)),
            members=max(_length(self.text("In split size", row)), _length(self.text("Out split size", row))),
        )

    def _group(self, row: int) -> int:
        """The process group that the arguments name, or whose members they state."""
        name, description = self.text("Process Group Name", row), self.text("Process Group Description", row)
        size = max(self.whole("Group size", row), 0)
        ranks = parse_ranks(self.text("Process Group Ranks", row), size) or strided_ranks(
            self.whole("Global rank start", row), self.whole("Global rank stride", row), size
        )
        if not name:
            return self.groups.add_members(ranks, description)
        return self.groups.add(name, description, ranks, size)

    def text(self, name: str, row: int) -> str:
        value = self._value(name, row)
        return value if isinstance(value, str) else "" if value is None else str(value)

    def whole(self, name: str, row: int) -> int:
        return _as_integer(self._value(name, row))

    def _value(self, name: str, row: int) -> int | float | str | None:
        column = self.columns.rare_column(self.NAMES.get(name, name))
        at = int(column.rows.searchsorted(row))
        if at >= len(column.rows) or column.rows[at] != row:
            return None
        kind, bits = int(column.kind[at]), column.bits[at]
        if kind == INTEGER:
            return int(bits)
        return float(bits.view(np.float64)) if kind == REAL else self.strings[int(bits)]


class EventFacts(_Arguments):
    """Facts in the arguments of the events of a device trace."""

    def __init__(self, trace: KinetoTrace, groups: GroupTable) -> None:
        super().__init__(trace, groups)
        columns = [trace.rare_column(name).rows for name in ("Collective name", "Process Group Name", "Seq")]
        self._described = frozenset(np.unique(np.concatenate(columns)).tolist())

    def said(self, row: int) -> Facts:
        """What the arguments of ``record_param_comms`` (or of a kernel that got a copy of them) say."""
        return self.stated(row) if row in self._described else NOTHING

    def annotated(self, row: int) -> Facts:
        """What the tensors of an annotation such as ``nccl:all_reduce`` say: its inputs."""
        dims, types = self.parsed("Input Dims", row), self.parsed("Input type", row)
        if not isinstance(dims, list) or not isinstance(types, list):
            return NOTHING
        sizes = [
            _elements(dim) * element_bytes(kind)
            for dim, kind in zip(dims, types, strict=False)
            if isinstance(kind, str) and element_bytes(kind) and isinstance(dim, list) and (dim or len(dims) == 1)
        ]
        if not sizes:
            return NOTHING
        return Facts(in_bytes=sum(sizes), dtype=next(kind for kind in types if isinstance(kind, str) and kind))

    def operated(self, row: int, operator: str) -> Facts:
        """What the arguments of an operator of c10d say."""
        places = ARGUMENTS.get(operator, NO_TENSORS)
        if places is NO_TENSORS:
            return NOTHING
        dims, types, values = (self.parsed(name, row) for name in ("Input Dims", "Input type", "Concrete Inputs"))

        def size_of(place: int) -> int:
            if place < 0 or not isinstance(dims, list) or not isinstance(types, list) or place >= len(dims):
                return -1
            kind = types[place] if place < len(types) and isinstance(types[place], str) else ""
            known = element_bytes(kind) and isinstance(dims[place], list) and dims[place]
            return _elements(dims[place]) * element_bytes(kind) if known else -1

        root = values[places.root] if isinstance(values, list) and 0 <= places.root < len(values) else ""
        return Facts(
            in_bytes=size_of(places.inputs),
            out_bytes=size_of(places.outputs),
            root=_as_integer(root),
        )

    def parsed(self, name: str, row: int) -> Any:
        return _parse(self.text(name, row))


class NodeFacts(_Arguments):
    """Facts in the attributes, inputs and outputs of the nodes of a host trace."""

    NAMES: ClassVar[dict[str, str]] = {
        "Collective name": "collective_name",
        "In msg nelems": "in_msg_nelems",
        "Out msg nelems": "out_msg_nelems",
        "In split size": "in_split_size",
        "Out split size": "out_split_size",
        "Group size": "pg_size",
        "Process Group Name": "pg_name",
        "Process Group Description": "pg_desc",
        "Global rank start": "global_rank_start",
        "Global rank stride": "global_rank_stride",
    }

    def __init__(self, trace: HostTrace, groups: GroupTable) -> None:
        super().__init__(trace, groups)
        self.trace = trace

    def said(self, node: int) -> Facts:
        """What the attributes of ``record_param_comms`` (schema 1.1.0 on) say, then its inputs by position."""
        return self.stated(node).filled(self.positional(node))

    def positional(self, node: int) -> Facts:
        """What the inputs say: [tensors,] sequence, group, rank, name, input splits, output splits[, ...]."""
        values = _parse(self.trace.span(node, h.SPAN_IN_VALUES))
        if not isinstance(values, list):
            return NOTHING
        at = next((at for at, v in enumerate(values) if at >= 3 and isinstance(v, str) and v[:1] != "<"), -1)
        if at < 3:
            return self.tensors(node, 0, 0)
        number, group, rank, name = values[at - 3 : at + 1]
        facts = self.tensors(node, 0, 0) if at > 3 else Facts()
        splits = [len(v) for v in values[at + 1 : at + 3] if isinstance(v, list)]
        index, identity = -1, -1
        if isinstance(group, list) and group and group[0] not in ("", None):
            index = self.groups.add(str(group[0]), str(group[1]) if len(group) > 1 else "")
        elif isinstance(group, int) and not isinstance(group, bool):
            identity = group
        if isinstance(number, list):
            number = number[0] if number else -1
        return replace(
            facts,
            name=name,
            sequence=_as_integer(number),
            group=index,
            identity=identity,
            root=_as_integer(rank),
            members=max((size for size in splits if size), default=-1),
        )

    def tensors(self, node: int, inside: int, outside: int, outputs_are_inputs: bool = False) -> Facts:
        """Bytes of the tensors in input ``inside`` and in output ``outside`` (with ``outputs_are_inputs`` of input
        ``outside``: operators of c10d take the tensor that they write to). Positions of -1 are not looked at."""
        table = self.trace.tensors
        low, high = np.searchsorted(table.node, (node, node + 1))
        of_node = slice(int(low), int(high))
        is_output, argument = table.is_output[of_node], table.argument[of_node]
        sizes = _bytes(table.elements[of_node], table.element_bytes[of_node])

        def total(place: int, output: bool) -> int:
            chosen = (argument == place) & (is_output == output)
            return int(sizes[chosen].sum()) if place >= 0 and chosen.any() else -1

        return Facts(
            in_bytes=total(inside, False),
            out_bytes=total(outside, not outputs_are_inputs),
            dtype=_dtype(self.trace.span(node, h.SPAN_IN_TYPES)),
        )

    def operated(self, node: int, operator: str) -> Facts:
        """What the arguments of an operator of c10d say."""
        places = ARGUMENTS.get(operator, NO_TENSORS)
        if places is NO_TENSORS:
            return NOTHING
        facts = self.tensors(node, places.inputs, places.outputs, outputs_are_inputs=True)
        values = _parse(self.trace.span(node, h.SPAN_IN_VALUES))
        if not isinstance(values, list):
            return facts
        splits = [values[at] for at in places.splits if at < len(values)]
        return replace(
            facts,
            root=_as_integer(values[places.root]) if 0 <= places.root < len(values) else -1,
            members=max((len(split) for split in splits if isinstance(split, list) and split), default=-1),
        )

    def annotated(self, node: int) -> Facts:
        """What the tensors of an annotation such as ``gloo:all_reduce`` say: its inputs."""
        table = self.trace.tensors
        low, high = (int(at) for at in np.searchsorted(table.node, (node, node + 1)))
        chosen = np.flatnonzero(~table.is_output[low:high]) + low
        if not len(chosen):
            return NOTHING
        size = int(_bytes(table.elements[chosen], table.element_bytes[chosen]).sum())
        return Facts(in_bytes=size, dtype=_dtype(self.trace.span(node, h.SPAN_IN_TYPES)))

    def group_argument(self, node: int) -> int:
        """The group that a functional collective (``_c10d_functional::all_reduce``) takes by name."""
        values = _parse(self.trace.span(node, h.SPAN_IN_VALUES))
        names = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
        return self.groups.find(names[-1]) if names else -1


def _bytes(elements: Ints, element_bytes: Ints) -> Ints:
    """Bytes of each tensor; 0 for what cannot be one."""
    possible = (elements >= 0) & (elements < 1 << 48) & (element_bytes >= 0) & (element_bytes <= 64)
    return np.where(possible, elements * element_bytes, 0)


def _as_integer(value: Any) -> int:
    """The whole number that a value or its text is; -1 for others and for what no count or size can be."""
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if len(text) < 20 and text.removeprefix("-").isdecimal() else -1
    elif isinstance(value, float):
        value = int(value) if value.is_integer() else -1
    if not isinstance(value, int) or isinstance(value, bool):
        return -1
    return value if abs(value) < LARGEST else -1


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _length(splits: str) -> int:
    """Number of split sizes, -1 where there are none or the list was cut."""
    values = _parse(splits)
    return len(values) if isinstance(values, list) and values else -1


def _elements(dims: Any, depth: int = 0) -> int:
    """Elements of a tensor (``[6, 4]``), of a list of tensors (``[[6, 4], [3]]``) or of lists of them."""
    if not isinstance(dims, list) or depth > _DEEPEST:
        return 0
    if dims and isinstance(dims[0], list):
        return sum(_elements(part, depth + 1) for part in dims)
    count = 1
    for dim in dims:
        count *= dim if isinstance(dim, int) and 0 <= dim < LARGEST else 0
    return count


def _dtype(types: str) -> str:
    """The element type in ``["GenericList[Tensor(float)]", ...]``."""
    _, found, rest = types.partition("Tensor(")
    return rest.partition(")")[0] if found else ""
