"""The documentation is true: its commands and code run, what it shows is what comes out, its links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from docs_runner import ROOT, Page, abridged, blocks, matches

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# The tutorial is run as a notebook, by tests/test_tutorial.py.
RUN = [page for page in PAGES if page.name not in ("CHANGELOG.md", "tutorial.md")]

SPECIAL: dict[str, dict[str, Any]] = {
    "howto-add-a-collective.md": {
        "names": {"send": lambda *operation: [], "receive": lambda *operation: None},
    }
}


@contextmanager
def registered_here_only() -> Iterator[None]:
    """What a page registers is forgotten when it ends, as with a user's process."""
    from chakrasim.collectives import registry
    from chakrasim.machine.graph.families import FAMILIES
    from chakrasim.machine.topologies import TOPOLOGIES

    with patch.dict(FAMILIES), patch.dict(TOPOLOGIES), patch.dict(registry._ALGORITHMS):
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small inputs that pages of other rooms and the README take for granted."""
    import chakrasim as cs
    from chakrasim.demo import NETWORKS, STEP, TRACES

    made = tmp_path_factory.mktemp("inputs")
    builder = cs.TraceBuilder()
    builder.add(0, "all-gather", 7, attrs={"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 20})
    for folder in ("job", "traces", "workload", "copy"):
        (made / folder).mkdir()
    for folder in ("job", "traces"):
        cs.write(made / folder / "step", [builder.build()] * 8)
    cs.write(made / "workload" / "w", cs.read(STEP))
    data = ROOT / "tests" / "data"
    shutil.copytree(data / "docs", made, dirs_exist_ok=True)
    shutil.copytree(data / "nccl-logs", made / "logs")
    shutil.copytree(TRACES, made / "recorded")
    shutil.copy(NETWORKS["ethernet-10g-4"], made)
    shutil.copy(data / "hta" / "alexnet.json.gz", made / "gpu.json.gz")
    shutil.copy(data / "hta" / "amd.json.gz", made / "amd.json.gz")
    shutil.copy(data / "profiles" / "nsys_2024.sqlite.gz", made / "nsys.sqlite.gz")
    return made


@pytest.fixture
def workplace(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with these inputs, which a page may change."""
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("chakrasim.jit.is_cold", lambda room: False)  # the note of a first run is no part of the pages
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "collectives"))
    return tmp_path


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_page_runs_and_shows_what_comes_out(path: Path, workplace: Path) -> None:
    page = Page(path, **SPECIAL.get(path.name, {}))
    with registered_here_only():
        page.run()
    if os.environ.get("CHAKRASIM_UPDATE_DOCS") == "1":
        page.update()
    assert not page.problems, "\n\n".join(page.problems)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{path.name} links to {target}"


def anchors(path: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        page.name for page in (ROOT / "docs").glob("*.md") if page.name != "README.md" and page.name not in index
    ]
    assert not missing


def test_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    from chakrasim.cli.main import main
    from chakrasim.demo import GROUPS, STEP

    how = ["--machine", "hgx-h100-16", "--comm-group", str(GROUPS), "--network-model", "aware", "--ranks", "0,8"]
    assert main(["draw", str(STEP), *how, "-o", str(tmp_path / "step.svg")]) == 0
    assert (tmp_path / "step.svg").read_bytes() == (ROOT / "docs" / "img" / "step.svg").read_bytes()


def test_blocks_are_found_with_their_options() -> None:
    found = blocks("a\n```json file=x.json\n{}\n```\n```console exit=2\n$ chakrasim\n```\n")
    assert [(b.language, b.options, b.text) for b in found] == [
        ("json", {"file": "x.json"}, "{}\n"),
        ("console", {"exit": "2"}, "$ chakrasim\n"),
    ]


def test_dots_stand_for_any_lines() -> None:
    assert matches("a\nb\nc\n", "a\n...\nc\n")
    assert not matches("a\nb\nd\n", "a\n...\nc\n")


def test_new_output_keeps_the_omissions_of_a_page() -> None:
    real = "$ chakrasim x\nnoise\n  rank  ns\n  ----  --\n     0  71\nmore noise\n"
    shown = "$ chakrasim x\n...\n  rank  ns\n  ----  --\n     0   5\n...\n"
    new = abridged(real, shown)
    assert new == "$ chakrasim x\n...\n  rank  ns\n  ----  --\n     0  71\n...\n"
    assert matches(real, new)
    assert abridged(real, "all of it\n") == real


def test_page_of_the_doctor_lists_every_finding() -> None:
    page = (ROOT / "docs" / "reference-doctor.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \|", page, re.MULTILINE)
    shown = {(code, severity) for code, severities in listed for severity in severities.split(", ")}
    made = {pair for path in (ROOT / "src/chakrasim/diagnosis").rglob("*.py") for pair in findings_in(path)}
    assert shown == made
    assert len(listed) == len({code for code, _ in listed})


def findings_in(path: Path) -> Iterator[tuple[str, str]]:
    """Code and severity of every finding that a module can make."""
    from chakrasim.diagnosis.checks import comparison

    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call) or len(call.args) < 2:
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name not in ("Finding", "finding"):
            continue
        code, severity = call.args[:2]
        if isinstance(severity, ast.Subscript):
            for what, level in comparison._SEVERITY.items():
                yield what if what == "message" else f"collective-{what}", level.name.lower()
            continue
        pairs = [(code, severity)]
        if isinstance(code, ast.IfExp) and isinstance(severity, ast.IfExp):
            pairs = [(code.body, severity.body), (code.orelse, severity.orelse)]
        for one, level in pairs:
            words = [getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(level)]
            for word in words:
                if isinstance(one, ast.Constant) and word in ("NOTE", "WARNING", "ERROR"):
                    yield one.value, word.lower()


def test_page_of_linked_traces_names_everything_in_them() -> None:
    import chakrasim as cs
    from chakrasim.converter.folder.across_ranks import compare_ranks
    from chakrasim.demo import TRACES
    from chakrasim.linker.across_ranks.clocks import align
    from chakrasim.trace.linked import columns as forms
    from chakrasim.trace.linked import file as linked_file

    page = (ROOT / "docs" / "reference-linked-trace.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Za-z_]+)`", page))
    columns = {*linked_file._ROWS, *linked_file._EDGES, *linked_file._COMMUNICATION}
    assert columns | {f"{name}_{side}" for name in linked_file._PAIRS for side in ("in", "out")} <= named
    assert {kind.name for form in (forms.RowKind, forms.EdgeKind, forms.Evidence) for kind in form} <= named
    ranks = [cs.link(TRACES / f"host.{rank}.json.gz", TRACES / f"device.{rank}.json.gz") for rank in range(4)]
    ranks = align(ranks)
    traces = [cs.convert(one, rank=view) for one, view in zip(ranks, compare_ranks(ranks)[0], strict=True)]
    traces.append(cs.convert(cs.link(None, ROOT / "tests" / "data" / "hta" / "alexnet.json.gz")))
    for trace in traces:
        attributes = {trace.strings[index] for index in set(trace.attrs.name.tolist())}
        assert attributes <= named
        assert set(trace.metadata) <= named
    assert {name for one in ranks for name in one.counts} <= named
