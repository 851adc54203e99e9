"""Small jobs of Chakra traces, made node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chakrasim.trace import CollectiveType, NodeType, Trace, TraceBuilder


@dataclass
class Made:
    """A trace in the making: every node waits for the one before it unless ``after`` says otherwise."""

    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.builder = TraceBuilder(metadata=dict(self.metadata))
        self.count = 0

    def _node(self, kind: NodeType, name: str, after: Sequence[int] | None, micros: int, **attrs: Any) -> int:
        deps = ([self.count - 1] if self.count else []) if after is None else list(after)
        values = {"is_cpu_op": False, **{key: value for key, value in attrs.items() if value is not None}}
        self.builder.add(self.count, name, int(kind), data_deps=deps, duration_micros=micros, attrs=values)
        self.count += 1
        return self.count - 1

    def compute(self, name: str = "mm", after: Sequence[int] | None = None, micros: int = 10, **attrs: Any) -> int:
        return self._node(NodeType.COMP_NODE, name, after, micros, **attrs)

    def collective(
        self, kind: str, size: int, group: str | None = None, after: Sequence[int] | None = None, **attrs: Any
    ) -> int:
        number = int(CollectiveType[kind.upper()])
        return self._node(
            NodeType.COMM_COLL_NODE, kind, after, 5, comm_type=number, comm_size=size, pg_name=group, **attrs
        )

    def send(self, size: int, after: Sequence[int] | None = None, **attrs: Any) -> int:
        return self._node(NodeType.COMM_SEND_NODE, "send", after, 5, comm_size=size, **{"comm_tag": 0, **attrs})

    def recv(self, size: int, after: Sequence[int] | None = None, **attrs: Any) -> int:
        return self._node(NodeType.COMM_RECV_NODE, "recv", after, 5, comm_size=size, **{"comm_tag": 0, **attrs})

    def build(self) -> Trace:
        return self.builder.build()


def nodes(trace: Trace, kind: NodeType = NodeType.COMM_COLL_NODE) -> list[dict[str, Any]]:
    """The attributes of a trace's nodes of one type."""
    return [trace.node(at).attrs for at in range(len(trace)) if trace.types[at] == kind]
