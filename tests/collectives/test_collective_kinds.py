"""What sizes and bandwidths of collectives mean, and that all reports mean the same."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import chakrasim
from chakrasim.analysis.collectives import collective_split
from chakrasim.collectives.kinds import COLLECTIVE_KEYS, KINDS, KINDS_BY_NAME, CollectiveKind
from chakrasim.converter.linked.api import convert
from chakrasim.replay import plan_replay
from chakrasim.replay.execute import Samples, Settings
from chakrasim.replay.result import CollectiveRow, make_result
from chakrasim.trace import CollectiveType, Trace
from chakrasim.trace.job.job import Job
from made_jobs_chakra import Made
from made_traces import MadeTrace

RANKS = 4
PART = 1000
"""Elements of four bytes that belong to one rank."""

WHOLE_BYTES = 4 * RANKS * PART

#: As PyTorch records them: name, elements in and out of the root (rank 0), and of the others.
RECORDED = {
    "all_reduce": ("allreduce", (RANKS * PART, RANKS * PART), (RANKS * PART, RANKS * PART)),
    "reduce": ("reduce", (RANKS * PART, RANKS * PART), (RANKS * PART, RANKS * PART)),
    "all_gather": ("_allgather_base", (PART, RANKS * PART), (PART, RANKS * PART)),
    "gather": ("gather", (PART, RANKS * PART), (PART, 0)),
    "scatter": ("scatter", (RANKS * PART, PART), (0, PART)),
    "broadcast": ("broadcast", (RANKS * PART, RANKS * PART), (RANKS * PART, RANKS * PART)),
    "all_to_all": ("all_to_all", (RANKS * PART, RANKS * PART), (RANKS * PART, RANKS * PART)),
    "reduce_scatter": ("_reduce_scatter_base", (RANKS * PART, PART), (RANKS * PART, PART)),
}

#: By the definitions of nccl-tests, with 4 ranks.
BUS_FACTORS = {
    **dict.fromkeys(("all_gather", "gather", "scatter", "all_to_all", "reduce_scatter", "reduce_scatter_block"), 0.75),
    **dict.fromkeys(("reduce", "broadcast"), 1.0),
    "all_reduce": 1.5,
}


def traces_of(kind: str, folder: Path) -> list[MadeTrace]:
    name, root, others = RECORDED[kind]
    made = [MadeTrace(rank, RANKS) for rank in range(RANKS)]
    for rank, trace in enumerate(made):
        inside, outside = others if rank else root
        trace.record(name, 92, 6, **{"In msg nelems": inside, "Out msg nelems": outside, "Root rank": 0})
        trace.kernel(100, 50, 95)
    return made


def simulated(traces: list[Trace]) -> tuple[float, float]:
    """Whole bytes and bytes on the bus, by the simulator."""
    network = {"topology": ["Switch"], "npus_count": [RANKS], "bandwidth": [50.0], "latency": [500.0]}
    kinds = [f"{key}-implementation" for key in COLLECTIVE_KEYS.values()]
    system = {"preferred-dataset-splits": 1, "local-mem-bw": 1600} | {key: ["ring"] for key in kinds}
    (figures,) = chakrasim.simulate(
        traces, network=network, system=system, protocol=chakrasim.Protocol(physics=True)
    ).collectives
    return figures.algbw * figures.mean_ns, figures.busbw * figures.mean_ns


def replayed(traces: list[Trace]) -> tuple[float, float]:
    """The same by a replay in which every operation takes a microsecond."""
    plan = plan_replay(Job(tuple(traces), np.arange(RANKS)))
    samples = [Samples(latency_ns=[[1000]] * len(program)) for program in plan.programs]
    row: CollectiveRow
    (row,) = make_result(plan, Settings("gloo", 0, 1, False, 60.0), "none", samples, ()).collectives
    assert row.algbw_gb_s is not None
    assert row.busbw_gb_s is not None
    return row.algbw_gb_s * 1000, row.busbw_gb_s * 1000


@pytest.mark.parametrize("kind", RECORDED)
def test_equal_traffic_gives_equal_bandwidths_in_the_three_reports(kind: str, tmp_path: Path) -> None:
    linked = [trace.link(tmp_path) for trace in traces_of(kind, tmp_path)]
    (recorded,) = collective_split(linked).collectives.records()
    assert (recorded["operation"], recorded["bytes"]) == (kind, WHOLE_BYTES)
    expected = pytest.approx((WHOLE_BYTES, WHOLE_BYTES * BUS_FACTORS[kind]))
    transfer_ns = recorded["transfer_ns"]
    assert (recorded["algbw_gbs"] * transfer_ns, recorded["busbw_gbs"] * transfer_ns) == expected
    traces = [convert(one) for one in linked]
    assert simulated(traces) == expected
    assert replayed(traces) == expected


def test_a_kind_that_no_trace_of_pytorch_has_agrees_too() -> None:
    made = Made()
    made.collective("reduce_scatter_block", WHOLE_BYTES)
    traces = [made.build()] * RANKS
    assert simulated(traces) == pytest.approx((WHOLE_BYTES, WHOLE_BYTES * 0.75))
    assert replayed(traces) == pytest.approx((WHOLE_BYTES, WHOLE_BYTES * 0.75))


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_a_rooted_collective_without_the_trace_of_its_root_moves_the_same(kind: str, tmp_path: Path) -> None:
    linked = [trace.link(tmp_path) for trace in traces_of(kind, tmp_path)[1:]]
    (recorded,) = collective_split(linked).collectives.records()
    assert recorded["bytes"] == WHOLE_BYTES


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_bus_factors_are_those_of_nccl_tests(kind: CollectiveKind) -> None:
    assert kind.bus_factor(RANKS) == BUS_FACTORS.get(kind.name, 1.0)
    assert math.isnan(kind.bus_factor(0))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_reference_page_has_its_row(kind: CollectiveKind) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "reference-traces.md"
    bytes_text = "n times the size" if kind.size_is_part else "the size"
    factor = {1.0: "1", 0.75: "(n-1)/n", 1.5: "2(n-1)/n"}[kind.bus_factor(4)]
    row = f"| {kind.name} | {kind.size} | {kind.root.value} | {bytes_text} | {factor} |"
    assert row in page.read_text(encoding="utf-8").splitlines()


def test_every_type_of_the_schema_has_a_kind() -> None:
    assert sorted(KINDS) == [int(kind) for kind in CollectiveType]
    assert sorted(KINDS_BY_NAME) == sorted(kind.name.lower() for kind in CollectiveType)
