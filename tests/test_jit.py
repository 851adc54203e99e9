"""Compiled code is kept by a room's kernel sources, so nothing from elsewhere may be compiled in."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import chakrasim
from chakrasim import jit
from chakrasim.machine.topologies import BUILT_IN

MARKS = {"kernel", "inner", "leaf"}
SOURCE = Path(chakrasim.__file__).parent


@cache
def _trees() -> dict[Path, ast.Module]:
    """The files that have kernels."""
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    return {
        path: tree
        for path, text in texts.items()
        if any(f"@{mark}" in text for mark in MARKS)
        if _marked(tree := ast.parse(text))
    }


def _marked(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id in MARKS for mark in node.decorator_list)
    }


def test_kernels_call_kernels_of_their_own_room_only():
    kernels = {
        "chakrasim." + ".".join(path.relative_to(SOURCE).with_suffix("").parts): _marked(tree)
        for path, tree in _trees().items()
    }
    assert sum(map(len, kernels.values())) > 20
    strays = []
    for path, tree in _trees().items():
        room = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in kernels and node.module.split(".")[1] != room:
                strays += [(str(path), alias.name) for alias in node.names if alias.name in kernels[node.module]]
    assert strays == []


def test_constants_in_kernels_stand_where_kernels_do():
    with_kernels = {path.parent for path in _trees()}
    strays = []
    for path, tree in _trees().items():
        imported = {
            alias.asname or alias.name: _file_of(node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("chakrasim.")
            if node.module != "chakrasim.jit"  # what makes kernels is in none
            for alias in node.names
        }
        for function in tree.body:
            if not isinstance(function, ast.FunctionDef) or not _marked(ast.Module([function], [])):
                continue
            used = {
                node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)
            }
            for name in used & imported.keys():
                home = imported[name]
                same_room = home.relative_to(SOURCE).parts[0] == path.relative_to(SOURCE).parts[0]
                if not same_room or home.parent not in with_kernels:
                    strays.append((str(path), function.name, name))
    assert strays == []


def _file_of(module: str | None, name: str) -> Path:
    """Where an imported name comes from: a module, or a name in one."""
    at = SOURCE.joinpath(*str(module).split(".")[1:])
    return at.with_suffix(".py") if at.with_suffix(".py").exists() else at / f"{name}.py"


def test_kept_code_goes_by_the_sources_of_the_topologies_that_are_compiled_in():
    # The routes of the package's topologies are plain functions, which the engine's kernels compile in.
    sources = jit._kernel_sources("simulator")
    for topology in BUILT_IN:
        for function in (topology.route, topology.ends, topology.hops):
            assert Path(function.__code__.co_filename).read_bytes() in sources


def test_parts_of_a_kernel_may_print(capsys: pytest.CaptureFixture[str]) -> None:
    # A text is an object of Python, which compiled code finds through its environment.
    @jit.inner
    def lower(number: int) -> int:
        print("lower", number)
        return number + 1

    @jit.inner
    def upper(number: int) -> int:
        print("upper", number)
        return lower(number) + lower(2 * number)

    @jit.kernel
    def whole(number: int) -> int:
        return upper(number) + lower(0)

    assert whole(3) == 12
    assert capsys.readouterr().out == "upper 3\nlower 3\nlower 6\nlower 0\n"
