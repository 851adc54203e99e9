"""``chakrasim analyze critical-path``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[1] / "data" / "critical-path" / "recorded.jsonl.gz"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with gzip.open(DATA, "rt") as file:
        case = json.loads(file.readline())
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(case["trace"]))
    return path


@pytest.fixture
def analyze(cli: Any, trace: Path) -> Any:
    return lambda *words: cli("analyze", "critical-path", trace, *words)


def test_the_tables(analyze: Any) -> None:
    outcome = analyze()
    assert outcome.code == 0 and outcome.err == ""
    assert "Critical path: 3.154 ms, 45 pieces of work" in outcome.out
    assert "Largest parts" in outcome.out and "sync event" in outcome.out
    assert analyze("--quiet").out == ""


def test_the_figures_as_json(analyze: Any, trace: Path) -> None:
    figures = json.loads(analyze("--json", "-", "--annotation", "ProfilerStep", "--instance", "0").out)
    assert figures["trace"] == str(trace) and figures["instance"] == "0"
    assert figures["total_ns"] == sum(figures["breakdown_ns"].values())
    assert any(edge["on_path"] for edge in figures["sync_edges"])


def test_as_hta(analyze: Any, trace: Path) -> None:
    with gzip.open(DATA, "rt") as file:
        case = json.loads(file.readline())
    for compat, version in (("hta", "new"), ("hta-pinned", "pinned")):
        figures = json.loads(analyze("--compat", compat, "--json", "-").out)
        assert figures["ok"] and figures["annotation"] == "ProfilerStep" and figures["instance"] == "0"
        assert {key: figures[key] for key in case[version]} == case[version]
    assert "weight of the path" in analyze("--compat", "hta").out
    extra = json.loads(analyze("--compat", "hta", "--zero-weight-launch-edges", "--json", "-").out)
    assert extra["nx_edges"] >= figures["nx_edges"]


def test_where_hta_fails(analyze: Any, trace: Path, tmp_path: Path) -> None:
    outcome = analyze("--compat", "hta", "--instance", "7", "--json", tmp_path / "out.json")
    assert outcome.code == 2
    assert outcome.err == (
        f"chakrasim: error: {trace}: HTA fails here (UndefinedVariableError): there is no instance 7 of "
        "'ProfilerStep'; analyse without --compat\n"
    )
    figures = json.loads((tmp_path / "out.json").read_text())
    assert (figures["ok"], figures["error"]) == (False, "UndefinedVariableError")
    outcome = analyze("--compat", "hta-pinned", "--annotation", "nowhere", "--instance", "none")
    assert outcome.code == 2 and "HTA fails here (it returns nothing): no name contains 'nowhere'" in outcome.err


def test_an_invalid_graph_is_no_error(cli: Any, tmp_path: Path) -> None:
    with gzip.open(DATA.parent / "probes.jsonl.gz", "rt") as file:
        case = next(case for case in map(json.loads, file) if case["name"] == "same_stream_wait")
    path = tmp_path / "invalid.json"
    path.write_text(json.dumps(case["trace"]))
    outcome = cli("analyze", "critical-path", path, "--compat", "hta", "--annotation", "")
    assert outcome.code == 0
    assert "HTA says that the graph is not valid" in outcome.err
    assert "Critical path as HTA: the graph is not valid" in outcome.out


def test_the_overlay(analyze: Any, tmp_path: Path) -> None:
    for number, options in enumerate(([], ["--compat", "hta"], ["--compat", "hta-pinned", "--show-all"])):
        out = tmp_path / f"overlay{number}.json.gz"
        assert analyze("--overlay", out, *options).code == 0
        events = json.loads(gzip.decompress(out.read_bytes()))["traceEvents"]
        assert any(event["name"] == "critical_path" for event in events)
        assert any(event.get("args", {}).get("critical") == 1 for event in events)


def test_a_folder_needs_a_rank(cli: Any, refused: Any, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    document = json.loads(trace.read_text())
    for rank in (0, 1):
        document["distributedInfo"] = {"rank": rank, "world_size": 2}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    assert "the folder holds several ranks; found ranks 0, 1; choose one by --rank" in refused(
        "analyze", "critical-path", folder
    )
    assert json.loads(cli("analyze", "critical-path", folder, "--rank", 1, "--json", "-").out)["rank"] == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--instance", "two"], "argument --instance: found 'two', expected a number, two numbers A:B, or none"),
        (["--data-load-event", "x"], "--zero-weight-launch-edges and --data-load-event need --compat"),
        (["--compat", "hta", "--host", "x"], "--compat and --host cannot be combined: HTA knows no host trace"),
        (["--annotation", "nowhere"], "no annotation contains 'nowhere'"),
        (["--compat", "other"], "invalid choice: 'other'"),
    ],
)
def test_bad_options(refused: Any, trace: Path, words: list[str], expected: str) -> None:
    assert expected in refused("analyze", "critical-path", trace, *words)


def test_the_analyses_are_listed(cli: Any, refused: Any) -> None:
    assert "critical-path" in cli("analyze").out
    assert "invalid choice: 'nothing'" in refused("analyze", "nothing")
