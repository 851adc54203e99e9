"""The traces of a job of another size: sizes rescaled, peers and roots found again, by written rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.converter.retarget.groups import REPLICA, Fate, nodes_by_role
from chakrasim.converter.retarget.trace_edit import Change, edited
from chakrasim.errors import InputError
from chakrasim.trace.chakra.graph import Ints, Trace
from chakrasim.trace.job.job import PEER
from chakrasim.trace.kinds import INT64, STRING, CollectiveType, NodeType
from chakrasim.trace.work import BYTES, BYTES_READ, BYTES_WRITTEN, FLOPS, PHASE

RULES: Final[dict[CollectiveType, str]] = {
    CollectiveType.ALL_REDUCE: "all-reduces keep their bytes: gradients are as large as before",
    CollectiveType.REDUCE: "reduces keep their bytes",
    CollectiveType.BROADCAST: "broadcasts keep their bytes",
    CollectiveType.REDUCE_SCATTER: "reduce-scatters keep their input: each rank's shard of the result changes",
    CollectiveType.REDUCE_SCATTER_BLOCK: "reduce-scatters keep their input: each rank's shard of the result changes",
    CollectiveType.ALL_GATHER: "all-gathers keep their output, as of sharded parameters: each rank's shard changes",
    CollectiveType.ALL_TO_ALL: "all-to-alls keep the bytes of a rank: they are cut into more or fewer parts",
    CollectiveType.GATHER: "gathers keep the part of each rank",
    CollectiveType.SCATTER: "scatters keep what the root has: each rank's part changes",
    CollectiveType.BARRIER: "barriers",
}
"""What is assumed of the collectives of groups whose number of members changes."""

OF_RUN: Final = ("meeting", "meeting_ranks", "transfer_ns")
"""Attributes that compare the ranks of the recorded run."""
_MEASURED: Final = ("span_ns", "step_ns", "path_ns", "delay_only_ns", "step_path_ns", "step_delay_only_ns")
"""Metadata that a simulation of the recorded run is compared with."""
_OPTIMIZER: Final = (FLOPS, BYTES, BYTES_READ, BYTES_WRITTEN, "duration_ns")


@dataclass(eq=False)
class Rescaler:
    """Changes the traces of a job; counts what it assumes, in nodes of the traces."""

    fates: Mapping[str, Fate]
    before: int
    after: int
    replica: str = REPLICA
    """The role of the ranks of one replica."""
    counts: Counter[str] = field(default_factory=Counter)
    inside: set[str] = field(default_factory=set)
    """Roles of groups within a replica that nodes name by now."""

    def rescaled(self, trace: Trace, rank: int) -> Trace:
        """The trace of ``rank`` and those that share it."""
        changes: list[Change] = []
        drop_from: dict[str, list[Ints]] = {"comm_src": [], "comm_dst": []}
        sharded: list[tuple[int, int]] = []
        for role, nodes in nodes_by_role(trace).items():
            collective = trace.types[nodes] == int(NodeType.COMM_COLL_NODE)
            fate = self.fates.get(role)
            if fate is not None and collective.any():
                changes += self._collectives(trace, nodes[collective], fate, rank, sharded)
            if not collective.all():
                changes += self._messages(trace, nodes[~collective], role, fate, drop_from)
        changes += self._optimizer(trace, sharded)
        self._count_compute(trace)
        dropped = {name: np.concatenate(parts) for name, parts in drop_from.items() if parts}
        met = int(trace.attr("meeting").present.sum())
        self.counts["meetings and transfer times of the recorded run are left out"] += met
        said = dict.fromkeys(_MEASURED) | {"world_size": self.after, "retargeted_from": self.before}
        result = edited(trace, changes, drop=OF_RUN, drop_from=dropped, said=said)
        return _scaled_durations(result, sharded) if sharded else result

    def inside_name(self, role: str) -> str:
        """The role of the groups of ``role`` as each replica has them; of "" that of its ranks."""
        return f"{role}.{self.replica}" if role else self.replica

    # -- collectives --------------------------------------------------------------------------------------------------

    def _collectives(
        self, trace: Trace, nodes: Ints, fate: Fate, rank: int, sharded: list[tuple[int, int]]
    ) -> list[Change]:
        if not fate.grows:
            self.counts["collectives of groups that stay are as recorded, in every replica"] += len(nodes)
            if fate.role:
                return []
            self.inside.add(self.replica)
            return [Change("pg_name", STRING, nodes, self.replica)]
        old, new = _sizes(fate, rank)
        types = trace.attr("comm_type").integers(-1)[nodes]
        for kind, rule in RULES.items():
            self.counts[rule] += int((types == int(kind)).sum())
        gathers = nodes[types == int(CollectiveType.ALL_GATHER)]
        if not len(gathers) or old == new:
            return []
        sharded.append((old, new))
        return [self._shares(trace, "comm_size", gathers, old, new)]

    def _shares(self, trace: Trace, name: str, nodes: Ints, old: int, new: int) -> Change:
        """Parts of ``old`` equal ones become parts of ``new``; what does not come out even is rounded up."""
        whole = trace.attr(name).integers()[nodes] * old
        uneven = int((whole % new > 0).sum())
        self.counts[f"{name} that does not come out even is rounded up"] += uneven
        return Change(name, INT64, nodes, -(-whole // new))

    # -- messages -----------------------------------------------------------------------------------------------------

    def _messages(
        self, trace: Trace, nodes: Ints, role: str, fate: Fate | None, drop_from: dict[str, list[Ints]]
    ) -> list[Change]:
        """Messages stay within a replica: their peers become positions in a group that every replica has."""
        self.counts["messages go to the same place in every replica, with the same bytes"] += len(nodes)
        by_position = trace.attr(PEER).present[nodes]
        changes = []
        placed, named = nodes[by_position], nodes[~by_position]
        if len(placed) and (fate is None or fate.grows):
            # Positions count among all members of a role's group as it was.
            self.inside.add(self.inside_name(role))
            changes.append(Change("pg_name", STRING, placed, self.inside_name(role)))
        if not len(named):
            return changes
        sends = trace.types[named] == int(NodeType.COMM_SEND_NODE)
        peers = np.where(sends, trace.attr("comm_dst").integers(-1)[named], trace.attr("comm_src").integers(-1)[named])
        outside = np.flatnonzero((peers < 0) | (peers >= min(self.before, self.after)))
        if len(outside):
            node = int(named[outside[0]])
            raise InputError(
                "a message's other side is no rank that stays",
                file=trace.source,
                place=trace.place(node),
                found=f"rank {int(peers[outside[0]])}",
                expected=f"0 to {min(self.before, self.after) - 1}",
                remedy="choose a larger number of ranks",
            )
        self.inside.add(self.replica)
        for column in drop_from.values():
            column.append(named)
        return [*changes, Change("pg_name", STRING, named, self.replica), Change(PEER, INT64, named, peers)]

    # -- compute ------------------------------------------------------------------------------------------------------

    def _optimizer(self, trace: Trace, sharded: list[tuple[int, int]]) -> list[Change]:
        """The optimizer's work on shards of the parameters, where the traces say which nodes those are."""
        if not sharded:
            return []
        nodes = optimizer_nodes(trace)
        if not len(nodes):
            self.counts["traces whose optimizer works on shards that change, but nodes do not say which they are"] += 1
            return []
        self.counts["optimizer nodes do a shard's share of their work"] += len(nodes)
        changes = []
        for name in _OPTIMIZER:
            own = nodes[trace.attr(name).present[nodes]]
            changes.append(self._shares(trace, name, own, *sharded[0]))
        return changes

    def _count_compute(self, trace: Trace) -> None:
        compute = int((trace.types == int(NodeType.COMP_NODE)).sum())
        self.counts["compute nodes keep their work: each rank's batch stays, the global one changes"] += compute


def optimizer_nodes(trace: Trace) -> Ints:
    """Compute nodes of the phase "optimizer"."""
    column = trace.attr(PHASE)
    found = np.flatnonzero(column.present & (column.kind == STRING) & (trace.types == int(NodeType.COMP_NODE)))
    nodes: Ints = found[trace.strings.each(column.bits[found].astype(np.int64), lambda text: text == "optimizer")]
    return nodes


def _sizes(fate: Fate, rank: int) -> tuple[int, int]:
    """Members of the rank's group, before and after."""
    old = next((len(members) for members in fate.before if rank in members), 1)
    return old, next((len(members) for members in fate.after if rank in members), 1)


def _scaled_durations(trace: Trace, sharded: list[tuple[int, int]]) -> Trace:
    """The schema's own duration of optimizer nodes, in whole microseconds."""
    nodes: NDArray[np.int64] = optimizer_nodes(trace)
    old, new = sharded[0]
    duration = trace.duration_micros.copy()
    scaled = duration[nodes].astype(np.int64) * old
    duration[nodes] = (-(-scaled // new)).astype(np.uint64)
    return replace(trace, duration_micros=duration)
