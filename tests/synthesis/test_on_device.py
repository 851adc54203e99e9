"""Programs whose parameters are words of a command line: durations by a device's profile, rows that ranks share."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.converter.retarget.trace_edit import edited
from chakrasim.errors import InputError
from chakrasim.synthesis.file import model_bytes, read_model
from chakrasim.synthesis.on_device import device_of, timed
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.job.job import Job
from chakrasim.trace.kinds import CollectiveType, NodeType

draw = random.Random(1)
DRAWN = [(draw.choice([2, 3, 4, 5, 6]), draw.choice([128, 192, 256, 384, 512]), draw.choice([500, 1000, 3000]),
          draw.choice([2, 4, 8])) for _ in range(21)]  # fmt: skip
"""Layers, width, words, ranks."""


def captured(layers: int, width: int, words: int, ranks: int, device: str = "h100") -> Job:
    """A product for each layer, whose weights are gathered, and an update of what a rank has of all."""
    made = TraceBuilder(metadata={
        "arguments": f"--layers {layers} --width {width} --words {words}", "device_profile": device})  # fmt: skip
    rows, count = -(-words // ranks), 0
    of_layer = 12 * width**2 + 13 * width
    for _ in range(layers):
        attrs = {"comm_type": int(CollectiveType.ALL_GATHER), "comm_size": 4 * of_layer // ranks, "pg_name": "dp"}
        made.add(count, "gather", NodeType.COMM_COLL_NODE, ctrl_deps=[count - 1] if count else [], attrs=attrs)
        shape = {"batch": 1, "m": 256, "n": 4 * width, "k": width}
        made.add(count + 1, "mm", data_deps=[count], attrs={
            "num_ops": 2048 * width**2, "tensor_size": 4 * of_layer, "bytes_read": 4 * of_layer - 64, "duration_ns": 0,
            "op_kind": "gemm", "dtype": "float32", **shape, "stream": 0})  # fmt: skip
        count += 2
    own = layers * of_layer // ranks + rows * width
    made.add(count, "update", ctrl_deps=[count - 1], attrs={
        "num_ops": 4 * own, "tensor_size": 16 * own, "duration_ns": 0, "op_kind": "optimizer", "stream": 0,
    })  # fmt: skip
    groups = {"dp": (tuple(range(ranks)),)}
    return Job((timed(made.build(), device),), np.zeros(ranks, np.int64), groups, {})


def paths(jobs: list[Job], folder: Path) -> list[str]:
    for number, job in enumerate(jobs):
        cs.write_job(folder / f"{number:02}", job)
    return [str(folder / f"{number:02}") for number in range(len(jobs))]


def test_durations_are_the_profiles_and_rows_that_ranks_share_are_told(tmp_path: Path) -> None:
    learned = cs.learn(paths([captured(*one) for one in DRAWN], tmp_path))
    assert learned.model.device == "h100" and not learned.lost
    (tmp_path / "m").write_bytes(model_bytes(learned))
    for layers, width, words, ranks in [(5, 192, 500, 8), (6, 256, 3000, 8), (2, 384, 1000, 2), (7, 512, 700, 8)]:
        settings = {"layers": layers, "width": width, "words": words, "ranks": ranks, "dp": ranks}
        (made,) = cs.synthesize(read_model(tmp_path / "m"), settings)
        wanted, found = captured(layers, width, words, ranks).traces[0], made.job.traces[0]
        for name in ("num_ops", "tensor_size", "comm_size", "duration_ns"):
            assert found.attr(name).integers_or(0).tolist() == wanted.attr(name).integers_or(0).tolist(), name
        assert found.duration_micros.tolist() == wanted.duration_micros.tolist()
        assert found.duration_micros.any()


def test_durations_of_which_one_is_another_follow_laws(tmp_path: Path) -> None:
    jobs = [captured(*one) for one in DRAWN]
    micros = jobs[3].traces[0].duration_micros.copy()
    micros[1] += 1
    jobs[3] = replace(jobs[3], traces=(replace(jobs[3].traces[0], duration_micros=micros),))
    assert not cs.learn(paths(jobs, tmp_path)).model.device


@pytest.mark.parametrize("named", [["h100"], 7, "h1000", "/etc/passwd"])
def test_devices_that_do_not_ship_are_no_devices(named: object) -> None:
    trace = captured(*DRAWN[0]).traces[0]
    other = edited(trace, said={"device_profile": named})
    assert not device_of([Job((trace, other), np.array([0, 1]), {}, {})])
    assert not device_of([Job((other,), np.zeros(1, np.int64), {}, {})])


def test_a_model_of_a_device_that_does_not_ship_is_refused() -> None:
    learned = cs.learn([({"layers": one[0]}, captured(*one)) for one in DRAWN[:6]])
    other = replace(learned, model=replace(learned.model, device="/etc/passwd"))
    with pytest.raises(InputError, match="no such device ships"):
        next(cs.synthesize(other, learned.parameters[0]))
