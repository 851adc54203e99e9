"""States and activations in the host's memory: sizes by closed formulas, order, time, what the device still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.errors import InputError
from chakrasim.estimation.api import estimate_step
from chakrasim.estimation.arithmetic import Arithmetic
from chakrasim.generator.memory import stage_memory
from chakrasim.generator.spec.file import load_spec
from chakrasim.generator.transformer import generate_transformer
from chakrasim.machine import RemoteMemory, load_machine
from chakrasim.machine.sized import sized_machine
from chakrasim.trace.kinds import NodeType

LAYERS, HIDDEN, HEADS, SEQUENCE, VOCABULARY = 8, 2048, 16, 2048, 8192
SPEC: dict[str, Any] = {
    "model": {
        "layers": LAYERS,
        "hidden": HIDDEN,
        "heads": HEADS,
        "vocabulary": VOCABULARY,
        "sequence": SEQUENCE,
        "dropout": True,
        "norm": "layer",
        "bias": True,
        "position": "none",
    },
    "parallel": {"dp": 2, "tp": 2, "pp": 2, "zero": 1},
    "batch": {"micro_batches": 4, "micro_batch": 2},
    "flash_attention": False,
    "recompute": "selective",
}
RANKS, PASSES = 8, 4


def _moved(offload: dict[str, float], **more: Any) -> dict[str, tuple[int, int]]:
    totals = generate_transformer({**SPEC, **more, "offload": offload}).totals
    return {way: found for (way, role), found in totals.communication.items() if role == "host"}


def _layer_bytes(tp: int = 2) -> int:
    """Korthikanti et al. 2022, equation 2 less the scores: sbh (10 + 24 / t)."""
    return SEQUENCE * 2 * HIDDEN * (10 + 24 // tp)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_activations_that_move_are_those_of_the_formula(share: float) -> None:
    moved = _moved({"activations": share})
    nodes = RANKS * LAYERS // 2 * PASSES
    assert moved == {way: (nodes, round(share * _layer_bytes()) * nodes) for way in ("store", "load")}
    spec = load_spec({**SPEC, "offload": {"activations": share}})
    plain, less = stage_memory(replace(spec, offload=type(spec.offload)()), 0), stage_memory(spec, 0)
    kept = 2 * LAYERS // 2  # passes under way on the first of two stages, times its layers
    assert plain.activations - less.activations == kept * round(share * _layer_bytes())
    assert less.working - plain.working == 3 * round(share * _layer_bytes())
    assert (less.parameters, less.optimizer) == (plain.parameters, plain.optimizer)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_activations_of_few_layers_take_no_more_than_without_offloading(share: float) -> None:
    for layers, more in ((1, 0), (2, 0), (3, 0), (4, 1)):
        own = {**SPEC, "model": {**SPEC["model"], "layers": layers}, "parallel": {"tp": 2}}
        spec = load_spec({**own, "batch": {"micro_batches": 1, "micro_batch": 2}, "offload": {"activations": share}})
        plain = stage_memory(replace(spec, offload=type(spec.offload)()), 0)
        assert plain.peak - stage_memory(spec, 0).peak == more * round(share * _layer_bytes())


def test_states_that_move_are_those_of_the_parameters() -> None:
    moved = _moved({"optimizer": 1.0}, parallel={"dp": 2, "tp": 2, "pp": 1})
    layer = (
        12 * HIDDEN**2 // 2 + (3 + 4) * HIDDEN // 2 + (2 + 4) * HIDDEN
    )  # split: matrices, their biases; copied: rest
    ends = 2 * VOCABULARY * HIDDEN // 2 + 2 * HIDDEN
    total = 12 * (LAYERS * layer + ends) * 4
    assert moved == dict.fromkeys(("store", "load"), (4 * (LAYERS + 2), total))
    spec = load_spec({**SPEC, "parallel": {"dp": 2, "tp": 2}, "offload": {"optimizer": 1.0}})
    memory = stage_memory(spec, 0)
    assert memory.optimizer == 0 and memory.peak < stage_memory(replace(spec, offload=type(spec.offload)()), 0).peak
    quarter = _moved({"optimizer": 0.25}, parallel={"dp": 2, "tp": 2, "pp": 1})
    assert quarter["load"][1] == total // 4


def test_nothing_moves_unless_asked_for() -> None:
    assert _moved({}) == {}
    assert _moved({"activations": 0.0, "optimizer": 0.0}) == {}


def test_loads_come_behind_the_stores_they_need_and_no_more_than_buffers_allow() -> None:
    job = generate_transformer({**SPEC, "offload": {"activations": 1.0, "optimizer": 1.0}}).job
    for trace in job.traces:
        position = {int(one): at for at, one in enumerate(trace.ids)}
        names = [trace.name(at) for at in range(len(trace))]
        before: list[set[int]] = []
        for at in range(len(trace)):
            parents = [position[int(one)] for one in (*trace.data_deps[at], *trace.ctrl_deps[at])]
            before.append(set().union(*(before[one] for one in parents), parents))
        batch = trace.attr("micro_batch").integers()
        stores = {
            (names[at], int(batch[at])): at for at in np.flatnonzero(trace.types == NodeType.MEM_STORE_NODE).tolist()
        }
        loads = np.flatnonzero(trace.types == NodeType.MEM_LOAD_NODE).tolist()
        assert len(loads) == len(stores) and loads
        for at in loads:
            if names[at].startswith("layer"):
                assert stores[names[at].replace("load", "store"), int(batch[at])] in before[at]
            else:
                assert stores[names[at].replace("load", "store"), 0] > at
                assert at in before[stores[names[at].replace("load", "store"), 0]]


def _seconds(offload: dict[str, float], memory: RemoteMemory | None = None) -> float:
    machine = load_machine(sized_machine("h100", 8))
    machine = machine if memory is None else replace(machine, memory=memory)
    return estimate_step(load_spec({**SPEC, "offload": offload}), machine).step_s


def test_time_of_the_link_to_the_host() -> None:
    plain, fast = _seconds({}), RemoteMemory("PER_NPU_MEMORY_EXPANSION", 0, 1_000_000)
    assert _seconds({"activations": 1.0, "optimizer": 1.0}, fast) == pytest.approx(plain, rel=1e-3)
    moved = _moved({"activations": 1.0})["store"][1] / RANKS
    slow = RemoteMemory("PER_NPU_MEMORY_EXPANSION", 0, 10)
    bound, found = moved / 10e9, _seconds({"activations": 1.0}, slow)
    assert bound < found < 3 * bound
    machine, spec = load_machine(sized_machine("h100", 8)), load_spec({**SPEC, "offload": {"activations": 1.0}})
    estimate = estimate_step(spec, replace(machine, memory=slow))
    assert sum(estimate.parts_s.values()) == pytest.approx(estimate.step_s, rel=1e-6)
    assert (
        estimate.parts_s["host_memory"] > 0.3 * found
        and "host_memory" not in estimate_step(load_spec(SPEC), machine).parts_s
    )
    reckoned = Arithmetic(replace(machine, memory=slow)).step(spec).step_ns / 1e9
    assert reckoned == pytest.approx(found, rel=0.5)


def test_machines_and_the_hosts_memory() -> None:
    assert load_machine(sized_machine("h100", 8)).memory == RemoteMemory("PER_NPU_MEMORY_EXPANSION", 500, 63)
    job = cs.transformer_job({**SPEC, "offload": {"activations": 0.5}})
    with pytest.raises(InputError) as caught:
        cs.simulate(job, machine="hgx-h100-8")
    assert "accesses remote memory, but the machine has none" in str(caught.value)
    assert "write memory: {expansion: {kind: per-npu, latency: 500 ns, bandwidth: 63 GB/s}}" in str(caught.value)
    bare = replace(load_machine(sized_machine("h100", 8)), memory=RemoteMemory())
    with pytest.raises(InputError, match="there is no remote memory to access"):
        Arithmetic(bare).step(load_spec({**SPEC, "offload": {"activations": 0.5}}))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"offload": {"activations": 1.5}}, "offload.activations: out of range; found 1.5; expected a share, 0 to 1"),
        ({"offload": {"gradients": 1}}, "unknown key"),
        ({"offload": {"optimizer": 1}, "optimizer": "sgd", "dtype": "float32"}, "the optimizer has no states"),
        (
            {"offload": {"optimizer": 1}, "parallel": {"dp": 2, "fsdp": True}, "kernels": "eager"},
            "PyTorch's FSDP gathers weights from the float32 copies",
        ),
    ],
)
def test_what_cannot_be_offloaded(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_spec({**SPEC, **more})
    assert said in str(caught.value)
