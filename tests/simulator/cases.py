"""Inputs for tests of the simulator: nodes as plain mappings, cases with all configurations, and what must agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import chakrasim
from chakrasim import Protocol, SimulationResult, Trace, TraceBuilder
from chakrasim.machine import Machine, load_memory, load_network, load_system

UNIT_BANDWIDTH = 1953125 / 2**21
"""A network bandwidth of exactly one byte per ns: times of small messages are whole and coincide easily."""

Node = Mapping[str, Any]
ALGORITHM_KEYS = tuple(
    f"{name}-implementation" for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
)
ROOTED_KEYS = tuple(
    f"{name}-implementation" for name in ("broadcast", "reduce", "gather", "scatter", "barrier", "reduce-scatter-block")
)


def trace_of(nodes: Sequence[Node], source: str = "<memory>") -> Trace:
    """A trace of nodes given as in the golden files."""
    builder = TraceBuilder(source=source)
    for n in nodes:
        builder.add(
            n["id"],
            name=n.get("name", ""),
            type=n["type"],
            data_deps=n.get("data_deps", ()),
            ctrl_deps=n.get("ctrl_deps", ()),
            duration_micros=n.get("duration_micros", 0),
            attrs=n.get("attr", {}),
        )
    return builder.build()


def compute(id: int, micros: int, deps: Sequence[int] = (), **attr: Any) -> Node:
    full = {"is_cpu_op": False, "num_ops": 1000, "tensor_size": 100, **attr}
    return {"id": id, "type": 4, "data_deps": list(deps), "duration_micros": micros, "attr": full}


def collective(id: int, kind: int, size: int, deps: Sequence[int] = (), group: str = "", **attr: Any) -> Node:
    named = {"pg_name": group} if group else {}
    full = {"is_cpu_op": False, "comm_type": kind, "comm_size": size, **named, **attr}
    return {"id": id, "type": 7, "data_deps": list(deps), "attr": full}


def send(id: int, to: int, size: int, tag: int = 0, deps: Sequence[int] = ()) -> Node:
    attr = {"is_cpu_op": False, "comm_dst": to, "comm_size": size, "comm_tag": tag}
    return {"id": id, "type": 5, "data_deps": list(deps), "attr": attr}


def receive(id: int, source: int, size: int, tag: int = 0, deps: Sequence[int] = ()) -> Node:
    attr = {"is_cpu_op": False, "comm_src": source, "comm_size": size, "comm_tag": tag}
    return {"id": id, "type": 6, "data_deps": list(deps), "attr": attr}


def memory(id: int, size: int, deps: Sequence[int] = (), store: bool = False) -> Node:
    attr = {"is_cpu_op": False, "tensor_size": size}
    return {"id": id, "type": 3 if store else 2, "data_deps": list(deps), "attr": attr}


def system_of(*algorithms: str, **keys: Any) -> dict[str, Any]:
    """A system file's content: one algorithm per dimension for all collectives; underscores in keys become hyphens."""
    base: dict[str, Any] = {
        "scheduling-policy": "LIFO",
        "collective-optimization": "localBWAware",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 4,
        "local-mem-bw": 1600,
    }
    base |= {key: list(algorithms or ("ring",)) for key in ALGORITHM_KEYS}
    return base | {key.replace("_", "-"): value for key, value in keys.items()}


def network_of(*dims: tuple[str, int, float, float]) -> dict[str, Any]:
    """A network file's content, from (topology, NPUs, GB/s, ns) by dimension."""
    names = ("topology", "npus_count", "bandwidth", "latency")
    return {name: [dim[i] for dim in dims] for i, name in enumerate(names)}


def with_protocol(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `chakrasim.simulate`, those of `chakrasim.Protocol` in one."""
    own = {field.name: options[field.name] for field in fields(Protocol) if field.name in options}
    return {name: value for name, value in options.items() if name not in own} | {"protocol": Protocol(**own)}


@dataclass(frozen=True)
class Case:
    """Everything ``simulate`` is given. ``programs`` holds one list of nodes per rank, or one for all."""

    programs: Sequence[Sequence[Node]]
    network: Mapping[str, Any]
    system: Mapping[str, Any] = field(default_factory=system_of)
    memory: Mapping[str, Any] | None = None
    groups: Mapping[Any, Sequence[int]] | None = None
    congestion: str = "aware"
    options: Mapping[str, Any] = field(default_factory=dict)
    streams: bool = False
    """On a machine whose streams run side by side."""

    @property
    def ranks(self) -> int:
        count = 1
        for n in self.network["npus_count"]:
            count *= n
        return count

    def run(self, **options: Any) -> SimulationResult:
        """Simulate, with these options over the case's own."""
        keys: dict[str, Any] = {
            "system": self.system,
            "network": self.network,
            "memory": self.memory,
            "comm_groups": self.groups,
            "congestion": self.congestion,
            **with_protocol({**self.options, **options}),
        }
        if self.streams:
            parts = load_network(keys.pop("network")), load_system(keys.pop("system")), load_memory(keys.pop("memory"))
            keys["machine"] = Machine(*parts, issue="streams")
        if len(self.programs) == 1 and self.ranks > 1:
            return chakrasim.simulate(trace_of(self.programs[0]), ranks=self.ranks, **keys)
        return chakrasim.simulate([trace_of(program) for program in self.programs], **keys)

    def with_(self, **changes: Any) -> Case:
        return replace(self, **changes)


def link_figures(result: SimulationResult) -> list[tuple[int, ...]]:
    """The figures of all links, sorted: a folded run names only one link of each class."""
    links = result.links
    if links is None:
        return []
    columns = (links.dim, links.busy_ns, links.bytes, links.messages, links.most_queued)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return sorted(row for row in rows for _ in range(links.copies))


def collective_figures(result: SimulationResult) -> dict[tuple[str, int, int, str], tuple[int, float]]:
    """Calls and total ns by type, size, members and algorithm, over all groups."""
    totals: dict[tuple[str, int, int, str], tuple[int, float]] = {}
    for c in result.collectives:
        key = (c.type, c.size_bytes, c.members, c.algorithm)
        calls, spent = totals.get(key, (0, 0.0))
        totals[key] = calls + c.calls, round(spent + c.calls * c.mean_ns, 3)
    return totals


def differences(a: SimulationResult, b: SimulationResult) -> list[str]:
    """The names of the figures in which two results of one input differ."""
    arrays = ("finish_ns", "exposed_comm_ns", "parts_ns", "gpu_ns", "comm_ns", "bytes_sent", "finish_order")
    wrong = [name for name in arrays if getattr(a, name).tolist() != getattr(b, name).tolist()]
    wrong += [name for name in ("messages", "message_bytes", "counts") if getattr(a, name) != getattr(b, name)]
    if collective_figures(a) != collective_figures(b):
        wrong.append("collectives")
    if link_figures(a) != link_figures(b):
        wrong.append("links")
    if plain_warnings(a) != plain_warnings(b):
        wrong.append("warnings")
    return wrong


def plain_warnings(result: SimulationResult) -> list[str]:
    """The warnings without numbers and roles of groups, which jobs and their expanded traces have each in their way."""
    return sorted(re.sub(r"group \d+( \(role '[^']*'\))?", "group", warning) for warning in result.warnings)
