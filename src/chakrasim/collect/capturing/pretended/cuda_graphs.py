"""CUDA graphs of a captured program: their operators count where the program captures them."""

from __future__ import annotations

from typing import Any

import torch
import torch.cuda.graphs

from chakrasim.collect.capturing.pretended.device import DeviceTensor, program_place
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.errors import InputError


def install_cuda_graphs(made: Patches) -> None:
    """Put the stand-ins in the place of PyTorch's until the patches are undone."""
    for module in (torch.cuda, torch.cuda.graphs):
        made.set(module, "CUDAGraph", DeviceGraph)
        made.set(module, "graph", GraphContext)
        made.set(module, "graph_pool_handle", lambda: (0, 0))
        made.set(module, "make_graphed_callables", _as_they_are)


class DeviceGraph:
    """Stands for `torch.cuda.CUDAGraph`.

    What the program does between `capture_begin` and `capture_end` is recorded as it is done. The first `replay` is
    that; a later one would have to repeat it, which is refused within the recorded step.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        self._is_recorded = False

    def capture_begin(self, *_: Any, **__: Any) -> None:
        """The operators of the graph follow."""
        _note("CUDA graphs: operators where they are captured")

    def capture_end(self) -> None:
        """The graph has its operators."""
        self._is_recorded = _is_recording()

    def replay(self) -> None:
        """Run the graph. Raises InputError if its operators are not in the recorded step already."""
        if _is_recording() and not self._is_recorded:
            raise InputError(
                "a CUDA graph that was captured before is replayed in the recorded step, whose operators are not "
                "repeated",
                place=program_place(),
                remedy="switch CUDA graphs off, or record the step in which they are captured with --step",
            )
        self._is_recorded = False

    def pool(self) -> tuple[int, int]:
        """The memory that graphs share."""
        return 0, 0

    def reset(self) -> None:
        """Forget the graph."""
        self._is_recorded = False

    def instantiate(self, *_: Any, **__: Any) -> None:
        """Nothing is to be made, shown or written."""

    enable_debug_mode = debug_dump = instantiate


class GraphContext:
    """Stands for `torch.cuda.graph(...)`; the operators stay on the stream that replays them."""

    def __init__(self, cuda_graph: DeviceGraph, *_: Any, **__: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()


def _as_they_are(callables: Any, *_: Any, **__: Any) -> Any:
    _note("torch.cuda.make_graphed_callables left out: operators are the same without")
    return callables


def _note(text: str) -> None:
    listener = DeviceTensor.fake_mode.listener
    if listener is not None:
        listener.counted[text] += 1


def _is_recording() -> bool:
    listener = DeviceTensor.fake_mode.listener
    return listener is not None and bool(listener.graph.recording)
