"""The one type for warnings and notes, and that there is no second way."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import chakrasim as cs
from chakrasim.machine import load_network
from chakrasim.notes import Notes, lists_too

SOURCES = Path(cs.__file__).parent
NETWORK = {"topology": ["Ring"], "npus_count": [8], "bandwidth": [50], "latency": [500], "x": 1}
TOLD = "network configuration: $.x: the key has no effect"


def test_sentences_stand_once_in_their_order() -> None:
    notes = Notes()
    assert not notes
    notes.note("b")
    notes.warn("a", "c", "a")
    notes.note("a", "d")
    assert list(notes) == ["b", "a", "c", "d"] and len(notes) == 4
    assert notes.warnings == ("a", "c") and notes.notes == ("b", "d")
    more = Notes()
    more.note("e")
    more.warn("b")
    notes.add(more)
    assert notes.warnings == ("b", "a", "c") and notes.notes == ("d", "e")


def test_a_strict_run_refuses_warnings_and_takes_notes() -> None:
    notes = Notes()
    notes.note("worth knowing")
    notes.refuse()
    notes.warn("left out 3 nodes")
    notes.refuse(False)
    with pytest.raises(cs.InputError, match=r"^1 warning in strict mode: left out 3 nodes$"):
        notes.refuse()
    notes.warn("left out 4 events")
    with pytest.raises(cs.InputError, match=r"^2 warnings in strict mode: left out 3 nodes; left out 4 events$"):
        notes.refuse()


def test_a_list_of_warnings_works_for_one_more_release() -> None:
    told: list[str] = []
    with pytest.warns(DeprecationWarning, match=r"load_network takes chakrasim\.Notes\(\) as notes"):
        load_network(NETWORK, told)  # type: ignore[arg-type]
    assert told == [TOLD]

    @lists_too
    def fails(*, notes: Notes) -> None:
        notes.warn("before")
        raise cs.InputError("after")

    for name in ("notes", "warnings"):
        with pytest.warns(DeprecationWarning), pytest.raises(cs.InputError):
            fails(**{name: told})  # type: ignore[arg-type]
    assert told == [TOLD, "before", "before"]
    notes = Notes()
    with pytest.raises(cs.InputError):
        fails(warnings=notes)  # type: ignore[call-arg]
    assert notes.warnings == ("before",)


def test_nothing_else_collects_warnings() -> None:
    """No parameter and no variable named so is a list."""
    found = []
    annotated = re.compile(r"\b(warnings|notes)\s*:")
    for path, text in ((path, path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(text)) if annotated.search(text) and "list[" in text else ():
            match node:
                case (
                    ast.arg(arg="warnings" | "notes", annotation=kind)
                    | ast.AnnAssign(
                        target=ast.Name(id="warnings" | "notes") | ast.Attribute(attr="warnings" | "notes"),
                        annotation=kind,
                    )
                ) if kind is not None and "list[" in ast.unparse(kind):
                    found.append(f"{path.relative_to(SOURCES)}:{node.lineno}")
    assert found == []
