"""Steps by arithmetic beside simulated ones."""

from __future__ import annotations

import pytest

from chakrasim.errors import InputError
from chakrasim.estimation.api import estimate_step
from chakrasim.estimation.arithmetic import Arithmetic
from chakrasim.estimation.request import Request
from chakrasim.estimation.split import peak_bytes, spec_of
from chakrasim.generator.memory import stage_memory
from chakrasim.machine import load_machine
from chakrasim.simulator import session

CASES = [
    ("llama-7b", {"tp": 2, "pp": 2, "batch": 64}),
    ("llama-7b", {"tp": 1, "pp": 1, "batch": 64, "micro_batch": 2}),
    ("llama-7b", {"tp": 1, "pp": 4, "vp": 2, "batch": 128, "recompute": "full"}),
    ("llama-7b", {"tp": 1, "pp": 1, "zero": 3, "batch": 32, "recompute": "full"}),
    ("llama-7b", {"tp": 4, "pp": 1, "zero": 2, "batch": 64}),
    ("mixtral-8x7b", {"tp": 2, "pp": 2, "batch": 64}),
    ("llama3-8b", {"tp": 2, "pp": 1, "cp": 2, "batch": 32}),
]


@pytest.mark.parametrize(("model", "asked"), CASES)
def test_it_is_near_the_simulation(model: str, asked: dict[str, int | str]) -> None:
    machine = load_machine("h100", gpus=32)
    spec, assumed = spec_of(model, machine, Request(**asked))  # type: ignore[arg-type]
    found = Arithmetic(machine).step(spec)
    simulated_ns = 1e9 * estimate_step(spec, machine, assumed).step_s
    # Sharded gradients are reduced, and weights gathered, beside passes that come later: that is only bounded.
    assert found.step_ns == pytest.approx(simulated_ns, rel=0.06 if "zero" in asked else 0.03)
    assert 0 <= found.moving_ns + found.bubble_ns < found.step_ns


def test_of_jobs_too_large_to_keep_single_times_the_parts_are_reckoned(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = load_machine("h100", gpus=8)
    spec, assumed = spec_of("llama-7b", machine, Request(tp=2, pp=2, batch=16))
    whole = estimate_step(spec, machine, assumed)
    monkeypatch.setattr(session, "RECORD_LIMIT", 0)
    found = estimate_step(spec, machine, assumed)
    assert found.step_s == whole.step_s
    assert sum(found.parts_s.values()) == pytest.approx(found.step_s)
    assert found.parts_s["bubble"] == pytest.approx(whole.parts_s["bubble"], rel=0.25)
    assert any("reckoned" in text for text in found.assumed)


def test_what_is_kept_from_one_spec_does_not_change_another() -> None:
    machine = load_machine("h100", gpus=32)
    shared = Arithmetic(machine)
    for model, asked in CASES[:5] + CASES[:5][::-1]:
        spec, _ = spec_of(model, machine, Request(**asked))  # type: ignore[arg-type]
        assert shared.step(spec) == Arithmetic(machine).step(spec)


@pytest.mark.parametrize("vp", [None, 2, 4])
@pytest.mark.parametrize("pp", [1, 2, 8])
def test_memory_is_full_after_a_few_micro_batches(pp: int, vp: int | None) -> None:
    machine = load_machine("h100", gpus=32)
    for recompute in ("none", "full"):
        try:
            spec, _ = spec_of("llama-7b", machine, Request(tp=1, pp=pp, vp=vp, batch=4096, recompute=recompute))
        except InputError:
            assert pp == 1 and vp
            continue
        assert spec.batch.micro_batches > 4 * pp
        assert peak_bytes(spec) == max(stage_memory(spec, stage).peak for stage in range(pp))
