"""A custom collective as the engine runs it: per member a graph of sends, receptions and delays.

A member issues all free nodes at once, without resource limits, in the order of a hash set; when one finishes it issues
what became free. Everything that does not change during a run is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from chakrasim.collectives.custom.hash_order import GROWTH, HashOrder
from chakrasim.errors import InputError

Ints = NDArray[np.int64]


class CustomKind(IntEnum):
    """What a node of a custom collective does."""

    SEND = 0
    """Completes when the message has arrived."""
    RECV = 1
    """Completes when the message has been received."""
    COMP = 2
    """Completes after a delay."""


@dataclass(frozen=True, eq=False)
class CustomProgram:
    """What one member does, n nodes in file order.

    Attributes
    ----------
    hash_keys: int64[n], equal to the node ids modulo every bucket count that a set of n nodes can have.
    kind: int64[n], `CustomKind`.
    peer: int64[n], number of the peer within the algorithm (index into the group's list); -1 for COMP.
    size_bytes, tag: int64[n], of messages; 0 for COMP. Tags are reduced as the reference does.
    delay_ns: int64[n], of COMP; of SEND the number of the way that it takes on the flow network, 0: that of any.
    parents_count: int64[n], how many nodes each waits for.
    child_offsets, children: int64[n + 1], int64[edges]: nodes that wait for node i are
        ``children[child_offsets[i]:child_offsets[i + 1]]``, in the order in which they are freed.
    free: int64[...], nodes that wait for none, in the order in which they are issued.
    free_buckets: the bucket count of the set of free nodes at the start.
    source: file of origin, for messages.
    """

    hash_keys: Ints
    kind: Ints
    peer: Ints
    size_bytes: Ints
    tag: Ints
    delay_ns: Ints
    parents_count: Ints
    child_offsets: Ints
    children: Ints
    free: Ints
    free_buckets: int
    source: str

    def __len__(self) -> int:
        return len(self.kind)


def linked(
    ids: Sequence[int], parents: Sequence[Sequence[int]], file: str, place: Callable[[int], str], **columns: Ints
) -> CustomProgram:
    """The program of nodes with ``ids`` that depend on the nodes with the ids ``parents``, both in file order.

    ``columns`` are what the nodes do: kind, peer, size_bytes, tag, delay_ns. ``place`` names a node, by its index, in
    messages. Raises `InputError` for duplicate ids, dependencies on nodes that do not exist, and cycles.
    """
    index: dict[int, int] = {}
    for node, key in enumerate(ids):
        if index.setdefault(key, node) != node:
            raise InputError(
                "two nodes with the same id",
                file=file,
                place=place(node),
                found=f"id {key}, which {place(index[key])} has",
                expected="ids that occur once",
            )
    waiting = HashOrder()  # the keys of the map "node -> its unfinished parents", in its order
    children: list[HashOrder] = [HashOrder() for _ in ids]
    counts = np.zeros(len(ids), np.int64)
    for node, named in enumerate(parents):
        waiting.insert(ids[node])
        distinct = HashOrder(named)
        counts[node] = len(distinct)
        for parent in distinct:
            if parent not in index:
                raise InputError(
                    "dependency on a node that does not exist",
                    file=file,
                    place=place(node),
                    found=f"a dependency on node {parent}",
                    expected="ids of nodes in the same file",
                )
            waiting.insert(parent)
            children[index[parent]].insert(ids[node])
    free = HashOrder(key for key in waiting if counts[index[key]] == 0)
    lists = [[index[child] for child in kids] for kids in children]
    _refuse_cycles(counts, lists, file, place)
    return CustomProgram(
        **columns,
        source=file,
        hash_keys=_hash_keys(ids, file, place),
        parents_count=counts,
        child_offsets=np.cumsum([0, *(len(kids) for kids in lists)], dtype=np.int64),
        children=np.array([child for kids in lists for child in kids], np.int64),
        free=np.array([index[key] for key in free], np.int64),
        free_buckets=free.buckets,
    )


def _refuse_cycles(counts: Ints, children: list[list[int]], file: str, place: Callable[[int], str]) -> None:
    left = counts.tolist()
    done = [node for node, count in enumerate(left) if count == 0]
    for node in done:
        for child in children[node]:
            left[child] -= 1
            if left[child] == 0:
                done.append(child)
    if len(done) == len(left):
        return
    raise InputError(
        "dependency cycle: these nodes can never start",
        file=file,
        place=place(_on_cycle(left, children)),
        found=f"{len(left) - len(done)} nodes on or behind a cycle",
        expected="dependencies without cycles",
    )


def _on_cycle(left: list[int], children: list[list[int]]) -> int:
    """A node of a cycle: walking back from any stuck node along stuck parents ends in one."""
    stuck_parent: dict[int, int] = {}
    for node, kids in enumerate(children):
        if left[node]:
            for child in kids:
                if left[child]:
                    stuck_parent.setdefault(child, node)
    node = next(iter(stuck_parent))
    seen: set[int] = set()
    while node not in seen:
        seen.add(node)
        node = stuck_parent[node]
    return node


_SMALL_BUCKET_COUNTS = GROWTH[:7]


def _hash_keys(ids: Sequence[int], file: str, place: Callable[[int], str]) -> Ints:
    """The ids as signed numbers of the same remainders: those from 2^63 are cut by the product of all bucket counts."""
    top = max(ids, default=0)
    if top < 1 << 63:
        return np.array(ids, np.int64)
    if len(ids) > _SMALL_BUCKET_COUNTS[-1]:
        raise InputError(
            "node id too large for a custom collective of this many nodes",
            file=file,
            place=place(list(ids).index(top)),
            found=f"id {top} among {len(ids)} nodes",
            expected="ids below 2^63",
        )
    return np.array([key % int(np.prod(_SMALL_BUCKET_COUNTS, dtype=np.int64)) for key in ids], np.int64)
