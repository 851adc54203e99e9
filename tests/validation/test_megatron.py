"""Predictions of published training steps: the data, the machine, the accuracy, the command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chakrasim.cli.main import main
from chakrasim.generator.layers.tape import Row
from chakrasim.trace.kinds import CollectiveType, NodeType
from chakrasim.validation import megatron
from chakrasim.validation.breakdown import PARTS, _exposed
from chakrasim.validation.megatron import spec_of, validate_megatron
from chakrasim.validation.runs import megatron_runs
from chakrasim.validation.selene import collective_ns, selene

MIB = 1 << 20
QUICK = megatron_runs()[:4]
"""22 and 175 billion parameters: 8 and 64 ranks."""


def test_the_shipped_runs_are_those_that_were_published(shared_dir: Path) -> None:
    file = shared_dir / "validation" / "megatron" / "megatron_selene_a100_iteration_time.csv"
    with open(file, newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == len(megatron_runs()) == 8
    for row, run in zip(rows, megatron_runs(), strict=True):
        spec = spec_of(run)
        assert float(row["measured_iter_s"]) == run.seconds
        assert (int(row["hidden"]), int(row["num_blocks"]), int(row["attn_heads"])) == (
            run.hidden,
            run.layers,
            run.heads,
        )
        assert int(row["feedforward"]) == spec.model.feed_forward
        assert int(row["num_procs"]) == run.ranks == spec.parallel.ranks
        assert (int(row["batch_size"]), int(row["microbatch_size"])) == (run.batch, run.micro_batch)
        assert int(row["pipeline_interleaving"]) == run.chunks
        assert (row["mode"] == "seqsel") == run.selective == spec.parallel.sp


@pytest.mark.parametrize(
    ("kind", "size", "measured_us"),
    [(CollectiveType.ALL_GATHER, 16 * MIB, 507.9), (CollectiveType.REDUCE_SCATTER, 128 * MIB, 512.0)],
)
def test_collectives_of_a_node_take_what_was_measured(kind: CollectiveType, size: int, measured_us: float) -> None:
    """aicb's medians for 128 MiB over the eight GPUs of an A100 node."""
    row = Row("", NodeType.COMM_COLL_NODE, {"comm_type": int(kind), "comm_size": size}, {}, (), ())
    assert collective_ns(row) / 1000 == pytest.approx(measured_us, rel=0.01)


def test_a_node_has_one_dimension_and_several_have_two() -> None:
    assert selene(1).network.npus_count == (8,)
    assert selene(35).network.npus_count == (8, 35)


@pytest.fixture(scope="module")
def quick() -> megatron.Validation:
    return validate_megatron(QUICK)


def test_predictions_are_within_a_tenth(quick: megatron.Validation) -> None:
    assert quick.mean_error_pct < 10
    assert quick.max_error_pct < 10
    assert [one.run for one in quick.predictions] == list(QUICK)


def test_selective_recomputation_is_predicted_to_be_faster(quick: megatron.Validation) -> None:
    full22, selective22, full175, selective175 = (one.seconds for one in quick.predictions)
    # Measured: 1.291 and 1.319 times as fast.
    assert full22 / selective22 == pytest.approx(1.42 / 1.10, rel=0.06)
    assert full175 / selective175 == pytest.approx(18.13 / 13.75, rel=0.06)


def test_the_parts_add_up_to_the_iteration(quick: megatron.Validation) -> None:
    for one in quick.predictions:
        assert tuple(one.parts) == PARTS
        assert sum(one.parts.values()) == pytest.approx(one.seconds)
        assert min(one.parts.values()) >= 0
        assert (one.parts["pipeline"] > 0) == (one.run.pipeline > 1)


def test_errors_are_what_they_say(quick: megatron.Validation) -> None:
    content = quick.to_json()
    assert json.loads(json.dumps(content)) == content
    errors = [row["predicted_s"] / row["measured_s"] - 1 for row in content["runs"]]
    assert [row["error_pct"] for row in content["runs"]] == pytest.approx([100 * error for error in errors], abs=0.02)
    assert content["mean_error_pct"] == pytest.approx(100 * np.mean(np.abs(errors)), abs=0.02)
    assert content["max_error_pct"] == pytest.approx(100 * np.max(np.abs(errors)), abs=0.02)


def test_the_documented_figures_are_those_that_come_out(quick: megatron.Validation) -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation-validation.md").read_text(encoding="utf-8")
    for one in quick.predictions:
        line = next(line for line in page.splitlines() if line.strip().startswith(f"{one.run.name} "))
        assert line.split()[-3:] == [f"{one.run.seconds:.2f}", f"{one.seconds:.2f}", f"{one.error_pct:+.1f}%"]


@given(st.data())
def test_exposed_time_is_that_of_a_count_of_every_moment(data: st.DataObject) -> None:
    def intervals() -> tuple[list[int], list[int]]:
        edges = sorted(data.draw(st.sets(st.integers(0, 60), max_size=12)))
        edges = edges[: len(edges) // 2 * 2]
        return edges[::2], edges[1::2]

    busy, waits = intervals(), intervals()
    moments = set().union(*(range(a, b) for a, b in zip(*waits, strict=True)))
    moments -= set().union(*(range(a, b) for a, b in zip(*busy, strict=True)))
    columns = [np.array(column, np.int64) for column in (*busy, *waits)]
    assert _exposed(*columns) == len(moments)


def test_the_command_prints_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(megatron, "megatron_runs", lambda: QUICK[:2])
    target = tmp_path / "new" / "errors.json"
    assert main(["validate", "megatron", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "22B selective      8      1.10" in printed
    assert "mean error" in printed
    assert [row["name"] for row in json.loads(target.read_text())["runs"]] == ["22B full", "22B selective"]
    assert main(["validate", "megatron", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["validate", "megatron", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(target.read_text())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device-profile", "a1000"], "neither a shipped device nor a file"),
        (["--json", "/dev/null/errors.json"], "its folder cannot be made"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "megatron", *arguments]) == 2
    assert message in capsys.readouterr().err
