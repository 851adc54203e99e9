"""PyTorch's two recorders, driven together: the execution trace observer and the profiler."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from chakrasim.collect.observing.groups import GroupMarks
from chakrasim.collect.observing.job import job_facts, process_groups

#: The node of a host trace that holds the process groups.
_GROUPS_NODE = "## process_group:init ##"


#: The recorders that record now, in this process or the one that it was forked from.
_active: set[int] = set()


def _leave_unrecorded() -> None:
    """In a forked process (a worker of a data loader): its operators are not to be written into its parent's trace."""
    if _active:
        import torch

        torch.autograd._enable_record_function(False)


os.register_at_fork(after_in_child=_leave_unrecorded)


class Recorder:
    """Records the steps between `start` and `stop`, in both traces the same ones."""

    def __init__(self, host: Path, device: Path) -> None:
        import torch
        from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

        self._torch: Any = torch
        self._device = device
        self._observer: Any = ExecutionTraceObserver()
        self._has_gpu = torch.cuda.is_available()
        #: On a CPU it would cost too much: `chakrasim.collect.observing.shapes`.
        self.records_shapes = self._has_gpu
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._has_gpu else [])]
        self._host = host
        self._profiler: Any = profile(
            activities=activities,
            record_shapes=self.records_shapes,
            execution_trace_observer=self._observer,
            experimental_config=_sync_events() if self._has_gpu else None,
        )
        self._mark: Any = None
        self._is_started = False
        self._groups = 0
        self._group_marks = GroupMarks()
        self.facts: dict[str, Any] = {}

    def prepare(self) -> None:
        """Warm up: on a GPU, its recording begins here, and is thrown away until `start`."""
        _active.add(id(self))
        self._observer.register_callback(str(self._host))
        self._profiler.prepare_trace()

    def start(self) -> None:
        """Everything from here on is recorded."""
        # Kernels that were launched before would appear without their launch.
        self._synchronize()
        self._profiler.start_trace()
        self._is_started = True
        if not hasattr(self._observer, "_record_pg_config"):
            self._record_groups()
        self._groups = len(process_groups())
        self._group_marks.put()

    def begin_step(self, number: int) -> None:
        """Open the mark of a step."""
        self._mark = self._torch.profiler.record_function(f"ProfilerStep#{number}")
        self._mark.__enter__()

    def end_step(self, *, is_last: bool) -> None:
        """Close the mark of a step, if one is open. The last one ends when the GPU has done its work."""
        if self._mark is None:
            return
        if is_last:
            self._synchronize()
        mark, self._mark = self._mark, None
        mark.__exit__(None, None, None)

    def stop(self) -> None:
        """End recording."""
        self.end_step(is_last=True)
        self._group_marks.remove()
        if len(process_groups()) != self._groups:
            self._record_groups()
        self.facts = job_facts()
        self._is_started = False
        self._profiler.stop_trace()
        self._observer.unregister_callback()
        _active.discard(id(self))

    def export(self) -> None:
        """Write the device trace; the host trace is written already."""
        self._profiler.export_chrome_trace(str(self._device))

    def abandon(self) -> None:
        """Stop without a result; what fails meanwhile does not matter."""
        from contextlib import suppress

        self._group_marks.remove()
        with suppress(Exception):
            if self._mark is not None:
                mark, self._mark = self._mark, None
                mark.__exit__(None, None, None)
        with suppress(Exception):
            if not self._is_started:
                # The profiler cannot be left prepared: another one could not start.
                self._profiler.start_trace()
            self._profiler.stop_trace()
        with suppress(Exception):
            self._observer.unregister_callback()
        _active.discard(id(self))

    def _synchronize(self) -> None:
        if self._has_gpu and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def _record_groups(self) -> None:
        """Put the process groups into the host trace, as newer versions of PyTorch do when the observer starts."""
        groups = process_groups()
        if groups:
            record = self._torch.autograd._record_function_with_args_enter(
                _GROUPS_NODE, json.dumps(groups, default=str)
            )
            self._torch.autograd._record_function_with_args_exit(record)


def _sync_events() -> Any:
    """The setting that records which call waited for which event, where the version has it."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return _ExperimentalConfig(enable_cuda_sync_events=True)
    except (ImportError, TypeError):
        return None
