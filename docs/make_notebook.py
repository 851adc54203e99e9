"""Writes ``tutorial-notebook.ipynb``, the tutorial as a notebook: ``python docs/make_notebook.py``.

Cells whose code has not changed keep their output. ``--run`` runs all of them, some minutes, and stores what comes out:
figures of the run that is observed are of that run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
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


def notebook(before: dict[str, Any]) -> str:
    """The notebook's file: cells of the page, with the outputs that the same cells of ``before`` have."""
    made = cells((HERE / "tutorial.md").read_text(encoding="utf-8"))
    outputs = {cell["source"]: cell["outputs"] for cell in before["cells"] if cell["cell_type"] == "code"}
    code = [cell for cell in made if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        cell["outputs"] = outputs.get(cell["source"], [])
        cell["execution_count"] = count if cell["outputs"] else None
    content = {
        "cells": made,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def run(text: str) -> dict[str, Any]:
    """The notebook, run in a folder of its own, with what is the same on every machine of its outputs."""
    import nbclient
    import nbformat

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE.parent / "examples", Path(folder) / "examples")
        book = nbformat.reads(text, 4)
        nbclient.NotebookClient(book, timeout=900, resources={"metadata": {"path": folder}}).execute()
        for cell in book.cells:
            if cell.cell_type == "code":
                cell.outputs = _joined(cell.outputs, folder)
    return dict(book)


def _joined(outputs: list[Any], folder: str) -> list[dict[str, Any]]:
    """Streams in one piece each; of lines that were written over, the last; on standard error, ours alone."""
    texts: dict[str, str] = {}
    others: list[dict[str, Any]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            texts[output["name"]] = texts.get(output["name"], "") + output["text"]
        else:
            others.append(dict(output))
    lines = {name: re.sub(r"[^\n]*\r(?!\n)", "", text).replace(f"{folder}/", "") for name, text in texts.items()}
    if "stderr" in lines:
        lines["stderr"] = "".join(re.findall(r"^chakrasim: .*\n", lines["stderr"], re.MULTILINE))
    return [{"name": name, "output_type": "stream", "text": text} for name, text in lines.items() if text] + others


def main(argv: list[str]) -> None:
    """Write the file."""
    file = HERE / "tutorial-notebook.ipynb"
    text = notebook(json.loads(file.read_text(encoding="utf-8")))
    file.write_text(notebook(run(text)) if argv == ["--run"] else text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
