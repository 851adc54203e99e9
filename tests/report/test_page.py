"""Pages of results: their figures are those of the JSON, nothing in them asks the network, and names are only text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chakrasim as cs
from chakrasim.cli.main import main
from chakrasim.report.page.parts import Bars, Fact, Page, Series, Table
from chakrasim.report.page.render import page_html
from chakrasim.report.page.simulation import simulation_page
from chakrasim.report.tables.simulation import operators_section
from chakrasim.trace import CollectiveType, NodeType, TraceBuilder, write_trace

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028{a|b}<!--\ud800"
ECHARTS = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"


def job(names: tuple[str, str] = ("work", "sum"), micros: int = 100) -> cs.Trace:
    builder = TraceBuilder()
    builder.add(0, names[0], NodeType.COMP_NODE, duration_micros=micros, attrs={"is_cpu_op": False})
    comm = {"is_cpu_op": False, "comm_type": int(CollectiveType.ALL_REDUCE), "comm_size": 1 << 20}
    builder.add(1, names[1], NodeType.COMM_COLL_NODE, data_deps=[0], attrs=comm)
    return builder.build()


def machine(ranks: int) -> dict[str, Any]:
    return {
        "format": 1,
        "network": [{"topology": "Ring", "npus": ranks, "bandwidth": "10 GB/s", "latency": "1 us"}],
        "memory": {"bandwidth": "1000 GB/s"},
        "collectives": {"splits": 1, "algorithms": {"all-reduce": "ring"}},
    }


def content(html: str) -> dict[str, Any]:
    """The data of a page, as its script reads them."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def series_of(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """All figures of charts, with their parts."""
    for part in data["parts"]:
        for one in [*part.get("series", []), *part.get("measures", [])]:
            yield part, one


def at_key(figures: Any, key: str) -> Any:
    for name in key.split("."):
        figures = figures[int(name) if isinstance(figures, list) else name]
    return figures


class _Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def files_of_job(tmp_path: Path) -> tuple[Path, Path]:
    """Four ranks, of which the last computes longer, and their machine."""
    for rank in range(4):
        write_trace(tmp_path / f"step.{rank}.et", job(micros=100 + 50 * (rank == 3)))
    (tmp_path / "machine.json").write_text(json.dumps(machine(4)))
    return tmp_path / "step", tmp_path / "machine.json"


def test_figures_are_those_of_the_json(files_of_job: tuple[Path, Path], tmp_path: Path) -> None:
    prefix, on = files_of_job
    page, figures = tmp_path / "out.html", tmp_path / "out.json"
    args = ["simulate", str(prefix), "--machine", str(on), "--report", str(page), "--json", str(figures), "--quiet"]
    assert main(args) == 0
    data, known = content(page.read_text(encoding="utf-8")), json.loads(figures.read_text())
    compared = 0
    for part, one in series_of(data):
        own = at_key(known, one["key"]) if one["key"] and ":" not in one["key"] else None
        if own is not None and part["kind"] == "heat":
            assert one["values"] == own
            compared += 1
        elif own is not None and part["at"]:
            expected = [sum(own) / len(own) if at < 0 else own[at] for at in part["at"]]
            assert one["values"] == pytest.approx(expected, rel=1e-12)
            compared += 1
    assert compared >= 8
    assert f"{known['makespan_ns']:,} ns" in data["verdict"][0]["note"]
    kinds = [part["kind"] for part in data["parts"]]
    assert {"bars", "heat", "timeline", "table"} <= set(kinds)
    hashes = {one["name"]: one["sha256"] for one in data["inputs"]}
    assert hashes[f"{prefix}.3.et"] == sha256(Path(f"{prefix}.3.et").read_bytes()).hexdigest()
    assert str(on) in hashes and len(hashes) == 5
    assert data["command"] == f"chakrasim {' '.join(args)}"


def test_critical_path_and_timeline_have_the_times_of_the_run(files_of_job: tuple[Path, Path]) -> None:
    prefix, on = files_of_job
    result = cs.simulate(str(prefix), machine=str(on))
    parts = {part["title"]: part for part in simulation_page(result, question="?").to_dict()["parts"]}
    path = parts["Critical path"]["events"]
    assert sum(end - start for _, start, end, *_ in path) == result.makespan_ns
    spans = parts["Timeline"]["events"]
    assert max(end for _, _, end, *_ in spans) == result.makespan_ns
    assert {parts["Timeline"]["names"][event[3]] for event in spans} == {"work", "sum"}
    assert parts["Who was late"]["labels"][0] == "rank 3"


def test_a_large_run_has_the_critical_path_alone(
    files_of_job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, on = files_of_job
    result = cs.simulate(str(prefix), machine=str(on))
    known = {part["title"]: part for part in simulation_page(result, question="?").to_dict()["parts"]}
    monkeypatch.setattr("chakrasim.report.page.simulation.MOST_EXPLAINED", 0)
    parts = {part["title"]: part for part in simulation_page(result, question="?").to_dict()["parts"]}
    for title in ("Critical path", "Who was late", "The critical path, by what was done"):
        assert parts[title] == known[title]
    assert "chakrasim explain does" in parts["What would move the end"]["lines"][0]
    monkeypatch.setattr("chakrasim.report.page.simulation.MOST_ON_PATH", 0)
    parts = {part["title"]: part for part in simulation_page(result, question="?").to_dict()["parts"]}
    assert "chakrasim explain does" in parts["Critical path"]["lines"][0] and "Who was late" not in parts


def test_an_estimate_is_its_json(tmp_path: Path) -> None:
    page, figures = tmp_path / "out.html", tmp_path / "out.json"
    args = ["estimate", "llama3-8b", "--machine", "h100", "--gpus", "8", "--batch", "16", "--quiet"]
    assert main([*args, "--report", str(page), "--json", str(figures)]) == 0
    data, known = content(page.read_text(encoding="utf-8")), json.loads(figures.read_text())
    shown = {one["key"]: one["values"][0] for _, one in series_of(data) if one["key"].startswith("parts_s.")}
    assert shown == {f"parts_s.{name}": value for name, value in known["parts_s"].items() if value}
    assert "interval" in data["verdict"][0]["note"] and data["assumed"] == known["assumed"]


def test_a_sweep_shows_its_points_and_front(tmp_path: Path) -> None:
    (tmp_path / "S.json").write_text(
        json.dumps({"base": {"model": "llama-7b", "machine": "h100", "gpus": 8, "batch": 8}, "vary": {"tp": [2, 4, 8]}})
    )
    page, figures = tmp_path / "out.html", tmp_path / "out.json"
    args = ["sweep", str(tmp_path / "S.json"), "-o", str(tmp_path / "found"), "--jobs", "1", "--quiet"]
    assert main([*args, "--report", str(page), "--json", str(figures)]) == 0
    data, known = content(page.read_text(encoding="utf-8")), json.loads(figures.read_text())
    chart = next(part for part in data["parts"] if part["kind"] == "scatter")
    front = sorted((chart["x"]["values"][i], chart["y"]["values"][i]) for i in chart["front"])
    assert front == sorted((one["step_s"], one["memory_bytes"]) for one in known["front"])
    assert len(chart["names"]) == known["ok"]


def test_a_comparison_shows_the_causes_of_its_json(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    for path, gpu in ((before, "h100"), (after, "a100")):
        args = ["estimate", "llama-7b", "--machine", gpu, "--gpus", "8", "--batch", "8", "--quiet", "--json", str(path)]
        assert main(args) == 0
    page, figures = tmp_path / "out.html", tmp_path / "out.json"
    shown = ["compare", str(before), str(after), "--quiet", "--report", str(page), "--json", str(figures)]
    assert main(shown) == 0
    data, known = content(page.read_text(encoding="utf-8")), json.loads(figures.read_text())
    bars = next(part for part in data["parts"] if part["kind"] == "bars")
    assert len(bars["at"]) == len([one for one in known["causes"] if one["difference_ns"]]) >= 3
    assert bars["series"][0]["values"] == [known["causes"][i]["difference_ns"] for i in bars["at"]]
    assert {one["name"] for one in data["inputs"]} == {str(before), str(after)}


def test_names_cannot_become_html() -> None:
    names = (HOSTILE.replace("\ud800", ""), "sum")
    page = simulation_page(cs.simulate(job(names), ranks=4, machine=machine(4)), question=HOSTILE)
    table = Table(HOSTILE, (HOSTILE,), ((HOSTILE,),))
    bars = Bars(HOSTILE, (HOSTILE,), (Series(HOSTILE, (1,)),))
    html = page_html(Page(HOSTILE, (Fact(HOSTILE, HOSTILE),), (*page.parts, table, bars), command=HOSTILE))
    tags = _Tags(html).found
    plain = _Tags(page_html(Page("?", (), ()))).found
    assert [tag for tag, _ in tags] == [tag for tag, _ in plain]
    assert "onerror=alert" in html and "<img src=x" not in html and "\u2028" not in html
    assert content(html)["question"] == HOSTILE.replace("\ud800", "\ufffd")


def test_pages_need_no_network_and_run_no_other_scripts() -> None:
    html = page_html(simulation_page(cs.simulate(job(), ranks=4, machine=machine(4)), question="?"))
    assert not re.search(r"https?://|[\"'(]//\w", html)
    for tag, attributes in _Tags(html).found:
        assert tag not in ("link", "iframe", "object", "base", "form"), tag
        assert not {"src", "href", "srcset", "action"} & attributes.keys()
    policy = next(dict(a)["content"] for tag, a in _Tags(html).found if "http-equiv" in a)
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy
    assert policy.count("'sha256-") == 5


def test_our_own_scripts_make_no_html() -> None:
    folder = files("chakrasim.report.page") / "assets"
    for name in ("amounts.js", "charts.js", "page.js"):
        text = (folder / name).read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|fetch\(", text
        )
    library = (folder / "echarts.min.js").read_bytes()
    assert sha256(library).hexdigest() == ECHARTS


def test_a_thousand_ranks_fit_in_three_megabytes() -> None:
    """All different, so that nothing folds."""
    traces = [job(micros=100 + rank) for rank in range(1024)]
    result = cs.simulate(traces, machine=machine(1024), fold=False)
    html = page_html(simulation_page(result, question="?"))
    assert len(html.encode()) <= 3_000_000
    assert html == page_html(simulation_page(result, question="?"))
    heat = next(part for part in content(html)["parts"] if part["kind"] == "heat")
    assert len(heat["measures"][0]["values"]) == 1024


@pytest.mark.parametrize(
    "path, told",
    [
        ("-", "a page cannot go to standard output"),
        ("out.svg", "no browser would open the page under this name"),
        (".", "it is a folder"),
        ("/proc/none/out.html", "the file cannot be written"),
    ],
)
def test_a_bad_path_is_refused_before_the_run(
    files_of_job: tuple[Path, Path], capsys: pytest.CaptureFixture[str], path: str, told: str
) -> None:
    prefix, on = files_of_job
    assert main(["simulate", str(prefix), "--machine", str(on), "--report", path]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and told in lines[0]


@pytest.mark.slow
def test_a_browser_draws_the_page_without_an_error(files_of_job: tuple[Path, Path], tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    page = tmp_path / "out.html"
    builder = job((HOSTILE.replace("\ud800", ""), "sum"))
    result = cs.simulate(builder, ranks=4, machine=machine(4))
    page.write_text(page_html(simulation_page(result, question=HOSTILE)), encoding="utf-8")
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
               "--virtual-time-budget=4000", "--dump-dom", f"file://{page}"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert 'data-ready="yes"' in done.stdout and "data-errors" not in done.stdout
    assert "CONSOLE" not in done.stderr
    assert not any("onerror" in attributes for _, attributes in _Tags(done.stdout).found)
    assert done.stdout.count("<canvas") >= 4


def test_kinds_of_work_attain_what_their_nodes_say() -> None:
    spec = {"model": {"layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1024, "sequence": 256},
            "parallel": {"tp": 2, "dp": 2}, "batch": {"micro_batches": 2}}  # fmt: skip
    job_ = cs.generate_transformer(spec).job
    result = cs.simulate(job_, machine=cs.load_machine("h100", gpus=4))
    of_rank = [sum(trace.attr("num_ops").integers().tolist()) for trace in job_.traces]
    every = np.sum([kind.flops for kind in result.computation], axis=0)
    assert every.tolist() == [of_rank[int(number)] for number in job_.trace_of_rank]
    section = operators_section(result, 1e15)
    gemm = next(row for row in section.rows if row[0] == "gemm")
    kind = next(one for one in result.computation if one.kind == "gemm")
    speed = kind.flops.sum() / (kind.time_ns.sum() / 1e9)
    assert gemm[4:6] == (f"{speed / 1e12:,.1f}", f"{speed / 1e13:.1f} %")
