"""Local memory over time: which tensors live from when to when (astra-system.md, 13.3).

Every node names its tensors in the string lists ``inputs`` and ``outputs``: name and size in bytes in turn. A tensor
lives from the start of the node that writes it to the end of the last that reads it; one that is read before it is
written is taken to be written from 0 to 10 ns; one that nobody reads stays. A node without the lists touches no
tensor; such nodes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chakrasim.simulator.lowering.graph import Graph
from chakrasim.simulator.outcome.records import NodeRecord
from chakrasim.totals import running

Ints = NDArray[np.int64]

IMPLICIT_WRITE_NS = (0, 10)


@dataclass
class Tensor:
    """A tensor of one rank: when it is written, and every read (start ns, end ns, node number)."""

    name: str
    size_bytes: int
    write_ns: tuple[int, int]
    writer: int
    """Node number, -1 for a tensor that was there before."""
    reads: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def last_read_ns(self) -> int | None:
        """When its last read ends."""
        return max((end for _, end, _ in self.reads), default=None)


def tensors_of(record: NodeRecord) -> list[Tensor]:
    """All tensors of one rank, by the times of its nodes. Raises InputError for lists that name no tensors."""
    graph = record.graph
    tensors: dict[str, Tensor] = {}
    finished = np.flatnonzero(record.end_ns >= 0)
    for number in finished[np.argsort(record.end_ns[finished], kind="stable")].tolist():
        start, end = int(record.start_ns[number]), int(record.end_ns[number])
        for name, size in _pairs(graph, number, "inputs"):
            tensor = tensors.setdefault(name, Tensor(name, size, IMPLICIT_WRITE_NS, -1))
            tensor.reads.append((start, end, number))
        for name, size in _pairs(graph, number, "outputs"):
            if name in tensors:
                remedy = "give each write a name of its own, or switch track-local-mem off"
                graph.refuse(number, f"tensor {name!r} is written twice", remedy=remedy)
            tensors[name] = Tensor(name, size, (start, end), number)
    return list(tensors.values())


def _pairs(graph: Graph, number: int, attribute: str) -> Iterable[tuple[str, int]]:
    column = graph.trace.attr(attribute)
    node = int(graph.order[number])
    if not column.present[node]:
        return []
    values = column.list(node)
    try:
        sizes = [int(size) for size in values[1::2]]
    except (TypeError, ValueError):
        sizes = [-1]
    if len(values) % 2 or any(size < 0 for size in sizes):
        message = f"attribute {attribute!r} does not list tensors"
        graph.refuse(number, message, expected="name and size in bytes in turn")
    return [(name, size) for name, size in zip(values[::2], sizes, strict=True) if size]


def usage(tensors: Iterable[Tensor]) -> tuple[Ints, Ints]:
    """Live bytes over time: the ticks at which they change (ns), and the bytes from each on.

    At one tick what is written comes first, then what has been read for the last time goes.
    """
    changes: dict[int, int] = {}
    for tensor in tensors:
        changes[tensor.write_ns[0]] = changes.get(tensor.write_ns[0], 0) + tensor.size_bytes
        if tensor.last_read_ns is not None:
            changes[tensor.last_read_ns] = changes.get(tensor.last_read_ns, 0) - tensor.size_bytes
    ticks = np.array(sorted(changes), np.int64)
    return ticks, running([changes[tick] for tick in ticks.tolist()], "the bytes of all tensors of a rank")


def nodes_without_tensors(record: NodeRecord) -> int:
    """How many nodes name neither inputs nor outputs."""
    trace = record.graph.trace
    return int((~trace.attr("inputs").present & ~trace.attr("outputs").present).sum())


def peak_memory(records: Sequence[NodeRecord]) -> Ints:
    """Most live bytes at the end of a tick, by class."""
    return np.array([int(usage(tensors_of(record))[1].max(initial=0)) for record in records], np.int64)
