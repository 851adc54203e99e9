"""All that the files of one rank say of its collectives, and what they say of one event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chakrasim.linker.communication.group_table import GroupTable
from chakrasim.linker.communication.records import NOTHING, EventFacts, Facts, NodeFacts
from chakrasim.linker.communication.spans import CommunicationSpans, SpanKind, communication_spans
from chakrasim.linker.rows.row_table import RowTable
from chakrasim.trace.host.columns import HostTrace
from chakrasim.trace.host.group_marks import marked_ddp_group, marked_group
from chakrasim.trace.kineto.columns import Indices, KinetoTrace


@dataclass(frozen=True, eq=False)
class Sources:
    """The device trace of a rank, its spans that speak of communication, and its host trace if there is one.

    ``node_of`` int32[events + 1]: the node of each event, -1: none (the last entry stands for event -1). A node whose
    name differs from its event's is none: what it says would be of another collective."""

    kineto: KinetoTrace
    spans: CommunicationSpans
    events: EventFacts
    nodes: NodeFacts | None
    node_of: Indices

    def record(self, at: int) -> Facts:
        """What the record at position ``at`` of the spans says."""
        event = int(self.spans.event[at])
        facts = self.events.said(event)
        if self.nodes is not None and self.node_of[event] >= 0:
            facts = facts.filled(self.nodes.said(int(self.node_of[event])))
        return facts

    def operator(self, at: int) -> Facts:
        """What the operator of c10d at position ``at`` says."""
        event = int(self.spans.event[at])
        name = self.spans.name[at].removeprefix("c10d::")
        facts = replace(self.events.operated(event, name), name=name)
        if self.nodes is not None and self.node_of[event] >= 0:
            facts = facts.filled(self.nodes.operated(int(self.node_of[event]), name))
        return facts

    def annotation(self, event: int) -> Facts:
        """What an annotation such as ``nccl:all_reduce`` says."""
        facts = replace(self.events.annotated(event), name=self.name(event))
        if self.nodes is not None and self.node_of[event] >= 0:
            facts = facts.filled(self.nodes.annotated(int(self.node_of[event])))
        return facts

    def functional(self, at: int) -> Facts:
        """What a functional collective at position ``at`` says: its group."""
        node = int(self.node_of[self.spans.event[at]])
        return Facts(group=self.nodes.group_argument(node)) if self.nodes is not None and node >= 0 else NOTHING

    def marked(self, at: int) -> Facts:
        """What an annotation of the recorder around a call says: its group."""
        return Facts(group=self.events.groups.find(marked_group(self.spans.name[at])))

    def ddp_group(self) -> int:
        """The group of collectives that DistributedDataParallel hands over, as the recorder says it; -1: not said."""
        for at in np.flatnonzero(self.spans.kind == SpanKind.GROUP).tolist():
            name = marked_ddp_group(self.spans.name[at])
            if name:
                return self.events.groups.find(name)
        return -1

    def around(self, positions: Sequence[int]) -> Facts:
        """What operators and annotations among ``positions`` (from the inside out) say."""
        facts = NOTHING
        for kind in (SpanKind.OPERATOR, SpanKind.ANNOTATION, SpanKind.FUNCTIONAL):
            at = next((at for at in positions if self.spans.kind[at] == kind), -1)
            if at < 0:
                continue
            if kind == SpanKind.OPERATOR:
                facts = facts.filled(self.operator(at))
            elif kind == SpanKind.ANNOTATION:
                facts = facts.filled(self.annotation(int(self.spans.event[at])))
            else:
                facts = facts.filled(self.functional(at))
        return facts

    def name(self, event: int) -> str:
        """The name of an event."""
        return self.kineto.strings[int(self.kineto.name[event])]


def sources(
    table: RowTable, kineto: KinetoTrace, host: HostTrace | None, groups: GroupTable, nodes: NodeFacts | None
) -> Sources:
    """Gather them."""
    node_of = np.full(len(kineto) + 1, -1, np.int32)
    if host is not None:
        rows = np.flatnonzero((table.event >= 0) & (table.host_node >= 0))
        events, found = table.event[rows].astype(np.int64), table.host_node[rows]
        pairs = kineto.name[events] * np.int64(len(host.strings)) + host.name[found]
        distinct, place = np.unique(pairs, return_inverse=True)
        same = np.array(
            [
                kineto.strings.raw(pair // len(host.strings)) == host.strings.raw(pair % len(host.strings))
                for pair in distinct.tolist()
            ],
            np.bool_,
        )
        if len(events):
            node_of[events[same[place]]] = found[same[place]]
    return Sources(kineto, communication_spans(kineto), EventFacts(kineto, groups), nodes, node_of)
