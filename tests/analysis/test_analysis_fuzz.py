"""Random traces, seeded: every analysis in every mode ends well, and what must add up adds up."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import chakrasim.analysis as analysis
from chakrasim.analysis.table.traces import RankTrace
from chakrasim.analysis.temporal import PARTS, TemporalBreakdown
from chakrasim.compat.hta.breakdown import hta_labelled_kernels
from chakrasim.compat.hta.compare import hta_compare
from chakrasim.compat.hta.launches import hta_aten_operators
from chakrasim.compat.hta.ranks import hta_ranks
from chakrasim.compat.hta.sequences import hta_sequences
from chakrasim.compat.hta.summary import hta_summary
from chakrasim.compat.hta.table import HtaFailure
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from compat.critical_path_traces import TraceMaker

ALL: tuple[Callable[..., Any], ...] = (
    analysis.annotated_work,
    analysis.annotation_breakdown,
    analysis.bandwidth_series,
    analysis.comm_overlap,
    analysis.idle_breakdown,
    analysis.kernel_breakdown,
    analysis.kernel_sequences,
    analysis.kernel_types,
    analysis.launch_summary,
    analysis.memory_bandwidth,
    analysis.operator_kernels,
    analysis.queue_summary,
    analysis.temporal_breakdown,
)


def random_traces(seed: int, folder: Path) -> list[RankTrace]:
    """One or two ranks of a random run; one event in thirty loses something or has an odd value."""
    random = Random(seed)
    traces = []
    for rank in range(random.choice([1, 2])):
        document = TraceMaker(random).document | {"distributedInfo": {"rank": rank}}
        for event in document["traceEvents"] if random.random() < 0.5 else ():
            if random.random() < 0.03:
                damage(random, event)
        path = folder / f"{rank}.json"
        path.write_text(json.dumps(document))
        traces += analysis.open_traces(path, lenient=True, notes=Notes())
    return traces


def damage(random: Random, event: dict[str, Any]) -> None:
    what = random.choice(["dur", "ts", "cat", "args", "name", "stream", "long", "back"])
    if what == "stream":
        event["args"]["stream"] = random.choice([-1, 0, "default", 2**40])
    elif what == "long":
        event["dur"] = random.choice([0, 10**9, -3])
    elif what == "back":
        event["ts"] = random.choice([0, -5, 10**15])
    else:
        event.pop(what, None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", range(6))
def test_random_traces_end_well_in_the_default_mode(block: int, tmp_path: Path) -> None:
    for seed in range(block * 25, block * 25 + 25):
        traces = random_traces(seed, tmp_path)
        for make in ALL:
            found = make(traces)
            json.loads(found.to_json())
            assert {len(column) for column in found.columns().values()} == {len(found)}
        analysis.find_stragglers(traces)
        analysis.compare_traces(traces[0], traces[-1])
        with suppress(InputError):  # nothing marks iterations
            json.loads(analysis.serving_summary(traces).to_json())
        check(traces)


def check(traces: list[RankTrace]) -> None:
    """What must hold in any trace."""
    found: TemporalBreakdown = analysis.temporal_breakdown(traces)
    parts = np.stack([getattr(found, f"{part}_ns") for part in PARTS])
    assert (parts >= 0).all()
    assert (parts.sum(axis=0) == found.window_ns).all()
    overlap = analysis.comm_overlap(traces)
    assert not (overlap.overlap_pct > 100).any()
    assert (overlap.overlapped_ns + overlap.exposed_ns == overlap.communication_ns).all()
    idle = analysis.idle_breakdown(traces)
    assert (idle.idle_ns > 0).all()
    series = analysis.queue_series(traces)
    assert (series.length >= 0).all()
    works = [one.work for one in traces]
    assert analysis.kernel_breakdown(traces).count.sum() == sum(int(work.busy.sum()) for work in works)
    assert len(analysis.launch_list(traces)) * 2 == len(series)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compat", ["hta", "hta-pinned"])
def test_random_traces_end_well_or_as_hta_does_in_compat_mode(compat: str, tmp_path: Path) -> None:
    ended = 0
    for seed in range(100):
        traces = random_traces(seed, tmp_path)
        try:
            ranks = hta_ranks(traces, compat)
        except (HtaFailure, InputError):
            continue
        tables = hta_summary(ranks)
        assert json.dumps({k: v for k, v in tables.items() if k != "min_ts"})
        for make in (
            lambda r: hta_sequences(r[0], "aten"),
            hta_aten_operators,
            hta_labelled_kernels,
            lambda r: hta_compare(r, r),
        ):
            try:
                make(ranks)
            except (HtaFailure, InputError):
                continue
            ended += 1
    assert ended > 50


def test_the_same_traces_give_the_same_bytes(tmp_path: Path) -> None:
    traces = random_traces(3, tmp_path)
    again = random_traces(3, tmp_path)
    assert [make(traces).to_json() for make in ALL] == [make(again).to_json() for make in ALL]
