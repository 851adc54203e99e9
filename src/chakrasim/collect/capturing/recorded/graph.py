"""The graph of a captured step: a node for every operator that does work, every collective and every message.

Data dependencies are reads after writes, of storages. Order within a stream and what streams wait for are control
dependencies; so are writes after reads and after writes, where they cross streams.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch

from chakrasim.collect.capturing.recorded.calls import Call, name_of, size_of
from chakrasim.collect.capturing.recorded.memory import COMMUNICATION, MemoryTimeline
from chakrasim.collect.capturing.recorded.streams import Stream, Streams
from chakrasim.collect.capturing.scans import Scans
from chakrasim.operators.describe import OperatorWork, describe
from chakrasim.operators.kinds import OVERWRITES
from chakrasim.operators.traffic import tensors_in
from chakrasim.trace.kinds import NodeType
from chakrasim.trace.linked.columns import RECV, SEND

_graph_task: Final = torch._C._current_graph_task_id


@dataclass(frozen=True)
class Node:
    """A node: its number is its place in the graph.

    ``work`` for an operator; ``role``, ``call``'s type, bytes and ends for a collective or message; ``access``, a
    `NodeType`, and bytes for a load or store of the host's memory.
    """

    name: str
    data: tuple[int, ...]
    control: tuple[int, ...]
    stream: int
    rule: str
    phase: str
    work: OperatorWork | None = None
    type: int = 0
    role: str = ""
    size_bytes: int = 0
    dtype: str = ""
    peer: int = -1
    tag: int = 0
    parts: tuple[int, ...] = ()
    access: int = 0


class _Storage:
    """Who wrote a storage last, who has read it since (the last of each stream), the collective that fills it."""

    __slots__ = ("collective", "readers", "writer", "writer_stream")

    def __init__(self) -> None:
        self.writer = -1
        self.writer_stream = -1
        self.readers: dict[int, int] = {}
        self.collective = -1


class Graph:
    """Grows by one node at a time.

    Attributes
    ----------
    nodes: so far.
    streams: where work goes.
    memory: live storages, whose numbers are the ones that dependencies go by.
    recording: whether nodes are made.
    optimizing: whether an optimizer steps now.
    override: the phase, whatever seems to run; "" for none.
    look: is called at each operator.
    scans: loops of small operators, as far as they are recorded.
    precision: an operator's work in the type that the device computes it in.
    unknown: matrix-like operators without a formula for their FLOPs, how often.
    way: whether the copy that runs now is a load or store of the host's memory; None: it is neither.
    counted: what is left out, how often.
    """

    def __init__(self, streams: Streams) -> None:
        self.nodes: list[Node] = []
        self.streams = streams
        self.memory = MemoryTimeline()
        self.recording = False
        self.optimizing = False
        self.override = ""
        self.look: Callable[[], None] = lambda: None
        self.scans = Scans()
        self.precision: Callable[[OperatorWork], OperatorWork] = lambda work: work
        self.unknown: dict[str, int] = {}
        self.way: NodeType | None = None
        self.counted: Counter[str] = Counter()
        self._storages: dict[int, _Storage] = {}
        self._written: dict[Any, tuple[tuple[int, str], ...]] = {}
        self._batch: tuple[dict[Stream, set[int]], dict[Stream, list[int]]] | None = None

    def start(self) -> None:
        """Record from here on."""
        self.recording = True
        self.nodes = []
        self.scans = Scans()
        self._storages = {}
        self.streams.restart()

    def phase(self) -> str:
        """The phase of the step that runs."""
        if self.override or self.optimizing:
            return self.override or "optimizer"
        if _graph_task() != -1:
            return "recompute" if torch.is_grad_enabled() else "backward"
        return "forward"

    def operator(self, func: Any, args: Any, kwargs: Any, inputs: list[Any], result: Any) -> None:
        """An operator ran."""
        self.look()
        memory = self.memory
        way = self.way or self._copied_across(func, args)
        if way is not None:
            self._access(way, name_of(func), args[0] if self.way else args[1], result)
            return
        if inputs and not func.is_view and all(map(memory.is_hosted, inputs)):
            memory.host(result)
            if self.recording:
                self.counted["operators on tensors in the host's memory left out: what a CPU takes is not known"] += 1
            return
        if not self.recording:
            if not func.is_view:
                memory.observe(result)
            return
        work = describe(func, args, kwargs, result)
        if work.is_free:
            if not func.is_view:
                memory.at(len(self.nodes) - 1, self.phase())
                memory.observe(result)
            return
        work = self.precision(work)
        phase = self.phase()
        memory.at(len(self.nodes), phase)
        numbers = [memory.storage(tensor) for tensor in inputs]
        written = {memory.storage(tensor) for tensor in self._mutated(func, args, kwargs)}
        given = {memory.storage(tensor) for tensor in tensors_in(result)}
        fresh = given.difference(numbers)
        written |= given.intersection(numbers)
        memory.observe(result)
        reads = set(numbers)
        if work.name.partition("::")[2] in OVERWRITES:
            reads -= written
        if work.flops_from.name == "UNKNOWN":
            self.unknown[work.name] = self.unknown.get(work.name, 0) + 1
        for number in fresh:
            self._storages.pop(number, None)
        stream = self.streams.current
        data, control = self._dependencies(stream, reads, written | fresh, stream.order())
        self.nodes.append(Node(work.name, data, control, stream.number, stream.rule, phase, work))
        stream.put(len(self.nodes) - 1)
        self.scans.operator(len(self.nodes) - 1, work, zip(numbers, inputs, strict=True), phase)

    def _copied_across(self, func: Any, args: Any) -> NodeType | None:
        """Whether an operator copies from the device into the host's memory, or the other way."""
        if func is not torch.ops.aten.copy_.default:
            return None
        target, source = map(self.memory.is_hosted, args[:2])
        return None if target == source else NodeType.MEM_STORE_NODE if target else NodeType.MEM_LOAD_NODE

    def _access(self, way: NodeType, name: str, source: Any, target: Any) -> None:
        """A copy between the device and the host's memory."""
        memory, phase = self.memory, self.phase()
        memory.at(len(self.nodes) if self.recording else -1, phase)
        if way == NodeType.MEM_STORE_NODE:
            memory.host(target)
        else:
            memory.observe(target)
        if not self.recording:
            return
        stream = self.streams.current
        data, control = self._dependencies(stream, {memory.storage(source)}, {memory.storage(target)}, stream.order())
        size = size_of([source])
        self.nodes.append(
            Node(name, data, control, stream.number, stream.rule, phase, size_bytes=size, access=int(way))
        )
        stream.put(len(self.nodes) - 1)

    def collective(self, call: Call, role: str, told_as: tuple[str, int]) -> int:
        """A collective or message of the group ``role`` is given to a stream; ``told_as`` is the node's group and peer.

        Returns the node's number, -1 if nothing is recorded.
        """
        memory = self.memory
        memory.at(len(self.nodes) if self.recording else -1, self.phase())
        memory.observe(call.writes, COMMUNICATION)
        if not self.recording:
            return -1
        stream, order, rule = self._place(call, role)
        reads = {memory.storage(tensor) for tensor in call.reads}
        writes = {memory.storage(tensor) for tensor in call.writes}
        data, control = self._dependencies(stream, reads, writes, order)
        number = len(self.nodes)
        tensors = call.reads or call.writes
        dtype = str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
        self.nodes.append(
            Node(
                call.name,
                data,
                control,
                stream.number,
                rule,
                self.phase(),
                None,
                call.type,
                told_as[0],
                call.size_bytes,
                dtype,
                told_as[1],
                call.tag,
                call.parts,
            )
        )
        if self._batch is None:
            stream.put(number)
        else:
            self._batch[1].setdefault(stream, []).append(number)
        for storage in writes | reads:
            self._state(storage).collective = number
        return number

    def _place(self, call: Call, role: str) -> tuple[Stream, set[int], str]:
        """The stream of a collective, what it comes after, and the rule."""
        current, group = self.streams.current, f"process group {role}" if role else "the process group of all ranks"
        if not call.is_async:
            return current, current.order(), f"{current.rule}: synchronous collectives run on the stream of the caller"
        if call.type in (SEND, RECV) and self._batch is None:
            rule = f"messages of {group}, a stream for each peer"
            stream = self.streams.of(("message", call.handle, call.peer), rule)
        else:
            rule = f"asynchronous collectives and batches of messages of {group}"
            stream = self.streams.of(("group", call.handle), rule)
        if self._batch is None:
            return stream, stream.order() | current.order(), rule
        order = self._batch[0].setdefault(stream, stream.order() | current.order())
        return stream, order, rule

    def begin_batch(self) -> None:
        """Messages up to `end_batch` go together: none waits for another."""
        self._batch = ({}, {})

    def end_batch(self) -> None:
        """See `begin_batch`."""
        if self._batch is not None:
            for stream, numbers in self._batch[1].items():
                stream.put(numbers[-1])
                stream.last = tuple(numbers)
        self._batch = None

    def wait(self, number: int) -> None:
        """The current stream waits for a collective."""
        if number >= 0:
            self.streams.current.pending.add(number)

    def wait_for_tensors(self, tensors: Iterable[Any]) -> None:
        """The current stream waits for the collectives that fill these tensors."""
        if self.recording:
            for tensor in tensors:
                state = self._storages.get(self.memory.storage(tensor))
                if state is not None:
                    self.wait(state.collective)

    def _state(self, number: int) -> _Storage:
        state = self._storages.get(number)
        if state is None:
            state = self._storages[number] = _Storage()
        return state

    def _dependencies(
        self, stream: Stream, reads: set[int], writes: set[int], order: set[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Data and control dependencies of the node that is added next, which is noted as reader and writer."""
        me, lane = len(self.nodes), stream.number
        data: set[int] = set()
        control = set(order)
        for number in reads:
            state = self._state(number)
            if state.writer >= 0:
                data.add(state.writer)
            if number not in writes:
                state.readers[lane] = me
        for number in writes:
            state = self._state(number)
            control.update(reader for other, reader in state.readers.items() if other != lane)
            if state.writer >= 0 and state.writer_stream != lane:
                control.add(state.writer)
            state.writer, state.writer_stream = me, lane
            state.readers.clear()
        control -= data
        control.discard(me)
        data.discard(me)
        return tuple(sorted(data)), tuple(sorted(control))

    def _mutated(self, func: Any, args: Any, kwargs: Any) -> list[Any]:
        """The arguments that an operator writes to."""
        places = self._written.get(func)
        if places is None:
            schema = getattr(func, "_schema", None)
            places = self._written[func] = tuple(
                (position, argument.name)
                for position, argument in enumerate(schema.arguments if schema is not None else ())
                if argument.alias_info is not None and argument.alias_info.is_write
            )
        if not places:
            return []
        values: list[Any] = []
        for position, name in places:
            value = args[position] if position < len(args) else kwargs.get(name)
            values.extend(tensors_in(value))
        return values
