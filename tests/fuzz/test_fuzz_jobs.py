"""Damaged jobs files: an error with its place, or the jobs that the file names, run.

``python tests/fuzz/test_fuzz_jobs.py LOW HIGH`` reads the files that belong to the seeds from LOW up to HIGH.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from damage import damaged
from seeds import go_through, in_time

import chakrasim as cs
from chakrasim.errors import InputError, StallError
from chakrasim.machine import Machine, load_machine
from chakrasim.simulator.together import simulate_jobs
from chakrasim.trace import TraceBuilder

SEEDS = int(os.environ.get("CHAKRASIM_FUZZ_JOBS_SEEDS", "150"))
JOBS = """\
format: 1
# two of them
jobs:
- name: first
  trace: step
  place: packed
- {name: second, trace: step, place: spread, start: 3 us}
- {name: third, trace: one.et, ranks: 3, place: {random: 7}, islands: whole}
- name: fourth
  trace: step
  comm-group: groups.json
  place: [9, 8]
  start: 1 ms
"""


def write_inputs(folder: Path) -> None:
    """What the jobs file names."""
    builder = TraceBuilder()
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20}
    builder.add(0, name="all-reduce", type=7, attrs=attrs)
    trace = builder.build()
    cs.write(folder / "step", [trace, trace])
    (folder / "step.0.et").with_name("one.et").write_bytes((folder / "step.0.et").read_bytes())
    (folder / "groups.json").write_text('{"1": [0, 1]}')


@cache
def machine() -> Machine:
    return load_machine("h100", gpus=32)


def outcome(seed: int, folder: Path) -> str:
    """What becomes of the file of a seed."""
    draw = random.Random(f"jobs {seed}")
    path = folder / "jobs.yaml"
    path.write_bytes(damaged("jobs.yaml", {"jobs.yaml": JOBS.encode()}, draw))
    began = time.process_time()
    try:
        result = simulate_jobs(path, machine=machine())
    except StallError as fault:
        assert "rank" in str(fault)
        return "stuck"
    except InputError as fault:
        assert fault.file, f"{fault} names no file"
        own = fault.file == str(path)
        assert not own or fault.place or "not YAML" in str(fault) or "file" in str(fault), f"{fault} has no place"
        return "refused, by line" if own and "line" in str(fault.place) else "refused"
    finally:
        in_time(began, seed)
    ranks = np.concatenate([job.ranks for job in result.jobs])
    assert np.unique(ranks).size == ranks.size
    assert all(job.finish_ns is not None and job.finish_ns >= job.start_ns for job in result.jobs)
    return "run"


def test_damaged_jobs_files_are_refused_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    seen = Counter(outcome(seed, tmp_path) for seed in range(SEEDS))
    assert seen["run"] > SEEDS // 20 and seen["refused, by line"] > SEEDS // 4


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs(Path(folder))
        go_through(partial(outcome, folder=Path(folder)))
