"""``chakrasim calibrate collectives`` and ``predict collective``: files, tables, and what is refused."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

import chakrasim as cs

LOG = Path(__file__).parents[1] / "data" / "nccl-logs" / "nccl-tests-slow-pair-exponent.log"
MIB = 1 << 20


# -- predict -----------------------------------------------------------------------------------------------------------


def line(*words: str) -> tuple[str, ...]:
    return "predict", "collective", "--machine", "h100", "--collective", "all_reduce", *words


def test_the_command_as_json_and_as_a_table(tmp_path: Path, cli: Callable) -> None:
    outcome = cli(*line("--size", "1MiB", "--ranks", "16", "--json", str(tmp_path / "f.json")))
    assert outcome.code == 0
    told = json.loads((tmp_path / "f.json").read_text())
    assert told.pop("format") == "chakrasim-predict-collective/1"
    assert told == asdict(cs.predict_collective("h100", "all_reduce", MIB, 16))
    assert {"time_us", "low_us", "high_us", "algbw_GBps", "busbw_GBps", "algorithm", "protocol", "channels",
            "limited_by"} <= set(told)  # fmt: skip
    for text in ("all_reduce, 16 ranks, 1 MiB", "90 % interval", "bus bandwidth", "tree", "LL128", "limited by"):
        assert text in outcome.out


def test_the_command_with_sizes_and_a_plot(tmp_path: Path, cli: Callable) -> None:
    plot, file = tmp_path / "new" / "p.svg", tmp_path / "f.json"
    outcome = cli(*line("--sizes", "8:16GiB", "--ranks", "8", "--plot", str(plot), "--json", str(file)))
    assert outcome.code == 0
    told = json.loads(file.read_text())
    assert [each["size_bytes"] for each in told["sizes"]] == [8 << power for power in range(32)]
    assert (told["collective"], told["ranks"]) == ("all_reduce", 8)
    assert f"{16 << 30}" in outcome.out
    assert plot.read_text().startswith("<svg")
    outcome = cli(*line("--sizes", "1KiB:1GiB:4", "--ranks", "8", "--json", "-"))
    assert [each["size_bytes"] for each in json.loads(outcome.out)["sizes"]] == [
        1024 << power for power in range(0, 21, 2)
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "0"), "--size is no size; found '0'; expected 1 B to 1 PiB"),
        (("--size", "much"), "--size is no size; found 'much'"),
        (("--size", "1.5"), "--size is no size; found '1.5'"),
        (("--size", "-8"), "--size"),
        (("--sizes", "8"), "--sizes is no range; found '8'; expected FROM:TO or FROM:TO:FACTOR"),
        (("--sizes", "1GiB:8"), "--sizes begins above its end; found '1GiB:8'; .* write 8:1GiB"),
        (("--sizes", "8:1GiB:1"), "--sizes grows by no factor; found '1'"),
        (("--sizes", "1:1000GiB:1.01"), "--sizes has too many sizes"),
        (("--sizes", "8:x"), "--sizes is no size; found 'x'"),
        (("--size", "8", "--sizes", "8:16"), "not allowed with"),
        ((), "one of the arguments --size --sizes is required"),
        (("--size", "8", "--ranks", "1"), "--ranks"),
        (("--size", "8", "--plot", "p.svg"), "--plot draws several sizes; expected --sizes"),
        (("--sizes", "8:16", "--plot", "p.png"), "--plot writes SVG; found p.png"),
        (("--sizes", "8:16", "--plot", "-"), "--plot writes SVG; found -"),
        (("--sizes", "8:16", "--plot", "p.svg", "--json", "p.svg"), "name the same file"),
    ],
)
def test_wrong_command_lines(words: tuple[str, ...], message: str, cli: Callable) -> None:
    outcome = cli(*line(*words))
    assert outcome.code == 2
    assert re.search(message, outcome.err)


# -- calibrate ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with points of two machines, each with times by a straight line."""
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "points.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["machine", "gpu", "collective", "nranks", "library", "version", "bytes", "time_us"])
        for machine, count in (("first", 20), ("second", 10)):
            for power in range(10, 10 + count):
                times = f"{14 + 2**power / 3e5:.2f}"
                writer.writerow([machine, "H100-SXM5", "all_reduce", 8, "NCCL", "2.27.7", 2**power, times])
    (tmp_path / "out.csv").write_text("curve,place,bytes\npoints-all_reduce-N1-n8,out,4096\n")
    return tmp_path


def test_a_calibration_writes_machines_and_says_so(folder: Path, cli: Callable) -> None:
    shutil.move("points.csv", "data.csv")
    outcome = cli(
        "calibrate", "collectives", "--data", "data.csv", "--machine", "h100", "--output", "m.yaml", "--json", "f.json"
    )
    assert outcome.code == 0, outcome.err
    told = json.loads(Path("f.json").read_text())
    assert [group["machine"] for group in told["groups"]] == ["first", "second"]
    assert len(told["points"]) == 5 + 2
    assert "m.yaml written" in outcome.out
    assert "m.second.nccl-2.27.7.yaml written" in outcome.out
    for name, machine in (("m.yaml", "first"), ("m.second.nccl-2.27.7.yaml", "second")):
        loaded = cs.load_machine(name)
        assert loaded.name == f"{machine}-8"
        assert loaded.calibrated is not None
    found = cs.predict_collective("m.yaml", "all_reduce", 256 * MIB)
    assert found.time_us == pytest.approx(14 + 256 * MIB / 3e5, rel=0.25)


def test_points_held_out_of_a_file(folder: Path, cli: Callable) -> None:
    shutil.move("points.csv", "points.txt")
    outcome = cli(
        "calibrate", "collectives", "--data", "points.txt", "--machine", "h100", "--holdout", "out.csv", "--json", "-"
    )
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    (point,) = told["points"]
    assert (point["curve"], point["place"], point["bytes"], point["time_us"]) == (
        "points-all_reduce-N1-n8", "out", 4096, None
    )  # fmt: skip


def test_what_contradicts_the_hardware_is_told(tmp_path: Path, cli: Callable) -> None:
    outcome = cli("calibrate", "collectives", "--data", str(LOG), "--quiet", "--json", str(tmp_path / "f.json"))
    assert outcome.code == 0
    assert "taken as h100" in outcome.err
    outcome = cli("calibrate", "collectives", "--data", str(LOG), "--machine", "h100")
    assert outcome.err == ""
    assert "Measurements that contradict the hardware" in outcome.out
    assert "between nodes 0.902 GB/s of 50" in outcome.out
    assert cli("calibrate", "collectives", "--data", str(LOG), "--strict").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data", "lost.log"), "lost.log: "),
        (("--data", "points.csv", "--output", "-"), "--output takes a file; found -"),
        (("--data", "points.csv", "--output", "points.csv"), "--output would replace an input"),
        (("--data", "points.csv", "--json", "out.csv", "--holdout", "out.csv"), "--json would replace an input"),
        (("--data", "points.csv", "--holdout", "2"), "the share that is held out is none; found 2.0"),
        (("--data", "points.csv", "--holdout", "lost.csv"), "lost.csv"),
        (("--data", "points.csv", "--machine", "lost"), "neither a preset nor a machine file; found 'lost'"),
        (("--data", "points.csv", "--machine", "hgx-h100-8"), "what nccl sees of the machine is not known"),
        ((), "--data"),
    ],
)
def test_wrong_calibrations(words: tuple[str, ...], message: str, folder: Path, cli: Callable) -> None:
    outcome = cli("calibrate", "collectives", *words)
    assert outcome.code == 2
    assert re.search(message, outcome.err), outcome.err
    assert not list(folder.glob("*.yaml"))
