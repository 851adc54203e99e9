"""HTA's event table: times, partners, steps and the step filter, each on a few events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_critical_path_compat import load

from chakrasim import InputError
from chakrasim.compat.hta import table as module
from chakrasim.compat.hta.table import HtaFailure, HtaTable, hta_table


def event(name: str, category: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": category, "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": args}


def table(folder: Path, *events: dict[str, Any], header: dict[str, Any] | None = None, **options: Any) -> HtaTable:
    return hta_table(load((header or {}) | {"traceEvents": list(events)}, folder), **options)


def times(found: HtaTable) -> list[list[float]]:
    return [found.ts.tolist(), found.dur.tolist(), found.end.tolist()]


def test_whole_times_stay(tmp_path: Path) -> None:
    found = table(tmp_path, event("a", "cpu_op", 1005, 7), event("b", "cpu_op", 1000, 3))
    assert times(found) == [[5, 0], [7, 3], [1012, 1003]]
    assert found.ts.dtype == np.int64 and found.origin == 1000


def test_one_fraction_rounds_all_inwards(tmp_path: Path) -> None:
    events = [event("a", "cpu_op", 1000.25, 2.5), event("b", "cpu_op", 1004.1, 0.3), event("c", "cpu_op", 1010, 4)]
    found = table(tmp_path, *events)
    assert times(found) == [[0, 4, 9], [1, -1, 4], [1002, 1004, 1014]]
    exact = table(tmp_path, *events, rounding=False)
    assert exact.dur.tolist() == [2.5, 0.3, 4.0]


def test_an_event_without_ts_makes_the_column_fractional(tmp_path: Path) -> None:
    mark = {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "x"}}
    events = [event("a", "cpu_op", 1000, 2.5)]
    assert times(table(tmp_path, *events)) == [[0], [2.5], [1002.5]]
    assert times(table(tmp_path, *events, mark)) == [[0], [2], [1002]]


@pytest.mark.parametrize("us", [1694039959123456.789, 9007199254.740993, 1.001])
def test_times_are_the_floats_of_the_file(us: float, tmp_path: Path) -> None:
    found = table(tmp_path, event("a", "cpu_op", us, 0.125), rounding=False)
    assert (found.origin, found.end[0]) == (us, us + 0.125)


def test_rows_without_duration_or_category_are_left_out(tmp_path: Path) -> None:
    instant = {"ph": "i", "name": "x", "cat": "cpu_op", "ts": 1, "pid": 1, "tid": 1}
    bare = {"ph": "X", "name": "x", "ts": 1, "dur": 1, "pid": 1, "tid": 1}
    found = table(tmp_path, instant, bare, event("t", "Trace", 1, 5), event("a", "cpu_op", 3, 1))
    assert found.row_index.tolist() == [3]
    assert found.has_symbol("cpu_op") and not found.has_symbol("Trace")


def test_partners(tmp_path: Path) -> None:
    events = [
        event("first", "cpu_op", 0, 1),
        event("cudaLaunchKernel", "cuda_runtime", 1, 1, correlation=5),
        event("k", "kernel", 3, 1, correlation=5, stream=7),
        event("k", "kernel", 5, 1, correlation=5, stream=7),
        event("cudaLaunchKernel", "cuda_runtime", 6, 1, correlation=6),
        event("k", "kernel", 8, 1, correlation=7, stream=0),
        event("cudaLaunchKernel", "cuda_runtime", 9, 1, correlation=7),
    ]
    assert table(tmp_path, *events).index_correlation.tolist() == [-1, 3, 1, 1, 0, 6, 5]
    pinned = table(tmp_path, *events, version="pinned")  # stream 0 is the host's to it
    assert pinned.index_correlation.tolist() == [-1, 3, 1, 1, 0, 0, 0]
    assert pinned.is_device.tolist() == [False, False, True, True, False, False, False]


STEPS = [
    event("before", "cpu_op", 0, 5),
    event("ProfilerStep#4", "user_annotation", 10, 20),
    event("cudaLaunchKernel", "cuda_runtime", 12, 2, correlation=1),
    event("k", "kernel", 40, 5, correlation=1, stream=7),
    event("ProfilerStep#5", "user_annotation", 30, 20),
    event("cudaLaunchKernel", "cuda_runtime", 32, 2, correlation=2),
    event("k", "kernel", 46, 5, correlation=2, stream=7),
    event("after", "cpu_op", 60, 5),
]


def test_steps(tmp_path: Path) -> None:
    found = table(tmp_path, *STEPS, include_last_profiler_step=True)
    assert found.filtered
    assert found.row_index.tolist() == [3, 6, 0, 1, 2, 4, 5]
    assert found.iteration.tolist() == [4, 5, -1, 4, 4, 5, 5]
    later = [step | {"ts": step["ts"] + 1000} for step in STEPS]  # its end is compared with times since the first
    assert table(tmp_path, *later, include_last_profiler_step=True).row_index.tolist() == [3, 6, 0, 1, 2, 4, 5, 7]


@pytest.mark.parametrize("version", ["new", "pinned"])
def test_the_last_step_is_thrown_away(version: str, tmp_path: Path) -> None:
    found = table(tmp_path, *STEPS, version=version)
    assert found.row_index.tolist() == [3, 0, 1, 2]


def test_one_step_is_kept_whole(tmp_path: Path) -> None:
    found = table(tmp_path, *STEPS[:4], STEPS[7])
    assert not found.filtered and len(found) == 5


def test_names_that_only_contain_the_word(tmp_path: Path) -> None:
    other = event("My ProfilerStep", "cpu_op", 70, 1)
    events = [*STEPS[:4], STEPS[7], other]
    assert not table(tmp_path, *events).filtered
    assert table(tmp_path, *events, version="pinned").row_index.tolist() == [3, 0, 1, 2, 4]


def test_an_accelerator_of_another_kind_keeps_its_steps(tmp_path: Path) -> None:
    header = {"distributedInfo": {"backend": "cpu:gloo,mtia:hccl", "rank": 0}}
    assert not table(tmp_path, *STEPS, header=header).filtered
    assert table(tmp_path, *STEPS, header=header).device_type == "MTIA"
    assert table(tmp_path, *STEPS).device_type == "NVIDIA GPU"


def test_the_join_of_the_filter_multiplies_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = event("cuLaunchKernel", "cuda_driver", 13, 1, correlation=1)
    assert table(tmp_path, *STEPS, twice).row_index.tolist() == [3, 3, 0, 1, 2, 8]
    monkeypatch.setattr(module, "MOST_ROWS", 1)
    with pytest.raises(InputError, match="make HTA's table too large; found 2 rows"):
        table(tmp_path, *STEPS, twice)


def test_what_hta_cannot_load(tmp_path: Path) -> None:
    with pytest.raises(HtaFailure, match="AssertionError: no number can be read from the step's name 'ProfilerStep'"):
        table(tmp_path, event("ProfilerStep", "user_annotation", 0, 1))
    with pytest.raises(HtaFailure, match="AttributeError"):
        table(tmp_path, event("ProfilerStep", "user_annotation", 0, 1), version="pinned")
    with pytest.raises(HtaFailure, match="TypeError: 1 events have a stream that is text"):
        table(tmp_path, event("a", "cpu_op", 0, 1, stream="7"), version="pinned")
    with pytest.raises(HtaFailure, match="KeyError: no event has 'ts'"):
        table(tmp_path)
    with pytest.raises(InputError, match="there is no such version of HTA; found 'old'; expected new or pinned"):
        table(tmp_path, version="old")


def test_rare_arguments(tmp_path: Path) -> None:
    found = table(
        tmp_path,
        event("a", "cpu_op", 0, 1, wait_on_stream="7"),
        event("b", "cpu_op", 0, 1, wait_on_stream=20),
        event("c", "cpu_op", 0, 1, wait_on_stream=3.0),
        event("d", "cpu_op", 0, 1, wait_on_stream="none"),
    )
    assert found.rare("wait_on_stream").tolist() == [7, 20, 3, -1]
