"""HTA's critical path once more, slowly: dictionaries, recursion, one comparison at a time.

Written from the specification (trace-analysis.md, 1.1 and 1.4) without a look at the package's arrays. It gives up
(`Unmodelled`) on traces whose joins multiply rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

NEW_LAUNCHES = {
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaMemcpyAsync"),
    *("cudaMemsetAsync", "runFunction - job_prep_and_submit_for_execution", "hipLaunchKernel", "hipMemsetAsync"),
    *("hipExtModuleLaunchKernel", "hipMemcpyAsync", "hipMemcpyWithStream"),
}
PINNED_LAUNCHES = {
    *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"),
}
LOCKS = {"cudaHostAlloc", "cudaLaunchKernel", "cudaMemcpyAsync"}
BLOCKING = {
    *("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaEventSynchronize", "cudaMemcpy"),
    "cudaMemcpyAsync",
}
Row = dict[str, Any]


class Unmodelled(Exception):
    """The model does not know."""


class Fails(Exception):
    """HTA ends with this exception; the argument is its name."""


class Model:
    """``result`` holds the figures as `chakrasim.compat.hta_critical_path.result.compat_figures` gives them."""

    def __init__(self, document: dict[str, Any], pinned: bool, annotation: str, instance: Any, extra: bool) -> None:
        self.pinned = pinned
        self.extra = extra
        self.rows = self._load(document["traceEvents"])
        self.full = self._step_filter()
        self.clipped = self._clip(annotation, instance)
        self.nodes: list[tuple[int, str, float]] = []
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.edges: dict[tuple[int, int], list[Any]] = {}
        self.order: dict[int, None] = {}
        self._make_nodes()
        self._stacks()
        self._device()
        self.result = self._solve()

    def _load(self, events: list[Row]) -> list[Row]:
        if not events:
            raise Fails("KeyError")
        floating = any(isinstance(event.get("ts", 0.5), float) for event in events)
        rows = []
        for index, event in enumerate(events):
            if "dur" not in event or "cat" not in event or event["cat"] == "Trace":
                continue
            args = event.get("args", {})
            ts, dur = event["ts"], event["dur"]
            if floating:
                end = math.floor(ts + dur)
                ts = math.ceil(ts)
                dur = end - ts
            row = {key: args.get(key, -1) for key in ("stream", "correlation", "wait_on_stream")}
            row |= {"record": args.get("wait_on_cuda_event_record_corr_id", -1), "index": index, "ts": ts, "dur": dur}
            rows.append(row | {"ends": ts + dur, **{key: event[key] for key in ("cat", "name", "pid", "tid")}})
        for row in rows:
            device = row["stream"] > 0 if self.pinned else row["stream"] >= 0 and row["correlation"] >= 0
            row["device"] = device or row["name"] in ("Event Sync", "Context Sync")
            row["partner"] = min(row["correlation"], 0)
        for row in rows:
            for other in rows:
                same = row["correlation"] != -1 and row["correlation"] == other["correlation"]
                if same and row["device"] != other["device"]:
                    row["partner"] = other["index"]
        origin = min((row["ts"] for row in rows), default=0)
        for row in rows:
            row["ts"] -= origin
        self.symbols = {row[key] for row in rows for key in ("name", "cat")}
        return rows

    def _step_filter(self) -> list[Row]:
        anywhere = {text for text in self.symbols if "ProfilerStep" in text}
        steps = anywhere if self.pinned else {text for text in anywhere if re.match(r"ProfilerStep#\d", text)}
        if len(steps) < 2:
            return self.rows
        host = [row for row in self.rows if not row["device"]]
        last = max(row["ts"] for row in host if row["name"] in steps)
        kept = [row for row in host if row["ts"] < last]
        times = Counter(row["correlation"] for row in kept)
        device = [row for row in self.rows if row["device"] and times[row["correlation"]]]
        if any(times[row["correlation"]] > 1 for row in device):
            raise Unmodelled
        return device + kept

    def _clip(self, annotation: str, instance: Any) -> list[Row]:
        names = {text for text in self.symbols if annotation in text}
        if not names:
            raise Fails("None")
        if annotation == "":
            first = min((row["ts"] for row in self.full), default=0)
            last = max((row["ends"] for row in self.full), default=0)
        else:
            low, high = instance if isinstance(instance, tuple) else (instance or 0, instance or 0)
            spans = [row for row in self.full if row["name"] in names][low : high + 1]
            if not spans:
                raise Fails("UndefinedVariableError")
            first, last = min(row["ts"] for row in spans), max(row["ts"] + row["dur"] for row in spans)
        host = [row for row in self.full if row["stream"] == -1]
        inside = [row for row in host if first <= row["ts"] <= last and row["dur"] > 0]
        clipped = list(inside)
        for row in self.full:
            if row["stream"] != -1:
                is_wait = row["name"] == "Stream Wait Event"
                times = sum(other["partner"] == row["index"] for other in (host if is_wait else inside))
                if times > 1:
                    raise Unmodelled
                if times or is_wait:
                    clipped.append(row)
        return sorted(clipped, key=lambda row: row["index"])

    def _is_host(self, row: Row) -> bool:
        return row["cat"] in ("cpu_op", "cuda_runtime", "cuda_driver")

    def _node(self, row: Row) -> None:
        for side, ts in (("S", row["ts"]), ("E", row["ts"] + row["dur"])):
            (self.start if side == "S" else self.end)[row["index"]] = len(self.nodes)
            self.nodes.append((row["index"], side, ts))
            if self.pinned:
                self.order[len(self.nodes) - 1] = None

    def _make_nodes(self) -> None:
        if self.pinned:
            return
        made = []
        for row in self.clipped:
            if self._is_host(row) or (row["stream"] != -1 and row["partner"] >= 0):
                made += [(row["ts"], row["index"], 0, "S"), (row["ts"] + row["dur"], row["index"], 1, "E")]
        if any(count > 2 for count in Counter(at[1] for at in made).values()):
            raise Unmodelled
        made.sort(key=lambda at: (at[0], at[1], at[2]))
        self.nodes = [(index, side, ts) for ts, index, _, side in made]
        for number, (index, side, _) in enumerate(self.nodes):
            (self.start if side == "S" else self.end)[index] = number

    def _edge(self, source: int, target: int, kind: str, weighs: bool = True, event: int | None = None) -> None:
        if source == target:
            raise Fails("AssertionError")
        self.order.setdefault(source)
        self.order.setdefault(target)
        weight = self.nodes[target][2] - self.nodes[source][2] if weighs else 0
        old = self.edges.get((source, target), [None, 0, None])
        self.edges[source, target] = [kind, weight, old[2] if event is None else event]

    def _lock_edges(self, name_of: dict[int, str]) -> None:
        waiting: list[int] = []
        last = None
        for number, (index, side, _) in enumerate(self.nodes):
            if name_of[index] not in LOCKS:
                continue
            if side == "S":
                waiting.append(number)
            else:
                while waiting:
                    begun = waiting.pop()
                    if self.nodes[begun][0] == index:
                        self._edge(begun, number, "OPERATOR_KERNEL", event=index)
                    else:
                        self._edge(begun, number, "DEPENDENCY", weighs=False)
                if last is not None and self.nodes[last][1] == "E":
                    self._edge(last, number, "DEPENDENCY", weighs=False)
            last = number

    def _stacks(self) -> None:
        self.name_of = {row["index"]: row["name"] for row in self.clipped}
        if not self.pinned:
            self._lock_edges(self.name_of)
        threads: dict[tuple[int, int], list[Row]] = {}
        merged = self._merged()
        for row in self.clipped:
            threads.setdefault((row["pid"], merged.get(row["tid"], row["tid"])), []).append(row)
        if self.pinned and not threads:
            raise Fails("ValueError")
        for key in sorted(threads):
            if all(row["stream"] < 0 for row in threads[key]):
                _Thread(self, threads[key])

    def _merged(self) -> dict[int, int]:
        found = []
        for part in ("autograd", "forward"):
            wanted = [row for row in self.clipped if row["cat"] in ("cpu_op", "user_annotation")]
            found.append({row["tid"] for row in wanted if part in row["name"]})
        if self.pinned or len(found[0]) != 1 or len(found[1]) != 1 or found[0] == found[1]:
            return {}
        (backward,), (forward,) = found
        return {backward: forward} if backward and forward else {}

    def _device(self) -> None:
        launches = [row for row in self.full if row["name"] in (PINNED_LAUNCHES if self.pinned else NEW_LAUNCHES)]
        launches = [row for row in launches if row["partner"] > 0]
        queue = self._queue(launches)
        by_index = {row["index"]: row for row in self.full}
        launches.sort(key=lambda row: row["ts"])
        launches = [row for row in launches if by_index[row["partner"]]["stream"] != -1]
        launches = [row for row in launches if by_index[row["partner"]]["partner"] > 0]
        previous = self._records(launches, by_index)
        following = self._waits(launches, by_index)
        rows = [row for row in self.clipped if row["partner"] >= 0]
        rows = [row for row in rows if row["stream"] != -1 or row["name"] in ("Event Sync", "Context Sync")]
        is_sync = {row["index"]: row["cat"] == "cuda_sync" for row in rows}
        rows.sort(key=lambda row: row["ts"] + (row["dur"] if is_sync[row["index"]] else 0))
        last: dict[int, int] = {}
        pending: dict[int, int] = {}
        for row in rows:
            if is_sync[row["index"]]:
                self._sync(row, last, pending, previous, following, by_index)
                continue
            if self.pinned:
                self._node(row)
            if row["index"] not in self.start:
                continue
            self._kernel(row, last, pending, queue, by_index)

    def _kernel(self, row: Row, last: Any, pending: Any, queue: Any, by_index: Any) -> None:
        start, end, stream = self.start[row["index"]], self.end[row["index"]], row["stream"]
        self._edge(start, end, "OPERATOR_KERNEL", event=row["index"])
        source = self.end.get(pending.pop(row["index"], -1))
        if source is not None:
            self._edge(source, start, "SYNC_DEPENDENCY", weighs=False)
        time = [ts for _, _, ts in self.nodes]
        before, call = last.get(stream), row["partner"]
        launched = queue.get(call) == 1 and queue.get(row["index"]) == 0
        if launched and before is not None:
            launched = time[before] < by_index[call]["ts"]
        if launched and source is not None:
            launched = time[source] < by_index[call]["ts"]
        if launched:
            if call not in self.start:
                raise Fails("AssertionError")
            self._edge(self.start[call], start, "KERNEL_LAUNCH_DELAY")
        near = before is not None and (self.pinned or time[start] - time[before] < 1500)
        if not launched and before is not None and near and (source is None or time[source] < time[before]):
            self._edge(before, start, "KERNEL_KERNEL_DELAY", event=self.nodes[before][0])
        if self.extra and not launched and call in self.start:
            self._edge(self.start[call], start, "KERNEL_LAUNCH_DELAY", weighs=False)
        last[stream] = end

    def _sync(self, row: Row, last: Any, pending: Any, previous: Any, following: Any, by_index: Any) -> None:
        def reach(node: int) -> None:
            if row["partner"] not in self.end:
                if self.pinned:
                    raise Fails("AttributeError")
                return
            self._edge(node, self.end[row["partner"]], "SYNC_DEPENDENCY", weighs=False)

        if row["name"] in ("Stream Wait Event", "Event Sync"):
            launch = previous.get(row["record"], -1)
            if launch == -1:
                return
            source = by_index[launch]["partner"]
            if row["name"] == "Event Sync":
                if source in self.end:
                    reach(self.end[source])
                return
            if following is None:
                raise Fails("AttributeError")
            if row["partner"] not in following:
                raise Fails("KeyError")
            if following[row["partner"]] >= 0:
                pending[by_index[following[row["partner"]]]["partner"]] = source
        elif row["name"] == "Stream Sync":
            if row["stream"] in last:
                reach(last[row["stream"]])
        elif row["name"] == "Context Sync":
            for node in list(last.values()):
                reach(node)
        else:
            raise Fails("AssertionError")

    def _queue(self, launches: list[Row]) -> dict[int, int]:
        device = [row for row in self.full if row["stream"] != -1]
        wanted = Counter(row["correlation"] for row in launches)
        found = [row for row in device if wanted[row["correlation"]]]
        if len(found) != len(launches) or any(count > 1 for count in wanted.values()):
            raise Unmodelled
        if not launches:
            raise Fails("TypeError" if self.pinned else "AssertionError")
        if len({row["correlation"] for row in found}) != len(found):
            raise Unmodelled
        stream_of = {row["correlation"]: row["stream"] for row in found}
        points = [(row["ts"], row["index"], stream_of[row["correlation"]], 1) for row in launches]
        points += [(row["ts"], row["index"], row["stream"], -1) for row in found]
        length: Counter[int] = Counter()
        queue = {}
        for _, index, stream, change in sorted(points, key=lambda point: point[0]):
            length[stream] += change
            queue[index] = length[stream]
        return queue

    def _records(self, launches: list[Row], by_index: dict[int, Row]) -> dict[int, int]:
        if "cudaEventRecord" not in self.symbols:
            return {}
        records = [row for row in self.full if row["name"] == "cudaEventRecord"]
        triples = {(r["record"], r["wait_on_stream"], r["pid"]) for r in self.full if r["wait_on_stream"] > -1}
        for keys in ([row["correlation"] for row in records], [triple[0] for triple in triples]):
            if len(set(keys)) != len(keys):
                raise Fails("MergeError")
        previous = {}
        for record in records:
            for correlation, stream, gpu in triples:
                if correlation == record["correlation"]:
                    previous[correlation] = -1
                    for launch in launches:
                        kernel = by_index[launch["partner"]]
                        same = kernel["stream"] == stream and kernel["pid"] == gpu
                        if same and launch["ts"] <= record["ts"]:
                            previous[correlation] = launch["index"]
        return previous

    def _waits(self, launches: list[Row], by_index: dict[int, Row]) -> dict[int, int] | None:
        if not {"cudaStreamWaitEvent", "Stream Wait Event"} <= self.symbols:
            return None
        following = {}
        for wait in self.full:
            if wait["name"] != "cudaStreamWaitEvent" or wait["partner"] <= 0:
                continue
            record = by_index[wait["partner"]]
            if record["stream"] == -1 or record["partner"] <= 0:
                continue
            following[wait["index"]] = -1
            for launch in reversed(launches):
                same = launch["pid"] == wait["pid"] and launch["tid"] == wait["tid"]
                same = same and by_index[launch["partner"]]["stream"] == record["stream"]
                if same and launch["ts"] == wait["ts"]:
                    raise Unmodelled
                if same and launch["ts"] > wait["ts"]:
                    following[wait["index"]] = launch["index"]
        if not following:
            raise Fails("ValueError")
        return following

    def _solve(self) -> dict[str, Any]:
        stream = {row["index"]: row["stream"] for row in self.clipped}
        valid = True
        weight = {}
        for (source, target), (kind, weighs, _) in self.edges.items():
            weight[source, target] = 0 if (weighs == -1 if self.pinned else weighs <= -1) else weighs
            valid &= not (self.pinned and weighs < -1)
            if kind == "SYNC_DEPENDENCY":
                first, second = stream[self.nodes[source][0]], stream[self.nodes[target][0]]
                valid &= first == -1 or first != second
        path = self._longest(weight) if valid else None
        if path is None:
            if self.pinned:
                raise Fails("ValueError")
            return {"ok": False, "clipped_rows": len(self.clipped), "nx_edges": len(self.edges)}
        if len(path) < 2:
            raise Fails("AssertionError")
        pairs = list(pairwise(path))
        return {
            "ok": True,
            "clipped_rows": len(self.clipped),
            "nodes_list": len(self.nodes),
            "nx_nodes": len(self.order),
            "nx_edges": len(self.edges),
            "cp_path": [list(self.nodes[node][:2]) for node in path],
            "cp_weight": float(sum(self.edges[pair][1] for pair in pairs)),
            "edges": sorted(
                [*self.nodes[a][:2], *self.nodes[b][:2], kind, float(weight)]
                for (a, b), (kind, weight, _) in self.edges.items()
            ),
            "events": [self.edges[pair][2] for pair in pairs],
        }

    def _longest(self, weight: dict[tuple[int, int], float]) -> list[int] | None:
        before: dict[int, list[int]] = {node: [] for node in self.order}
        after: dict[int, list[int]] = {node: [] for node in self.order}
        for source, target in self.edges:
            before[target].append(source)
            after[source].append(target)
        degree = {node: len(before[node]) for node in self.order}
        generation = [node for node in self.order if not degree[node]]
        topological = []
        while generation:
            topological += generation
            upcoming = []
            for node in generation:
                for target in after[node]:
                    degree[target] -= 1
                    if not degree[target]:
                        upcoming.append(target)
            generation = upcoming
        if len(topological) < len(self.order):
            return None
        far: dict[int, tuple[float, int]] = {}
        for node in topological:
            reached = [(far[source][0] + weight[source, node], source) for source in before[node]]
            best = max(reached, key=lambda pair: pair[0]) if reached else (0, node)
            far[node] = best if best[0] >= 0 else (0, node)
        path = [max(topological, key=lambda node: far[node][0])] if topological else []
        while path and far[path[-1]][1] != path[-1]:
            path.append(far[path[-1]][1])
        return path[::-1]


class _Thread:
    """The calls of one thread: sorted by comparison, nested by a stack, walked by recursion."""

    def __init__(self, model: Model, rows: list[Row]) -> None:
        self.model = model
        self.row_of = {row["index"]: row for row in rows}
        points = []
        for row in rows:
            points += [(row["index"], row["ts"], row["dur"], 1), (row["index"], row["ts"] + row["dur"], row["dur"], -1)]
        points.sort(key=cmp_to_key(_compare))
        children: dict[int, list[int]] = {-1: []}
        self.parent: dict[int, int] = {}
        stack = [-1]
        for index, _, _, side in points:
            if side == 1:
                self.parent[index] = stack[-1]
                children[stack[-1]].append(index)
                children[index] = []
                stack.append(index)
            elif len(stack) > 1:
                stack.pop()
        self.children = children
        self.last: int | None = None
        self.level = 0
        self.last_parent = -1
        for child in children[-1]:
            self._walk(child)

    def _walk(self, index: int) -> None:
        self._enter(index)
        for child in self.children[index]:
            self._walk(child)
        self._leave(index)

    def _counts(self, index: int) -> bool:
        model = self.model
        if not model.pinned:
            return index in model.start
        if index > 0:
            if "cpu_op" not in model.symbols:
                raise Fails("KeyError")
            if self.row_of[index]["cat"] != "cpu_op" and "cuda_runtime" not in model.symbols:
                raise Fails("KeyError")
        return index > 0 and model._is_host(self.row_of[index])

    def _locked(self, first: int, second: int) -> bool:
        nodes, names = self.model.nodes, self.model.name_of
        both = names[nodes[first][0]] in LOCKS and names[nodes[second][0]] in LOCKS
        return not self.model.pinned and both and (nodes[first][1] == "S" or nodes[second][1] == "E")

    def _link(self, node: int, kind: str, weighs: bool) -> None:
        nodes = self.model.nodes
        if self.last is None or self._locked(self.last, node):
            return
        first, second = nodes[self.last], nodes[node]
        event = first[0] if first[1] == "S" else second[0] if second[1] == "E" else self.last_parent
        self.model._edge(self.last, node, kind, weighs, event if kind == "OPERATOR_KERNEL" else None)

    def _enter(self, index: int) -> None:
        if not self._counts(index):
            return
        if self.model.pinned:
            self.model._node(self.row_of[index])
        node = self.model.start[index]
        self._link(node, "OPERATOR_KERNEL" if self.level else "DEPENDENCY", self.level > 0)
        self.last, self.last_parent = node, self.parent[index]
        self.level += 1

    def _leave(self, index: int) -> None:
        if not self._counts(index):
            return
        node = self.model.end[index]
        self._link(node, "OPERATOR_KERNEL", self.row_of[index]["name"] not in BLOCKING)
        self.last, self.last_parent = node, self.parent[index]
        self.level -= 1


def _compare(x: tuple[int, Any, Any, int], y: tuple[int, Any, Any, int]) -> int:
    """Which of two points of a thread's time comes first; all durations are positive."""
    if x[0] == y[0]:
        return -1 if x[3] == 1 else 1
    if x[1] != y[1]:
        return -1 if x[1] < y[1] else 1
    if x[3] != y[3]:
        return 1 if x[3] == 1 else -1
    if x[2] != y[2]:
        return -x[3] if x[2] > y[2] else x[3]
    return -x[3] if x[0] < y[0] else x[3]
