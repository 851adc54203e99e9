"""A job's shared traces made into one trace per rank, as other tools read them: groups by number, peers by rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chakrasim.trace.chakra.assemble import Strings
from chakrasim.trace.chakra.graph import Attributes, Trace
from chakrasim.trace.job.groups import JobGroups, check_job, named_groups, number_groups, root_column
from chakrasim.trace.job.job import PEER, Job
from chakrasim.trace.kinds import INT64, INTEGER_KINDS, NodeType

Ints = NDArray[np.int64]


def expand_job(job: Job) -> list[Trace]:
    """The trace of every rank. Groups have the numbers of `number_groups`; all columns are shared but ``attrs``.

    Raises InputError for a job that makes no sense (see `check_job`).
    """
    check_job(job)
    return list(expanded(job, number_groups(job)))


def expanded(job: Job, groups: JobGroups) -> Iterator[Trace]:
    """The traces of a checked job, rank by rank; ranks whose traces are the same share one object."""
    which_of = np.asarray(job.trace_of_rank)
    shared = [_Shared(trace, job, groups, np.flatnonzero(which_of == i)) for i, trace in enumerate(job.traces)]
    made: dict[tuple[int, ...], Trace] = {}
    for rank, which in enumerate(which_of.tolist()):
        trace = shared[which]
        if trace.names_ranks:
            yield trace.of_rank(rank)
            continue
        key = (which, *trace.numbers_of(rank))
        if key not in made:
            made[key] = trace.of_rank(rank)
        yield made[key]


@dataclass(frozen=True, eq=False)
class _Use:
    """Attribute values of one role that differ by rank: where they stand, and the positions that ranks replace."""

    groups: Ints
    names: Ints
    places: Ints
    positions: Ints


class _Shared:
    """A trace prepared for all ranks that run it: every string and attribute that they need is there."""

    def __init__(self, trace: Trace, job: Job, groups: JobGroups, ranks: Ints) -> None:
        self.groups = groups
        self.own: Ints = np.zeros(0, np.int64)
        named = list(named_groups(trace).of_role(job.process_groups))
        texts = Strings(trace.strings)
        numbers = np.unique(
            np.concatenate([np.zeros(0, np.int64), *(groups.of_rank[role][ranks] for role, _ in named)])
        )
        self.text_of = {number: texts.add(str(number)) for number in numbers.tolist()}
        is_message = (trace.types == int(NodeType.COMM_SEND_NODE)) | (trace.types == int(NodeType.COMM_RECV_NODE))
        messages = np.flatnonzero(is_message & trace.attr(PEER).present)
        attrs = self._with_ends(trace, messages, texts) if len(messages) else trace.attrs
        self.trace = replace(trace, attrs=attrs, strings=texts.build())
        self.uses = [self._use(nodes, groups.of_rank[role], messages) for role, nodes in named]
        self.meta = self._meta_rank()
        self.names_ranks = bool(len(self.own)) or self.meta >= 0

    def _with_ends(self, trace: Trace, messages: Ints, texts: Strings) -> Attributes:
        """The attributes with a message's peer and the rank itself under Chakra's names, in place of the position."""
        places = _places(trace, PEER, messages)
        sends = trace.types[messages] == int(NodeType.COMM_SEND_NODE)
        source, destination = texts.add("comm_src"), texts.add("comm_dst")
        old = trace.attrs
        name = old.name.copy()
        name[places] = np.where(sends, destination, source)
        kind = old.kind.copy()
        kind[places] = np.where(np.isin(kind[places], list(INTEGER_KINDS)), INT64, kind[places])
        offsets = old.offsets.copy()
        offsets[1:] += np.cumsum(np.bincount(messages, minlength=len(trace)))
        behind = places + 1
        self.own = behind + np.arange(len(behind))
        return Attributes(
            offsets,
            np.insert(name, behind, np.where(sends, source, destination).astype(np.int32)),
            np.insert(kind, behind, np.uint8(INT64)),
            np.insert(old.bits, behind, np.uint64(0)),
            np.insert(old.doc, behind, np.int32(0)),
        )

    def _use(self, nodes: Ints, numbers: Ints, messages: Ints) -> _Use:
        """Where a role's nodes say their group, and where their peer or root."""
        trace = self.trace
        collectives = nodes[trace.types[nodes] == int(NodeType.COMM_COLL_NODE)]
        peers = np.intersect1d(nodes, messages)
        sends = trace.types[peers] == int(NodeType.COMM_SEND_NODE)
        places = [_places(trace, "comm_dst", peers[sends]), _places(trace, "comm_src", peers[~sends])]
        root = root_column(trace, nodes)
        if root is not None:
            rooted = collectives[root.present[collectives] & (root.integers(-1)[collectives] >= 0)]
            places.append(_places(trace, root.name, rooted))
        at = np.concatenate(places)
        return _Use(numbers, _places(trace, "pg_name", nodes), at, trace.attrs.bits[at].astype(np.int64))

    def _meta_rank(self) -> int:
        """Where the metadata say which rank this is, -1 if they do not."""
        meta = self.trace.meta
        for at, name in enumerate(meta.name.tolist()):
            if self.trace.strings[name] == "rank" and int(meta.kind[at]) in INTEGER_KINDS:
                return at
        return -1

    def numbers_of(self, rank: int) -> tuple[int, ...]:
        """The groups that a rank means by the trace's roles."""
        return tuple(int(use.groups[rank]) for use in self.uses)

    def of_rank(self, rank: int) -> Trace:
        """The trace as one rank runs it."""
        bits = self.trace.attrs.bits.copy()
        for use in self.uses:
            number = int(use.groups[rank])
            members = np.array(self.groups.members[number], np.int64)
            bits[use.names] = self.text_of[number]
            bits[use.places] = members[use.positions].astype(np.uint64)
        bits[self.own] = rank
        trace = replace(self.trace, attrs=replace(self.trace.attrs, bits=bits))
        if self.meta < 0:
            return trace
        said = self.trace.meta.bits.copy()
        said[self.meta] = rank
        return replace(trace, meta=replace(self.trace.meta, bits=said))


def _places(trace: Trace, name: str, nodes: Ints) -> Ints:
    """Where the first attribute ``name`` of each of some nodes, which all have it, stands among the attributes."""
    if not len(nodes):
        return np.zeros(0, np.int64)
    places = np.flatnonzero(trace.strings.each(trace.attrs.name, lambda text: text == name))
    owners = np.searchsorted(trace.attrs.offsets, places, side="right") - 1
    return places[np.searchsorted(owners, nodes, side="left")]
