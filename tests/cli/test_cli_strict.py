"""One meaning each of --strict and --lenient, in every command that has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_help import all_parsers

import chakrasim as cs
from chakrasim.cli.main import COMMANDS, _parsers, main
from chakrasim.trace.kinds import NodeType

EVENTS = (
    '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {}},\n'
    '{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": 9, "dur": 2, "args": {}}\n'
)
MACHINE = ["--machine", "hgx-h100-8"]


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """device.0.json lacks a comma, step.0.et and step.1.et their ends."""
    monkeypatch.chdir(tmp_path)
    Path("device.0.json").write_text('{"schemaVersion": 1, "traceEvents": [\n' + EVENTS.replace("},\n", "}\n") + "]}")
    builder = cs.TraceBuilder()
    for number in range(3):
        builder.add(number, "sum", NodeType.COMM_COLL_NODE, attrs={"comm_type": 0, "comm_size": 64})
    for name in cs.write("step", [builder.build()] * 2):
        Path(name).write_bytes(Path(name).read_bytes()[:-3])


READERS = {
    "link": ["link", "--device", "device.0.json", "-o", "out.json"],
    "link a folder": ["link", ".", "-o", "out"],
    "trace": ["trace", ".", "-o", "out"],
    "analyze": ["analyze", "summary", "device.0.json", "--json", "out.json"],
    "analyze collectives": ["analyze", "collectives", "device.0.json", "--json", "out.json"],
    "analyze critical-path": ["analyze", "critical-path", "device.0.json", "--json", "out.json"],
    "info on a device trace": ["info", "device.0.json", "--json", "out.json"],
    "timeline": ["timeline", "device.0.json", "-o", "out.json"],
    "info": ["info", "step.0.et", "--json", "out.json"],
    "simulate": ["simulate", "step.0.et", "--ranks", "8", *MACHINE, "--json", "out.json"],
    "jsonize": ["jsonize", "step.0.et", "-o", "out.json"],
    "draw": ["draw", "step.0.et", "-o", "out.dot"],
    "merge": ["merge", "step", "-o", "out.et"],
    "retarget": ["retarget", "step", "--to", "4", "-o", "out"],
    "learn": ["learn", "step", "step", "-o", "out"],
    "replay": ["replay", "step", "--dry-run", "--json", "out.json"],
}


@pytest.mark.usefixtures("damaged")
@pytest.mark.parametrize("name", READERS)
def test_damage_is_an_error_or_counted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = READERS[name]
    assert main(words) == 2
    refused = capsys.readouterr().err.splitlines()[-1]
    assert refused.startswith("chakrasim: error: ") and "--lenient" in refused
    assert main([*words, "--lenient", "--strict"]) == 2
    strictly = capsys.readouterr().err.splitlines()[-1]
    assert " in strict mode: " in strictly and not list(Path().glob("out*"))
    assert main([*words, "--lenient"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("chakrasim: warning: ")]
    assert name == "trace" or any("repaired 1 missing" in line or "kept the 2 nodes" in line for line in told)
    assert list(Path().glob("out*"))


def test_a_trace_with_counters_is_an_output_like_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device, written = tmp_path / "t" / "device.0.json", tmp_path / "with.json"
    device.parent.mkdir()
    device.write_text('{"schemaVersion": 1, "traceEvents": [\n' + EVENTS + "]}")
    (tmp_path / "t" / "other.json").write_text("{}")
    words = ["analyze", "bandwidth", str(device.parent), "--counters", str(written)]
    assert main([*words, "--strict"]) == 2
    assert "1 warning in strict mode: " in capsys.readouterr().err and not written.exists()
    assert main(words) == 0 and written.exists()
    before = device.read_bytes()
    assert main(["analyze", "bandwidth", str(device), "--counters", str(device)]) == 2
    assert "--counters would replace an input" in capsys.readouterr().err and device.read_bytes() == before


def test_an_option_without_effect_is_refused_in_strict_mode(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["link", "--device", "none.json", "-o", "out.json", "--exact-match", "--strict"]) == 2
    assert "1 warning in strict mode: --exact-match has no effect" in capsys.readouterr().err


def test_the_options_are_the_same_everywhere() -> None:
    parser, _ = _parsers(COMMANDS)
    found: dict[str, set[tuple[str | None, object]]] = {"--lenient": set(), "--strict": set()}
    for own in all_parsers(parser):
        for action in own._actions:
            for option in found.keys() & set(action.option_strings):
                found[option].add((action.help, action.default))
        assert "--strict" in own._option_string_actions or "--lenient" not in own._option_string_actions
    assert found == {
        "--lenient": {("of damaged files, use what is intact and count the loss", False)},
        "--strict": {("treat every warning as an error, and write nothing", False)},
    }
