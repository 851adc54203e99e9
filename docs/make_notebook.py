"""Writes ``tutorial.ipynb``, the tutorial as a notebook: ``python docs/make_notebook.py``. It holds no output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def cells(page: str) -> list[dict[str, Any]]:
    """Text as it stands; commands, files and Python as cells that run."""
    found: list[dict[str, Any]] = []
    at = 0
    for block in FENCE.finditer(page):
        code = _code(block[1], block[2])
        if code is None:
            continue
        found += [_cell("markdown", page[at : block.start()]), _cell("code", code)]
        at = block.end()
    found.append(_cell("markdown", page[at:]))
    for number, cell in enumerate(found):
        cell["id"] = f"cell-{number}"
    return found


def _code(head: str, text: str) -> str | None:
    """What runs of a fenced block; None if nothing does."""
    language, _, options = head.partition(" ")
    if language == "console":
        commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
        return "\n".join(["%%bash", "set -e", *commands])
    if options.startswith("file="):
        return f"%%writefile {options[5:]}\n{text}"
    return text if language == "python" else None


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": "", "metadata": {}, "source": text.strip("\n")}
    return cell if kind == "markdown" else cell | {"execution_count": None, "outputs": []}


def notebook() -> str:
    """The notebook's file."""
    content = {
        "cells": cells((HERE / "tutorial.md").read_text(encoding="utf-8")),
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (HERE / "tutorial.ipynb").write_text(notebook(), encoding="utf-8")
