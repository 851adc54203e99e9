"""Tensors that a captured program keeps in the host's memory: what it sends there, and what it gets back.

All tensors of a capture are on one device. What a program that uses GPUs sends to "cpu" by name, and what it makes
pinned, is marked as being in the host's memory; `chakrasim.collect.capturing.recorded.graph` makes a store of the copy,
and a load where such a tensor is copied to a device. Few elements are values that the program looks at: these stay.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import torch

from chakrasim.collect.capturing.pretended.device import HOST_ELEMENTS, DeviceMode, DeviceTensor
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.recorded.graph import Graph
from chakrasim.collect.capturing.recorded.streams import host_waits_for
from chakrasim.trace.kinds import NodeType

_SHARDING: Final = "torch.distributed.fsdp._fully_shard._fsdp_collectives"
"""FSDP sends gradients to torch.device("cpu"), by which it means the host."""


def install_host_memory(made: Patches, mode: DeviceMode, graph: Graph) -> None:
    """Tell the graph of copies to and from the host's memory until the patches are undone."""
    memory = graph.memory

    def moved(tensor: Any, way: NodeType, non_blocking: bool = False) -> Any:
        graph.way = way
        try:
            copy = tensor.clone()
        finally:
            graph.way = None
        if way == NodeType.MEM_STORE_NODE and not non_blocking:
            host_waits_for(graph.streams, graph.streams.current.last)
        return copy

    def cpu(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if _counts(self) and not memory.is_hosted(self):
            return moved(self, NodeType.MEM_STORE_NODE)
        return original(self, *args, **kwargs)

    def cuda(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        DeviceTensor.names_gpu = True
        if _counts(self) and memory.is_hosted(self):
            return moved(self, NodeType.MEM_LOAD_NODE)
        return original(self, *args, **kwargs)

    under_way = False

    def to(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal under_way
        target = kwargs.get("device", args[0] if args else None)
        is_place = isinstance(target, str | int | torch.device) and not isinstance(target, bool)
        if is_place and not under_way and _counts(self):
            to_host = _is_host(target, sys._getframe(2).f_globals.get("__name__", ""))
            if to_host != memory.is_hosted(self):
                non_blocking = kwargs.get(
                    "non_blocking", next((one for one in args[1:] if isinstance(one, bool)), False)
                )
                way = NodeType.MEM_STORE_NODE if to_host else NodeType.MEM_LOAD_NODE
                self = moved(self, way, non_blocking)
        before, under_way = under_way, True  # what is under "to" calls it again
        try:
            return original(self, *args, **kwargs)
        finally:
            under_way = before

    for name, patch in (("cpu", cpu), ("cuda", cuda), ("to", to)):
        made.around(torch.Tensor, name, patch)
    mode.pinned = memory.host


def _counts(tensor: Any) -> bool:
    return isinstance(tensor, DeviceTensor) and DeviceTensor.names_gpu and tensor.numel() > HOST_ELEMENTS


def _is_host(target: Any, caller: str) -> bool:
    """Whether a device is the host by name. What `Tensor.device` gives a program is the pretended device, which is of
    type "cpu", too."""
    if isinstance(target, torch.device):
        return caller == _SHARDING and bool(target.type == "cpu")
    return bool(target == "cpu")
