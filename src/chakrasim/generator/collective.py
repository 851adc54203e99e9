"""Single collectives, and messages in a pattern, on all ranks of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from chakrasim.collectives.kinds import KINDS, KINDS_BY_NAME, MESSAGE, CollectiveKind
from chakrasim.errors import InputError
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import PEER, Job
from chakrasim.trace.kinds import CollectiveType, NodeType

MOST_NODES: Final = 4_000_000
_MESSAGES: Final = ("send_recv", "all_pairs")
SIZES: Final[Mapping[str, str]] = {
    **{kind.name: kind.size for kind in KINDS.values() if kind.spellings},
    **dict.fromkeys(_MESSAGES, MESSAGE.size),
}
"""Types of single collectives and patterns of messages, and what their size means."""


def collective_job(kind: str, size_bytes: int, ranks: int, *, repeat: int = 1, root: int = 0) -> Job:
    """A job whose ranks all run one collective, ``repeat`` times one after another.

    Raises InputError for what is out of range.

    Parameters
    ----------
    kind: one of `SIZES`: a collective; "send_recv": each rank sends to the next and receives from the one before, in a
        ring; "all_pairs": each rank sends to every other.
    size_bytes: ``comm_size``, whose meaning is in `SIZES`.
    root: of a collective that has one.
    """
    if kind not in SIZES:
        raise InputError("no such type of collective", found=repr(kind), expected="one of " + ", ".join(SIZES))
    for name, value, low in (("size", size_bytes, 0), ("ranks", ranks, 2), ("repeat", repeat, 1), ("root", root, 0)):
        if not low <= value < 2**62:
            raise InputError(f"{name} is out of range", found=value, expected=f"{low} to 2^62 - 1")
    if root >= ranks:
        raise InputError("the root is no rank", found=root, expected=f"0 to {ranks - 1}")
    meaning = KINDS_BY_NAME.get(kind, MESSAGE)
    if root and not meaning.rooted:
        rooted = ", ".join(one.name for one in KINDS.values() if one.rooted)
        raise InputError(f"{kind} has no root", found=root, expected=f"a root for {rooted}")
    if kind not in _MESSAGES:
        _check_nodes(kind, repeat, ranks, repeat)
        return Job((_collective(meaning, size_bytes, ranks, repeat, root),), np.zeros(ranks, np.int64))
    _check_nodes(kind, 2 * repeat * ranks * (1 if kind == "send_recv" else ranks - 1), ranks, repeat)
    peers = _ring if kind == "send_recv" else _others
    traces = tuple(_messages(kind, size_bytes, ranks, repeat, rank, peers) for rank in range(ranks))
    return Job(traces, np.arange(ranks, dtype=np.int64))


def _check_nodes(kind: str, nodes: int, ranks: int, repeat: int) -> None:
    """Raise InputError for more nodes than are made in minutes: messages differ from rank to rank, so that no traces
    are shared."""
    if nodes > MOST_NODES:
        raise InputError(
            f"{kind} of {ranks:,} ranks, {repeat:,} times, has more nodes than are made",
            found=f"{nodes:,} nodes",
            expected=f"at most {MOST_NODES:,}",
            remedy="make the ranks or the repetitions fewer" + (", or use all_to_all" if kind == "all_pairs" else ""),
        )


def _builder(kind: str, size_bytes: int, ranks: int, rank: int = 0) -> TraceBuilder:
    metadata = {
        "producer": "chakrasim generate collective",
        "rank": rank,
        "ranks": ranks,
        "collective": kind,
        "comm_size": size_bytes,
    }
    return TraceBuilder(metadata=metadata, source=f"{kind} rank {rank}")


def _collective(kind: CollectiveKind, size_bytes: int, ranks: int, repeat: int, root: int) -> Trace:
    builder = _builder(kind.name, size_bytes, ranks)
    attrs: dict[str, object] = {
        "is_cpu_op": False,
        "comm_type": int(kind.type),
        "comm_size": 0 if kind.type == CollectiveType.BARRIER else size_bytes,
        "pg_name": "",
    }
    if kind.rooted:
        attrs["root_rank"] = root
    for number in range(repeat):
        before = [number - 1] if number else []
        builder.add(number, f"{kind.name} {number}", NodeType.COMM_COLL_NODE, ctrl_deps=before, attrs=attrs)
    return builder.build()


def _ring(rank: int, ranks: int) -> tuple[list[int], list[int]]:
    """To whom a rank sends, and from whom it receives."""
    return [(rank + 1) % ranks], [(rank - 1) % ranks]


def _others(rank: int, ranks: int) -> tuple[list[int], list[int]]:
    """The same; each rank begins with the next one, so that no rank is everybody's first."""
    ahead = [(rank + step) % ranks for step in range(1, ranks)]
    return ahead, ahead[::-1]


def _messages(
    kind: str,
    size_bytes: int,
    ranks: int,
    repeat: int,
    rank: int,
    peers: Callable[[int, int], tuple[list[int], list[int]]],
) -> Trace:
    """Each round waits for the one before, its messages included."""
    builder = _builder(kind, size_bytes, ranks, rank)
    targets, sources = peers(rank, ranks)
    before: list[int] = []
    for number in range(repeat):
        now: list[int] = []
        for name, node_type, others in (
            ("receive from", NodeType.COMM_RECV_NODE, sources),
            ("send to", NodeType.COMM_SEND_NODE, targets),
        ):
            for other in others:
                attrs = {"is_cpu_op": False, "pg_name": "", PEER: other, "comm_size": size_bytes, "comm_tag": number}
                now.append(len(builder))
                builder.add(now[-1], f"{name} {other}, round {number}", node_type, ctrl_deps=before, attrs=attrs)
        before = now
    return builder.build()
