"""Compiled code is kept by room, so a kernel may call only kernels of its own room."""

from __future__ import annotations

import ast
from pathlib import Path

import chakrasim

MARKS = {"kernel", "inner", "leaf"}
SOURCE = Path(chakrasim.__file__).parent


def _marked(tree: ast.Module) -> set[str]:
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id in MARKS for mark in node.decorator_list)
    }


def test_kernels_call_kernels_of_their_own_room_only():
    trees = {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    kernels = {
        "chakrasim." + ".".join(path.relative_to(SOURCE).with_suffix("").parts): _marked(tree)
        for path, tree in trees.items()
    }
    assert sum(map(len, kernels.values())) > 20
    strays = []
    for path, tree in trees.items():
        if not _marked(tree):
            continue
        room = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in kernels and node.module.split(".")[1] != room:
                strays += [(str(path), alias.name) for alias in node.names if alias.name in kernels[node.module]]
    assert strays == []
