"""Durations that add up to more than 64 bits: refused where they are read, exact where they are added."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.analysis.info.profile import linked_info
from chakrasim.analysis.table.traces import RankTrace, open_traces
from chakrasim.trace.kineto.read import read_kineto
from made_traces import MadeTrace


def made(kernels: int, dur_ns: int) -> MadeTrace:
    """So many kernels at once, each in a stream of its own."""
    trace = MadeTrace(0, 1)
    for stream in range(kernels):
        trace.operator("aten::mm", 10 * stream, 9)
        trace.kernel(200, dur_ns / 1000, 10 * stream + 2, f"gemm_{stream % 2}", stream)
    return trace


def test_durations_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    path = made(12, 2**60).save(tmp_path / "device.json")
    with pytest.raises(InputError) as error:
        read_kineto(path)
    assert error.value.file == str(path)
    assert error.value.message == "the durations of all events together, in ns, cannot be counted"


def test_ranks_whose_durations_are_beyond_64_bits_together_are_refused(tmp_path: Path) -> None:
    traces = [RankTrace(rank, read_kineto(made(7, 10**18).save(tmp_path / f"{rank}.json"))) for rank in range(2)]
    assert open_traces(traces[:1]) == traces[:1]
    with pytest.raises(InputError, match="the durations of all traces together, in ns, cannot be counted"):
        open_traces(traces)


def test_the_sum_of_a_linked_trace_is_exact(tmp_path: Path) -> None:
    info = linked_info(made(7, 10**18).link(tmp_path), "x")
    assert [amount.total_ns for amount in info.by_kind if amount.name == "kernel"] == [7 * 10**18]
