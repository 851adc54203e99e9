"""Compute nodes that a device profile times, and those that it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import Case, collective, compute, network_of, system_of, trace_of

import chakrasim
from chakrasim import InputError
from chakrasim.machine import load_device, load_machine
from chakrasim.notes import Notes
from chakrasim.simulator.lowering.compute import work_of
from chakrasim.trace.work import WorkKind

PROFILE: dict[str, Any] = {
    "name": "plain",
    "memory": "80 GB",
    "bandwidth": "1000 GB/s",
    "peak": {"bfloat16": "100 TFLOP/s"},
    "vector": "10 TFLOP/s",
    "efficiency": {
        "gemm": {"start": "2 us", "compute": 0.5, "bandwidth": 0.5},
        "elementwise": {"start": "1 us", "compute": 1.0, "bandwidth": 0.8},
    },
}
RING = network_of(("Ring", 2, 50.0, 500.0))
GEMM = {"op_kind": "gemm", "num_ops": 10**10, "tensor_size": 10**6, "m": 100, "n": 100, "k": 100}
COPY = {"op_kind": "copy", "num_ops": 0, "tensor_size": 8 * 10**8}


def bare(id: int, micros: int, deps: tuple[int, ...] = (), **attributes: Any) -> dict[str, Any]:
    """A compute node with these attributes alone."""
    node = compute(id, micros, deps)
    return {**node, "attr": {"is_cpu_op": False, **attributes}}


def finish(nodes: list[Any], **options: Any) -> int:
    return int(Case([nodes], RING).run(**options).finish_ns[0])


def test_nodes_that_say_their_work_take_the_profiles_time() -> None:
    assert finish([compute(0, 7, **GEMM)], device_profile=PROFILE) == 200_000 + 2_000
    assert finish([compute(0, 7, **COPY)], device_profile=PROFILE) == 1_000_000 + 1_000
    assert finish([compute(0, 7, **COPY, kernels=3)], device_profile=PROFILE) == 1_000_000 + 3_000
    both = [compute(0, 7, **GEMM), compute(1, 7, [0], **COPY)]
    assert finish(both, device_profile=PROFILE) == 202_000 + 1_001_000


def test_without_a_profile_nothing_changes() -> None:
    assert finish([compute(0, 7, **GEMM)]) == 7_000


def test_work_that_nothing_times_is_a_warning() -> None:
    told = "not how long it takes, take no time: the machine has neither a device profile nor the roofline"
    case = Case([[compute(0, 0, **GEMM)]], RING)
    assert [told in warning for warning in case.run().warnings] == [True]
    assert not any(told in warning for warning in case.run(device_profile=PROFILE).warnings)
    idle = {**GEMM, "num_ops": 0}
    rest = [compute(0, 7, **GEMM), compute(1, 0, **idle), bare(2, 0), compute(3, 0), collective(4, 0, 64)]
    assert not any(told in warning for warning in Case([rest], RING).run().warnings)


def test_operations_and_bytes_alone_are_enough() -> None:
    only = [bare(0, 7, num_ops=10**10, tensor_size=10**6)]
    assert finish(only, device_profile=PROFILE) == 200_000 + 2_000
    assert finish([bare(0, 7, tensor_size=10**9)], device_profile=PROFILE) == 2_000_000 + 2_000
    assert finish([bare(0, 7, num_ops=10**10)], device_profile=PROFILE) == 200_000 + 2_000


def test_a_node_with_nothing_to_do_takes_no_time() -> None:
    assert finish([compute(0, 7, num_ops=0, tensor_size=1)], device_profile=PROFILE) == 0


def test_measured_nodes_keep_their_duration_and_are_counted() -> None:
    nodes = [bare(0, 7), compute(1, 5, [0], **GEMM), compute(2, 3, [1], is_cpu_op=True, **GEMM)]
    result = Case([nodes], RING).run(device_profile=PROFILE)
    assert result.finish_ns.tolist() == [7_000 + 202_000 + 3_000] * 2
    assert result.counts["compute nodes timed by the device profile"] == 2
    assert result.counts["compute nodes that keep their recorded duration"] == 2  # one on each rank
    assert not any("device profile" in name for name in Case([nodes], RING).run().counts)


def test_a_profile_comes_before_the_roofline() -> None:
    system = system_of("ring", roofline_enabled=1, peak_perf=1, local_mem_bw=1)
    case = Case([[compute(0, 7, **GEMM)]], RING, system)
    assert case.run(device_profile=PROFILE).finish_ns[0] == 202_000
    assert case.run().finish_ns[0] == 10_000_000


def test_replay_only_wins_with_a_warning() -> None:
    case = Case([[compute(0, 7, **GEMM)]], RING, system_of("ring", replay_only=1))
    result = case.run(device_profile=PROFILE)
    assert result.finish_ns[0] == 7_000
    assert any("the device profile has no effect" in warning for warning in result.warnings)


def test_an_unknown_kind_is_timed_by_operations_and_bytes() -> None:
    nodes = [compute(0, 7, op_kind="sorting", num_ops=10**10, tensor_size=10**6)]
    result = Case([nodes], RING).run(device_profile=PROFILE)
    assert result.finish_ns[0] == 202_000
    assert any("op_kind 'sorting' is not known" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"num_ops": -1}, "attribute 'num_ops' is out of range; found -1"),
        ({"num_ops": "many"}, "attribute 'num_ops' is no integer"),
        ({"num_ops": 1, "op_kind": 3}, "attribute 'op_kind' has the wrong type"),
        ({"num_ops": 1, "kernels": 2**62}, "attribute 'kernels' is out of range"),
        ({"num_ops": 2**62 - 1, "tensor_size": 2**62 - 1, "kernels": 2**62 - 1}, "beyond the clock's range"),
    ],
)
def test_refusals(attributes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        finish([compute(0, 7, **attributes)], device_profile=PROFILE)
    assert expected in str(caught.value)
    assert "node 0" in str(caught.value)


def test_work_of_reads_every_attribute() -> None:
    everything = {
        "op_kind": "attention",
        "num_ops": 6,
        "tensor_size": 9,
        "bytes_read": 5,
        "bytes_written": 4,
        "batch": 2,
        "m": 3,
        "n": 7,
        "k": 8,
        "causal": True,
        "dtype": "float16",
        "kernels": 4,
    }
    trace = trace_of([compute(0, 0, **everything), bare(1, 0, num_ops=2, tensor_size=11, m=1, n=1, k=1)])
    work = work_of(trace, np.array([0, 1]))
    assert work.kind.tolist() == [WorkKind.ATTENTION, WorkKind.GEMM]
    assert (work.flops.tolist(), work.kernels.tolist()) == ([6, 2], [4, 1])
    assert (work.bytes_read.tolist(), work.bytes_written.tolist()) == ([5, 6], [4, 5])
    assert [column.tolist() for column in (work.batch, work.m, work.n, work.k)] == [[2, 0], [3, 1], [7, 1], [8, 1]]
    assert (work.causal.tolist(), work.dtype.tolist()) == ([True, False], ["float16", ""])
    assert work_of(trace, np.array([1])).flops.tolist() == [2]
    assert len(work_of(trace, np.zeros(0, np.int64))) == 0


def test_the_same_on_every_rank_folded_or_not() -> None:
    nodes = [compute(0, 0, **GEMM), collective(1, 0, 1 << 20, [0]), compute(2, 0, [1], **COPY)]
    case = Case([nodes], network_of(("Ring", 8, 50.0, 500.0)))
    folded = case.run(device_profile="h100")
    assert folded.finish_ns.tolist() == case.run(device_profile="h100", fold=False).finish_ns.tolist()


MACHINE = """\
network: [{topology: Ring, npus: 2, bandwidth: 50 GB/s, latency: 500 ns}]
compute: {profile: %s}
collectives: {splits: 1}
"""


def test_a_machine_file_names_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(MACHINE % "h100")
    assert load_machine(file, Notes()).profile == load_device("h100")
    # A profile of one's own, beside the machine file.
    (tmp_path / "mine.yaml").write_text(str(PROFILE).replace("'", '"'))
    file.write_text(MACHINE % "mine.yaml")
    machine = load_machine(file, Notes())
    assert machine.profile == load_device(PROFILE)
    case = Case([[compute(0, 7, **GEMM)]], RING)
    given = {"system": None, "network": None, "machine": machine}
    assert case.run(**given).finish_ns[0] == 202_000
    # What is given with the call comes before what the machine says.
    faster = {**PROFILE, "peak": {"bfloat16": "1000 TFLOP/s"}}
    assert case.run(**given, device_profile=faster).finish_ns[0] == 22_000


@pytest.mark.parametrize(
    ("compute_section", "expected"),
    [
        ("{profile: h10}", "neither a shipped device nor a file; found 'h10'"),
        ("{profile: [1]}", "$.compute.profile: not a string"),
        ("{profile: h100, roofline: true, peak: 1 TFLOP/s}", "$.compute.profile: does not go with roofline: true"),
        ("{profile: h100, replay-only: true}", "$.compute.profile: does not go with replay-only: true"),
    ],
)
def test_machine_files_refused(tmp_path: Path, compute_section: str, expected: str) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(MACHINE.replace("{profile: %s}", compute_section))
    with pytest.raises(InputError) as caught:
        load_machine(file, Notes())
    assert expected in str(caught.value)


def test_an_unknown_profile_is_an_error() -> None:
    with pytest.raises(InputError, match="neither a shipped device nor a file"):
        finish([compute(0, 7, **GEMM)], device_profile="h1000")


def on_a_machine(nodes: list[Any], compute: dict[str, Any], **options: Any) -> Any:
    machine = {
        "network": [{"topology": "Ring", "npus": 2, "bandwidth": "50 GB/s", "latency": "1 us"}],
        "compute": compute,
        "memory": {"bandwidth": "1000 GB/s"},
        "collectives": {"splits": 1, "algorithms": {"all-reduce": "ring"}},
    }
    return chakrasim.simulate(trace_of(nodes), ranks=2, machine=machine, **options)


MEASURED = {"is_recorded": True, "duration_ns": 7_000, **GEMM}


@pytest.mark.parametrize("model", [{"profile": "h100"}, {"roofline": True, "peak": "100 TFLOP/s"}])
def test_what_was_measured_stays_unless_a_profile_is_asked_for(model: dict[str, Any]) -> None:
    nodes = [compute(0, 7, **MEASURED), compute(1, 5, [0], **GEMM)]
    kept = on_a_machine(nodes, model)
    timed = on_a_machine([compute(1, 5, **GEMM)], model)
    assert kept.finish_ns[0] == 7_000 + timed.finish_ns[0]
    assert kept.counts["compute nodes that keep their recorded duration"] == 2
    (told,) = kept.warnings
    assert told.startswith("2 compute nodes keep the durations measured on their device, not what this machine's")
    given = on_a_machine(nodes, model, device_profile=PROFILE)
    assert given.finish_ns[0] == 2 * 202_000
    assert given.warnings == () and given.counts["compute nodes timed by the device profile"] == 4


def without_effect(nodes: list[Any], **options: Any) -> list[str]:
    warnings = Case([nodes], RING).run(**options).warnings
    return [warning.partition("no effect: ")[2] for warning in warnings if "no effect" in warning]


def test_a_profile_without_effect_says_why() -> None:
    given = {"device_profile": PROFILE}
    told = "none of the 4 compute nodes of the device states its work (num_ops, tensor_size)"
    assert without_effect([bare(0, 7), bare(1, 3)], **given) == [told]
    (told,) = without_effect([compute(0, 3, is_cpu_op=True, **GEMM)], **given)
    assert told.startswith("all 2 compute nodes are work of the host (is_cpu_op)")
    assert without_effect([collective(0, 0, 64)], **given) == ["the workload has no compute nodes"]
    assert without_effect([compute(0, 7, **GEMM)], **given) == []
    assert without_effect([bare(0, 7)]) == []


def test_a_machine_s_own_profile_without_effect() -> None:
    (told,) = on_a_machine([bare(0, 7)], {"profile": "h100"}).warnings
    assert told.startswith("the device profile has no effect: none of the 2 compute nodes")
    assert on_a_machine([collective(0, 0, 64)], {"profile": "h100"}).warnings == ()


def test_work_that_is_not_known_is_counted_and_named() -> None:
    nodes = [
        bare(0, 7, work_unknown="no formula"),
        bare(1, 0, (0,), work_unknown="fused kernel", duration_ns=0),
        compute(2, 1, [1], work_unknown="no formula", **COPY),
        compute(3, 1, [2], **GEMM),
    ]
    result = Case([nodes], RING).run(device_profile=PROFILE)
    (told,) = result.warnings
    assert told == (
        "the work of 6 compute nodes is not known: they take their recorded duration (1 ns where there is none), "
        "or what their bytes take:  (no formula) x 4,  (fused kernel) x 2"
    )
    assert result.finish_ns[0] == 7_000 + 1 + 1_001_000 + 202_000
    assert Case([nodes], RING).run().warnings == ()
