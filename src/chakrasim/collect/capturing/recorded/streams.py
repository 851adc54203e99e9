"""Streams and events of a captured program: what a GPU would be told, kept as dependencies between nodes.

The rules are those of CUDA and of PyTorch's NCCL back end. Nodes of a stream run one after another. A stream that waits
for an event, for another stream or for a collective starts its next node after what had been put there. A collective or
message that is asynchronous runs on a stream of its process group, after what its caller's stream has been given;
`wait` makes the stream that is current then wait for it. Others run on the stream of their caller.
"""

from __future__ import annotations

from typing import Any, Final

import torch

COMPUTE_RULE: Final = "default stream"


class Stream:
    """A queue of nodes: the last one, and what the next one has to wait for."""

    def __init__(self, number: int, rule: str) -> None:
        self.number = number
        self.rule = rule
        self.last: tuple[int, ...] = ()
        self.pending: set[int] = set()

    def order(self) -> set[int]:
        """The nodes that the next node of this stream comes after."""
        return self.pending.union(self.last)

    def put(self, node: int) -> None:
        """``node`` is the last one now; it came after `order`."""
        self.last = (node,)
        self.pending.clear()


class Streams:
    """All streams of a rank, by who uses them; numbers in the order of first use.

    Attributes
    ----------
    current: the stream that operators go to.
    """

    def __init__(self) -> None:
        self.default = Stream(0, COMPUTE_RULE)
        self.current = self.default
        self._by_key: dict[Any, Stream] = {}
        self.all = [self.default]

    def of(self, key: Any, rule: str) -> Stream:
        """The stream that ``key`` stands for."""
        stream = self._by_key.get(key)
        if stream is None:
            stream = self._by_key[key] = Stream(len(self.all), rule)
            self.all.append(stream)
        return stream

    def restart(self) -> None:
        """Forget the nodes: recording begins."""
        for stream in self.all:
            stream.last = ()
            stream.pending.clear()

    def join(self) -> set[int]:
        """The last nodes of all streams: what a device-wide synchronisation waits for."""
        return {node for stream in self.all for node in stream.order()}


class DeviceStream:
    """Stands for `torch.cuda.Stream` in the captured program."""

    streams: Streams
    device_index = 0
    cuda_stream = 0
    stream_id = 0
    priority = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, rule: str = "stream of the program", **__: Any) -> None:
        self.rule = rule
        self._stream: Stream | None = None

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority; a capture has none."""
        return 0, 0

    @property
    def stream(self) -> Stream:
        """The queue behind it."""
        if self._stream is None:
            self._stream = self.streams.of(self, self.rule)
        return self._stream

    def wait_stream(self, other: DeviceStream) -> None:
        """Work put here from now on starts after all work that ``other`` has."""
        self.stream.pending |= other.stream.order()

    def record_event(self, event: DeviceEvent | None = None) -> DeviceEvent:
        """An event at the end of what the stream has so far."""
        event = event or DeviceEvent()
        event.record(self)
        return event

    def wait_event(self, event: DeviceEvent | None) -> None:
        """Work put here from now on starts after the event."""
        if event is not None:
            self.stream.pending |= event.after

    def synchronize(self) -> None:
        """The host waits: what it asks for later, on any stream, comes after this stream's work."""
        host_waits_for(self.streams, self.stream.order())

    def query(self) -> bool:
        """Whether all is done: yes."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is made: no."""
        return False

    def __enter__(self) -> DeviceStream:
        self._previous = self.streams.current
        self.streams.current = self.stream
        return self

    def __exit__(self, *_: object) -> None:
        self.streams.current = self._previous


class DefaultStream(DeviceStream):
    """The stream that programs start on, or the one that is current."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.rule = stream.rule


class StreamContext:
    """Stands for `torch.cuda.stream(...)`: nests, and takes None."""

    def __init__(self, stream: DeviceStream | None) -> None:
        self._chosen = stream
        self._before: list[Stream] = []

    def __enter__(self) -> DeviceStream | None:
        self._before.append(DeviceStream.streams.current)
        if self._chosen is not None:
            DeviceStream.streams.current = self._chosen.stream
        return self._chosen

    def __exit__(self, *_: object) -> None:
        DeviceStream.streams.current = self._before.pop()


class DeviceEvent:
    """Stands for `torch.cuda.Event`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.after: frozenset[int] = frozenset()

    def record(self, stream: DeviceStream | None = None) -> None:
        """It happens when the stream has done what it has so far."""
        queue = stream.stream if stream is not None else DeviceStream.streams.current
        self.after = frozenset(queue.order())

    def wait(self, stream: DeviceStream | None = None) -> None:
        """The stream's further work starts after it."""
        queue = stream.stream if stream is not None else DeviceStream.streams.current
        queue.pending |= self.after

    def synchronize(self) -> None:
        """The host waits for it."""
        host_waits_for(DeviceStream.streams, self.after)

    def query(self) -> bool:
        """Whether it has happened: yes."""
        return True

    def elapsed_time(self, end: DeviceEvent) -> float:
        """Milliseconds: a capture has no clock."""
        return 1.0


def current_stream(*_: Any) -> DeviceStream:
    """Stands for `torch.cuda.current_stream`."""
    return DefaultStream(DeviceStream.streams.current)


def default_stream(*_: Any) -> DeviceStream:
    """Stands for `torch.cuda.default_stream`."""
    return DefaultStream(DeviceStream.streams.default)


def set_stream(stream: DeviceStream) -> None:
    """Stands for `torch.cuda.set_stream`."""
    DeviceStream.streams.current = stream.stream


def synchronize(*_: Any) -> None:
    """Stands for `torch.cuda.synchronize`."""
    host_waits_for(DeviceStream.streams, DeviceStream.streams.join())


def host_waits_for(streams: Streams, nodes: Any) -> None:
    """What the host asks for from now on starts after these nodes, on every stream."""
    for stream in streams.all:
        stream.pending |= set(nodes)
