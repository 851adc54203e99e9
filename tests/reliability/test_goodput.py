"""Training with failures: drawn runs against closed forms, published figures, and what specs are refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chakrasim.cli.main import main
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.reliability.closed_form import best_interval_s, exact, hpca25
from chakrasim.reliability.goodput import goodput

# Mean time between failures and best period in s, with C = R = 600 s and D = 60 s: Aupy, Robert, Vivien 2013, Table 2.
AUPY = ((3849609, 68240), (1924805, 48320), (962402, 34189), (481201, 24231), (240601, 17194), (120300, 12218),
        (60150, 8701), (30075, 6214), (15038, 4458), (7519, 3218))  # fmt: skip
DAY = 86_400.0


def asked(**given_: Any) -> dict[str, Any]:
    return {
        "step_s": 1.0, "nodes": 100, "failures": {"gpu": 0.002, "network": 0.001}, "checkpoint_write_s": 60,
        "restart_s": 300, "days": 20, **given_,
    }  # fmt: skip


@pytest.mark.parametrize(("mtbf_s", "optimum_s"), AUPY)
def test_drawn_runs_have_the_ratio_of_the_exact_formula(mtbf_s: int, optimum_s: int) -> None:
    spec = {
        "step_s": 1, "nodes": 4, "failures": {"any": DAY / mtbf_s / 4}, "checkpoint_write_s": 600, "restart_s": 600,
        "downtime_s": 60, "checkpoint_interval_s": optimum_s, "days": 120,
    }  # fmt: skip
    found = goodput(spec)
    assert found.failures >= 2000
    assert found.ettr == pytest.approx(found.exact, rel=0.005)
    assert found.best_interval_s == pytest.approx(optimum_s, rel=0.02)
    assert found.low < found.ettr < found.high


@pytest.mark.parametrize(("write_s", "rate", "ratio"), [(300, 6.5e-3, 0.740), (10, 6.5e-3, 0.921), (300, 1e-3, 0.898)])
def test_figures_of_hpca_2025(write_s: float, rate: float, ratio: float) -> None:
    """12,000 GPUs, 8 a node."""
    found = goodput(asked(nodes=1500, failures={"all": rate}, checkpoint_write_s=write_s, restart_s=300))
    assert found.hpca25 == pytest.approx(ratio, rel=0.002)
    assert found.ettr == pytest.approx(found.hpca25, rel=0.01)


@pytest.mark.parametrize(("write_s", "ratio"), [(300, 0.768), (60, 0.876), (10, 0.932)])
def test_llama_3_needs_quick_checkpoints_for_its_nine_tenths(write_s: float, ratio: float) -> None:
    """419 unexpected interruptions in 54 days on 16,384 GPUs; five minutes to restart."""
    rate = 419 / 54 / 2048
    found = goodput(asked(nodes=2048, failures={"all": rate}, checkpoint_write_s=write_s, restart_s=300, days=54))
    assert found.hpca25 == pytest.approx(ratio, abs=0.001)
    assert found.mtbf_s == pytest.approx(54 * DAY / 419)


@given(st.floats(0.0, 0.05), st.integers(1, 4000), st.floats(0, 900), st.floats(0, 900), st.integers(0, 99))
@settings(max_examples=25)
def test_parts_are_all_of_the_time(rate: float, nodes: int, write_s: float, restart_s: float, seed: int) -> None:
    spec = asked(failures={"a": rate}, nodes=nodes, checkpoint_write_s=write_s, restart_s=restart_s, seed=seed, days=3,
                 checkpoint_interval_s=write_s + 1000)  # fmt: skip
    found = goodput(spec, notes=Notes())
    assert sum(found.parts.values()) == pytest.approx(1)
    assert all(0 <= value <= 1 for value in found.parts.values())
    kept = found.parts["productive"] + found.parts["checkpoint_save"]
    assert sum(found.by_component.values()) == pytest.approx(1 - kept)
    assert found.to_dict() == goodput(spec, notes=Notes()).to_dict()


@pytest.mark.parametrize("restart_s", [0, 900, 20_000])
def test_parts_are_those_of_the_exact_formula(restart_s: float) -> None:
    found = goodput(asked(nodes=500, restart_s=restart_s, downtime_s=1200, checkpoint_interval_s=6000, days=400))
    assert sum(found.exact_parts.values()) == pytest.approx(1, rel=1e-12)
    for name, share in found.exact_parts.items():
        assert found.parts[name] == pytest.approx(share, abs=4e-3)


def test_short_runs_have_the_ratio_of_long_ones_and_wider_bounds() -> None:
    spec = asked(nodes=1000, checkpoint_interval_s=3600)
    short, long, cut = (goodput(spec | {"days": days}) for days in (1, 100, 1e5))
    assert short.ettr == pytest.approx(long.ettr, rel=0.005)
    widths = [found.high - found.low for found in (short, long, cut)]
    assert widths[0] > 5 * widths[1] > 100 * widths[2] > 0


@given(st.floats(1, 3000), st.floats(1.5, 50), st.floats(0.1, 100))
@settings(max_examples=20)
def test_without_failures_only_checkpoints_cost(write_s: float, periods: float, days: float) -> None:
    found = goodput(asked(failures={"gpu": 0}, checkpoint_write_s=write_s, checkpoint_interval_s=periods * write_s,
                          days=days))  # fmt: skip
    assert found.ettr == pytest.approx(1 - 1 / periods, rel=1e-9)
    assert found.exact == pytest.approx(1 - 1 / periods, rel=1e-9)
    assert (found.failures, found.mtbf_s, found.best_interval_s) == (0, None, None)
    assert goodput(asked(failures=1e-310)).mtbf_s is None
    endless = goodput(asked(failures=0))
    assert (endless.ettr, endless.exact, endless.interval_s) == (1.0, 1.0, None)


def test_more_failures_leave_less() -> None:
    ratios = [goodput(asked(failures={"gpu": rate}, checkpoint_interval_s=3600)).ettr for rate in (0, 0.001, 0.01, 0.1)]
    assert ratios == sorted(ratios, reverse=True)


def test_a_job_without_a_spare_waits_for_repairs() -> None:
    """One node that fails every 10 days in the mean and is repaired in 5: two thirds of the time it works."""
    spec = asked(nodes=1, failures={"gpu": 0.1}, checkpoint_write_s=0, checkpoint_interval_s=1, restart_s=0,
                 repair_s=5 * DAY, days=4000)  # fmt: skip
    alone, helped = goodput(spec | {"spares": 0}), goodput(spec | {"spares": 50})
    assert alone.parts["waiting_for_spares"] == pytest.approx(1 / 3, rel=0.02)
    assert helped.parts["waiting_for_spares"] == 0
    some = goodput(spec | {"spares": 1}).parts["waiting_for_spares"]
    assert 0 < some < alone.parts["waiting_for_spares"]


def test_steps_money_and_energy() -> None:
    power = {"busy_w": 1000, "idle_w": 200}
    spec = asked(failures=0, steps=864_000, price_per_gpu_hour=2, power=power, gpus_per_node=8)
    found = goodput(spec)
    assert found.days_of_steps == pytest.approx(10)
    assert found.money == pytest.approx(10 * 24 * 800 * 2)
    assert found.energy_kwh == pytest.approx(10 * 24 * 800)
    assert found.steps_in_days == pytest.approx(20 * DAY)
    named = goodput(spec | {"power": "h100"})
    assert named.spec.power == {"busy_w": 969, "idle_w": 189}
    assert named.energy_kwh == pytest.approx(10 * 24 * 800 * 0.969)


def test_a_checkpoint_may_be_said_by_its_bytes() -> None:
    spec = asked(storage_bytes_per_s=1e9)
    del spec["checkpoint_write_s"]
    assert goodput(spec | {"checkpoint_bytes": 30_000_000_000}).spec.checkpoint_write_s == 30
    model = goodput(spec | {"model": "llama-7b", "asynchronous_share": 0.5}).spec
    assert model.checkpoint_bytes == 14 * 6_738_415_616
    assert model.checkpoint_write_s == model.checkpoint_bytes / 2e9


def test_long_runs_end_soon_and_say_so() -> None:
    notes = Notes()
    found = goodput(asked(nodes=100_000, days=1e6, checkpoint_interval_s=100, spares=10**6, repair_s=1), notes=notes)
    assert "have too many failures to draw" in notes.warnings[0]
    assert found.ettr == pytest.approx(found.exact, rel=0.02)
    assert found.ettr - found.low < 0.01 * found.ettr
    notes = Notes()
    goodput(asked(nodes=10**6, restart_s=1e5), notes=notes)
    assert any("next to nothing is ever done" in warning for warning in notes.warnings)
    notes = Notes()
    stuck = goodput(asked(restart_s=1e12, nodes=100), notes=notes)
    assert (stuck.exact, stuck.ettr > 0.01) == (0, True)
    assert "comes before its first failure" in notes.warnings[0]


def test_a_file_may_say_null(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("step_s: 1\nnodes: 10\nfailures: {gpu: 0.01}\ncheckpoint_write_s: 5\nspares: null\ndays: 5\n")
    assert goodput(path).parts["waiting_for_spares"] == 0


def test_closed_forms_at_their_ends() -> None:
    assert exact(100, 10, 1e9, 0, 1.0) == 0
    assert best_interval_s(0, 0.1) == 0
    assert hpca25(100, 10, 1e9, 1.0) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": 0}, "not a valid number"),
        ({"stepss": 1}, "did you mean step"),
        ({"checkpoint_interval_s": 30}, "no work fits between two checkpoints"),
        ({"checkpoint_interval_s": 0}, "out of range"),
        ({"failures": {"gpu": -1}}, "out of range"),
        ({"failures": "often"}, "not failures"),
        ({"restart_s": -5}, "out of range"),
        ({"power": "v100"}, "nobody says what this device draws"),
        ({"power": "h1000"}, "neither a shipped device nor a file"),
        ({"power": {"busy_w": 3}}, "the key is missing"),
        ({"step_s": None}, "the key is missing"),
        ({"model": "lama", "checkpoint_write_s": None}, "no such model"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        goodput(asked(**change))


def test_the_command_writes_what_the_function_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "job.json", tmp_path / "out.json"
    path.write_text(json.dumps(asked(spares=4)))
    assert main(["goodput", "--spec", str(path), "--json", str(out)]) == 0
    assert "effective training time" in capsys.readouterr().out
    assert json.loads(out.read_text())["ettr"] == goodput(asked(spares=4)).ettr
    path.write_text("step_s: 1\n")
    assert main(["goodput", "--spec", str(path)]) == 2
    assert "nodes: the key is missing" in capsys.readouterr().err
