"""The order of passes, and what compute waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from step_machines import simulate

from chakrasim.generator.schedule import turns
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.transformer import generate_transformer
from chakrasim.trace import Trace

TINY = {"layers": 8, "hidden": 64, "heads": 4, "vocabulary": 128, "sequence": 16}


def order(stage: int, **parallel: int) -> str:
    """F and B with chunk (where there are several) and micro-batch."""
    schedule = "interleaved" if "virtual_stages" in parallel else "1f1b"
    spec = load_spec({"model": TINY, "parallel": parallel, "schedule": schedule, "batch": {"micro_batches": 4}})
    chunk = "{0.chunk}." if schedule == "interleaved" else ""
    return " ".join(
        ("F" if turn.forward else "B") + f"{chunk}{{0.micro_batch}}".format(turn) for turn in turns(spec, stage)
    )


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (0, "F0 F1 F2 F3 B0 B1 B2 B3"),
        (1, "F0 F1 F2 B0 F3 B1 B2 B3"),
        (2, "F0 F1 B0 F2 B1 F3 B2 B3"),
        (3, "F0 B0 F1 B1 F2 B2 F3 B3"),
    ],
)
def test_1f1b(stage: int, expected: str) -> None:
    """Narayanan et al. 2021, figure 4 (there with 8 micro-batches)."""
    assert order(stage, pp=4) == expected


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (0, "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3"),
        (1, "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3"),
    ],
)
def test_interleaved(stage: int, expected: str) -> None:
    """Two stages of two chunks: warm-up of 2 (p - rank - 1) + (v - 1) p passes, then one forward and one backward."""
    assert order(stage, pp=2, virtual_stages=2) == expected


def nodes(trace: Trace, name: str) -> list[int]:
    return [node for node in range(len(trace)) if trace.name(node) == name]


def parents(trace: Trace, node: int) -> set[str]:
    ids = [*trace.ctrl_deps[node].tolist(), *trace.data_deps[node].tolist()]
    return {trace.name(parent) for parent in ids}


def step(**more: Any) -> Trace:
    return generate_transformer({"model": TINY, **more}).job.traces[0]


def test_weights_are_gathered_while_the_layer_before_computes() -> None:
    ahead = step(parallel={"dp": 2, "fsdp": True})
    (gather,) = nodes(ahead, "forward: layer 2 weights")
    assert "layer 0 forward: feed-forward residual" in parents(ahead, gather)
    (first,) = nodes(ahead, "layer 2 forward: attention norm")
    assert "forward: layer 2 weights" in parents(ahead, first)
    behind = step(parallel={"dp": 2, "fsdp": True}, overlap={"fsdp": False})
    (gather,) = nodes(behind, "forward: layer 2 weights")
    assert "layer 1 forward: feed-forward residual" in parents(behind, gather)


def test_a_pass_may_gather_its_first_weights_during_the_pass_before() -> None:
    trace = step(parallel={"dp": 2, "fsdp": True})
    (gather,) = nodes(trace, "backward: head weights")
    assert "layer 7 forward: feed-forward residual" in parents(trace, gather)


def test_sums_of_input_gradients_run_beside_weight_gradients() -> None:
    beside, alone = (step(parallel={"tp": 2}, overlap={"tp": overlap}) for overlap in (True, False))
    name = "layer 3 backward: qkv weight gradient"
    waited = "layer 3 backward: qkv input gradient sum"
    assert waited not in parents(beside, nodes(beside, name)[0])
    assert waited in parents(alone, nodes(alone, name)[0])
    assert waited in parents(beside, nodes(beside, "layer 3 backward: attention norm gradient")[0])


@pytest.mark.parametrize(
    ("switch", "parallel"),
    [
        ("tp", {"tp": 4}),
        ("tp", {"tp": 4, "sp": True}),
        ("dp", {"dp": 4}),
        ("fsdp", {"dp": 4, "fsdp": True}),
        ("pp", {"pp": 4}),
    ],
)
def test_overlap_saves_time(switch: str, parallel: dict[str, Any]) -> None:
    model = {**TINY, "hidden": 1024, "sequence": 512}

    def time_ns(overlap: bool) -> int:
        more = {"batch": {"micro_batches": 4}, "overlap": {switch: overlap, "bucket": "1 MB"}}
        job = generate_transformer({"model": model, "parallel": parallel, **more}).job
        return int(simulate(job, gb_per_s=20, latency_ns=1000).makespan_ns)

    assert time_ns(True) < time_ns(False)


def test_a_backward_pass_reads_what_its_forward_pass_left() -> None:
    trace = step(parallel={"pp": 2}, batch={"micro_batches": 3})
    micro_batch = trace.attr("micro_batch").integers()
    for node in nodes(trace, "layer 3 backward: feed-forward norm gradient"):
        assert micro_batch[node] in (0, 1, 2)
    for node in nodes(trace, "layer 3 backward: down input gradient"):
        forward = [parent for parent in trace.data_deps[node].tolist() if "forward" in trace.name(parent).split(":")[0]]
        assert [int(micro_batch[parent]) for parent in forward] == [int(micro_batch[node])]


def test_the_optimizer_waits_for_every_collective() -> None:
    trace = step(parallel={"dp": 2, "tp": 2}, overlap={"bucket": "1 kB"})
    (last,) = nodes(trace, "optimizer: adamw step")
    waiting = {last}
    for node in range(last, -1, -1):
        if node in waiting:
            waiting |= set(trace.ctrl_deps[node].tolist()) | set(trace.data_deps[node].tolist())
    collectives = np.flatnonzero(trace.types == 7)
    assert set(collectives.tolist()) <= waiting
