"""What a user finds at the front: public names, completion, help, and names at the places where they were."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import pydoc
import re
import rlcompleter
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import chakrasim
from chakrasim.moved import MOVED

ROOT = Path(__file__).parents[1]
LAZY = ("", ".analysis", ".calibration", ".collect", ".generator", ".machine", ".replay", ".simulator", ".trace")
PACKAGES = [importlib.import_module(f"chakrasim{name}") for name in LAZY]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_is_public_is_all_that_shells_show(package: Any) -> None:
    """The list, the table, and the imports that type checkers read hold the same names, and dir() shows no others."""
    shown = [name for name in dir(package) if not (name.startswith("__") and name not in package.__all__)]
    assert shown == sorted(package.__all__)
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (imports,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in imports.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed == {*shown} - {"__version__"}
    places = {
        alias.name: f"{node.module}.{alias.name}"
        for node in imports.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for name, place in places.items():
        found = getattr(package, name)
        home, _, _ = place.rpartition(".")
        assert getattr(importlib.import_module(home), name) is found, place


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_module_hides_a_public_name(package: Any) -> None:
    """An import of the module ``chakrasim.link`` would put it in the place of the function."""
    inner = {found.name for found in pkgutil.iter_modules(package.__path__)}
    rooms = {name for name in inner if getattr(package, name, None) is sys.modules.get(f"{package.__name__}.{name}")}
    assert not inner & ({*package.__all__} - rooms)


def test_packages_are_loaded_when_they_are_asked_for() -> None:
    code = "import chakrasim, sys; print('numpy' in sys.modules, chakrasim.analysis.comm_overlap.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False comm_overlap\n"


def completions(text: str) -> set[str]:
    completer = rlcompleter.Completer({"chakrasim": chakrasim})
    found: set[str] = set()
    while (one := completer.complete(text, len(found))) is not None and one not in found:
        found.add(one)
    return {one.removeprefix("chakrasim.").rstrip("()") for one in found}


def test_completion_in_python_shows_the_public_names() -> None:
    public = {name for name in chakrasim.__all__ if not name.startswith("_")}
    assert completions("chakrasim.") == public
    assert completions("chakrasim.load_") == {"load_device", "load_groups", "load_machine"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("static", [False, True])
def test_completion_in_ipython_shows_the_public_names(static: bool) -> None:
    code = f"""
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import chakrasim")
chakrasim = shell.user_ns["chakrasim"]
chakrasim.simulate, chakrasim.read  # what is loaded meanwhile is not shown
shell.Completer.use_jedi = {static}
with provisionalcompleter():
    shown = {{found.text.lstrip(".") for found in shell.Completer.completions("chakrasim.", 10)}}
public = {{name for name in chakrasim.__all__ if name != "__version__"}}
print(shown ^ public)
"""
    pytest.importorskip("IPython")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n", done.stderr


def test_help_is_a_table_of_contents() -> None:
    text = pydoc.render_doc(chakrasim, renderer=pydoc.plaintext)
    assert "How fast would this training job run on that machine?" in text.split("DESCRIPTION")[0]
    contents = chakrasim.__doc__ or ""
    left_out = {name for name in chakrasim.__all__ if not re.search(rf"\b{name}\b", contents)}
    assert left_out == {"__version__"}
    for line in contents.splitlines():
        if entry := re.match(r"    ([\w, ]+?)  +\w", line):
            assert all(name in chakrasim.__all__ for name in entry[1].split(", ")), line


@pytest.mark.parametrize("old", MOVED)
def test_a_name_that_moved_is_found_with_one_warning(old: str) -> None:
    home, _, name = old.rpartition(".")
    new_home, _, new_name = MOVED[old].rpartition(".")
    module = importlib.import_module(home)
    vars(module).pop(name, None)
    with pytest.warns(DeprecationWarning, match=re.escape(f"{old} is now {MOVED[old]}; the old path")) as warned:
        found = getattr(importlib.import_module(home), name)
    assert [warning.filename for warning in warned] == [__file__]
    assert found is getattr(importlib.import_module(new_home), new_name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert getattr(module, name) is found
        with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
            module.unheard_of  # noqa: B018


def test_an_import_of_a_moved_name_warns_where_it_stands() -> None:
    code = "from chakrasim.trace.linked import LinkedTrace\nfrom chakrasim.linker.clocks import align\nprint(align)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<function align at")
    assert [line for line in done.stderr.splitlines() if "Warning" in line] == [
        "<string>:1: DeprecationWarning: chakrasim.trace.linked.LinkedTrace is now chakrasim.trace.LinkedTrace; "
        "the old path goes with the next release",
        "<string>:2: DeprecationWarning: chakrasim.linker.clocks.align is now chakrasim.align; "
        "the old path goes with the next release",
    ]


def test_methods_of_a_result_that_are_functions_now_warn(tmp_path: Path) -> None:
    result = chakrasim.simulate(chakrasim.collective_job("all_reduce", 1 << 20, 8), machine="hgx-h100-8")
    with pytest.warns(DeprecationWarning, match=r"SimulationResult.summary is now chakrasim.summary; the method goes"):
        assert result.summary() == chakrasim.summary(result)
    with pytest.warns(DeprecationWarning, match=r"to_perfetto is now chakrasim\.write_timeline"):
        result.to_perfetto(tmp_path / "old.json")
    chakrasim.write_timeline(result, tmp_path / "new.json")
    assert (tmp_path / "old.json").read_bytes() == (tmp_path / "new.json").read_bytes()
    with pytest.warns(DeprecationWarning), pytest.raises(chakrasim.InputError, match="local memory"):
        result.to_memory_traces(str(tmp_path / "memory"))
    with pytest.raises(AttributeError, match="'SimulationResult' object has no attribute 'sumary'"):
        result.sumary  # noqa: B018


def test_what_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'chakrasim\.linker\.clock'"):
        importlib.import_module("chakrasim.linker.clock")


def test_the_demo_is_found_at_its_old_place() -> None:
    command = [sys.executable, "-m", "chakrasim.demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: chakrasim demo")
    assert done.stderr == "chakrasim: python -m chakrasim.demo is now chakrasim demo\n"


PAGES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_reference_has_every_public_name(package: Any) -> None:
    words = set(re.findall(r"\w+", (ROOT / "docs" / "reference-python.md").read_text(encoding="utf-8")))
    assert {*package.__all__} - words - {"__version__"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_pages_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("`cs.", "`chakrasim.").replace(" cs.", " chakrasim.")
    text = re.sub(r"entry-points\.\"[^\"]*\"", "", text)  # groups of entry points are no modules
    for name in set(re.findall(r"(?<![\w/.-])chakrasim((?:\.[A-Za-z_]\w*)+)", text)):
        assert pkgutil.resolve_name(f"chakrasim{name}") is not None


HOME = "https://github.com/chakrasim/chakrasim/blob/main/"
RAW = "https://raw.githubusercontent.com/chakrasim/chakrasim/main/"


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_of_the_readme_hold_elsewhere() -> None:
    """The package index shows the page without the files beside it: links are whole, and what they name is here."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    assert [link for link in links if not link.startswith("https://")] == []
    ours = [link.removeprefix(home) for link in links for home in (HOME, RAW) if link.startswith(home)]
    assert len(ours) > 15
    for link in ours:
        file, _, anchor = link.partition("#")
        assert (ROOT / file).is_file(), link
        assert not anchor or anchor in anchors(ROOT / file), link
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used == set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))


def test_the_readme_is_where_the_project_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert HOME.startswith(project["urls"]["Repository"] + "/")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == project["urls"]["Repository"]
    assert citation["version"] == project["version"] == chakrasim.__version__
    assert {"cff-version", "message", "title", "authors"} <= {*citation}


def test_workflows_run_what_is_there() -> None:
    for file in [*ROOT.glob(".github/**/*.yml"), ROOT / "mkdocs.yml"]:
        assert yaml.safe_load(file.read_text(encoding="utf-8")), file
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    job = tests["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert job["steps"][-1]["run"] == ".ci/run" and (ROOT / ".ci" / "run").is_file()
    docs = yaml.safe_load((ROOT / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8"))
    assert {"run": "make docs"} in docs["jobs"]["build"]["steps"]
    for form in ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml"):
        assert {"name", "description", "body"} <= {*yaml.safe_load(form.read_text(encoding="utf-8"))}


def test_the_site_has_all_pages_and_all_public_names() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w-]+\.(?:md|ipynb)", str(site["nav"]))
    assert sorted(listed) == sorted(page.name for ending in ("md", "ipynb") for page in ROOT.glob(f"docs/*.{ending}"))
    assert site["strict"] is True
    rooms = {name for name in chakrasim.__all__ if isinstance(getattr(chakrasim, name), ModuleType)}
    described = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"chakrasim", *(f"chakrasim.{room}" for room in rooms)} == {*described}
