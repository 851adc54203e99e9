"""Loops of a program that is captured: where they stand, and those that go on until a tensor's value ends them.

A capture has no such value. Only ``while`` counts: a ``for`` comes to its end, whatever is asked within it.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
import time
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Final

ROUNDS: Final = 20
"""Fewer rounds of a loop are no sign of one that does not end."""

_LIBRARY: Final = sysconfig.get_paths()["stdlib"] + "/"
_FOREIGN: Final = ("torch", "chakrasim")


@dataclass
class Loop:
    """A ``while`` that runs: where it stands, since when, and how many values were asked within it."""

    file: str
    line: int
    since: float
    rounds: int = 0


class Loops:
    """The loops that values were asked in since the program last made progress."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], Loop] = {}

    def restart(self) -> None:
        """The program has made progress."""
        self._running = {}

    def ask(self, patience_s: float) -> Loop | None:
        """The program asks for a value that is not known: the loop that it asks in, if that has gone on for longer."""
        found = loop_around(sys._getframe(1), ("while", "for"))
        if found is None or found[1].kind == "for":
            return None
        frame, line = found[0], found[1].first
        key, now = (frame.f_code.co_filename, line), time.monotonic()
        loop = self._running.get(key)
        # A mark on the frame tells a call from the next one; to keep the frame would keep its tensors.
        if loop is None or frame.f_trace_lines:
            frame.f_trace_lines = False
            loop = self._running[key] = Loop(*key, now)
        loop.rounds += 1
        return loop if loop.rounds >= ROUNDS and now - loop.since > patience_s else None


def own_place(frame: FrameType | None) -> str:
    """File and line of the program's own that a stack has come through last: of no installed library, where it can."""
    place = ""
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_foreign(file) and not file.startswith(_LIBRARY):
            if "site-packages" not in file and "dist-packages" not in file:
                return f"{file}:{frame.f_lineno}"
            place = place or f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return place


@dataclass(frozen=True)
class Statement:
    """A loop in a source: "while", "for" or "comprehension", with its first and last line."""

    first: int
    last: int
    kind: str


def loop_around(frame: FrameType, kinds: tuple[str, ...]) -> tuple[FrameType, Statement] | None:
    """The innermost loop of the program, of these kinds, that runs; with the frame that it runs in."""
    step: FrameType | None = frame
    while step is not None:
        loops = [loop for loop in _loops_of_code(step.f_code) if loop.kind in kinds]
        around = [loop for loop in loops if loop.first <= step.f_lineno <= loop.last]
        if around:
            return step, max(around, key=lambda loop: loop.first)
        step = step.f_back
    return None


def is_foreign(file: str) -> bool:
    """Whether a source is PyTorch's or ours."""
    return file.startswith("<") or any(part in _FOREIGN for part in file.split("/"))


def is_pythons(file: str) -> bool:
    """Whether a source is of Python's own library."""
    return file.startswith(_LIBRARY) and "-packages" not in file


@lru_cache(maxsize=4096)
def _loops_of_code(code: CodeType) -> tuple[Statement, ...]:
    if is_foreign(code.co_filename) or is_pythons(code.co_filename):
        return ()
    return tuple(_loops_of_file(code.co_filename).get(code.co_firstlineno, ()))


@lru_cache(maxsize=64)
def _loops_of_file(file: str) -> dict[int, list[Statement]]:
    """The loops of each function by its first line, of the module's own by 0 and 1."""
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[int, list[Statement]] = {}
    _collect(tree, 1, found)
    found[0] = found.get(1, [])
    return found


def _collect(node: ast.AST, function: int, found: dict[int, list[Statement]]) -> None:
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
        elif isinstance(child, ast.Lambda | ast.ClassDef):
            inside = child.lineno
        elif isinstance(child, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            inside = child.lineno
            loop = Statement(child.lineno, child.end_lineno or child.lineno, "comprehension")
            # A function of its own, or not: Python's version says.
            for place in {function, inside}:
                found.setdefault(place, []).append(loop)
        elif isinstance(child, ast.For | ast.AsyncFor | ast.While):
            kind = "while" if isinstance(child, ast.While) else "for"
            loop = Statement(child.lineno, child.end_lineno or child.lineno, kind)
            found.setdefault(function, []).append(loop)
        _collect(child, inside, found)
