"""Files of flows and the command: cases, lists, tables; what is wrong in them is named with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chakrasim import InputError, Notes
from chakrasim.cli.main import main
from chakrasim.simulator.flow.alone.flow_files import Case, read_flow_file
from chakrasim.simulator.flow.alone.flows import Flows

CASE = {"links": [["a", "b", 10], ["a", "b", 10], ["b", "c", 5]], "flows": [[0, 100, [0, 2]], [5, 50, [1]], [0, 0, []]]}


def wrong(case: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {key: value for key, value in (case | changed).items() if value is not ...}


def test_a_case_has_links_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(CASE | {"after": [None, 0, None], "weights": [1, 2, 1]}))
    notes = Notes()
    case = read_flow_file(str(file), notes)
    assert isinstance(case, Case)
    assert case.link_names == ("a-b", "a-b#2", "b-c")
    assert case.flows.after.tolist() == [-1, 0, -1]
    assert case.flows.weight.tolist() == [1, 2, 1]
    assert not notes


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (wrong(CASE, flows=...), "$: the flows are missing"),
        (
            wrong(CASE, flows=[[0, 1]]),
            "$.flows[0]: not a flow; found a list of 2 items; expected [start_ns, size_bytes, ",
        ),
        (wrong(CASE, flows=[[0, 1, [3]]]), "$.flows[0][2][0]: there is no such link; found 3; expected 0 to 2"),
        (wrong(CASE, flows=[[0, 1, [True]]]), "$.flows[0][2][0]: there is no such link; found true"),
        (wrong(CASE, flows=[[-1, 1, [0]]]), "$.flows[0][0]: not a number in range; found -1; expected a time in ns"),
        (wrong(CASE, flows=[[0, "1", [0]]]), "$.flows[0][1]: not a number in range; found '1'; expected bytes"),
        (wrong(CASE, flows=[[0, 1e30, [0]]]), "$.flows[0][1]: not a number in range; found 1e+30"),
        (
            wrong(CASE, links=[["a", "b"]]),
            "$.links[0]: not a link; found a list of 2 items; expected [from, to, capacity",
        ),
        (wrong(CASE, links=[["a", None, 1]]), "$.links[0]: the ends of a link are names or numbers; found null"),
        (wrong(CASE, links={}), "$.links: not a list"),
        (wrong(CASE, weights=[1]), "$.weights: one for each flow is expected; found 1; expected 3"),
        (wrong(CASE, weights=[1, 0, 1]), "$.weights[1]: out of range; found 0; expected a weight above 0"),
        (wrong(CASE, after=[0, None, None]), "after: flows follow one another in a circle; found 0 after 0"),
        (wrong(CASE, after=[None, 3, None]), "$.after[1]: there is no such flow; found 3; expected 0 to 2"),
        (wrong(CASE, capacity_changes=[[1, 9, 2]]), "$.capacity_changes[0][1]: there is no such link; found 9"),
        (wrong(CASE, capacity_changes=[[1, 0, -2]]), "$.capacity_changes[0][2]: not a number in range; found -2"),
        ([{"source": 0, "destination": 1}], "$[0]: the size_bytes is missing"),
        ([{"source": 0, "destination": 1, "size": 4}], "$[0].size: unknown key; found 4"),
        ([{"source": 0.5, "destination": 1, "size_bytes": 4}], "$[0].source: not a whole number in range; found 0.5"),
        ({"flow": []}, "$: this is no file of flows"),
    ],
)
def test_what_is_wrong_in_json_is_named_with_its_place(case: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(case))
    with pytest.raises(InputError) as error:
        read_flow_file(str(file), Notes())
    assert f"{file}: {message}" in str(error.value)


def test_tables_of_flows(tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text("source, destination,size_bytes,after,start_ns\n0,1,1e6,,5\n\n1,0,20,0,\n")
    flows = read_flow_file(str(file), Notes())
    assert isinstance(flows, Flows)
    assert flows.source.tolist() == [0, 1]
    assert flows.size_bytes.tolist() == [1e6, 20]
    assert flows.after.tolist() == [-1, 0]
    assert flows.start_ns.tolist() == [5, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,destination\n", "line 1: the column size_bytes is missing; expected a first line such as source,"),
        ("source,destination,size_byte\n", "line 1: unknown column; found 'size_byte'; expected a first line such as "
                                           "source,destination,size_bytes,start_ns; did you mean size_bytes?"),
        ("source,source,size_bytes\n", "line 1: the column is there twice; found 'source'"),
        ("source,destination,size_bytes\n0,1,5\n0,1\n", "line 3: another number of fields; found 2; expected source,"),
        ("source,destination,size_bytes\n0,1,5\n0,1,-5\n", "line 3: size_bytes: not in range; found '-5'"),
        ("source,destination,size_bytes\n0,x,5\n", "line 2: destination: not in range; found 'x'"),
        ("", "line 1: the column source is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_table_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_flow_file(str(file), Notes())
    assert f"{file}: {message}" in str(error.value)


def test_flows_that_cannot_end_are_null_and_exit_code_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "case.json", tmp_path / "out.json"
    file.write_text(json.dumps(CASE | {"capacity_changes": [[4, 2, 0]], "after": [None, None, 0]}))
    assert main(["flows", str(file), "--json", str(out)]) == 3
    found = json.loads(out.read_text())
    assert found["finish_ns"] == [None, 10, None]
    assert found["links"][2] == {"name": "b-c", "bytes": 20.0, "busy_share": 1.0}
    captured = capsys.readouterr()
    assert "2 flows cannot end: 0, 2" in captured.out
    why = "2 flows cannot end: 0, 2: flow 0 crosses b-c, which carries nothing"
    assert f"chakrasim: warning: {why}" in captured.err
    assert found["warnings"] == [why]
    out.unlink()
    assert main(["flows", str(file), "--json", str(out), "--strict"]) == 2
    assert not out.exists()


def test_the_flow_at_the_head_of_a_chain_says_why_none_of_it_can_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.json"
    flows = [[0, 10, [0]], [0, 10, [0]], [0, 10, [1]]]
    file.write_text(json.dumps({"links": [[0, 1, 5], [1, 2, 0]], "flows": flows, "after": [1, 2, None]}))
    assert main(["flows", str(file)]) == 3
    why = "3 flows cannot end: 0, 1, 2 (0 waits for the end of 2): flow 2 crosses 1-2, which carries nothing"
    assert why in capsys.readouterr().err


def test_a_machine_file_is_a_network_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "machine.yaml"
    main(["machines", "h100", "--gpus", "16"])
    file.write_text(capsys.readouterr().out)
    assert main(["flows", "--network", str(file), "--pattern", "incast:15x1MiB", "--json", "-"]) == 0
    # Those of the other board's eight ranks share one NIC of 50 bytes per ns; their ways have four or five cables of
    # 500 ns, or more by a spine.
    assert 8 * 2**20 / 50 + 2000 <= json.loads(capsys.readouterr().out)["end_ns"] <= 8 * 2**20 / 50 + 3001


def test_a_rule_without_ways_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["flows", "--machine", "h100", "--gpus", "16", "--pattern", "permutation:1MiB", "--routing", "given"]
    assert main(words) == 2
    assert "the rule given knows only the ways that the machine's routing lists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pattern", "incast:2x1MiB"], "no network is given; expected --machine NAME --gpus N"),
        (["--machine", "h100"], "no flows are given; expected one of the two: chakrasim flows FILE, or --pattern"),
        (["CASE", "--machine", "h100"], "a case has its own links and routes: --machine does not go with it"),
        (["CASE", "--nic", "400G"], "a case has its own links and routes: --nic does not go with it"),
        (["CASE", "--set", "latency=0 ns"], "--set does not go with it; leave --set out"),
        (["CASE", "--seed", "3"], "a case has its own links and routes: --seed does not go with it"),
        (
            ["--network", "fabric.txt", "--gpus", "8", "--pattern", "incast:2x1MiB"],
            "--network is a whole network: --gpus does not go with it",
        ),
        (["--machine", "h100", "--slow", "1=2", "--pattern", "incast:2x1MiB"], "--slow has no effect: flows compute"),
        (["CASE", "--pattern", "incast:2x1MiB"], "a file and --pattern are given"),
        (["CASE", "--merge", "2"], "--merge is a share of the time; found 2.0; expected from 0 to below 1"),
        (["CASE", "--model", "fluid"], "invalid choice: 'fluid'"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.json"
    file.write_text(json.dumps(CASE))
    assert main(["flows", *[str(file) if word == "CASE" else word for word in words]]) == 2
    assert message in capsys.readouterr().err


def test_a_pattern_on_a_machine_with_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    words = ["--machine", "h100", "--gpus", "32", "--pattern", "incast:16x1MiB", "--seed", "2", "--json", str(out)]
    assert main(["flows", *words]) == 0
    found = json.loads(out.read_text())
    assert len(found["finish_ns"]) == 16
    assert found["end_ns"] == max(found["finish_ns"])
    assert sum(link["bytes"] for link in found["links"] if link["name"].endswith("-0")) == 16 * 2**20
    assert "Completion" in capsys.readouterr().out


def test_a_file_of_flows_on_a_machine(tmp_path: Path) -> None:
    file, out = tmp_path / "flows.csv", tmp_path / "out.json"
    file.write_text("source,destination,size_bytes,after\n0,1,450000,\n1,2,450000,0\n")
    assert main(["flows", str(file), "--machine", "h100", "--json", str(out), "--quiet"]) == 0
    first, second = json.loads(out.read_text())["finish_ns"]
    assert second == 2 * first


def test_a_rank_that_the_machine_has_not_is_named_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flows.csv"
    file.write_text("source,destination,size_bytes\n0,1,450000\n1,8,450000\n")
    assert main(["flows", str(file), "--machine", "h100", "--quiet"]) == 2
    expected = f"{file}: destination: flow 1: its destination is no rank; found 8; expected 0 to 7"
    assert expected in capsys.readouterr().err


def test_a_pattern_on_a_file_of_a_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "fabric.txt", tmp_path / "out.json"
    file.write_text("4 1 3\n3\n0 3 400Gbps 0.0005ms 0\n1 3 400Gbps 0.0005ms 0\n2 3 400Gbps 0.0005ms 0\n")
    words = ["--network", str(file), "--pattern", "incast:2x1MB"]
    assert main(["flows", *words, "--seed", "3", "--json", str(out), "--quiet"]) == 0
    assert json.loads(out.read_text())["finish_ns"] == [1000 + 40_000] * 2
    assert main(["flows", *words, "--machine", "h100"]) == 2
    assert "--machine and --network are two networks" in capsys.readouterr().err
