"""``chakrasim flows --model packet``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "simulator" / "packet"))

from packet_cases import golden, star
from test_packet_files import three_files

from chakrasim.cli.main import main

CASES = {case["name"]: case for case in golden()}


def run(*words: object) -> int:
    return main(["flows", *map(str, words)])


def write(folder: Path, case: object) -> Path:
    path = folder / "case.json"
    path.write_text(json.dumps(case))
    return path


def test_a_case_as_the_reference_has_it(tmp_path: Path) -> None:
    case, found = CASES["trace-two-hpcc"], tmp_path / "found.json"
    path = write(tmp_path, {key: case[key] for key in case if key not in ("expected", "tx")})
    assert run(path, "--model", "packet", "--compat", "--packets", "--json", found, "--quiet") == 0
    content = json.loads(found.read_text())
    assert {key: content[key] for key in case["expected"]} == case["expected"]
    assert content["tx"] == case["tx"] and content["unfinished"] == []


def test_flows_that_do_not_finish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reference's faults that is its result; without them it is told, with the exit code."""
    path, found = write(tmp_path, CASES["drop-small-headroom"]), tmp_path / "found.json"
    assert run(path, "--model", "packet", "--compat", "--json", found, "--quiet") == 0
    assert json.loads(found.read_text())["unfinished"] == [2, 6, 7]
    assert run(path, "--model", "packet", "--json", found, "--quiet") == 0
    assert json.loads(found.read_text())["unfinished"] == []
    path = write(tmp_path, star(2, [[0, 1, 3, 100, 5000, 0]], ERROR_RATE_PER_LINK=1))
    capsys.readouterr()
    assert run(path, "--model", "packet", "--json", found, "--quiet") == 3
    assert "1 flow did not finish: flow 0 " in capsys.readouterr().err
    assert json.loads(found.read_text())["unfinished"] == [0]


def test_three_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology, config, flows = three_files(tmp_path)
    words = ("--network", topology, "--settings", config, "--flows", flows, "--model", "packet")
    assert run(*words, "--json", "-") == 0
    assert [row[:5] for row in json.loads(capsys.readouterr().out)["fct"]] == [
        [0, 1, 10000, 100, 5000], [1, 0, 10000, 100, 5000]
    ]  # fmt: skip
    assert run(*words, "--compat") == 0
    assert "2 flows of 9.766 KiB as packets" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "packet"), "no --network, --settings, --flows"),
        (("--model", "packet", "--network", "t"), "no --settings, --flows"),
        (("CASE", "--model", "packet", "--flows", "f"), "a case has its network: --flows does not go with it"),
        (("--model", "packet", "--pattern", "incast:2x1KiB"), "--model packet has its own files: --pattern"),
        (("CASE", "--compat"), "only --model packet has packets: --compat does not go with it"),
        (("LIST", "--model", "packet"), "this is no case of packets"),
        (("nowhere.json", "--model", "packet"), "nowhere.json"),
    ],
)
def test_what_does_not_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    other = tmp_path / "list.json"
    other.write_text("[]")
    paths = {"CASE": str(write(tmp_path, star(2, []))), "LIST": str(other)}
    assert run(*(paths.get(word, word) for word in words)) == 2
    assert message in capsys.readouterr().err
