"""What a captured program does without: compilation, worker processes, files that it writes, profilers of GPUs."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import torch
import torch.multiprocessing
from torch.autograd import profiler
from torch.utils.data import DataLoader

from chakrasim.collect.capturing.pretended.cuda import here
from chakrasim.collect.capturing.pretended.device import DeviceTensor
from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collect.capturing.recorded.listener import Listener


def install_surroundings(made: Patches, listener: Listener, rank: int) -> None:
    """Leave them out until the patches are undone, counted where that is of interest."""
    _processes(made, listener, rank)
    _files(made, listener)
    _profilers(made)
    made.around(torch.utils, "swap_tensors", _swap)

    def compile_nothing(original: Any, model: Any = None, **kwargs: Any) -> Any:
        listener.counted["torch.compile left out: operators are those of eager mode"] += 1
        return model if model is not None else lambda function: function

    made.around(torch, "compile", compile_nothing)
    made.set(torch.nn.Module, "compile", lambda self, *_, **__: None)


def _swap(original: Any, one: Any, other: Any) -> None:
    """`Module.to` does this to fake tensors. Others it gives new data, which takes no attributes from a parameter and
    does not mind who refers to it."""
    if type(one) is type(other) is DeviceTensor:
        one.data, other.data = other.data, one.data
    else:
        original(one, other)


def _processes(made: Patches, listener: Listener, rank: int) -> None:
    def loader(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "pin_memory"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    def spawn(original: Any, function: Any, args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        listener.counted["torch.multiprocessing.spawn: this rank's call only"] += 1
        function(rank % nprocs, *args)

    for name in ("spawn", "start_processes"):
        made.around(torch.multiprocessing, name, spawn)
    made.around(DataLoader, "__init__", loader)


def _files(made: Patches, listener: Listener) -> None:
    """Tensors have nothing to save; what others saved is loaded to the host first."""

    def save(original: Any, *args: Any, **kwargs: Any) -> None:
        listener.counted["torch.save left out"] += 1

    def save_file(original: Any, *args: Any, **kwargs: Any) -> None:
        listener.counted["safetensors' save_file left out"] += 1

    def load(original: Any, file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(file, "cpu" if callable(map_location) else map_location, *args, **kwargs)

    made.around(torch, "save", save)
    made.around(torch, "load", load)
    if importlib.util.find_spec("safetensors") is not None:
        own = importlib.import_module("safetensors.torch")
        for module in (importlib.import_module("safetensors"), own):
            made.around(module, "safe_open", _open_on_host)
        for name in ("save_file", "save_model"):
            made.around(own, name, save_file)


def _open_on_host(original: Any, filename: Any, framework: Any, device: Any = "cpu", **kwargs: Any) -> Any:
    """It writes what it reads to the address of a tensor, which on the pretended device there is none."""
    return original(filename, framework, device=str(here(device)), **kwargs)


def _profilers(made: Patches) -> None:
    """A profiler that is asked for GPUs has nothing to record there, and says so at length."""

    def without_device(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("use_device", "use_cuda"):
            kwargs.pop(name, None)
        original(self, *args, **kwargs | {"use_cpu": True})

    made.around(profiler.profile, "__init__", without_device)
    made.set(profiler.emit_nvtx, "__enter__", lambda self: self)
    made.set(profiler.emit_nvtx, "__exit__", lambda self, *_: None)
