"""What the scoreboard says of machines, sizes, ranks, collectives and nodes that a fit has not seen."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chakrasim.calibration.measurements.csv_folder import read_folder, read_rows
from chakrasim.cli.main import main
from chakrasim.report.picture.scoreboard import OVERVIEW, write_plots
from chakrasim.report.tables.scoreboard import scoreboard_sections
from chakrasim.text.layout import plain_text
from chakrasim.validation.scoreboard.api import SHIPPED, Scoreboard, validate_collectives
from chakrasim.validation.scoreboard.predictions import Predictions, scope_of_curve
from chakrasim.validation.scoreboard.refit import design_of_rows, models_without
from chakrasim.validation.scoreboard.scores import scores
from chakrasim.validation.scoreboard.tasks import COLLECTIVE, NODES, RANKS, SIZES, TASKS, cuts_of, task_of

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "data" / "scoreboard.json"
"""Errors that may not get worse; CHAKRASIM_UPDATE_SCOREBOARD=1 writes those of today."""
MACHINES = ("a100_sxm", "h200_sxm", "h100-ib-cluster01")
Row = dict[str, str]


def part_of_shipped(
    target: Path, keep: Callable[[Row], bool], change: Callable[[Row, Row], None] = lambda curve, point: None
) -> Path:
    """A folder with some of the shipped curves, whose points may be changed."""
    target.mkdir()
    shutil.copy(SHIPPED / "machines.csv", target)
    with open(SHIPPED / "curves.csv", newline="") as file:
        curves = {row["curve"]: row for row in csv.DictReader(file) if keep(row)}
    with gzip.open(SHIPPED / "points.csv.gz", "rt", newline="") as file:
        points = [row for row in csv.DictReader(file) if row["curve"] in curves]
    for row in points:
        change(curves[row["curve"]], row)
    for name, rows in (("curves", [*curves.values()]), ("points", points)):
        with open(target / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, [*rows[0]])
            writer.writeheader()
            writer.writerows(rows)
    return target


def few(row: Row) -> bool:
    """Two collectives of two machines."""
    return row["machine"] in ("a100_sxm", "h200_sxm") and row["collective"] in ("all_reduce", "reduce_scatter")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Scoreboard:
    folder = part_of_shipped(
        tmp_path_factory.mktemp("part") / "of",
        lambda row: row["machine"] in MACHINES,
    )
    return validate_collectives(folder, refit=True)


@pytest.fixture(scope="module")
def shipped() -> Scoreboard:
    return validate_collectives()


def test_the_shipped_measurements_are_all_there(shipped: Scoreboard) -> None:
    rows = read_rows(SHIPPED)
    told = {one.curve for one in shipped.refused}
    assert len(shipped.predictions) + sum(one.points for one in shipped.refused) == len(rows.points)
    assert {one.library.name for one in shipped.predictions.curves} == {"nccl"}
    assert {curve.library for curve in rows.curves if curve.name in told} == {"oneCCL"}
    assert shipped.refused_pct == 0
    assert set(shipped.scopes(shipped.predictions)) == {
        "one NVSwitch node",
        "one other node",
        "InfiniBand",
        "other networks",
    }
    assert scope_of_curve(shipped.predictions.curves[0]) == "one NVSwitch node"


def errors(board: Scoreboard, rows: Predictions) -> dict[str, list[float]]:
    """By scope and size class, in per cent."""
    return {
        scope: [round(one.error_pct, 2) for one in scores(rows, which) if one.points]
        for scope, which in board.scopes(rows).items()
    }


@pytest.mark.slow
def test_errors_do_not_get_worse(board: Scoreboard, shipped: Scoreboard) -> None:
    now = {"all that ships, from descriptions": errors(shipped, shipped.predictions)}
    now |= {"a machine left out": errors(board, board.predictions)}
    now |= {task.name: errors(board, task.predictions) for task in board.tasks}
    if os.environ.get("CHAKRASIM_UPDATE_SCOREBOARD") == "1":
        STORED.write_text(json.dumps(now, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    assert {name: list(scopes) for name, scopes in now.items()} == {name: list(of) for name, of in stored.items()}
    worse = [
        f"{name}, {scope}: {values}, were {stored[name][scope]}"
        for name, scopes in now.items()
        for scope, values in scopes.items()
        if any(new > 1.02 * old + 0.2 for new, old in zip(values, stored[name][scope], strict=True))
    ]
    assert worse == []


def test_a_machine_that_is_left_out_has_no_say(tmp_path: Path) -> None:
    def slower(curve: Row, point: Row) -> None:
        if curve["machine"] == "h200_sxm":
            point["time_us"] = point["time_hi_us"] = str(3 * float(point["time_us"]))

    folders = part_of_shipped(tmp_path / "as", few), part_of_shipped(tmp_path / "slow", few, slower)
    plain, slow = (validate_collectives(folder, refit=True) for folder in folders)
    own = plain.predictions.of_curves([one.curve.machine == "h200_sxm" for one in plain.predictions.curves])
    own = own.astype(np.bool_)
    ours, theirs = plain.predictions.predicted_us, slow.predictions.predicted_us
    assert ours[own] == pytest.approx(theirs[own], rel=1e-9)
    assert np.abs(theirs[~own] / ours[~own] - 1).max() > 0.01, "the others' weights have seen it"


def test_what_is_hidden_has_no_say(tmp_path: Path) -> None:
    """Nor do baselines know of it."""
    folder = part_of_shipped(tmp_path / "of", few)
    measured, rows = read_folder(folder), validate_collectives(folder).predictions
    design = design_of_rows(rows, measured)
    models = models_without(design, [True] * len(design.curves))
    for name in (SIZES, RANKS):
        task = task_of(name, rows, design, models)
        hidden = {(one[0], one[2]) for one in _rows(task.predictions)}
        assert 0 < len(task.predictions) < len(rows)

        def wild(curve: Row, point: Row, hidden: set[tuple[object, object]] = hidden) -> None:
            if (curve["curve"], int(point["bytes"])) in hidden:
                point["time_us"] = point["time_hi_us"] = "1e9"

        other = part_of_shipped(tmp_path / name.replace(" ", ""), few, wild)
        there = validate_collectives(other).predictions
        again = task_of(name, there, design_of_rows(there, read_folder(other)), models)
        assert _rows(again.predictions) == _rows(task.predictions)
        assert again.predictions.predicted_us == pytest.approx(task.predictions.predicted_us, rel=1e-9)
        for baseline, times in task.baselines.items():
            assert again.baselines[baseline] == pytest.approx(times, rel=1e-9)
        assert (again.predictions.time_us == 1e9).all()


def _rows(rows: Predictions) -> list[tuple[str, bool, int]]:
    names = [rows.curves[at].curve.name for at in rows.curve]
    return list(zip(names, rows.place.tolist(), rows.bytes.tolist(), strict=True))


def test_a_fit_has_the_machines_other_points_and_nothing_else(board: Scoreboard) -> None:
    rows = board.predictions
    design = design_of_rows(rows, read_folder(board.source))
    assert [task.name for task in board.tasks] == list(TASKS)
    for name in TASKS:
        cuts = list(cuts_of(name, rows, design))
        assert cuts
        for cut in cuts:
            seen = {(int(c), int(design.curves[c].curve.bytes[r])) for c, r in zip(
                design.curve[cut.fitted], design.row[cut.fitted], strict=True)}  # fmt: skip
            hidden = set(zip(rows.curve[cut.hidden].tolist(), rows.bytes[cut.hidden].tolist(), strict=True))
            assert not seen & hidden
            groups = {rows.curves[at].group for at, _ in seen | hidden}
            assert len(groups) == 1
            curves = (
                [rows.curves[at] for at in {at for at, _ in seen}],
                [rows.curves[at] for at in {a for a, _ in hidden}],
            )
            if name == RANKS:
                assert {one.site.nranks for one in curves[0]} == {2, 8} and {one.site.nranks for one in curves[1]} == {
                    4
                }
            if name == COLLECTIVE:
                assert {one.kind for one in curves[0]} == {"all_reduce", "all_gather"}
                assert {one.kind for one in curves[1]} == {"reduce_scatter"}
            if name == NODES:
                (nodes,) = {one.site.nodes for one in curves[1]}
                assert nodes > 1 and nodes not in {one.site.nodes for one in curves[0]}


def test_every_point_of_the_tasks_is_told_once(board: Scoreboard) -> None:
    for task in board.tasks:
        rows = _rows(task.predictions)
        assert len(set(rows)) == len(rows) == len(task.predictions.predicted_us)
        assert (task.predictions.low_us < task.predictions.predicted_us).all()
        assert (task.predictions.predicted_us < task.predictions.high_us).all()
    sizes = board.tasks[0]
    assert set(sizes.baselines) == {"alpha-beta", "interpolation"}
    text = plain_text(scoreboard_sections(board))
    assert "Hidden and predicted: other sizes" in text and "error, interpolation" in text
    assert json.dumps(board.to_json()["tasks"][NODES], allow_nan=False)


def test_one_machine_alone_cannot_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = part_of_shipped(tmp_path / "one", lambda row: row["machine"] == "aws-p4d")
    assert main(["validate", "collectives", "--data", str(folder), "--refit"]) == 2
    assert "none to fit the weights to" in capsys.readouterr().err


def test_pictures_have_every_machine_and_where_times_stand(board: Scoreboard, tmp_path: Path) -> None:
    files = write_plots(tmp_path / "plots", board)
    assert sorted(Path(path).stem for path in files) == sorted([OVERVIEW, *MACHINES])
    for path in files:
        picture = ET.parse(path).getroot()
        texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert any("predicted against measured" in str(text) for text in texts)
    one = Path(tmp_path / "plots" / "h100-ib-cluster01.svg").read_text()
    assert "80 ranks on 10 nodes" in one and ">alltoall<" in one
    assert "M0 " not in one and "M480 " not in one, "no time is at the edge"


def test_the_command_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = part_of_shipped(tmp_path / "few", lambda row: row["machine"] in ("aws-p4d", "alps-gh200"))
    assert main(["validate", "collectives", "--data", str(folder), "--plots", str(tmp_path / "p"), "--quiet"]) == 0
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "all-machines.svg", "alps-gh200.svg", "aws-p4d.svg",
    ]  # fmt: skip
    blank = part_of_shipped(
        tmp_path / "blank", lambda row: row["machine"] == "aws-p4d", lambda curve, point: point.update(time_us="")
    )
    assert main(["validate", "collectives", "--data", str(blank), "--plots", str(tmp_path / "q")]) == 2
    assert "there is nothing to draw" in capsys.readouterr().err


@pytest.mark.slow
def test_all_that_ships_is_refitted() -> None:
    board = validate_collectives(refit=True)
    assert np.isfinite(board.predictions.predicted_us).all()
    assert all(len(task.predictions) for task in board.tasks)
