"""The rooms: CONTRIBUTING's tables say what may import what; late imports and those for types count too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from chakrasim.startup import without_gc

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "chakrasim"
MOST_FILES = 20
MOST_LINES = 60

Graph = Mapping[str, set[str]]


def modules(source: Path) -> dict[str, ast.Module]:
    """All modules by dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = [source.name, *path.relative_to(source).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


@cache
def told_apart(tree: ast.Module) -> list[ast.AST]:
    """What these checks look at: one walk over a tree is what they take longest for."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which of the modules each imports, wherever in the file that stands."""
    return {name: {target for target in _named(tree, trees) if target != name} for name, tree in trees.items()}


def _named(tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    for node in told_apart(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in known)
            case ast.ImportFrom(module=str(module), names=names, level=0) if module in known:
                # Of a package that has a module of this name the package itself is not asked.
                full = [f"{module}.{alias.name}" for alias in names]
                yield from (name if name in known else module for name in full)
            case ast.ImportFrom(level=level) if level:
                pytest.fail("imports are absolute: these checks do not see relative ones")
            case ast.Call(args=[ast.Constant(value=str(name))]) if "import_module" in ast.dump(node.func):
                yield from [name] if name in known else []


def room_of(module: str) -> str:
    """The top folder, or the top file; that of the package itself is its front door."""
    return [*module.split("."), "__init__"][1]


def rooms(graph: Graph) -> dict[str, set[str]]:
    """Which rooms each room imports."""
    found: dict[str, set[str]] = {room_of(name): set() for name in graph}
    for name, targets in graph.items():
        found[room_of(name)] |= {room_of(target) for target in targets} - {room_of(name)}
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Groups of nodes each of which leads to all others of its group."""
    reached = {node: _reached(graph, node) for node in graph}
    groups = {frozenset({node, *(other for other in reached[node] if node in reached[other])}) for node in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        more = graph[waiting.pop()] - found
        found |= more
        waiting += more
    return found


class Table(NamedTuple):
    """Rooms from the bottom up, each with the rooms that it may import."""

    basics: dict[str, set[str]]
    others: dict[str, set[str]]

    def allowed(self, room: str) -> set[str]:
        """The basics are everybody's."""
        return self.basics[room] if room in self.basics else self.others[room] | set(self.basics)


def table(text: str) -> Table:
    """The two tables of the section "The rooms"."""
    section = text.split("\n## The rooms\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^\| room \|.*\n\| ---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert len(blocks) == 2, "the section has a table of the basics and one of the other rooms"
    return Table(*(dict(map(_row, block.splitlines())) for block in blocks))


def _row(line: str) -> tuple[str, set[str]]:
    room, _, may = line.strip("| ").split(" | ")
    return _name(room), {_name(word) for word in may.split(",")} - {"nothing"}


def _name(shown: str) -> str:
    return shown.strip().strip("`").removesuffix("/").removesuffix(".py")


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    with without_gc():
        return modules(SOURCE)


@pytest.fixture(scope="module")
def graph(trees: dict[str, ast.Module]) -> Graph:
    return imports(trees)


@pytest.fixture(scope="module")
def contributing() -> Table:
    return table((ROOT / "CONTRIBUTING.md").read_text())


def test_the_table_has_all_rooms_and_no_others(trees: dict[str, ast.Module], contributing: Table) -> None:
    listed = [*contributing.basics, *contributing.others]
    assert sorted(listed) == sorted({room_of(name) for name in trees})


def test_rooms_import_what_the_table_allows_and_it_allows_no_more(graph: Graph, contributing: Table) -> None:
    used = rooms(graph)
    wrong = [f"{room} imports {other}" for room in used for other in sorted(used[room] - contributing.allowed(room))]
    own = contributing.basics | contributing.others
    idle = [f"{room} has no need of {other}" for room in used for other in sorted(own[room] - used[room])]
    assert wrong + idle == []


def test_the_table_stands_in_order_so_that_imports_point_down(contributing: Table) -> None:
    floor = {room: at for at, room in enumerate([*contributing.basics, *contributing.others])}
    upward = [
        f"{room} stands below {other}"
        for room in floor
        for other in (contributing.basics | contributing.others)[room]
        if floor[other] >= floor[room]
    ]
    assert upward == []


def test_no_files_and_no_rooms_import_one_another_in_a_circle(graph: Graph) -> None:
    assert circles(graph) == []
    assert circles(rooms(graph)) == []


def test_the_map_names_what_there_is_and_all_folders_of_its_rooms() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paragraphs = re.findall(r"^Inside `(\w+)/`((?:.|\n)*?)\n\n", text, re.MULTILINE)
    assert paragraphs, "CONTRIBUTING says what is inside the rooms"
    wrong = []
    for room, said in paragraphs:
        named = set(re.findall(r"`([\w/]+(?:\.py|/))`", said))
        folders = {f"{path.name}/" for path in (SOURCE / room).iterdir() if (path / "__init__.py").exists()}
        wrong += [f"there is no {room}/{name}" for name in sorted(named) if not (SOURCE / room / name).exists()]
        wrong += [f"{room}/{name} is not named" for name in sorted(folders - named)]
    assert wrong == []


def test_folders_are_small() -> None:
    counts = {path: len({*path.glob("*.py")} - {path / "__init__.py"}) for path in SOURCE.rglob("*") if path.is_dir()}
    crowded = {str(path.relative_to(SOURCE)): count for path, count in counts.items() if count > MOST_FILES}
    crowded.pop("cli", None)  # a file a command
    assert crowded == {}


def test_long_functions_say_why(trees: dict[str, ast.Module]) -> None:
    assert [f"{name}: {function}" for name, tree in trees.items() for function in long_functions(tree)] == []


def long_functions(tree: ast.Module) -> list[str]:
    """Functions of more than MOST_LINES lines whose docstring has no sentence with "long because"."""
    functions = [node for node in told_apart(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        f"{node.name} ({length} lines)"
        for node in functions
        if (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES
        and not re.search(r"\b[Ll]ong,? because ", ast.get_docstring(node) or "")
    ]


# --- the checks themselves --------------------------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A package: b imports a for types, a imports b late, and c both; d imports c by its name."""
    files = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/one.py": "def f():\n    from planted.b import two\n",
        "b/__init__.py": "",
        "b/two.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.a.one import f\n",
        "c.py": "import planted.a.one\nfrom planted.b.two import f\n",
        "d.py": "from importlib import import_module\nimport_module('planted.c')\n",
    }
    for name, text in files.items():
        path = tmp_path / "planted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "planted"


def test_a_planted_circle_is_seen(planted: Path) -> None:
    graph = imports(modules(planted))
    assert circles(graph) == [["planted.a.one", "planted.b.two"]]
    assert circles(rooms(graph)) == [["a", "b"]]
    assert rooms(graph) == {"__init__": set(), "a": {"b"}, "b": {"a"}, "c": {"a", "b"}, "d": {"c"}}


def test_a_table_is_read() -> None:
    text = """
## The rooms

| room | subject | may import |
| --- | --- | --- |
| `errors.py` | x | nothing |
| `files/` | x | errors |

| room | subject | may import, beside the basics |
| --- | --- | --- |
| `trace/` | x | nothing |
| `__init__.py` | x | trace |

## To add
"""
    found = table(text)
    assert found == Table({"errors": set(), "files": {"errors"}}, {"trace": set(), "__init__": {"trace"}})
    assert found.allowed("__init__") == {"trace", "errors", "files"} and found.allowed("files") == {"errors"}


def test_a_long_function_is_seen_unless_it_says_why() -> None:
    body = "    x = 1\n" * MOST_LINES
    assert long_functions(ast.parse(f"def f():\n{body}")) == [f"f ({MOST_LINES + 1} lines)"]
    assert long_functions(ast.parse(f'def f():\n    """Does.\n\n    Long because so.\n    """\n{body}')) == []
    assert long_functions(ast.parse("def f():\n" + "    x = 1\n" * (MOST_LINES - 1))) == []
