"""What the commands say of JSON that others wrote: named when nothing is known of it, read when it can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chakrasim.cli.main import main

EXPECTED = (
    "expected a Chakra trace (.et), the ranks file of a job, a device trace (Kineto), a host trace "
    "(ExecutionTraceObserver) or a linked trace"
)


SIX = "'a', 'b', 'c', 'd', 'e', 'f', ..."


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"a": 1, "b": {"c": []}}, "a JSON document that is no trace, with the members 'a', 'b'"),
        (dict.fromkeys("abcdefg"), "a JSON document that is no trace, with the members " + SIX),
        ({}, "a JSON document that is no trace"),
        ([1, 2], "a JSON array that is no list of events"),
        ([], "a JSON array that is no list of events"),
        ({"globalMetadata": {}}, "a Chakra trace as JSON, with the members 'globalMetadata'"),
    ],
)  # fmt: skip
def test_info_says_what_a_foreign_document_is(
    content: object, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(content))
    assert main(["info", str(path)]) == 2
    said = capsys.readouterr().err
    assert said == f"chakrasim: error: {path}: there is nothing to say of this file; found {found}; {EXPECTED}\n"


def events(as_text: bool) -> list[dict[str, object]]:
    """A step with a kernel and an event without a category."""

    def event(category: str | None, name: str, tid: int, begin: float, length: float, **args: int) -> dict[str, object]:
        times = {"ts": str(begin), "dur": str(length)} if as_text else {"ts": begin, "dur": length}
        cat = {} if category is None else {"cat": category}
        return {"ph": "X", **cat, "name": name, "pid": 1, "tid": tid, **times, "args": args}

    return [
        event("user_annotation", "ProfilerStep#1", 1, 1000000.25, 100),
        event("cpu_op", "aten::mm", 1, 1000001.125, 20),
        event("cuda_runtime", "cudaLaunchKernel", 1, 1000002.001, 3, correlation=9),
        event("kernel", "gemm", 7, 1000010.002, 30.5, correlation=9, device=0, stream=7),
        event(None, "Computing", 8, 1000010.002, 30.5),
    ]


@pytest.mark.parametrize("command", ["info", "analyze temporal", "analyze critical-path", "analyze kernels"])
def test_a_bare_array_with_times_as_text_gives_the_same_figures(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for number, content in enumerate(({"traceEvents": events(False)}, events(True))):
        path = tmp_path / str(number) / "device.0.json"
        path.parent.mkdir()
        path.write_text(json.dumps(content))
        assert main([*command.split(), str(path), "--json", "-"]) == 0
        captured = capsys.readouterr()
        assert "1 events have a duration, but no category that says what they are: " in captured.err
        figures = json.loads(captured.out)
        said.append(json.dumps(figures).replace(str(path), "PATH"))
    assert said[0] == said[1]


def test_copies_of_a_bare_array_stay_bare_arrays(tmp_path: Path) -> None:
    path = tmp_path / "device.0.json"
    path.write_text(json.dumps(events(False)))
    copy = tmp_path / "copy.json"
    assert main(["analyze", "critical-path", str(path), "--overlay", str(copy), "--show-all"]) == 0
    content = json.loads(copy.read_text())
    assert isinstance(content, list) and [event["name"] for event in content[:5]] == [
        event["name"] for event in events(False)
    ]
    assert main(["analyze", "bandwidth", str(path), "--counters", str(tmp_path / "counted.json"), "--quiet"]) == 0
    assert isinstance(json.loads((tmp_path / "counted.json").read_text()), list)
    assert main(["timeline", str(path), "-o", str(tmp_path / "t.json")]) == 0


def test_the_doctor_names_events_without_a_category(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "device.0.json").write_text(json.dumps(events(True)))
    main(["doctor", str(tmp_path), "--json", "-"])
    findings = {finding["code"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["events-without-category"]["severity"] == "warning"
    assert "1 events have a duration, but no category" in findings["events-without-category"]["cause"]
