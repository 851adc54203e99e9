"""The documentation is true: its commands and code run, what it shows is what comes out, its links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from docs_runner import ROOT, Page, blocks, matches

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
RUN = [page for page in PAGES if page.name not in ("CHANGELOG.md",)]

# The first block of that page is a file of tests/collectives, run by its own test; a name can be registered only once.
SPECIAL: dict[str, dict[str, Any]] = {
    "howto-add-a-collective.md": {
        "left_out": '@register("bruck")',
        "names": {"send": lambda *operation: [], "receive": lambda *operation: None},
    }
}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small inputs that pages of other rooms and the README take for granted."""
    import chakrasim as cs
    from chakrasim.demo import STEP

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "collectives"))
    builder = cs.TraceBuilder()
    builder.add(0, "all-gather", 7, attrs={"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 20})
    for folder in ("job", "traces"):
        Path(folder).mkdir()
        cs.write(f"{folder}/step", [builder.build()] * 8)
    for folder in ("workload", "copy"):
        Path(folder).mkdir()
    cs.write("workload/w", cs.read(STEP))
    shutil.copytree(ROOT / "tests" / "data" / "docs", ".", dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_page_runs_and_shows_what_comes_out(path: Path, workplace: Path) -> None:
    page = Page(path, **SPECIAL.get(path.name, {}))
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


def test_picture_is_drawn_from_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "img"))
    import draw_step

    assert draw_step.picture() == (ROOT / "docs" / "img" / "step.svg").read_text(encoding="utf-8")


def test_blocks_are_found_with_their_options() -> None:
    found = blocks("a\n```json file=x.json\n{}\n```\n```console exit=2\n$ chakrasim\n```\n")
    assert [(b.language, b.options, b.text) for b in found] == [
        ("json", {"file": "x.json"}, "{}\n"),
        ("console", {"exit": "2"}, "$ chakrasim\n"),
    ]


def test_dots_stand_for_any_lines() -> None:
    assert matches("a\nb\nc\n", "a\n...\nc\n")
    assert not matches("a\nb\nd\n", "a\n...\nc\n")
