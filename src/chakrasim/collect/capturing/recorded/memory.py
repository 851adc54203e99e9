"""The memory of a captured step: every storage from its creation to its release, by what it holds.

A storage is live while Python or autograd holds it, as on a real device: capture must not keep tensors alive. Sizes are
those of the storages; what an allocator rounds up or caches, and what libraries hold, comes on top.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.operators.traffic import tensors_in

PARAMETERS: Final = "parameters"
GRADIENTS: Final = "gradients"
OPTIMIZER_STATE: Final = "optimizer state"
BUFFERS: Final = "buffers"
ACTIVATIONS: Final = "activations"
COMMUNICATION: Final = "communication"
TEMPORARIES: Final = "temporaries"
CATEGORIES: Final = (PARAMETERS, GRADIENTS, OPTIMIZER_STATE, BUFFERS, ACTIVATIONS, COMMUNICATION, TEMPORARIES)
"""What a storage holds. Activations are made in the forward pass (or its recomputation), temporaries elsewhere;
communication is what collectives give, unless it is a gradient or a parameter by name."""

_FORWARD: Final = ("forward", "recompute")


@dataclass(frozen=True)
class MemoryPeak:
    """The largest number of live bytes.

    Attributes
    ----------
    live_bytes: at the peak.
    by_category: of that, by the categories of `CATEGORIES`; they sum to ``live_bytes``.
    node: the number that capture gave to the operator that reached it; -1 if it was reached before the first one.
    """

    live_bytes: int
    by_category: dict[str, int]
    node: int


def verdict(peak_bytes: int, capacity_bytes: int) -> tuple[bool, str]:
    """Whether a step of this peak fits a device, and a sentence that says so, with figures in GiB."""
    peak, capacity, spare = (x / 2**30 for x in (peak_bytes, capacity_bytes, abs(capacity_bytes - peak_bytes)))
    if peak_bytes <= capacity_bytes:
        return True, f"fits: a peak of {peak:.2f} GiB in {capacity:.2f} GiB leaves {spare:.2f} GiB"
    lacking = f"is {spare:.2f} GiB more than the device's {capacity:.2f} GiB"
    return False, f"out of memory: a peak of {peak:.2f} GiB {lacking}"


@dataclass
class MemoryTimeline:
    """Live bytes over a captured program.

    Storages are found in the tensors that operators give (`observe`) or that somebody names (`label`); their release is
    seen through weak references, a change of size through `watch_resizes`. Numbers of storages are never used twice.

    Attributes
    ----------
    live_bytes: now.
    hosting: whether new storages are in the host's memory: they take none of the device's.
    """

    live_bytes: int = 0
    hosting: bool = False
    _hosted: set[int] = field(default_factory=set)
    _node: int = -1
    _phase: str = "forward"
    _nodes: list[int] = field(default_factory=list)
    _storages: list[int] = field(default_factory=list)
    _deltas: list[int] = field(default_factory=list)
    _categories: list[int] = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _references: dict[int, Any] = field(default_factory=dict)

    def at(self, node: int, phase: str) -> None:
        """What follows belongs to this node; ``phase`` as in `chakrasim.trace.work.PHASE`."""
        self._node, self._phase = node, phase

    def storage(self, tensor: Any, category: str | None = None) -> int:
        """The number of a tensor's storage, which starts to be live if it is new; -1 for a tensor without one.

        ``category`` is that of a new storage; by default activations in the forward pass, else temporaries.
        """
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return -1
        address = int(storage._cdata)
        number = self._numbers.get(address)
        if number is None:
            if category is None:
                category = ACTIVATIONS if self._phase in _FORWARD else TEMPORARIES
            number = len(self._categories)
            self._categories.append(CATEGORIES.index(category))
            self._numbers[address] = number
            self._references[number] = weakref.ref(storage, self._on_release(address, number))
            self._sizes[number] = 0
            if self.hosting:
                self._hosted.add(number)
            self._change(number, int(storage.nbytes()))
        return number

    def host(self, result: Any) -> None:
        """The tensors that an operator gave are in the host's memory."""
        self.hosting = True
        self.observe(result)
        self.hosting = False

    def is_hosted(self, tensor: Any) -> bool:
        """Whether a tensor is in the host's memory."""
        try:
            address = int(tensor.untyped_storage()._cdata) if self._hosted else 0
        except (NotImplementedError, RuntimeError):
            return False
        return self._numbers.get(address) in self._hosted

    def observe(self, result: Any, category: str | None = None) -> None:
        """Take note of the tensors that an operator gave (or changed: sizes are read again)."""
        for tensor in tensors_in(result):
            number = self.storage(tensor, category)
            if number >= 0:
                self._change(number, int(tensor.untyped_storage().nbytes()))

    def label(self, tensors: Iterable[Any], category: str) -> None:
        """Say what tensors hold, whenever they were made. Subclasses (DTensor) stand for their local tensors."""
        position = CATEGORIES.index(category)
        for tensor in tensors:
            for part in _plain(tensor):
                number = self.storage(part, category)
                if number >= 0:
                    self._categories[number] = position

    def mark(self) -> int:
        """A position in the timeline, for `peak`."""
        return len(self._deltas)

    def peak(self, since: int = 0, until: int | None = None) -> MemoryPeak:
        """The largest live bytes between two marks (from the state at the first one), and what they are."""
        storages, deltas, live = self._columns(until)
        if len(live) == 0:
            return MemoryPeak(0, dict.fromkeys(CATEGORIES, 0), -1)
        start = max(since - 1, 0)
        place = start + int(np.argmax(live[start:]))
        of = np.asarray(self._categories, dtype=np.int64)[storages[: place + 1]]
        sums = np.zeros(len(CATEGORIES), dtype=np.int64)
        np.add.at(sums, of, deltas[: place + 1])
        by_category = {name: int(size) for name, size in zip(CATEGORIES, sums, strict=True)}
        return MemoryPeak(int(live[place]), by_category, self._nodes[place])

    def timeline(self, since: int = 0, until: int | None = None) -> dict[str, NDArray[np.int64]]:
        """Of each node that changed them, int64[nodes]: ``node``, the most ``live`` bytes, those of each category."""
        storages, deltas, live = self._columns(until)
        nodes = np.asarray(self._nodes[:until], dtype=np.int64)
        start = max(since - 1, 0)
        stretch = np.cumsum(np.append(0, nodes[start + 1 :] != nodes[start:-1])) if len(nodes) > start else nodes[:0]
        by_size = np.lexsort((live[start:], stretch))
        most = start + by_size[np.flatnonzero(np.append(np.diff(stretch), 1))] if len(stretch) else nodes[:0]
        of = np.asarray(self._categories, dtype=np.int64)[storages]
        columns = {"node": nodes[most], "live": live[most]}
        for position, name in enumerate(CATEGORIES):
            columns[name] = np.cumsum(np.where(of == position, deltas, 0))[most]
        return columns

    def watch_resizes(self, made: Patches) -> None:
        """See `torch.UntypedStorage.resize_`, by which FSDP2 gives parameters' memory back: no operator shows it."""

        def resize(original: Any, storage: Any, size: int) -> Any:
            result = original(storage, size)
            number = self._numbers.get(int(storage._cdata))
            if number is not None:
                self._change(number, int(storage.nbytes()))
            return result

        made.around(torch.UntypedStorage, "resize_", resize)

    def _columns(self, until: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        storages = np.asarray(self._storages[:until], dtype=np.int64)
        deltas = np.asarray(self._deltas[:until], dtype=np.int64)
        return storages, deltas, np.cumsum(deltas)

    def _change(self, number: int, size: int) -> None:
        delta = (0 if number in self._hosted else size) - self._sizes[number]
        if delta == 0:
            return
        self._sizes[number] = size
        self.live_bytes += delta
        self._nodes.append(self._node)
        self._storages.append(number)
        self._deltas.append(delta)

    def _on_release(self, address: int, number: int) -> Callable[[Any], None]:
        def release(_: Any) -> None:
            self._references.pop(number, None)
            if self._numbers.get(address) == number:
                del self._numbers[address]
            self._change(number, 0)

        return release


def _plain(tensor: Any) -> Iterator[Any]:
    """The tensors that hold a tensor's data: local ones of a DTensor, parts of other subclasses."""
    if tensor is None:
        return
    local = getattr(tensor, "_local_tensor", None)
    if local is not None:
        yield from _plain(local)
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _plain(getattr(tensor, name))
    else:
        yield tensor


@contextmanager
def labelled(timeline: MemoryTimeline) -> Iterator[None]:
    """Name the storages of modules and optimizers as they are used: parameters and buffers when a module runs,
    parameters, gradients and states around an optimizer's step. Needs no change of the program."""

    def module(module: Any, _: Any) -> None:
        timeline.label(module._parameters.values(), PARAMETERS)
        timeline.label(module._buffers.values(), BUFFERS)

    def gradients(optimizer: Any, *_: Any) -> None:
        parameters = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        timeline.label(parameters, PARAMETERS)
        timeline.label((tensor.grad for tensor in parameters), GRADIENTS)

    def states(optimizer: Any, *_: Any) -> None:
        values = [value for state in list(optimizer.state.values()) for value in state.values()]
        timeline.label((value for value in values if hasattr(value, "untyped_storage")), OPTIMIZER_STATE)

    with (
        register_module_forward_pre_hook(module),
        register_optimizer_step_pre_hook(gradients),
        register_optimizer_step_post_hook(states),
    ):
        yield
