"""``what-if`` on the open straggler traces: its JSON, its tables, and how it ends with what it cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Cli
from made_steps import Made

pytest.importorskip("pyarrow")


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    path, meta = Made(2, 3, 2, 4, 1).write(tmp_path)
    return ["what-if", path, "--meta", meta]


def test_the_figures_have_their_names(trace: list[str], cli: Cli, tmp_path: Path) -> None:
    assert cli(*trace, "--json", str(tmp_path / "f.json"), "--quiet").code == 0
    found = json.loads((tmp_path / "f.json").read_text())
    assert set(found) == {"S", "steps", "S_x", "M_S", "M_W", "M", "worst_workers", "format"}
    assert set(found["steps"]) == {"5", "8", "11", "14"}
    assert all({"measured_s", "replayed_s", "ideal_s"} <= set(step) for step in found["steps"].values())
    assert {name: list(values) for name, values in found["S_x"].items() if name != "optype"} == {
        "stage": ["0", "1", "2"],
        "dp_rank": ["0", "1"],
    }
    assert {"forward-compute", "forward-pp-comm", "optimizer"} <= set(found["S_x"]["optype"])
    assert found["M_S"] == found["M"]["last_stage"]["removal"]


def test_changes_and_draws_are_shown_beside(trace: list[str], cli: Cli) -> None:
    outcome = cli(*trace, "--set", "stage:1=0.5", "--draws", "50", "--seed", "3")
    assert outcome.code == 0
    for words in ("Stragglers in 4 steps, means", "What if stage:1=0.5", "from 50 draws of 4 recorded steps", "after"):
        assert words in outcome.out
    content = json.loads(cli(*trace, "--set", "stage:1=0.5", "--draws", "auto", "--json", "-").out)
    assert content["what_if"]["set"] == ["stage:1=0.5"]
    assert content["what_if"]["after_s"] < content["what_if"]["before_s"]
    assert content["distribution"]["saved"]["mean_s"] > 0


def test_the_same_seed_gives_the_same_bytes(trace: list[str], cli: Cli) -> None:
    first, second, other = (cli(*trace, "--draws", "40", "--seed", seed, "--json", "-").out for seed in "112")
    assert first == second != other


def test_what_cannot_be_used_writes_nothing(trace: list[str], cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "f.json"
    Path(trace[1]).write_bytes(Path(trace[1]).read_bytes()[:500])
    outcome = cli(*trace, "--json", str(target))
    assert outcome.code == 2 and "cannot be read" in outcome.err and not target.exists()


def test_a_kept_warning_stops_a_strict_run(cli: Cli, tmp_path: Path) -> None:
    """A message whose sender ended long before the receiver began."""
    made = Made(1, 2, 2, 2, 1)
    columns = made.columns()
    sends = (columns["optype"] == "forward-send") & (columns["seq_id"] == 0)
    columns["duration"][sends] = 0.0
    late = (columns["optype"] == "forward-recv") & (columns["seq_id"] == 0)
    columns["start_ts"][late] += 1.0
    path, meta = made.write(tmp_path, columns)
    outcome = cli("what-if", path, "--meta", meta)
    assert outcome.code == 0 and "their transfers take no time" in outcome.err
    assert cli("what-if", path, "--meta", meta, "--strict").code == 2
