"""One rank of a real run that is measured: `torchrun observed_runner.py FOLDER SCRIPT [ARGUMENTS...]`.

The script runs unchanged. Its optimizer's steps are counted; steps 0 to 7 (and the making of the model) go into the
profiler's allocation record, step 8 is observed, the FLOPs of step 9 are counted. FOLDER gets the traces of step 8 and
`measured.RANK.json`: peaks of steps 2 to 7 and FLOPs of step 9.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch.distributed import _functional_collectives as functional
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from chakrasim.collect import observe

RECORDED, OBSERVED, COUNTED = 2, 8, 9


class RegistryFlops(TorchDispatchMode):
    """PyTorch's formulas of what a rank itself computes. `FlopCounterMode` counts an operator on DTensors with the
    shapes of all ranks together; here DTensors take themselves apart first."""

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(getattr(kind, "__name__", "") in ("DTensor", "AsyncCollectiveTensor") for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        formula = flop_registry.get(getattr(func, "_overloadpacket", func))
        if formula is not None:
            self.flops[func._schema.name] += formula(*args, **(kwargs or {}), out_val=result)
        return result


class Measuring:
    """Goes from one measurement to the next when an optimizer has stepped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = 0
        self.mark: Any = None
        self.figures: dict[str, Any] = {}
        self.memory = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self.observing: Any = None
        self.flops = RegistryFlops()

    def begin(self) -> None:
        self.memory.__enter__()

    def after_step(self, *_: Any) -> None:
        self.step += 1
        if self.mark is not None:
            self.mark.__exit__(None, None, None)
            self.mark = None
        if RECORDED <= self.step < OBSERVED:
            self.mark = torch.profiler.record_function("measured step")
            self.mark.__enter__()
        elif self.step == OBSERVED:
            self.memory.__exit__(None, None, None)
            self.figures |= allocations(self.memory.profiler.kineto_results.experimental_event_tree())
            self.observing = observe(self.folder, wait=0, warmup=0, active=1, verdict=False)
            self.steps = self.observing.__enter__()
        elif self.step == COUNTED:
            self.steps.step()
            self.observing.__exit__(None, None, None)
            self.flops.__enter__()
        elif self.step == COUNTED + 1:
            self.flops.__exit__(None, None, None)
            self.figures["flops"] = dict(self.flops.flops)
            rank = os.environ.get("RANK", "0")
            (self.folder / f"measured.{rank}.json").write_text(json.dumps(self.figures))


def allocations(roots: list[Any]) -> dict[str, list[int]]:
    """Peak of live bytes in each measured step: all, and without what collectives allocate for themselves.

    Such scratch is allocated while an operator of c10d runs, or by a thread of the back end. Times tell, since
    annotations of the back end stay open on the thread that asked and look like callers of all that follows.
    """
    events = list(roots)
    for event in events:
        events.extend(event.children)
    steps = [event for event in events if event.name == "measured step"]
    asking = [(event.start_time_ns, event.end_time_ns) for event in events if event.name.startswith("c10d::")]
    found = []
    for event in events:
        fields, now = event.extra_fields, event.start_time_ns
        if hasattr(fields, "alloc_size"):
            is_scratch = event.start_tid != steps[0].start_tid or any(begin <= now <= end for begin, end in asking)
            found.append((now, fields.ptr, fields.alloc_size, is_scratch))
    return _peaks(sorted(found), sorted((step.start_time_ns, step.end_time_ns) for step in steps))


def _peaks(events: list[tuple[int, int, int, bool]], steps: list[tuple[int, int]]) -> dict[str, list[int]]:
    """Peaks within each step of (time, address, bytes, is scratch); a release has negative bytes.

    The record lacks releases by the back end's threads, which happen if they let a collective's tensor go later than
    the program does. A block ends where its address is given out again; one that was allocated in a measured step ends
    with that step, since a steady loop keeps nothing.
    """
    first = steps[0][0]
    ends = [end for _, end in steps]
    changes: list[tuple[int, int, int]] = []
    owner: dict[int, tuple[int, int, bool]] = {}

    def close(address: int, end: int) -> None:
        begin, size, scratch = owner.pop(address)
        changes.extend(((begin, size, 0 if scratch else size), (end, -size, 0 if scratch else -size)))

    for now, address, size, scratch in events:
        if address in owner:
            close(address, now)
        if size > 0:
            owner[address] = now, size, scratch
    for address, (begin, *_) in list(owner.items()):
        place = bisect_left(ends, begin)
        close(address, ends[place] if begin > first and place < len(ends) else ends[-1] + 1)
    changes.sort()
    times = [now for now, *_ in changes]
    total = list(accumulate(size for _, size, _ in changes))
    own = list(accumulate(size for *_, size in changes))
    peaks: dict[str, list[int]] = {"peak_bytes": [], "peak_with_scratch_bytes": []}
    for begin, end in steps:
        # The state at the begin of the step counts too.
        inside = slice(max(bisect_left(times, begin) - 1, 0), bisect_right(times, end))
        peaks["peak_bytes"].append(max(own[inside]))
        peaks["peak_with_scratch_bytes"].append(max(total[inside]))
    return peaks


def let_the_back_end_finish(seconds: float = 0.005) -> None:
    """Pause after each wait for a collective, so that gloo's threads let go of its tensors before the program does: the
    profiler does not see what they release."""
    work = torch.distributed.Work
    waiting, waiting_tensor = work.wait, functional.wait_tensor

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = waiting(self, *args, **kwargs)
        time.sleep(seconds)
        return result

    def wait_tensor(tensor: Any) -> Any:
        result = waiting_tensor(tensor)
        time.sleep(seconds)
        return result

    work.wait, functional.wait_tensor = wait, wait_tensor


def main() -> None:
    folder, script, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    measuring = Measuring(folder)
    register_optimizer_step_post_hook(measuring.after_step)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    let_the_back_end_finish()
    measuring.begin()
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
