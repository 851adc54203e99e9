"""The command line of ASTRA-sim's ns-3 front end, as it is pasted, and packets on machines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[1] / "simulator"), str(Path(__file__).parents[1] / "simulator" / "packet")]

from cases import collective, trace_of
from packet_cases import golden

import chakrasim as cs
from chakrasim.cli.main import main

DATA = Path(__file__).parents[1] / "data" / "golden-packet-system.jsonl.gz"
CASE = next(case for case in golden(DATA) if case["name"] == "sys-ar-4x4")
MAPS = {"KMIN": "KMIN_MAP", "KMAX": "KMAX_MAP", "PMAX": "PMAX_MAP"}


def words_of(key: str, value: Any) -> str:
    if isinstance(value, dict):
        pairs = " ".join(f"{rate} {number}" for rate, number in value.items())
        return f"{MAPS.get(key, key)} {len(value)} {pairs}"
    return f"{key} {value}"


def write_files(folder: Path) -> list[str]:
    """The files of a run of the reference; returns its command line, with paths from where it runs."""
    topology = CASE["topology"]
    (folder / "net").mkdir()
    links = [" ".join(map(str, link)) for link in topology["links"]]
    head = f"{topology['nodes']} {len(topology['switches'])} {len(links)}\n{' '.join(map(str, topology['switches']))}\n"
    (folder / "net" / "topology.txt").write_text(head + "\n".join(links) + "\n")
    lines = [words_of(key, value) for key, value in CASE["config"].items()]
    (folder / "config.txt").write_text("\n".join([*lines, "TOPOLOGY_FILE net/topology.txt", "FLOW_FILE flow.txt"]))
    (folder / "logical.json").write_text(json.dumps({"logical-dims": [str(size) for size in CASE["logical_dims"]]}))
    (folder / "system.json").write_text(json.dumps(CASE["system"]))
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    cs.write(folder / "step", [trace_of(CASE["workload"]["every"])] * CASE["npus"])
    return [
        "simulate", "--workload-configuration=step", "--system-configuration=system.json",
        "--network-configuration=config.txt", "--remote-memory-configuration=memory.json",
        "--logical-topology-configuration=logical.json", "--comm-group-configuration=empty",
    ]  # fmt: skip


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path)


def finish(tmp_path: Path) -> list[list[int]]:
    found = json.loads((tmp_path / "found.json").read_text())
    return [list(pair) for pair in zip(found["finish_ns"], found["exposed_comm_ns"], strict=True)]


def test_the_command_as_it_is_pasted(line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --compat the times are the reference's; without, receivers know of a message when it has come."""
    assert main([*line, "--compat", "--json", "found.json", "--quiet"]) == 0
    assert finish(tmp_path) == CASE["expected"]["finish"]
    assert main([*line, "--json", "found.json", "--quiet"]) == 0
    assert finish(tmp_path)[0][0] < CASE["expected"]["finish"][0][0]
    capsys.readouterr()
    assert main([*line, "--compat", "--compat-log"]) == 0
    end = CASE["expected"]["finish"][0][0]
    assert f"sys[0] finished, {end} cycles, exposed communication {end} cycles." in capsys.readouterr().out


def test_the_topology_may_stand_beside_the_configuration(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    moved = [word.replace("=", "=../") if "=empty" not in word else word for word in line]
    assert main([*moved, "--compat", "--json", "../found.json", "--quiet"]) == 0
    assert finish(tmp_path) == CASE["expected"]["finish"]


def edited(name: str, old: str, new: str) -> None:
    text = Path(name).read_text()
    assert old in text
    Path(name).write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("edit", "more", "message"),
    [
        (
            ("config.txt", "TOPOLOGY_FILE net/topology.txt", ""),
            [],
            "config.txt: TOPOLOGY_FILE: the topology is missing",
        ),
        (("config.txt", "net/topology.txt", "no.txt"), [], "TOPOLOGY_FILE: no such topology; found no.txt"),
        (("config.txt", "CC_MODE", "CC_MOD"), [], "CC_MOD: unknown key; expected a key of the network's configuration"),
        (("config.txt", "RATE_AI 50Mb/s", "RATE_AI fast"), [], "RATE_AI: this is no value for the key; found fast"),
        (("net/topology.txt", "22 6 24", "22 6 25"), [], "topology.txt: line 1: links are missing"),
        (("logical.json", '"4", "4"', '"4", "5"'), [], "logical.json: logical-dims: the ranks are not the first hosts"),
        (("logical.json", "logical-dims", "dims"), [], "logical.json: $: this is no logical topology"),
        (("logical.json", '"4", "4"', '"4"'), [], "the workload has 16 ranks"),
        (None, ["--network-configuration=net/topology.txt"], "topology.txt: this is a topology, not the configuration"),
        (None, ["--network-model=flow"], "a network of packets, which the flow model does not know"),
        (None, ["--settings=config.txt"], "the network has a configuration of its own"),
    ],
)
def test_files_that_are_wrong(
    line: list[str],
    capsys: pytest.CaptureFixture[str],
    edit: tuple[str, str, str] | None,
    more: list[str],
    message: str,
) -> None:
    """Each has one message, with the file."""
    if edit is not None:
        edited(*edit)
    assert main([*line, *more, "--quiet"]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("error:") == 1


def test_a_configuration_without_its_logical_topology(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word for word in line if "logical" not in word]) == 2
    assert "no logical topology is given, which says in which dimensions" in capsys.readouterr().err


def test_packets_on_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cs.write(tmp_path / "step", [trace_of([collective(0, 0, 1 << 20)])] * 16)
    (tmp_path / "own.txt").write_text("CC_MODE 1\nPACKET_PAYLOAD_SIZE 1000\n")
    words = ["simulate", str(tmp_path / "step"), "--machine", "h100", "--gpus", "16", "--network-model", "packet"]
    assert main([*words, "--settings", str(tmp_path / "own.txt"), "--quiet", "--json", str(tmp_path / "a.json")]) == 0
    assert main([*words, "--quiet", "--json", str(tmp_path / "b.json")]) == 0
    small, large = (
        json.loads((tmp_path / name).read_text())["packets"]["transmissions"] for name in ("a.json", "b.json")
    )
    assert small > 3 * large
    assert main([*words[:-2], "--compat"]) == 2
    assert "compat has no effect: the flow network has no packets" in capsys.readouterr().err
