"""``chakrasim analyze``: every analysis from the command line, its tables, files and failures."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hand_timelines import Timeline

from chakrasim.cli.analyze.main import ANALYSES
from chakrasim.cli.main import main
from chakrasim.demo import TRACES
from made_jobs import device, save

DATA = Path(__file__).parents[1] / "data" / "hta"
ALEXNET = str(DATA / "alexnet.json.gz")
VERBS = (
    *("summary", "temporal", "overlap", "kernels", "idle", "queue", "launches", "bandwidth", "annotations"),
    *("operators", "sequences", "stragglers"),
)


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """What ``analyze ... --json -`` prints."""
    assert main(["analyze", *arguments, "--json", "-"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("verb", VERBS)
def test_every_analysis_prints_tables_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb in ANALYSES
    assert main(["analyze", verb, ALEXNET]) == 0
    assert capsys.readouterr().out
    document = as_json(capsys, verb, ALEXNET)
    assert (document["format"], document["analysis"], document["compat"]) == ("chakrasim-analysis/1", verb, None)
    tables = [value for value in document.values() if isinstance(value, dict)]
    assert tables and all(len(table["records"]) == table["n"] for table in tables)


@pytest.mark.parametrize(
    ("verb", "table"),
    [
        ("temporal", "temporal"), ("overlap", "overlap"), ("kernels", "kernel"), ("kernels", "kernel_type"),
        ("idle", "idle"), ("idle", "idle_stats"), ("queue", "queue_length_summary"), ("bandwidth", "memory_bw_summary"),
        ("annotations", "cpu_annotations"), ("annotations", "gpu_annotations"),
    ],
)  # fmt: skip
def test_compat_gives_hta_s_tables_under_their_names(verb: str, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    golden = json.loads((DATA / "alexnet.tables.json").read_text())
    mine = as_json(capsys, verb, ALEXNET, "--compat", "hta")[table]
    if golden[table] is None:
        assert mine is None
    else:
        assert (mine["columns"], mine["n"]) == (golden[table]["columns"], golden[table]["n"])
        assert as_json(capsys, "summary", ALEXNET, "--compat", "hta")[table] == mine


def test_compat_sequences_and_launches(capsys: pytest.CaptureFixture[str]) -> None:
    golden = json.loads((DATA / "alexnet.tables.json").read_text())
    arguments = ("sequences", ALEXNET, "--operator", "aten::conv2d", "--compat", "hta")
    assert as_json(capsys, *arguments)["sequences"]["records"] == golden["freq_conv"]["records"]
    counts = as_json(capsys, "launches", ALEXNET, "--compat", "hta")["launch_counts"]["records"][0]
    assert (counts["n"], counts["short"], counts["launch_delay"]) == (98, 23, 39283.0)


def test_tables_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = Timeline()
    line.kernel("gemm", 1_000, 500_000, launch=(0, 500))
    line.kernel("gemm", 601_000, 500_000, launch=(600_000, 500))
    path = str(line.write(tmp_path / "t.json"))
    assert main(["analyze", "overlap", path]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Communication behind compute",
        "  rank  scope  communication  overlapped  exposed  overlap %",
        "  ----  -----  -------------  ----------  -------  ---------",
        "     0  trace           0 ns        0 ns     0 ns        n/a",
    ]
    assert main(["analyze", "idle", path]) == 0
    assert "     0     all  host_wait     1  100 us  100.0%  100 us  100 us  100 us" in capsys.readouterr().out
    assert main(["analyze", "bandwidth", path]) == 0
    assert "  nothing to show\n" in capsys.readouterr().out


def test_csv_holds_the_first_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "k.csv"
    assert main(["analyze", "kernels", ALEXNET, "--csv", str(target), "--quiet"]) == 0
    assert not capsys.readouterr().out
    with open(target, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 18
    assert rows[0]["name"] == "Memcpy HtoD (Pageable -> Device)"


def test_two_tables_cannot_both_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "kernels", ALEXNET, "--csv", "-", "--json", "-"]) == 2
    assert "--json and --csv cannot both go to standard output" in capsys.readouterr().err


def test_series_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert as_json(capsys, "queue", ALEXNET, "--series")["queue_length"]["n"] == 2 * 98
    assert as_json(capsys, "launches", ALEXNET, "--all", "--no-copies")["launch"]["n"] == 79
    assert as_json(capsys, "bandwidth", ALEXNET, "--series")["memory_bw"]["n"] == 38
    assert as_json(capsys, "annotations", ALEXNET, "--work")["work"]["n"] == 98
    assert as_json(capsys, "queue", ALEXNET, "--series", "--compat", "hta")["queue_length"]["n"] == 2 * 98
    assert (
        as_json(capsys, "annotations", ALEXNET, "--work", "--compat", "hta")["gpu_kernels_with_user_annotations"]
        is None
    )


@pytest.mark.parametrize("verb", ["temporal", "critical-path"])
def test_hta_uses_what_is_intact(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.json"
    save(cut, device())
    cut.write_bytes(cut.read_bytes()[:-1500])
    assert main(["analyze", verb, str(cut), "--quiet"]) == 2
    assert "read it leniently (--lenient)" in capsys.readouterr().err
    assert main(["analyze", verb, str(cut), "--quiet", "--compat", "hta"]) == 0
    assert ": kept 37 events, left out 10 bytes" in capsys.readouterr().err


def test_a_trace_with_counters_is_the_trace_with_counters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "with.json.gz"
    assert main(["analyze", "bandwidth", ALEXNET, "--counters", str(target), "--quiet"]) == 0
    before = json.loads(gzip.decompress(Path(ALEXNET).read_bytes()))["traceEvents"]
    after = json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]
    assert after[: len(before)] == before
    counters = after[len(before) :]
    assert len(counters) == 2 * 98 + 38
    assert {event["ph"] for event in counters} == {"C"}
    assert [event["args"]["Queue Length"] for event in counters[:3]] == [1, 0, 1]
    source = tmp_path / "nan.json"
    source.write_bytes(
        gzip.decompress(Path(ALEXNET).read_bytes()).replace(b'"schemaVersion": 1', b'"schemaVersion": NaN')
    )
    assert main(["analyze", "bandwidth", str(source), "--counters", str(tmp_path / "y.json")]) == 2
    assert "the trace cannot be copied: it is damaged" in capsys.readouterr().err
    assert not (tmp_path / "y.json").exists()
    assert main(["analyze", "bandwidth", ALEXNET, "--counters", "x.json", "--compat", "hta"]) == 2
    assert "--counters has no --compat" in capsys.readouterr().err


def test_compare_two_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = []
    for count in (1, 2):
        line = Timeline()
        line.step(3, 0, 1_000_000)
        for k in range(count):
            line.kernel("void gemm<int>(float*)", 100_000 * (k + 1), 50_000, launch=(10_000 * k, 5_000))
        paths.append(str(line.write(tmp_path / f"{count}.json")))
    (row,) = as_json(capsys, "compare", *paths, "--side", "device", "--short-names")["trace_diff"]["records"]
    assert (row["name"], row["count_a"], row["count_b"], row["diff_ns"]) == ("gemm", 1, 2, 50_000)
    rows = as_json(capsys, "compare", *paths, "--compat", "hta", "--step-a", "3")["trace_diff"]["records"]
    assert {row["name"]: row["counts_change_categories"] for row in rows} == {
        "ProfilerStep#3": "=", "cudaLaunchKernel": "+", "void gemm<int>(float*)": "+",
    }  # fmt: skip
    assert main(["analyze", "compare", *paths, "--step-b", "4"]) == 2
    assert "the trace has no step 4; found 3" in capsys.readouterr().err


def test_an_hta_failure_is_exit_2_with_its_exception_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "stragglers", ALEXNET, "--compat", "hta", "--json", "-"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["exception"] == "ValueError"
    assert "HTA ends with ValueError here: invalid value for argument" in err
    assert main(["analyze", "sequences", ALEXNET, "--compat", "hta"]) == 2
    assert "HTA needs the name of an operator" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["temporal", "nowhere.json"], "nowhere.json: there is no such file"),
        (["temporal", ALEXNET, "--rank", "7"], "there is no trace of rank 7; found ranks 0"),
        (["temporal", ALEXNET, ALEXNET], "two traces are of rank 0"),
        (["kernels", ALEXNET, "--json", ALEXNET], "--json would replace an input"),
        (["idle", ALEXNET, "--kernel-gap-us", "-1"], "found '-1', expected an integer from 0"),
        (["queue", ALEXNET, "--compat", "nsys"], "invalid choice: 'nsys'"),
    ],
)
def test_what_cannot_be_done_is_one_message(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_summary_without_work_of_a_device_shows_the_times_of_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "summary", str(TRACES)]) == 0
    said = capsys.readouterr()
    titles = [line for line in said.out.splitlines() if line and not line.startswith(" ")]
    assert titles == ["User annotations", "Who holds up the others"]
    assert "gloo:all_reduce" in said.out and "nothing to show" not in said.out
    assert "no work of a device was recorded" in said.err
    assert {"temporal", "kernel", "annotations", "stragglers"} < as_json(capsys, "summary", str(TRACES)).keys()


def test_what_a_summary_has_nothing_of_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = Timeline()
    line.kernel("gemm", 100, 20)
    assert main(["analyze", "summary", str(line.write(tmp_path / "t.json"))]) == 0
    out = capsys.readouterr().out
    assert out.endswith("\nNothing to show\n  Idle time by cause, Launches by call, Queue length\n")
