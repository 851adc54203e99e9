"""OTF2 archives of MPI programs (Score-P and others), read by the makers' library, as a job.

Locations of the MPI ranks are the ranks. What a rank does between MPI calls is a computation with the time that was
recorded; the time inside MPI calls is left to the simulation. Sends, receives and collectives are nodes; what a call
that does not block begins is waited for where its request completes.

Bytes of collectives are those that Score-P counts: what goes to and comes from each member, one's own part included. Of
calls in place it leaves that out, which the archive does not say.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from chakrasim.errors import InputError
from chakrasim.files.inputs import bound
from chakrasim.notes import Notes
from chakrasim.startup import own_environment, own_python
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.chakra.graph import Trace
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType as Type
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.work import COMPUTE_NS

KIND: Final = "an OTF2 archive"
_EVENT_BYTES: Final = 1000
"""Memory for an event, generously."""
_OPENING_S: Final = 20.0
"""An anchor file is some hundred bytes."""
_SENT, _RECEIVED = 0, 1
_OPERATIONS: Final[dict[str, tuple[Type, int, bool]]] = {
    "BARRIER": (Type.BARRIER, _SENT, False),
    "BCAST": (Type.BROADCAST, _RECEIVED, False),
    **dict.fromkeys(("GATHER", "GATHERV"), (Type.GATHER, _SENT, False)),
    **dict.fromkeys(("SCATTER", "SCATTERV"), (Type.SCATTER, _SENT, False)),
    **dict.fromkeys(("ALLGATHER", "ALLGATHERV"), (Type.ALL_GATHER, _RECEIVED, True)),
    **dict.fromkeys(("ALLTOALL", "ALLTOALLV", "ALLTOALLW"), (Type.ALL_TO_ALL, _SENT, False)),
    "ALLREDUCE": (Type.ALL_REDUCE, _SENT, True),
    "REDUCE": (Type.REDUCE, _SENT, False),
    **dict.fromkeys(("REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK"), (Type.REDUCE_SCATTER, _SENT, False)),
}
"""By the name of an operation: what Chakra calls it, which of the two sizes is the one that Chakra states, and whether
that is of all members together. Of all ranks' sizes the largest counts: the root's, or the longest part."""
_ROOTED: Final = (Type.BROADCAST, Type.GATHER, Type.SCATTER, Type.REDUCE)


@dataclass
class _Node:
    name: str
    type: NodeType
    waits: list[int]
    attrs: dict[str, object] = field(default_factory=dict)
    collective: tuple[int, int] | None = None
    """Communicator, and how many of its collectives came before."""


@dataclass
class _Rank:
    """What is known of a rank so far: ``open``, nodes by request; ``waits``, what the next node comes after."""

    nodes: list[_Node] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)
    calls: int = 0
    since: int | None = None
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, node: _Node, *, blocks: bool) -> int:
        """Append a node; one that blocks is what the next one waits for."""
        self.nodes.append(node)
        if blocks:
            self.waits = [len(self.nodes) - 1]
        return len(self.nodes) - 1


def read_otf2(path: str | os.PathLike[str], *, notes: Notes | None = None, max_bytes: int | None = None) -> Job:
    """The job of an archive, named by its anchor file (``traces.otf2``). Needs the extra ``otf2``.

    Raises InputError for an archive that the library cannot read, and for one without MPI ranks.
    """
    source, notes = os.fspath(path), Notes() if notes is None else notes
    try:
        import otf2
    except ImportError:
        raise InputError(
            "reading OTF2 needs its library", file=source, remedy="pip install 'chakrasim[otf2]'"
        ) from None
    _refuse_bad_anchor(source)
    try:
        with otf2.reader.open(source) as archive:
            limit = bound(_size_of(source), max_bytes)
            limit.check(_EVENT_BYTES * len(archive.events), source, "the archive")
            return _Reading(source, archive, notes).job()
    except InputError:
        raise
    except Exception as error:  # the library raises whatever its callbacks meet
        raise InputError(
            f"{KIND} cannot be read", file=source, found=(str(error).splitlines() or [type(error).__name__])[0][:200],
            expected="an anchor file with its folder beside it",
        ) from None  # fmt: skip


def _refuse_bad_anchor(source: str) -> None:
    """Raise InputError where the library cannot open an archive, or does not come back, as from some damaged anchor
    files: it is tried in a process of its own."""
    command = own_python("chakrasim.trace.foreign.otf2", source)
    try:
        found = subprocess.run(command, capture_output=True, env=own_environment(), timeout=_OPENING_S)
        said = found.stderr.decode("utf-8", "replace").splitlines() if found.returncode else []
        fault = said[0].rpartition(": ")[2][:200] if said else f"status {found.returncode}" if found.returncode else ""
    except subprocess.TimeoutExpired:
        fault = f"no end after {_OPENING_S} s"
    if fault:
        raise InputError(f"{KIND} cannot be opened", file=source, found=fault, expected="a whole anchor file")


def _size_of(anchor: str) -> int:
    """Bytes of the archive's files."""
    folder = anchor.removesuffix(".otf2")
    inside = os.scandir(folder) if os.path.isdir(folder) else ()
    return os.path.getsize(anchor) + sum(entry.stat().st_size for entry in inside if entry.is_file())


class _Reading:
    def __init__(self, source: str, archive: Any, notes: Notes) -> None:
        self.source, self.archive, self.notes = source, archive, notes
        groups = archive.definitions.groups
        members = next((one.members for one in groups if _kind(one) == ("MPI", "COMM_LOCATIONS")), ())
        if not members:
            raise InputError("there are no MPI ranks", file=source, expected="a group of the locations of MPI")
        self.rank_of = {int(location._ref): rank for rank, location in enumerate(members)}
        self.ranks = [_Rank() for _ in members]
        self.comms = {
            int(one._ref): tuple(self.rank_of[int(location._ref)] for location in one.group.members)
            for one in archive.definitions.comms
            if hasattr(one, "group") and _kind(one.group) == ("MPI", "COMM_GROUP")
        }
        self.told: Counter[str] = Counter()
        self.tags: dict[tuple[int, int], int] = {}
        self.sizes: dict[tuple[int, int], tuple[int, int]] = {}
        self.ends: Counter[tuple[int, int, int]] = Counter()
        self.unlike = 0

    def job(self) -> Job:
        handlers: dict[str, Callable[[_Rank, int, Any], None]] = {
            **dict.fromkeys(("MpiSend", "MpiIsend"), self._send),
            **dict.fromkeys(("MpiRecv", "MpiIrecv"), self._receive),
            "Enter": self._enter,
            "Leave": self._leave,
            "MpiIrecvRequest": self._posted,
            "MpiIsendComplete": self._completed,
            "MpiRequestCancelled": self._cancelled,
            "MpiCollectiveEnd": self._collective,
        }
        for location, event in self.archive.events:
            rank, name = self.rank_of.get(int(location._ref)), type(event).__name__
            if rank is None:
                self.told["events of other locations than the ranks'"] += 1
            elif name in handlers:
                handlers[name](self.ranks[rank], rank, event)
            elif name.startswith(("Mpi", "NonBlocking", "Rma")) and name != "MpiCollectiveBegin":
                self.told[f"events of type {name}"] += 1
        lonely = sum(abs(count) for count in self.ends.values())
        if lonely:
            self.notes.warn(f"{self.source}: {lonely} sends or receives have no other end in the archive")
        unanswered = sum(node.type == NodeType.INVALID_NODE for one in self.ranks for node in one.nodes)
        if unanswered:
            what = "receives were posted and not completed: they are nodes without a kind, which wait for nobody"
            self.notes.warn(f"{self.source}: {unanswered} {what}")
        if self.unlike:
            what = "collectives are of another type than the first rank's at the same place of their communicator"
            self.notes.warn(f"{self.source}: {self.unlike} {what}")
        for what, count in sorted(self.told.items()):
            self.notes.warn(f"{self.source}: left out {count} {what}")
        everyone = tuple(range(len(self.ranks)))
        self.world = next((comm for comm, members in self.comms.items() if members == everyone), None)
        used = {node.collective[0] for rank in self.ranks for node in rank.nodes if node.collective} - {self.world}
        groups = {self._role(comm): (self.comms[comm],) for comm in sorted(used)}
        traces = tuple(self._trace(rank, one) for rank, one in enumerate(self.ranks))
        return Job(traces, np.arange(len(traces)), groups)

    # --- events ---

    def _ns(self, ticks: int) -> int:
        return ticks * 10**9 // int(self.archive.timer_resolution)

    def _enter(self, one: _Rank, rank: int, event: Any) -> None:
        if one.since is None:
            one.since = event.time
        if _word(event.region.paradigm) == "MPI":
            if not one.calls:
                spent = self._ns(event.time) - self._ns(one.since)
                name = next((region.name for region in reversed(one.stack)), "between calls")
                if spent:
                    attrs: dict[str, object] = {"is_cpu_op": False, COMPUTE_NS: spent}
                    one.add(_Node(name, NodeType.COMP_NODE, one.waits, attrs), blocks=True)
            one.calls += 1
        one.stack.append(event.region)

    def _leave(self, one: _Rank, rank: int, event: Any) -> None:
        if one.stack:
            one.stack.pop()
        if _word(event.region.paradigm) == "MPI":
            one.calls -= 1
            one.since = event.time

    def _message(self, event: Any, source: int, target: int) -> dict[str, object]:
        tag = self.tags.setdefault((int(event.communicator._ref), int(event.msg_tag)), len(self.tags))
        attrs: dict[str, object] = {"is_cpu_op": False, "comm_src": source, "comm_dst": target, "comm_tag": tag}
        return attrs | {"comm_size": int(event.msg_length)}

    def _peer(self, event: Any, position: int) -> int:
        members = self.comms.get(int(event.communicator._ref))
        if members is None or position >= len(members):
            raise InputError(
                "a message names nobody in its communicator", file=self.source, found=f"rank {position} of "
                f"{event.communicator.name!r}", expected="a communicator of ranks",
            )  # fmt: skip
        return members[position]

    def _send(self, one: _Rank, rank: int, event: Any) -> None:
        attrs = self._message(event, rank, self._peer(event, int(event.receiver)))
        self.ends[rank, int(attrs["comm_dst"]), int(attrs["comm_tag"])] += 1  # type: ignore[call-overload]
        request = getattr(event, "request_id", None)
        number = one.add(_Node("send", NodeType.COMM_SEND_NODE, one.waits, attrs), blocks=request is None)
        if request is not None:
            one.open[int(request)] = number

    def _receive(self, one: _Rank, rank: int, event: Any) -> None:
        attrs = self._message(event, self._peer(event, int(event.sender)), rank)
        self.ends[int(attrs["comm_src"]), rank, int(attrs["comm_tag"])] -= 1  # type: ignore[call-overload]
        number = one.open.pop(int(event.request_id), -1) if hasattr(event, "request_id") else -1
        if number < 0:
            one.add(_Node("receive", NodeType.COMM_RECV_NODE, one.waits, attrs), blocks=True)
        else:
            one.nodes[number].type, one.nodes[number].attrs = NodeType.COMM_RECV_NODE, attrs
            one.waits = [*one.waits, number]

    def _posted(self, one: _Rank, rank: int, event: Any) -> None:
        """A receive may be answered from here on; who sends is known when it completes."""
        one.open[int(event.request_id)] = one.add(_Node("receive", NodeType.INVALID_NODE, one.waits), blocks=False)

    def _completed(self, one: _Rank, rank: int, event: Any) -> None:
        number = one.open.pop(int(event.request_id), -1)
        if number >= 0:
            one.waits = [*one.waits, number]

    def _cancelled(self, one: _Rank, rank: int, event: Any) -> None:
        one.open.pop(int(event.request_id), None)
        self.told["cancelled requests"] += 1

    def _collective(self, one: _Rank, rank: int, event: Any) -> None:
        comm, name = int(event.communicator._ref), _word(event.collective_op)
        operation, members = _OPERATIONS.get(name), self.comms.get(comm)
        if operation is None or members is None or len(members) < 2:
            if members is None or len(members) > 1:
                self.told[f"collectives of type {name}"] += 1
            return
        kind, which, shared = operation
        size = int((event.size_sent, event.size_received)[which]) // (len(members) if shared else 1)
        key = comm, one.counts[comm]
        one.counts[comm] += 1
        most, seen = self.sizes.get(key, (0, int(kind)))
        self.sizes[key] = max(most, size), seen
        self.unlike += seen != int(kind)
        attrs: dict[str, object] = {"is_cpu_op": False, "comm_type": int(kind)}
        if kind in _ROOTED:
            attrs["root_rank"] = int(event.root)
        one.add(_Node(name.lower(), NodeType.COMM_COLL_NODE, one.waits, attrs, key), blocks=True)

    # --- the traces ---

    def _role(self, comm: int) -> str:
        return f"comm_{comm}"

    def _trace(self, rank: int, one: _Rank) -> Trace:
        builder = TraceBuilder(source=f"{self.source}, rank {rank}")
        for number, node in enumerate(one.nodes):
            if node.collective is not None:
                node.attrs["comm_size"] = self.sizes[node.collective][0]
                if node.collective[0] != self.world:
                    node.attrs["pg_name"] = self._role(node.collective[0])
            micros = (int(str(node.attrs.get(COMPUTE_NS, 0))) + 500) // 1000
            builder.add(number, node.name, node.type, dict.fromkeys(node.waits), (), micros, attrs=node.attrs)
        return builder.build()


def _kind(group: Any) -> tuple[str, str]:
    return _word(group.paradigm), _word(group.group_type)


def _word(value: object) -> str:
    """The name of a member of one of the library's enumerations."""
    return str(value).rpartition(".")[2]


if __name__ == "__main__":
    import _otf2

    _otf2.Reader_Close(_otf2.Reader_Open(sys.argv[1]))
