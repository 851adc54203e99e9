"""``chakrasim flows --model packet``."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.append(str(Path(__file__).parents[1] / "simulator" / "packet"))

from packet_cases import golden, star
from test_packet_files import three_files

from chakrasim.cli.main import main

CASES = {case["name"]: case for case in golden()}


def run(*words: object) -> int:
    return main(["flows", *map(str, words)])


PAIR = star(3, [[0, 2, 3, 100, 50_000, 2_000], [1, 2, 3, 100, 50_000, 2_000]], HAS_WIN=0)
"""Two flows into one port."""


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
        (("--model", "packet", "--pattern", "incast:2x1KiB"), "no network is given"),
        (
            ("--model", "packet", "--machine", "h100", "--flows", "f"),
            "a machine or graph has flows in FILE or by --pattern: --flows",
        ),
        (("CASE", "--model", "packet", "--changes", "f"), "--model packet knows no changes: --changes"),
        (("CASE", "--compat"), "only --model packet has packets: --compat does not go with it"),
        (("LIST", "--model", "packet"), "this is no case of packets"),
        (("nowhere.json", "--model", "packet"), "nowhere.json"),
        (("CASE", "--sample", "1us"), "only --model packet has packets: --sample does not go with it"),
        (("CASE", "--plot", "a.svg"), "only --model packet has packets: --plot does not go with it"),
        (("CASE", "--model", "packet", "--sample", "0us"), "found '0us', expected a time above 0, as 500ns or 1us"),
        (("CASE", "--model", "packet", "--sample", "often"), "found 'often', expected a time above 0"),
        (("CASE", "--model", "packet", "--files"), "--files has nothing to write: the settings name no files"),
        (("CASE", "--model", "packet", "--plot", "CASE"), "--plot would replace an input"),
        (("CASE", "--model", "packet", "--csv", "x", "--plot", "x"), "--plot and --csv name the same file"),
        (("CASE", "--model", "packet", "--timeline", "x.svg"), "a timeline is JSON"),
        (("CASE", "--model", "packet", "--plot", "x.svg"), "there is nothing to draw"),
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


def test_queues_and_rates_over_time(tmp_path: Path) -> None:
    """The same samples in the JSON, the table of values, the timeline and the picture."""
    path, out = write(tmp_path, PAIR), {name: tmp_path / name for name in ("a.json", "a.csv", "t.json.gz", "a.svg")}
    words = [word for option, file in zip(("--json", "--csv", "--timeline", "--plot"), out.values(), strict=True)
             for word in (option, file)]  # fmt: skip
    assert run(path, "--model", "packet", "--sample", "83ns", *words, "--quiet") == 0
    samples = json.loads(out["a.json"].read_text())["samples"]
    assert samples["every_ns"] == 83 and samples["begin_ns"] == 2000
    assert set(zip(samples["queues"]["switch"], samples["queues"]["port"], strict=True)) == {(3, 3)}
    assert max(samples["queues"]["bytes"]) == 50 * 1036
    with out["a.csv"].open() as file:
        rows = list(csv.DictReader(file))
    queue = [(int(row["time_ns"]), int(row["value"])) for row in rows if row["kind"] == "queue_bytes"]
    assert queue == list(zip(samples["queues"]["time_ns"], samples["queues"]["bytes"], strict=True))
    assert {row["name"] for row in rows if row["kind"] == "throughput_bps"} == {"flow 0", "flow 1"}
    events = json.loads(gzip.decompress(out["t.json.gz"].read_bytes()))["traceEvents"]
    flows = [event for event in events if event["ph"] == "X"]
    assert [(event["ts"], event["name"]) for event in flows] == [(2.0, "to 2, 48.83 KiB")] * 2
    counted = [(event["ts"], event["args"]["bytes"]) for event in events if event["name"] == "switch 3 port 3"]
    assert counted == [(time / 1000, size) for time, size in queue]
    picture = out["a.svg"].read_text()
    assert "switch 3 port 3" in picture and "flow 1: 1 to 2" in picture
    assert "rate that the control allows" not in picture and "told to pause" not in picture
    ElementTree.fromstring(picture)


def test_pauses_and_rates_in_the_picture(tmp_path: Path) -> None:
    case, picture, timeline = CASES["drop-small-headroom"], tmp_path / "a.svg", tmp_path / "t.json"
    words = ("--model", "packet", "--compat", "--quiet", "--plot", picture, "--timeline", timeline)
    assert run(write(tmp_path, case), *words, "--json", tmp_path / "f.json") == 0
    assert "told to pause" in picture.read_text()
    frames = json.loads((tmp_path / "f.json").read_text())["pfc"]
    paused = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["name"] == "paused"]
    first = min(row[0] for row in frames if row[4] == 1)
    assert min(event["ts"] for event in paused) == first / 1000


def test_the_files_that_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the reference's formats, and only if they are asked for; paths count from the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mix").mkdir()
    named = {"FCT_OUTPUT_FILE": "mix/fct.txt", "PFC_OUTPUT_FILE": "pfc.txt", "QLEN_MON_FILE": "qlen.txt"}
    case = json.loads(json.dumps(PAIR))
    case["config"] |= {**named, "QLEN_MON_START": 4000, "QLEN_MON_END": 4300}
    path = write(tmp_path, case)
    assert run(path, "--model", "packet", "--quiet") == 0
    assert not (tmp_path / "pfc.txt").exists()
    assert run(path, "--model", "packet", "--quiet", "--files", "--json", "found.json") == 0
    rows = json.loads((tmp_path / "found.json").read_text())["fct"]
    assert [line.split() for line in (tmp_path / "mix" / "fct.txt").read_text().splitlines()] == [
        [f"0b000{row[0]}01", "0b000201", *map(str, row[2:])] for row in rows
    ]
    assert (tmp_path / "pfc.txt").read_text() == ""
    # The switch has the first two packets from 3,083 ns on, two more each 83 ns, and sends one.
    waiting = [1036 * ((time - 3083) // 83 + 1) for time in (4000, 4100, 4200, 4300)]
    assert (tmp_path / "qlen.txt").read_text().splitlines() == [
        f"time {time} 3 j 3 {size}" for time, size in zip((4000, 4100, 4200, 4300), waiting, strict=True)
    ]


def test_the_monitor_skips_what_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bursts far apart: looks at which fewer than 1,000 bytes wait are not written."""
    monkeypatch.chdir(tmp_path)
    flows = [[source, 2, 3, 100, 5000, start] for start in (0, 500_000) for source in (0, 1)]
    case = star(3, flows, QLEN_MON_FILE="qlen.txt")
    assert run(write(tmp_path, case), "--model", "packet", "--quiet", "--files") == 0
    lines = [line.split() for line in (tmp_path / "qlen.txt").read_text().splitlines()]
    times = [int(words[1]) for words in lines]
    assert all(int(words[5]) >= 1000 for words in lines) and all(time % 100 == 0 for time in times)
    early = [time for time in times if time < 500_000]
    assert len(early) == 8 and [time - 500_000 for time in times[8:]] == early


def test_pfc_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    case = json.loads(json.dumps(CASES["drop-small-headroom"]))
    case["config"]["PFC_OUTPUT_FILE"] = "pfc.txt"
    assert run(write(tmp_path, case), "--model", "packet", "--compat", "--quiet", "--files") == 0
    rows = [[int(word) for word in line.split()] for line in (tmp_path / "pfc.txt").read_text().splitlines()]
    assert rows == case["expected"]["pfc"]


def test_the_picture_in_the_documentation_is_that_of_its_command(tmp_path: Path) -> None:
    """To be drawn anew with the page's command when it changes."""
    docs = Path(__file__).parents[2] / "docs"
    case = (docs / "howto-study-queues.md").read_text().split("```json file=incast.json\n")[1].split("```")[0]
    path = write(tmp_path, json.loads(case))
    assert run(path, "--model", "packet", "--sample", "1us", "--plot", tmp_path / "a.svg", "--quiet") == 0
    assert (tmp_path / "a.svg").read_text() == (docs / "img" / "queues.svg").read_text()


def test_flows_on_a_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Packets of the size that the machine file says, or --settings before it."""
    network = {"ranks": 2, "switches": ["s"], "cables": [
        {"between": ["0", "s"], "bandwidth": "100 Gb/s"}, {"between": ["1", "s"], "bandwidth": "100 Gb/s"},
    ]}  # fmt: skip
    machine, flows, settings = tmp_path / "m.json", tmp_path / "f.csv", tmp_path / "s.txt"
    machine.write_text(json.dumps({"network": {"graph": network}, "packets": {"PACKET_PAYLOAD_SIZE": 1000}}))
    flows.write_text("source,destination,size_bytes\n0,1,10000\n")
    settings.write_text("PACKET_PAYLOAD_SIZE 5000\n")
    words = (str(flows), "--machine", str(machine), "--model", "packet", "--json", "-")
    assert run(*words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row[:2] + row[4:5] for row in found["fct"]] == [[0, 1, 10000]]
    assert found["transmissions"] == 40
    assert run(*words, "--settings", str(settings)) == 0
    assert json.loads(capsys.readouterr().out)["transmissions"] == 8
    flows.write_text("source,destination,size_bytes,weight\n0,1,10000,2\n")
    assert run(*words) == 2
    assert "flow 0 has a weight, of which packets know nothing" in capsys.readouterr().err
