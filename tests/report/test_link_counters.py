"""Counters of links: what they sum to over time is what the link carried."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chakrasim as cs
from chakrasim import write_timeline
from chakrasim.generator import generate_transformer
from chakrasim.report.timeline.links import link_process
from chakrasim.simulator.link_course import LinkCourses, link_courses

PARALLEL = [(2, 1, 2), (1, 2, 4), (4, 1, 2), (2, 2, 2)]


def carried(result: cs.SimulationResult) -> dict[str, int]:
    if result.links is not None:
        return dict(zip(result.links.name, result.links.bytes.tolist(), strict=True))
    return {link.name: link.bytes for link in result.graph_links}


def made(parallel: tuple[int, int, int], hidden: int) -> Any:
    tp, pp, dp = parallel
    return generate_transformer(
        {"model": {"layers": 2, "hidden": hidden, "heads": 4, "vocabulary": 512, "sequence": 128},
         "parallel": {"tp": tp, "pp": pp, "dp": dp}, "batch": {"micro_batches": 2}}
    ).job  # fmt: skip


def ring(ranks: int) -> dict[str, Any]:
    network = [{"topology": "Ring", "npus": ranks, "bandwidth": "10 GB/s", "latency": "1 us"}]
    algorithms = dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter", "all-to-all"), "ring")
    collectives = {"splits": 2, "algorithms": algorithms}
    return {"format": 1, "network": network, "memory": {"bandwidth": "1000 GB/s"}, "collectives": collectives}


@settings(max_examples=6, deadline=None)
@given(
    parallel=st.sampled_from(PARALLEL),
    hidden=st.sampled_from([64, 256, 512]),
    how=st.sampled_from([{"network_model": "flow"}, {"congestion": "aware"}, {"congestion": "aware", "fold": False}]),
    most=st.integers(1, 30),
)
def test_the_integral_of_a_counter_is_what_its_link_carried(
    parallel: tuple[int, int, int], hidden: int, how: dict[str, Any], most: int
) -> None:
    job = made(parallel, hidden)
    flows = how.get("network_model") == "flow"
    result = cs.simulate(job, machine=cs.load_machine("h100", gpus=job.ranks) if flows else ring(job.ranks), **how)
    known = carried(result)
    found = link_courses(result, most)
    assert isinstance(found, LinkCourses)
    process = link_process(result, 1, most)
    assert process is not None and len(process.counters) == min(most, len(known)) == len(known) - found.left_out
    for name, counter in zip(found.names, process.counters, strict=True):
        ends = np.append(counter.times_ns[1:], result.makespan_ns)
        assert (ends >= counter.times_ns).all() and (counter.values >= 0).all() and counter.times_ns[0] == 0
        assert counter.name.startswith(name)
        assert float((counter.values * (ends - counter.times_ns)).sum()) == pytest.approx(known[name], abs=1, rel=1e-9)
    # Bytes are spread over the time in which they move: a link of flows never has more than it can carry.
    if flows:
        for capacity, counter in zip(found.capacity, process.counters, strict=True):
            assert counter.values.max() <= capacity * (1 + 1e-6)


def test_a_link_that_serves_one_message_after_another(step: cs.SimulationResult, tmp_path: Path) -> None:
    """Around the ring of four, each link carries 6 messages of 2^17 bytes for each of the two chunks: 1.5 MiB."""
    write_timeline(step, tmp_path / "t.json")
    found = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [e["args"]["name"] for e in found if e["name"] == "process_name"]
    assert names == ["rank 0 (for 4: 0-3)", "links that carried something, each for 4 equal ones"]
    values: dict[str, list[tuple[float, float]]] = {}
    for e in found:
        if e["ph"] == "C":
            values.setdefault(e["name"], []).append((e["ts"] * 1000, e["args"]["GB/s"]))
    assert [name.split(" (")[0] for name in values] == list(step.links.name)
    for own, total in zip(values.values(), step.links.bytes.tolist(), strict=True):
        edges = [*own, (float(step.makespan_ns), 0.0)]
        area = sum(rate * (after - time) for (time, rate), (after, _) in pairwise(edges))
        assert area == pytest.approx(total, rel=1e-9)
        # Nothing before the compute of 20 us ends.
        assert own[0] == (0.0, 0.0) and own[1][0] >= 20_000


def test_links_that_are_left_out_are_told(run: Any) -> None:
    attrs = {"is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 20}
    nodes = [{"id": 1, "name": "sum", "type": 7, "attrs": attrs}]
    result = run(nodes, ranks=4, congestion="aware", fold=False)
    process = link_process(result, 9, 1)
    count = len(result.links.name)
    assert process is not None and len(process.counters) == 1
    assert process.name.startswith("the 1 busiest links") and f"({count - 1} others, at most " in process.name
    assert link_process(run(nodes, ranks=4), 9) is None


def test_operations_that_are_ready_and_wait_are_counted(run: Any, tmp_path: Path) -> None:
    """Three operations that need nobody, on one GPU: two wait, then one, then none."""
    nodes = [{"id": i, "name": "w", "type": 4, "duration_micros": 10, "attrs": {"is_cpu_op": False}} for i in range(3)]
    from chakrasim.report.timeline.simulation import _queue

    (counter,) = _queue(run(nodes, ranks=2).records[0], 0)
    assert list(zip(counter.times_ns.tolist(), counter.values.tolist(), strict=True)) == [
        (0, 2), (10_000, 1), (20_000, 0),
    ]  # fmt: skip
    write_timeline(run(nodes, ranks=2), tmp_path / "t.pftrace")
    assert b"operations ready and waiting" in (tmp_path / "t.pftrace").read_bytes()
