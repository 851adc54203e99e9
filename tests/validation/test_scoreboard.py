"""The scoreboard of collectives: rows, figures, baselines, the command."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chakrasim.calibration.collectives.design import Described
from chakrasim.calibration.measurements.csv_folder import read_rows
from chakrasim.calibration.measurements.curves import Curve, Points
from chakrasim.cli.main import main
from chakrasim.collectives.libraries.course import course_of
from chakrasim.collectives.libraries.settings import DEFAULT
from chakrasim.collectives.libraries.site import Site
from chakrasim.collectives.libraries.versions import library_of
from chakrasim.validation.scoreboard.api import described, validate_collectives
from chakrasim.validation.scoreboard.baselines import (
    alpha_beta,
    every_second,
    from_other_sizes,
    from_shown,
    interpolated,
)
from chakrasim.validation.scoreboard.predictions import Predictions, pooled_curve, unpredicted
from chakrasim.validation.scoreboard.scores import Coverage, coverage, scores

CURVES = """curve,source,machine,gpu,nodes,gpus_per_node,nranks,library,version,collective,algo,proto,env,dtype
one,me,box,H100,1,8,8,NCCL,2.27.7,all_reduce,auto,auto,,float
two,me,box,H100,2,8,16,NCCL,2.27.7,all_gather,auto,auto,sockets,half
odd,me,arc,Arc,1,8,8,oneCCL,1,all_reduce,auto,auto,,half
lost,me,arc,Arc,1,8,8,NCCL,2.27.7,all_reduce,auto,auto,,half
never,me,box,H100,1,8,8,NCCL,2.27.7,all_reduce,pat,auto,,half
"""
MACHINES = """machine,gpu,gpus_per_node,intra_node,network,nics_per_node,nic_Gbps,basis
box,H100,8,NVSwitch NVLink4,InfiniBand,8,400,made up
arc,Arc,8,PCIe,none,,,made up
"""
POINTS = """curve,place,bytes,time_us
one,out,1048576,60
two,in,1048576,200
one,in,1024,20
one,out,1048576,70
odd,out,1024,20
one,out,0,3
lost,out,1024,20
nobody,out,1024,20
never,out,1024,20
one,in,268435456,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five curves, three of which cannot be predicted; rows that are there again, of size 0, without a time."""
    for name, text in (("curves", CURVES), ("machines", MACHINES), ("points", POINTS)):
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def blank(folder: Path, target: Path, filled: str = "") -> Path:
    """A copy of a folder in which every measured column of the points has one text."""
    shutil.copytree(folder, target)
    with open(folder / "points.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["time_us"] = filled
    with open(target / "points.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return target


def test_rows_stand_as_in_the_file_with_what_was_measured_again(folder: Path) -> None:
    content = validate_collectives(folder).to_json()
    shown = [(row["curve"], row["place"], row["bytes"], row["time_us"]) for row in content["points"]]
    assert shown == [
        ("one", "out", 1 << 20, 60.0),
        ("two", "in", 1 << 20, 200.0),
        ("one", "in", 1024, 20.0),
        ("one", "out", 1 << 20, 70.0),
        ("one", "in", 1 << 28, None),
    ]
    assert all(0 < row["low_us"] < row["predicted_us"] < row["high_us"] for row in content["points"])


def test_what_cannot_be_predicted_is_told_with_the_reason(folder: Path) -> None:
    board = validate_collectives(folder)
    told = {one.curve: one for one in board.refused}
    assert set(told) == {"nobody", "odd", "lost", "never"}
    assert "curves.csv has no such curve" in told["nobody"].reason
    assert "Arc" in told["odd"].reason and "leaves the library nothing" in told["never"].reason
    assert [told[name].points for name in told] == [1, 1, 1, 1]
    assert board.refused_pct == pytest.approx(100 * 2 / 3), "oneCCL and sockets do not count"


def test_a_prediction_is_the_models_closed_form(folder: Path) -> None:
    board = validate_collectives(folder)
    one = board.predictions.curves[int(board.predictions.curve[2])]
    course = course_of(one.site, one.library, "all_reduce", 1024, in_place=True, item_bytes=4)
    time = course.startup_ns + 1024 / course.rate
    assert board.predictions.predicted_us[2] * 1e3 == pytest.approx(time)
    assert board.predictions.high_us[2] * 1e3 == pytest.approx(time * course.high)


def test_no_measured_value_changes_a_prediction(folder: Path, tmp_path: Path) -> None:
    blanks = validate_collectives(blank(folder, tmp_path / "blank")).to_json()
    other = validate_collectives(blank(folder, tmp_path / "other", "7")).to_json()
    keep = ("curve", "place", "bytes", "predicted_us", "low_us", "high_us")
    assert [[row[name] for name in keep] for row in blanks["points"]] == [
        [row[name] for name in keep] for row in other["points"]
    ]
    assert {row["time_us"] for row in blanks["points"]} == {None}
    assert json.dumps(blanks, allow_nan=False)


def test_predictions_come_before_a_time_is_read(folder: Path) -> None:
    """What is no time is refused, but not before all is predicted: it was not looked at."""
    text = (folder / "points.csv").read_text().replace(",60\n", ",soon\n")
    (folder / "points.csv").write_text(text)
    assert len(described(read_rows(folder, times=False), "").predictions) == 5
    assert main(["validate", "collectives", "--data", str(folder), "--quiet"]) == 2


@pytest.mark.parametrize(
    ("source", "library", "env", "basis", "counts"),
    [
        ("me", "NCCL", "", "product data", True),
        ("vidur", "NCCL", "", "", False),
        ("me", "oneCCL", "", "", False),
        ("me", "NCCL", "set 1 (default: Sockets)", "", False),
        ("me", "NCCL", "hook off (degraded on purpose)", "", False),
        ("me", "NCCL", "", "some links broken", False),
        ("me", "RCCL", "set 4", "source page", True),
    ],
)
def test_what_counts_for_pooled_figures(
    folder: Path, source: str, library: str, env: str, basis: str, counts: bool
) -> None:
    rows = read_rows(folder)
    curve = replace(rows.curves[0], source=source, library=library, env=env)
    assert pooled_curve(curve, replace(rows.machines["box"], basis=basis)) == counts


def made(times: list[float], predicted: list[float], curve: list[int], sizes: list[int]) -> Predictions:
    """Rows of two curves."""
    points = Points(
        np.array(curve), np.zeros(len(curve), np.bool_), np.array(sizes), *(np.array(times) for _ in range(3)),
        np.ones(len(curve), np.int64),
    )  # fmt: skip
    site = Site("nvidia", 90, 1, 8, "nvswitch", 450.0)
    one = Described(Curve("x", "", "", "", 1, 8, 8, "", "", ""), site, library_of("nccl"), DEFAULT, "all_reduce", 2)
    found = unpredicted((one, one), points)
    about = np.array(predicted)
    return replace(found, predicted_us=about, low_us=about * 0.8, high_us=about * 1.2)


def test_errors_are_means_of_curves_and_intervals_of_points() -> None:
    rows = made(
        [100, 100, 100, 100, np.nan, 100], [110, 90, 130, 150, 1, np.nan], [0, 0, 0, 1, 1, 1],
        [64, 128, 1 << 16, 256, 64, 64],
    )  # fmt: skip
    small, *rest = scores(rows)
    assert (small.points, small.curves) == (4, 2)
    assert small.error_pct == pytest.approx(((10 + 10 + 30) / 3 + 50) / 2)
    assert [one.points for one in rest] == [0, 0, 0]
    all_sizes = coverage(rows)[-1]
    assert (all_sizes.points, all_sizes.inside_pct) == (4, 50.0)  # 90 % of so few may well be two
    assert all_sizes.half_width_pct == pytest.approx(20)


@pytest.mark.parametrize(
    ("points", "inside_pct", "remark"),
    [
        (0, float("nan"), ""), (1000, 84.0, "too few inside"), (1000, 90.0, ""), (1000, 96.0, "too many inside"),
        (199, 84.0, "too few inside"), (199, 84.5, ""), (20, 65.0, "too few inside"), (20, 70.0, ""), (20, 100.0, ""),
        (60, 100.0, "too many inside"),
    ],
)  # fmt: skip
def test_intervals_that_hold_too_often_or_too_seldom_are_told(points: int, inside_pct: float, remark: str) -> None:
    """Of 20 rows 13 or less are inside in 0.24 % of cases, 14 or less in 1.1 %; of 60 all are in 0.18 %."""
    assert Coverage(points, inside_pct, 10.0).remark == remark


def test_classes_end_where_the_issue_says() -> None:
    sizes = [65536, 65537, 4 << 20, (4 << 20) + 1, (128 << 20) - 1, 128 << 20]
    rows = made([100] * 6, [100] * 6, [0] * 6, sizes)
    assert [one.points for one in scores(rows)] == [1, 2, 2, 1]


def test_every_second_size_goes_by_curve_and_both_places() -> None:
    rows = made([1] * 7, [1] * 7, [1, 0, 0, 1, 0, 0, 1], [8, 4, 16, 2, 8, 16, 32])
    assert every_second(rows.curve, rows.bytes).tolist() == [1, 0, 0, 0, 1, 0, 0]


def test_baselines_find_what_they_are_made_for() -> None:
    sizes = np.geomspace(8, 1 << 30, 12)
    line = 20 + sizes / 50_000
    assert alpha_beta(sizes, line, np.array([1e6])) == pytest.approx([40.0], rel=1e-6)
    power = 3 * sizes**0.5
    assert interpolated(sizes, power, np.array([5e4, 1.0])) == pytest.approx([3 * 5e4**0.5, 3.0])


def test_a_hidden_size_tells_baselines_nothing() -> None:
    rows = made([10.0, 20.0, 40.0, 80.0], [1.0] * 4, [0] * 4, [8, 16, 32, 64])
    wild = replace(rows, time_us=np.where(every_second(rows.curve, rows.bytes) == 1, 1e6, rows.time_us))
    shown = every_second(rows.curve, rows.bytes) == 0
    assert from_shown(wild, shown, interpolated)[1] == pytest.approx(20.0)
    assert from_other_sizes(rows, interpolated) == pytest.approx([10, 20, 40, 80])
    single = rows.some(np.array([True, False, False, False]))
    assert np.isnan(from_other_sizes(single, alpha_beta)).all()


def test_the_command_prints_and_writes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "new" / "board.json"
    assert main(["validate", "collectives", "--data", str(folder), "--json", str(target)]) == 0
    printed = capsys.readouterr()
    assert "one NVSwitch node" in printed.out and "leaves the library nothing" in printed.out
    assert "1 points of size 0" in printed.err
    content = json.loads(target.read_text())
    assert len(content["points"]) == 5
    assert content["error_pct"]["one NVSwitch node"]["model"][3] is None
    assert main(["validate", "collectives", "--data", str(folder), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == content
    assert main(["validate", "collectives", "--data", str(folder), "--strict"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nowhere"], "there is no such folder"),
        (["--json", "/dev/null/board.json"], "its folder cannot be made"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "collectives", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_anything_to_predict_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "points.csv").write_text("curve,place,bytes,time_us\nodd,out,1024,20\n")
    assert main(["validate", "collectives", "--data", str(folder)]) == 2
    assert "no curve can be predicted" in capsys.readouterr().err
