"""Python loops over a dimension of a tensor, within a module, that run many small operators.

Such a loop is mostly what a program falls back to where the package with the fused kernel of its GPU is missing, as on
the machine that captures: recurrences and scans over tokens. A capture shows what ran, and this says so.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import torch

from chakrasim.collect.capturing.loops import loop_around
from chakrasim.operators.describe import OperatorWork

ROUNDS: Final = 64
"""Fewer slices than this are heads, experts or layers."""
SMALL_BYTES: Final = 16 << 20
SMALL_FLOPS: Final = 10**9
"""What an operator moves and computes in about the time that it takes to start one, on the GPUs of the profiles."""

_LOOPS: Final = ("for", "while", "comprehension")


@dataclass
class _Loop:
    """The nodes that it made, with those of their backward, and the slices that were read in it, by storage.

    ``forward`` counts the former; ``bytes`` and ``flops`` are theirs."""

    module: str | None = None
    rounds: int = 0
    forward: int = 0
    nodes: list[int] = field(default_factory=list)
    bytes: int = 0
    flops: int = 0
    slices: dict[int, set[int]] = field(default_factory=dict)


class Scans:
    """The loops of one program's step; told of every operator."""

    def __init__(self) -> None:
        self._loops: dict[tuple[str, int], _Loop] = {}
        self._of_autograd: dict[int, _Loop] = {}
        self._last: tuple[_Loop | None, int] = None, 0

    def operator(self, node: int, work: OperatorWork, inputs: Iterable[tuple[int, Any]], phase: str) -> None:
        """An operator is a node; ``inputs`` are its tensors with the numbers of their storages."""
        if phase == "backward":
            current = torch._C._current_autograd_node()
            owner = self._of_autograd.get(current._sequence_nr()) if current is not None else None
            if owner is not None:
                owner.nodes.append(node)
            return
        found = loop_around(sys._getframe(1), _LOOPS)
        if found is None:
            self._last = None, 0
            return
        frame, statement = found
        loop = self._loops.setdefault((frame.f_code.co_filename, statement.first), _Loop())
        self._note_autograd(loop)
        loop.forward += 1
        loop.nodes.append(node)
        loop.bytes += work.bytes_read + work.bytes_written
        loop.flops += work.flops
        self._note_slices(loop, inputs)
        if loop.module is None and loop.rounds >= ROUNDS:
            loop.module = _module_of(frame)

    def _note_autograd(self, loop: _Loop) -> None:
        """What autograd has made since the last operator of the same loop is the loop's: this operator, and views."""
        following = torch.autograd._get_sequence_nr()
        before, since = self._last
        for number in range(since if before is loop else following - 1, following):
            self._of_autograd[number] = loop
        self._last = loop, following

    def _note_slices(self, loop: _Loop, inputs: Iterable[tuple[int, Any]]) -> None:
        # An operator that reads many slices at once, as stack does, goes over none.
        read: dict[int, set[int]] = {}
        for storage, tensor in inputs:
            if tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes():
                read.setdefault(storage, set()).add(tensor.storage_offset())
        for storage, offsets in read.items():
            if len(offsets) == 1:
                known = loop.slices.setdefault(storage, set())
                known |= offsets
                loop.rounds = max(loop.rounds, len(known))

    def warnings(self, total: int, durations: Mapping[int, int] | None) -> list[str]:
        """A sentence for each loop of many small operators, of a step of ``total`` operators that take so many ns."""
        return [
            _sentence(place, loop, total, durations)
            for place, loop in self._loops.items()
            if loop.module and loop.bytes <= SMALL_BYTES * loop.forward and loop.flops <= SMALL_FLOPS * loop.forward
        ]


def _sentence(place: tuple[str, int], loop: _Loop, total: int, durations: Mapping[int, int] | None) -> str:
    if durations is None:
        share = f"{len(loop.nodes) / max(total, 1):.0%} of the step's operators"
    else:
        spent, whole = sum(durations[node] for node in loop.nodes), sum(durations.values())
        share = f"{spent / max(whole, 1):.0%} of the step's compute time"
    return (
        f"{loop.module}: the Python loop at {place[0]}:{place[1]} goes over {loop.rounds:,} slices of a tensor and "
        f"runs {loop.forward:,} small operators (with their backward {share}). If your GPU has a fused "
        "kernel for it, from a package that is not installed here, the program will be faster than this: give the loop "
        "an operator with torch.library.custom_op, register_fake and torch.utils.flop_counter.register_flop_formula"
    )


def _module_of(frame: FrameType | None) -> str:
    """The class of the module whose call a frame is in; "" for none."""
    while frame is not None:
        values = frame.f_locals
        owner = values.get("self")
        # A copy of a function's variables stays with its frame, and would keep its tensors.
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED and isinstance(values, dict) and sys.gettrace() is None:
            values.clear()
        if isinstance(owner, torch.nn.Module):
            return type(owner).__name__
        frame = frame.f_back
    return ""


def merged(lists: Sequence[Sequence[str]]) -> list[str]:
    """The sentences of several ranks, one for each loop."""
    by_loop = {sentence.partition(" goes over ")[0]: sentence for sentences in lists for sentence in sentences}
    return list(by_loop.values())
