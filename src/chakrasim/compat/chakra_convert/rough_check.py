"""The reference converter's rough check of its own output, ``--simulate`` (chakra-toolchain.md, 4.7).

One host operator at a time, and one kernel on each stream. What waits for a node is released when that node begins, one
microsecond later, not when it ends: so does the reference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from chakrasim.compat.chakra_convert.graph import Dependencies
from chakrasim.compat.chakra_convert.nodes import LinkedNode


@dataclass
class Outcome:
    """Microsecond at which the last node completed, and how many of each kind began."""

    end: int = 0
    host_nodes: int = 0
    device_nodes: int = 0


class _Run:
    def __init__(self, nodes: dict[Any, LinkedNode], dependencies: Dependencies) -> None:
        self.nodes = nodes
        self.left = {at: len(waits) for at, waits in dependencies.items()}
        self.followers: Dependencies = {}
        for at, waits in dependencies.items():
            for other in waits:
                self.followers.setdefault(other, []).append(at)
        self.host: deque[Any] = deque()
        #: By stream: nodes that are ready, each with its place in the order of becoming ready.
        self.streams: dict[Any, deque[tuple[int, Any]]] = {}
        self.ready = 0
        for at in sorted(at for at, count in self.left.items() if not count):
            self.release(at)

    def release(self, at: Any) -> None:
        node = self.nodes[at]
        if node.is_gpu:
            self.streams.setdefault(node.stream, deque()).append((self.ready, at))
            self.ready += 1
        else:
            self.host.append(at)

    def started(self, at: Any) -> None:
        for follower in self.followers.get(at, ()):
            self.left[follower] -= 1
            if not self.left[follower]:
                self.release(follower)


def simulate(nodes: dict[Any, LinkedNode], dependencies: Dependencies, outcome: Outcome) -> Iterator[str]:
    """The lines that the reference writes into its log, in order; fills ``outcome``."""
    run = _Run(nodes, dependencies)
    now = 0
    on_host: tuple[int, Any] | None = None
    on_stream: dict[Any, tuple[int, Any]] = {}
    ends: list[int] = []
    while run.host or on_host or on_stream or any(run.streams.values()):
        # A set as in the reference, whose order of iteration decides which of several followers comes first.
        begun: set[Any] = set()
        if run.host and on_host is None:
            at = run.host.popleft()
            on_host = (now + max(nodes[at].duration, 1), at)
            heappush(ends, on_host[0])
            begun.add(at)
            outcome.host_nodes += 1
            yield (
                f"Issuing CPU Node ID {at} ({nodes[at].name}) at {now}us with duration {nodes[at].duration}us,"
                f" tid: {nodes[at].tid}"
            )
        free = sorted(queue[0] for stream, queue in run.streams.items() if queue and stream not in on_stream)
        for _, at in free:
            stream = nodes[at].stream
            run.streams[stream].popleft()
            on_stream[stream] = (now + max(nodes[at].duration, 1), at)
            heappush(ends, on_stream[stream][0])
            begun.add(at)
            outcome.device_nodes += 1
            yield (
                f"Issuing GPU Node ID {at} ({nodes[at].name}) at {now}us on stream {stream} with duration"
                f" {nodes[at].duration}us, tid: stream {stream}"
            )
        # Nothing can change before the next end, unless something has just begun.
        now = now + 1 if begun else max(now + 1, ends[0])
        while ends and ends[0] <= now:
            heappop(ends)
        if on_host and on_host[0] <= now:
            yield f"CPU Node ID {on_host[1]} completed at {now}us, tid: {nodes[on_host[1]].tid}"
            on_host = None
        for stream, (end, at) in list(on_stream.items()):
            if end <= now:
                yield f"GPU Node ID {at} on stream {stream} completed at {now}us, tid: stream {stream}"
                del on_stream[stream]
        outcome.end = now
        for at in begun:
            run.started(at)


def write_log(path: str, lines: Iterator[str]) -> None:
    """Write the lines as the reference's log has them; the file appears whole or not at all."""
    from datetime import datetime

    from chakrasim.files.outputs import open_whole

    stamp = datetime.now().strftime("DEBUG [%m/%d/%Y %I:%M:%S %p] ")
    with open_whole(path) as file:
        for line in lines:
            file.write(f"{stamp}{line}\n".encode())
