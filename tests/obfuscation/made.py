"""Jobs to hide: generated ones, and a recorded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chakrasim.converter.folder.trace_folder import trace_directory
from chakrasim.demo import TRACES
from chakrasim.generator import transformer_job
from chakrasim.trace.chakra.encode import encode_trace
from chakrasim.trace.job.job import Job


def dense(layers: int = 2, hidden: int = 256, tp: int = 2, pp: int = 1, dp: int = 2, **more: Any) -> Job:
    """A generated training step."""
    model = {"layers": layers, "hidden": hidden, "heads": 4, "vocabulary": 1024, "sequence": 256, **more}
    batch = {"micro_batches": 2, "micro_batch": 1}
    return transformer_job({"model": model, "parallel": {"tp": tp, "pp": pp, "dp": dp}, "batch": batch})


def recorded(folder: Path) -> str:
    """The demo's run, linked and converted; the prefix."""
    return trace_directory(TRACES, folder / "recorded", jobs=1).prefix


def bytes_of(jobs: tuple[Job, ...] | list[Job]) -> bytes:
    """All that files of the jobs would hold, and what their ranks files say."""
    said = b"".join(repr((dict(job.process_groups), dict(job.parameters))).encode() for job in jobs)
    return said + b"".join(encode_trace(trace) for job in jobs for trace in job.traces)


def makespans(job: Job) -> list[int]:
    """Of each rank, on a board."""
    from chakrasim.simulator.api import simulate

    return np.asarray(simulate(job, machine="h100", gpus=job.ranks).finish_ns).tolist()
