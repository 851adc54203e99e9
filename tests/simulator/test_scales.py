"""A machine's factors: of the times of compute nodes, of the sizes of collectives and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cases import UNIT_BANDWIDTH, Node, collective, compute, network_of, receive, send, system_of, trace_of

import chakrasim
from chakrasim import InputError, SimulationResult
from chakrasim.machine import Machine, load_machine, load_network, load_system

RING = network_of(("Ring", 2, UNIT_BANDWIDTH, 500.0))


def run(programs: list[list[Node]], system: dict[str, Any] | None = None, **scales: float) -> SimulationResult:
    machine = Machine(load_network(RING), load_system(system or system_of()), **scales)
    return chakrasim.simulate([trace_of(program) for program in programs], machine=machine)


def test_times_of_compute_nodes_are_scaled() -> None:
    program = [compute(0, 7), compute(1, 3, [0]), compute(2, 0, [1])]
    assert run([program, program]).finish_ns.tolist() == [10_001, 10_001]
    assert run([program, program], compute_scale=0.25).finish_ns.tolist() == [2_500, 2_500]
    assert run([program, program], compute_scale=3).finish_ns.tolist() == [30_003, 30_003]
    roofline = system_of(roofline_enabled=1, peak_perf=1)
    work = [compute(0, 7, num_ops=10**9, tensor_size=10**6)]
    assert run([work, work], roofline, compute_scale=2).finish_ns.tolist() == [2_000_000, 2_000_000]


def test_what_a_rank_starts_later_is_not_scaled() -> None:
    program = [compute(0, 7, is_start_offset=True), compute(1, 3, [0])]
    assert run([program, program], compute_scale=2).finish_ns.tolist() == [13_000, 13_000]


def test_sizes_of_communication_are_scaled() -> None:
    def programs(size: int) -> list[list[Node]]:
        shared = [collective(0, 0, 4 * size)]
        return [[*shared, send(1, 1, size, deps=[0])], [*shared, receive(1, 0, size, deps=[0])]]

    for factor, size in ((2.0, 2_000), (0.5, 500)):
        assert run(programs(1_000), comm_scale=factor).finish_ns.tolist() == run(programs(size)).finish_ns.tolist()
    # Nothing shrinks to nothing: a message of a byte is still one.
    assert run([[send(0, 1, 9)], [receive(0, 0, 9)]], comm_scale=0).finish_ns.tolist()[1] == 501
    one = run([[send(0, 1, 1_000)], [receive(0, 0, 1_000)]], comm_scale=1.5)
    two = run([[send(0, 1, 1_000)], [receive(0, 0, 1_000)]])
    assert (one.finish_ns - two.finish_ns).tolist()[1] == 500


def test_scales_out_of_range_are_refused() -> None:
    program = [collective(0, 0, 2**61)]
    with pytest.raises(InputError, match=r"comm_size is out of range; found 2305843009213693952 bytes times 2"):
        run([program, program], comm_scale=2)
    late = [compute(0, 2**52)]
    with pytest.raises(InputError, match="the time times compute-scale 1000 is beyond the clock's range"):
        run([late, late], compute_scale=1000)
    for wrong in (-1, 1e10, float("nan"), True):
        with pytest.raises(InputError, match=r"Machine: \$\.comm_scale: out of range; .*a factor from 0 to 10\^9"):
            run([late, late], comm_scale=wrong)


def test_scales_of_a_machine_file(tmp_path: Path) -> None:
    file = tmp_path / "machine.yaml"
    text = (
        "network: [{topology: Ring, npus: 2, bandwidth: 1 GB/s, latency: 0 ns}]\nmemory: {bandwidth: 1 TB/s}\n"
        "compute: {replay-only: true}\ncollectives: {splits: 1, algorithms: {all-reduce: ring}}\n"
    )
    file.write_text(text + "compute-scale: 0.5\ncomm-scale: 2\n")
    machine = load_machine(file)
    assert (machine.compute_scale, machine.comm_scale, machine.warnings) == (0.5, 2.0, ())
    program = [compute(0, 7), collective(1, 0, 1_000, [0])]
    result = chakrasim.simulate([trace_of(program)] * 2, machine=file)
    assert result.finish_ns.tolist() == [3_501, 3_501]
    assert result.warnings == ("comm-scale has no effect: every node takes its recorded duration ('replay-only')",)
    file.write_text(text + "comm-scale: -2\n")
    with pytest.raises(
        InputError, match=r"\$\.comm-scale: out of range; found '-2'; expected a factor from 0 to 10\^9"
    ):
        load_machine(file)


def test_a_machine_brings_its_warnings() -> None:
    machine = load_machine("astra-sim-tpu-v3-8")
    (said,) = machine.warnings
    assert "is a placeholder" in said
    result = chakrasim.simulate(trace_of([compute(0, 1)]), machine=machine, ranks=8)
    assert result.warnings == (said,)
