"""Max-min sharing beside two independent programs: 110 cases, and all-to-all on fat trees to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from flow_cases import ROUNDS, fat_tree_case, golden_cases, golden_flows

from chakrasim.cli.main import main
from chakrasim.simulator.flow.alone.api import share_links

PATHS = [
    pytest.param(0.0, False, id="all at every event"),
    pytest.param(0.2, False, id="as chosen"),
    pytest.param(1.0, False, id="what an event touches"),
    pytest.param(0.2, True, id="classes"),
]


@pytest.mark.parametrize(("all_above", "classes"), PATHS)
def test_golden_cases_on_every_path(all_above: float, classes: bool) -> None:
    worst_exact = worst_ns = 0.0
    for case in golden_cases():
        capacity, flows, changes = golden_flows(case)
        expected = np.array(case["finish_ns"])
        how = {"changes": changes, "all_above": all_above, "classes": classes}
        exact = share_links((), capacity, flows, exact=True, **how)  # type: ignore[arg-type]
        worst_exact = max(worst_exact, np.abs(exact.finish_ns / expected - 1).max())
        whole = share_links((), capacity, flows, **how)  # type: ignore[arg-type]
        assert (whole.finish_ns == np.floor(whole.finish_ns)).all()
        worst_ns = max(worst_ns, np.abs(whole.finish_ns - expected).max())
    assert worst_exact <= 1e-9
    assert worst_ns <= 5


@pytest.mark.sampled(6)
@pytest.mark.parametrize("hosts", [64, 256, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("all_above", "classes"), PATHS)
def test_rounds_to_the_nanosecond(hosts: int, all_above: float, classes: bool) -> None:
    if hosts == 1024 and all_above == 0.0:
        pytest.skip("seven minutes")
    if hosts == 256 and all_above == 0.0:
        all_above = 0.02  # nearly always all: all of them take five seconds
    capacity, flows = fat_tree_case(hosts)
    result = share_links((), capacity, flows, all_above=all_above, classes=classes)
    assert (int(result.finish_ns.max()), int(result.finish_ns.sum())) == ROUNDS[hosts]


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(("hosts", "end_ns"), [(64, 1321205.76), (256, 5347737.6)])
def test_equal_sizes_at_once(hosts: int, end_ns: float, classes: bool) -> None:
    capacity, flows = fat_tree_case(hosts, rounds=False, equal=True)
    result = share_links((), capacity, flows, exact=True, classes=classes)
    assert result.end_ns == pytest.approx(end_ns, rel=1e-12)


def test_random_sizes_at_once() -> None:
    capacity, flows = fat_tree_case(64, rounds=False)
    result = share_links((), capacity, flows, exact=True)
    assert result.end_ns == pytest.approx(1404887.46, rel=1e-9)
    assert result.finish_ns.sum() == pytest.approx(4458084018.412, rel=1e-9)


def test_the_command_on_a_golden_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(golden_cases())
    file, out = tmp_path / "case.json", tmp_path / "ends.json"
    file.write_text(json.dumps(case))
    assert main(["flows", str(file), "--model", "flow", "--exact", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["finish_ns"] == pytest.approx(case["finish_ns"], rel=1e-9)
    assert "Most loaded links" in capsys.readouterr().out
