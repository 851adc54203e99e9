"""The reference linker again, step by step as chakra-toolchain.md, section 3, says it: slow, on decoded JSON.

The table of synchronisation dependencies (3.7) is given.
"""

from __future__ import annotations

import copy
from typing import Any

LAUNCHES = {
    *("cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpy", "cudaMemcpyAsync"),
    *("cudaMemcpyFromSymbol", "cudaMemcpyToSymbol", "cudaLaunchCooperativeKernel", "hipLaunchKernel"),
    *("hipExtLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "hipMemcpyWithStream"),
    "hipMemcpyAsync",
}


class Event:
    """3.4: a record of an event."""

    def __init__(self, event: dict[str, Any]) -> None:
        args = event.get("args", {})
        self.name = event.get("name", "")
        self.category = event.get("cat", "")
        self.phase = event.get("ph")
        self.ts = event.get("ts", 0)
        self.duration = self.exclusive = event.get("dur", 0)
        self.external_id = int(args.get("External id", -1))
        self.tid = event.get("tid", 0)
        self.stream = args.get("stream")
        self.rf_id = args.get("Record function id")
        self.correlation = args.get("correlation", -1)
        self.group = args.get("Process Group Name")
        self.mark: int | None = None
        self.host_id: int | None = None
        self.sync: list[Event] = []


def link(host: dict[str, Any], device: dict[str, Any], table: dict[int, list[int]]) -> dict[str, Any]:
    """The linked trace."""
    events = sorted(map(Event, device["traceEvents"]), key=lambda event: event.ts)
    cpu = [e for e in events if e.category in ("cpu_op", "user_annotation") and "ProfilerStep" not in e.name]
    launches = {
        e.correlation: e for e in events if e.category in ("cuda_runtime", "cuda_driver") and e.name in LAUNCHES
    }
    kernels = [e for e in events if e.category in ("kernel", "gpu_memcpy")]
    threads: dict[Any, list[Event]] = {}
    for event in events:
        threads.setdefault(event.tid, []).append(event)
    callers: dict[Any, list[Event]] = {}
    for event in cpu:
        callers.setdefault(event.tid, []).append(event)
    for ops in callers.values():
        _exclusive(ops)
    _marks(callers)
    _synchronise(events, cpu, threads, table)
    launched = _parents(cpu, events, threads, launches, kernels)
    return _build(host, cpu, launched)


def _exclusive(ops: list[Event]) -> None:
    ops = sorted(ops, key=lambda op: (op.ts, op.duration))
    for i, op in enumerate(ops):
        end = op.ts + op.duration
        inside = []
        for other in ops[i + 1 :]:
            if other.ts > end:
                break
            if other.ts + other.duration <= end:
                inside.append((other.ts, other.ts + other.duration))
        merged: list[list[Any]] = []
        for begin, stop in sorted(inside, key=lambda pair: pair[0]):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], stop)
            else:
                merged.append([begin, stop])
        for begin, stop in merged:
            op.exclusive -= stop - begin
        if op.exclusive < 0:
            raise ValueError("negative exclusive duration")


def _marks(callers: dict[Any, list[Event]]) -> None:
    for tid, ops in callers.items():
        mark = None
        for i, op in enumerate(ops):
            if i == 0 or op.ts - ops[i - 1].ts - ops[i - 1].duration > 1000:
                best = None
                for other, elsewhere in callers.items():
                    for candidate in elsewhere if other != tid else ():
                        if candidate.ts < op.ts and candidate.ts > (best.ts if best else 0):
                            best = candidate
                mark = best.rf_id if best else None
            if mark:
                op.mark = mark


def _synchronise(
    events: list[Event], cpu: list[Event], threads: dict[Any, list[Event]], table: dict[int, list[int]]
) -> None:
    last = {event.external_id: event for event in events}
    for ops in threads.values():
        for event in ops:
            for source in table.get(event.external_id, ()):
                following = next((op for op in cpu if op.ts > event.ts), None)
                if source in last and following is not None and last[source] not in following.sync:
                    last[source].sync.append(following)


def _parents(
    cpu: list[Event],
    events: list[Event],
    threads: dict[Any, list[Event]],
    launches: dict[int, Event],
    kernels: list[Event],
) -> dict[int, list[Event]]:
    listed = [Event({"ts": min(event.ts for event in events)}), *cpu]
    for tid, ops in threads.items():
        start = min(event.ts for event in ops)
        at = next((i for i, op in enumerate(listed) if op.tid == tid and op.ts >= start), len(listed))
        listed.insert(at, Event({"ts": start}))
    listed.sort(key=lambda op: op.ts)
    groups: dict[int, list[Event]] = {}
    for kernel in kernels:
        launch = launches.get(kernel.correlation)
        if launch is None:
            continue
        same_thread = parent = None
        for op in reversed([op for op in listed if op.ts < launch.ts]):
            if ("nccl" in kernel.name.lower() and op.name == "nccl:coalesced") or op.tid != launch.tid:
                continue
            same_thread = same_thread or op
            if op.external_id == kernel.external_id:
                parent = op
                break
        parent = parent or same_thread
        if parent is not None:
            groups.setdefault(parent.external_id, []).append(kernel)
    return groups


def _reachable(host: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = {node["id"]: node for node in host["nodes"]}
    children: dict[int, list[int]] = {}
    for node in nodes.values():
        if node["id"] != 1 and node["ctrl_deps"] in nodes:
            children.setdefault(node["ctrl_deps"], []).append(node["id"])
    found, stack = [], [1]
    while stack:
        at = stack.pop()
        found.append(at)
        stack += children.get(at, [])
    return [nodes[at] for at in sorted(found)]


def _build(host: dict[str, Any], cpu: list[Event], launched: dict[int, list[Event]]) -> dict[str, Any]:
    by_rf = {op.rf_id: op for op in cpu if op.rf_id is not None}
    linked: dict[int, tuple[Event, list[Event], int | None]] = {}
    for node in _reachable(host):
        rf_id = {attr["name"]: attr["value"] for attr in node["attrs"]}["rf_id"]
        op = by_rf.get(rf_id)
        if op is None:
            continue
        op.host_id = node["id"]
        other = by_rf[op.mark].host_id if op.mark else None
        linked[node["id"]] = op, launched.get(op.external_id, []), other
    new_ids: dict[int, int] = {}
    counter = 0
    wanted: dict[int, list[int]] = {}
    nodes: list[dict[str, Any]] = []
    for node in sorted(copy.deepcopy(host["nodes"]), key=lambda node: node["id"]):
        original = node["id"]
        node["id"] = new_ids[original] = counter
        counter += 1
        nodes.append(node)
        if original not in linked:
            continue
        op, kernels, other = linked[original]
        node |= {"inclusive_dur": op.duration, "exclusive_dur": op.exclusive, "ts": op.ts}
        node["inter_thread_dep"] = None if other is None else new_ids[other]
        for kernel in kernels:
            made = copy.deepcopy(node) | {"id": counter, "ctrl_deps": original}
            counter += 1
            made |= {"cat": kernel.category, "name": kernel.name, "ph": kernel.phase, "ts": kernel.ts}
            made |= {"inclusive_dur": kernel.duration, "exclusive_dur": kernel.duration, "stream": kernel.stream}
            if "ncclDevKernel" in kernel.name and kernel.group is not None:
                made["pg_name"] = kernel.group
            nodes.append(made)
            targets = [new_ids.get(op.host_id, op.host_id) for op in kernel.sync if op.host_id is not None]
            for target in dict.fromkeys(targets):
                wanted.setdefault(target, []).append(made["id"])
    places = {new_ids.get(target, target): waits for target, waits in wanted.items()}
    for node in nodes:
        if node["id"] in places:
            node["sync_dep"] = places[node["id"]]
        if node["ctrl_deps"] not in new_ids:
            new_ids[node["ctrl_deps"]] = counter
            counter += 1
        node["ctrl_deps"] = new_ids[node["ctrl_deps"]]
    return {**host, "nodes": nodes}
