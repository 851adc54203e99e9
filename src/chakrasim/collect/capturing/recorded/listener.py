"""What a captured program's collectives get for an answer, and how they come into the graph."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensor

from chakrasim.collect.capturing.pretended.device import DeviceMode, program_place
from chakrasim.collect.capturing.recorded.calls import (
    WAIT,
    Call,
    decode_c10d,
    decode_functional,
    functional_type,
    size_of_group,
)
from chakrasim.collect.capturing.recorded.graph import Graph
from chakrasim.collect.capturing.recorded.groups import Groups
from chakrasim.errors import InputError
from chakrasim.trace.kinds import CollectiveType as Type
from chakrasim.trace.linked.columns import RECV, SEND


class Handle(dist.Work):  # type: ignore[misc]
    """What an asynchronous collective gives to the program."""

    def __init__(self, graph: Graph, number: int, tensors: Any) -> None:
        super().__init__()
        self._graph = graph
        self._number = number
        self._tensors = tensors

    def wait(self, timeout: Any = None) -> bool:
        """The current stream waits."""
        self._graph.wait(self._number)
        self._tensors = None
        return True

    synchronize = block_current_stream = wait

    def is_completed(self) -> bool:
        """Yes."""
        return True

    is_success = is_completed

    def result(self) -> Any:
        """The tensors that the collective fills."""
        return self._tensors

    def get_future(self) -> Any:
        """A future that is done."""
        future: Any = torch.futures.Future()
        future.set_result(self._tensors)
        self._tensors = None
        return future


class Listener:
    """Listens to a `DeviceMode`.

    Attributes
    ----------
    counted: collectives that are no nodes, and assumptions, by what they are: how often.
    pass_on: gives a broadcast of host values those of its root, as far as they are known.
    sums: whether the all-reduce that runs now is a sum; operators do not show it.
    """

    def __init__(self, mode: DeviceMode, graph: Graph, groups: Groups) -> None:
        self.mode = mode
        self.graph = graph
        self.groups = groups
        self.counted: Counter[str] = Counter()
        self.pass_on: Callable[[Call], None] = lambda call: None
        self.sums = False
        # PyTorch holds the C++ half of a handle only: it must not lose its Python half before the program has it.
        self._handles: deque[Handle] = deque(maxlen=4096)
        self.operator = graph.operator

    def communication(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A collective operator: recorded, and answered."""
        if func.namespace == "c10d":
            return self._c10d(func, args, kwargs)
        kind = functional_type(func)
        if kind is None:
            raise _unknown(func)
        if kind == WAIT:
            self.graph.wait_for_tensors(args[0] if isinstance(args[0], list | tuple) else args[:1])
            return args[0]
        args, kwargs, _ = self.mode._with_twins(args, kwargs)
        result = self.mode.shapes_of(func, args, kwargs)
        call = decode_functional(func, args, kwargs, result)
        self._record(call)
        return result

    def _c10d(self, func: Any, args: Any, kwargs: Any) -> Any:
        call = decode_c10d(func, args, kwargs)
        if call is None:
            if not func._schema.returns:  # a check of values
                return None
            raise _unknown(func)
        if call.type not in (Type.BARRIER, SEND) and not any(
            isinstance(tensor, FakeTensor) for tensor in call.reads + call.writes
        ):
            self._answer_on_host(call)
        if "any_source" in call.name:
            raise InputError(
                "a receive from any rank cannot be captured: who sends is not known",
                place=program_place(),
                remedy="name the source of dist.recv there",
            )
        number = self._record(call)
        returns = len(func._schema.returns)
        if returns == 0:
            return None
        handle = Handle(self.graph, number, list(call.writes or call.reads) if call.is_async else None)
        self._handles.append(handle)
        return handle.boxed() if returns == 1 else (args[0], handle.boxed())

    def _record(self, call: Call) -> int:
        if call.type == Type.BARRIER:
            self.counted["barrier"] += 1
        elif not self.graph.recording:
            self.counted["collectives before the step"] += 1
        role, _ = self.groups.find(call.handle)
        return self.graph.collective(call, role, self._told_as(call, role))

    def _told_as(self, call: Call, role: str) -> tuple[str, int]:
        """Group and place of the peer that a node says. A message in the group of all ranks is one of the smallest
        group that both ranks are in: ranks at the same place of that do the same."""
        if role or call.type not in (SEND, RECV):
            return role, call.peer
        narrow = self.groups.narrowest(dist.get_rank(), call.peer)
        return (role, call.peer) if narrow is None else (narrow[0], narrow[1].index(call.peer))

    def _answer_on_host(self, call: Call) -> None:
        """Real tensors get what they would get if all ranks held what this one holds."""
        if call.type == RECV:
            self.counted[f"received value = 0 at {program_place()}"] += 1
            return
        ranks = size_of_group(call.handle)
        with torch.no_grad():
            if call.type == Type.ALL_REDUCE:
                self.counted["all-reduce of host values as if equal on all ranks"] += 1
                # An average, a minimum or a maximum of equal values is the value.
                if self.sums:
                    for tensor in call.writes:
                        tensor.mul_(ranks)
                return
            if call.type == Type.BROADCAST:
                self.pass_on(call)
                return
            if call.type == Type.REDUCE:
                return
            parts = len(call.writes) // max(len(call.reads), 1)
            self.counted[f"{call.name} of host values as if equal on all ranks"] += 1
            if call.type in (Type.ALL_GATHER, Type.GATHER) and len(call.writes):
                for number, target in enumerate(call.writes):
                    source = call.reads[number // max(parts, 1) % len(call.reads)].reshape(-1)
                    times = target.numel() // max(source.numel(), 1)
                    target.copy_(source.repeat(times).reshape(target.shape))
            elif call.type == Type.ALL_TO_ALL:
                for target, source in zip(call.writes, call.reads, strict=False):
                    if target.numel() == source.numel():
                        target.copy_(source.reshape(target.shape))
            else:
                for target, source in zip(call.writes, call.reads, strict=False):
                    target.copy_(source.reshape(-1)[: target.numel()].reshape(target.shape))


def _unknown(func: Any) -> InputError:
    return InputError(
        f"the collective {func} is not known",
        place=program_place(),
        remedy="use one of torch.distributed's documented collectives there",
    )
