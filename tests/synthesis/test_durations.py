"""Recorded jobs in short, how long their work takes, and how that scatters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.demo import TRACES
from chakrasim.synthesis.api import learn, synthesize
from chakrasim.synthesis.file import model_bytes, read_model, write_model
from chakrasim.synthesis.grammar.durations import Rows, Scatter, law_of_work, scatter_of
from chakrasim.synthesis.grammar.recorded import in_short, is_recorded
from chakrasim.trace.chakra.builder import TraceBuilder
from chakrasim.trace.job.job import Job, Parameter

STEPS, RANKS = 4, 2


def rows(ops: np.ndarray[tuple[int], np.dtype[np.int64]], logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Rows:
    """Nodes of 2,000 ns and 3 ns an operation, by job, rank and step."""
    n = np.arange(len(ops))
    job, rank, step = n // 400, n // 40 % 10, n // 10 % 4
    durations = ((2000 + 3 * ops) * np.exp(logs)).astype(np.int64)
    return Rows(0, durations, job, job * 10 + rank, step, {"num_ops": ops}, {"width": ops})


def test_what_work_takes_is_found_under_what_scatters() -> None:
    random = np.random.default_rng(0)
    ops = np.repeat([100, 1000, 5000, 20_000], 400)
    (kind, terms), off = law_of_work(rows(ops, random.normal(0, 0.05, len(ops))))
    assert kind == "sum" and off < 0.02
    (each,) = [over / under for over, under, powers in terms if powers == {"own num_ops": 2}]
    assert each == pytest.approx(3, rel=0.03)


def test_ranks_steps_and_nodes_scatter_apart() -> None:
    random = np.random.default_rng(1)
    n = np.arange(1600)
    logs = random.normal(0, 0.2, 40)[n // 40] + random.normal(0, 0.1, (4, 4))[n // 400, n // 10 % 4]
    found = scatter_of([rows(np.full(1600, 500), logs + random.normal(0, 0.05, 1600))])
    assert found is not None
    assert 0.14 < found.rank < 0.26 and 0.05 < found.step < 0.15 and 0.04 < found.rest[0] < 0.06
    assert scatter_of([rows(np.full(400, 500), np.zeros(400))]) is None
    with pytest.raises(ValueError, match="out of range"):
        Scatter.of({"rank": -1, "step": 0, "rest": {}})


def test_a_recorded_rank_in_short_takes_as_long() -> None:
    linked = [cs.link(TRACES / f"host.{rank}.json.gz", TRACES / f"device.{rank}.json.gz") for rank in range(1)]
    whole = [cs.convert(each) for each in linked]
    short = [in_short(trace) for trace in whole]
    assert all(map(is_recorded, whole)) and not any(map(is_recorded, short))
    for one, other in zip(whole, short, strict=True):
        assert len(other) < len(one) / 4
        assert other.attr("duration_ns").integers_or(0).sum() == one.attr("duration_ns").integers_or(0).sum()
        assert all((other.data_deps[at] < at).all() for at in range(len(other)))


def recorded(width: int, seed: int) -> Job:
    """A rank's steps of five calls of two pieces each; ranks, steps and calls take what chance says."""
    traces = []
    random = np.random.default_rng(seed)
    of_step = random.normal(0, 0.1, STEPS)
    for _ in range(RANKS):
        made, own, count = TraceBuilder(), random.normal(0, 0.1), 0
        for step in range(STEPS):
            for name, ops in (("norm", width), ("mm", width**2), ("act", 2 * width), ("mm", 4 * width**2), ("add", 9)):
                took = int((5000 + ops) * np.exp(own + of_step[step] + random.normal(0, 0.05)))
                for part in (0, 1):
                    attributes = {"tid": 7, "duration_ns": took // 2, "step": step} | ({"part": 1} if part else {})
                    made.add(count, name, data_deps=[count - 1] if count else [],
                             attrs=attributes | ({} if part else {"num_ops": ops}))  # fmt: skip
                    count += 1
        traces.append(made.build())
    return Job(tuple(traces), np.arange(RANKS), {}, {})


def test_recorded_jobs_are_learned_with_their_scatter(tmp_path: Path) -> None:
    widths = (100, 150, 200, 300, 350, 400)
    jobs: list[tuple[dict[str, Parameter], Job]] = [({"width": each}, recorded(each, each)) for each in widths]
    learned = learn(jobs)
    scatter = learned.model.scatter
    assert scatter is not None and 0.02 < scatter.rank < 0.25 and 0.02 < scatter.step < 0.25
    write_model(tmp_path / "m", learned)
    assert model_bytes(read_model(tmp_path / "m")) == (tmp_path / "m").read_bytes()

    def took(seed: int) -> list[int]:
        (one,) = synthesize(learned, {"width": 250}, seed=seed)
        assert one.job.ranks == RANKS == len(one.job.traces)
        return [int(trace.attr("duration_ns").integers_or(0).sum()) for trace in one.job.traces]

    assert took(1) == took(1) != took(2)
    wanted = STEPS * (5 * 5000 + 250 + 250**2 + 500 + 4 * 250**2 + 9)
    assert np.median([took(seed) for seed in range(12)]) == pytest.approx(wanted, rel=0.1)
