"""The process group of every collective, for back ends that do not record it.

NCCL's records name their group. Those of gloo and MPI do not, and the operators of c10d hold it as an object that no
trace shows. So calls of a group's methods get an annotation around them that names the group. DistributedDataParallel
calls its group from C++; one annotation, at the beginning, names that group where all such modules have the same.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from chakrasim.collect.capturing.pretended.patches import Patches
from chakrasim.collectives.c10d import ARGUMENTS
from chakrasim.trace.host.group_marks import ddp_mark, group_mark

_METHODS = (
    *(name.removesuffix("_") for name in ARGUMENTS),
    *("recv_anysource", "all_gather_single", "reduce_scatter_single", "all_to_all_single"),
)
_RECORDING_BACKENDS = ("nccl", "xccl", "hccl")


class GroupMarks:
    """Annotations of process groups, between `put` and `remove`."""

    def __init__(self) -> None:
        self._made = Patches()

    def put(self) -> None:
        """Annotate from here on, if the job has groups whose back end does not record them."""
        import torch
        import torch.distributed as dist

        if not (dist.is_available() and dist.is_initialized()) or _records_itself(dist.get_backend()):
            return
        record_function = torch.profiler.record_function

        def marked(method: Callable[..., Any], group: Any, *args: Any, **kwargs: Any) -> Any:
            with record_function(group_mark(str(group.group_name))):
                return method(group, *args, **kwargs)

        for name in _METHODS:
            self._made.around(dist.ProcessGroup, name, marked)
        names = _ddp_groups(torch)
        if len(names) == 1:
            with record_function(ddp_mark(names.pop())):
                pass

    def remove(self) -> None:
        """Leave the methods as they were."""
        self._made.close()


def _records_itself(backend: str) -> bool:
    return any(name in backend for name in _RECORDING_BACKENDS)


def _ddp_groups(torch: Any) -> set[str]:
    """The groups of the modules of DistributedDataParallel that there are."""
    kind = torch.nn.parallel.DistributedDataParallel
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    return {str(module.process_group.group_name) for module in modules}
