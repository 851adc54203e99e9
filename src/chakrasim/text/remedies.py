"""Lines of Python that collect what was missing."""

from __future__ import annotations

from typing import Final

PROFILE: Final = (
    "observer = torch.profiler.ExecutionTraceObserver().register_callback(f'host.{rank}.json'); "
    "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, "
    "execution_trace_observer=observer, schedule=torch.profiler.schedule(wait=1, warmup=2, active=2), "
    "on_trace_ready=lambda p: p.export_chrome_trace(f'device.{rank}.json')), with profiler.step() after every iteration"
)
SYNC_EVENTS: Final = (
    "profile(..., experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True))"
)
SHAPES: Final = "profile(..., record_shapes=True)"
OBSERVER: Final = (
    "profile(..., "
    "execution_trace_observer=torch.profiler.ExecutionTraceObserver().register_callback(f'host.{rank}.json'))"
)
SCHEDULE: Final = (
    "profile(..., schedule=torch.profiler.schedule(wait=1, warmup=2, active=3)), profiler.step() after every "
    "iteration, torch.cuda.synchronize() before the first recorded one"
)
LONGER: Final = (
    "run more steps than skip_first + wait + warmup of the schedule, with profiler.step() after each, or make these "
    "smaller: schedule(wait=1, warmup=2, active=2) records steps 3 and 4"
)
ACTIVITIES: Final = "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], ...)"
GROUPS: Final = (
    "start the profiler after torch.distributed.init_process_group (PyTorch 2.4 or newer records the groups)"
)
UNKNOWN_GROUPS: Final = (
    "record with chakrasim.collect.observe, which writes the group beside each collective of gloo and MPI; with NCCL, "
    "PyTorch 2.4 or newer records it"
)
AGAIN: Final = "collect host and device trace in one run: " + OBSERVER
