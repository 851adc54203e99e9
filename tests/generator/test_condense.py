"""Runs of kernels as one node: the step takes as long, with fewer nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from step_machines import simulate

from chakrasim.generator.layers.condense import PARTS, Alone, AloneOf, condense
from chakrasim.generator.layers.run import run_of
from chakrasim.generator.layers.tape import Row, Tape
from chakrasim.generator.transformer import Generated, generate_transformer
from chakrasim.machine import load_device
from chakrasim.trace import NodeType

A100 = load_device("a100")


def spec(**parallel: Any) -> dict[str, Any]:
    stages = parallel.get("pp", 1) * parallel.get("virtual_stages", 1)
    return {
        "model": {
            "layers": 2 * stages,
            "hidden": 1024,
            "heads": 16,
            "vocabulary": 4096,
            "sequence": 1024,
            "bias": True,
            "dropout": True,
            "norm": "layer",
            "position": "learned",
        },
        "parallel": parallel,
        "batch": {"micro_batch": 2, "micro_batches": 2 * parallel.get("pp", 1)},
        "recompute": "selective",
        "dtype": "float16",
        "clip_gradients": True,
        "flash_attention": False,
        "overlap": {"pp": False},
    }


def condensed(content: dict[str, Any], alone: AloneOf = lambda row: None) -> Generated:
    return generate_transformer(content, rewrite=lambda tape: condense(tape, A100.durations_ns, alone))


@pytest.mark.parametrize(
    "parallel",
    [
        {},
        {"tp": 4, "sp": True},
        {"tp": 2, "pp": 4},
        {"tp": 2, "pp": 2, "virtual_stages": 2, "scatter_gather": True},
        {"dp": 4, "zero": 3},
        {"dp": 2, "zero": 1, "tp": 2},
    ],
)
def test_a_condensed_step_takes_as_long(parallel: dict[str, Any]) -> None:
    """But for half a microsecond a node, since nodes take whole microseconds."""
    whole, short = generate_transformer(spec(**parallel)).job, condensed(spec(**parallel)).job
    if whole.ranks == 1:
        durations = short.traces[0].duration_micros
        assert len(durations) < len(whole.traces[0]) / 4
        return
    machine = {"gb_per_s": 200.0, "latency_ns": 1000}
    long_ns = simulate(whole, device_profile=A100, **machine).makespan_ns
    short_ns = simulate(short, **machine).makespan_ns
    nodes = max(len(trace) for trace in short.traces)
    assert abs(short_ns - long_ns) <= 500 * nodes
    assert short_ns == pytest.approx(long_ns, rel=0.01)
    assert nodes < 0.6 * max(len(trace) for trace in whole.traces)


def test_the_parts_of_a_node_add_up_to_its_time() -> None:
    trace = condensed(spec(tp=2, sp=True)).job.traces[0]
    computes = trace.types == NodeType.COMP_NODE
    parts = sum(np.where(trace.attr(f"{name}_ns").present, trace.attr(f"{name}_ns").bits, 0) for name in PARTS)
    whole = trace.attr("duration_ns").bits
    assert (parts[computes] == whole[computes]).all()
    assert (np.abs(whole[computes] / 1000 - trace.duration_micros[computes]) <= 0.5).all()
    of_dense = ("matrices", "attention", "other_compute", "optimizer")
    assert all(trace.attr(f"{name}_ns").present.any() for name in of_dense)


def of_tensor(duration_ns: int, held: float) -> AloneOf:
    return lambda row: Alone(duration_ns, held) if row.values["pg_name"] == "tp" else None


def test_a_collective_slows_the_kernels_beside_it_and_no_others() -> None:
    def added_ns(content: dict[str, Any], held: float) -> int:
        plain, slowed = (condensed(content, of_tensor(1_000, share)).job.traces[0] for share in (0.0, held))
        return int(slowed.attr("duration_ns").bits.sum() - plain.attr("duration_ns").bits.sum())

    # Per layer and micro-batch two sums of input gradients run beside weight gradients; the head has one more.
    assert added_ns(spec(tp=2), 0.25) == 2 * (2 * 2 + 1) * 250
    assert added_ns({**spec(tp=2), "overlap": {"tp": False}}, 0.25) == 0


def test_kernels_beside_collectives_take_longer_by_what_these_hold() -> None:
    kinds = (NodeType.COMM_COLL_NODE, NodeType.COMM_COLL_NODE, NodeType.COMP_NODE, NodeType.COMP_NODE)
    rows = [Row("", kind, {"stream": int(kind == kinds[0])}, {}, (), ()) for kind in kinds]
    # A quarter held from 100 to 1100: 750 of the work done meanwhile, the rest alone. In the other lanes it is held
    # afterwards, and all the time.
    took = np.array([[100.0, 1_000, 0, 2_000], [5_000, 1_000, 0, 2_000], [0, 10_000, 200, 300]])
    found = run_of(rows, range(4), took, np.array([[0, 0.25, 0, 0]] * 3))
    assert found.kernels_ns[:2, 1].tolist() == [2_250, 2_000]
    assert found.kernels_ns[2].tolist() == pytest.approx([200 / 0.75, 400])
    assert found.duration_ns.tolist() == [2_250, 6_000, 10_000]


def test_collectives_of_known_time_go_into_the_nodes_and_show_where_nothing_hides_them() -> None:
    whole, short = condensed(spec(tp=4, sp=True)), condensed(spec(tp=4, sp=True), of_tensor(50_000, 0.0))
    trace = short.job.traces[0]
    assert len(trace) < len(whole.job.traces[0]) / 5
    shown = trace.attr("exposed_tp_ns").integers().sum()
    computed = sum(trace.attr(f"{name}_ns").integers().sum() for name in PARTS)
    assert trace.attr("duration_ns").integers().sum() == pytest.approx(shown + computed, abs=len(trace))
    assert shown > 0


def test_an_empty_pass_stays_empty() -> None:
    assert condense(Tape(), A100.durations_ns).rows == []
