"""Runs the fenced blocks of a Markdown page in one folder and one namespace; see CONTRIBUTING.md, "Documentation"."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HELP_IS_OURS = sys.version_info < (3, 13)
"""Later versions of argparse lay their help out otherwise; the pages show that of 3.11 and 3.12."""
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: language, options (``exit=2``, ``file=NAME``), text, and where the text stands in the page."""

    language: str
    options: dict[str, str]
    text: str
    start: int
    end: int


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page that begin at the left margin."""
    found = []
    for match in FENCE.finditer(page):
        language, *words = match[1].split() or [""]
        options = dict(word.partition("=")[::2] for word in words)
        found.append(Block(language, options, match[2], match.start(2), match.end(2)))
    return found


@dataclass
class Page:
    """One page while its blocks run in the current folder; ``problems`` collects what went wrong."""

    path: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    problems: list[str] = field(default_factory=list)
    changes: list[tuple[Block, str]] = field(default_factory=list)

    def run(self) -> None:
        """Run all blocks in order."""
        for block in blocks(self.path.read_text(encoding="utf-8")):
            if "file" in block.options:
                Path(block.options["file"]).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                self._python(block)
            elif block.language == "console":
                self._console(block)
            elif block.language in ("output", "demo"):
                self._compare(block, self.printed if block.language == "output" else demo_output(), block.text)

    def update(self) -> None:
        """Write the real output into the page."""
        text = self.path.read_text(encoding="utf-8")
        for block, new in reversed(self.changes):
            text = text[: block.start] + new + text[block.end :]
        self.path.write_text(text, encoding="utf-8")

    def _python(self, block: Block) -> None:
        out = io.StringIO()
        try:
            with redirect_stdout(out):
                exec(compile(block.text, str(self.path), "exec"), self.names)
        except Exception as error:  # whatever a page's code raises is a finding
            self.problems.append(f"{type(error).__name__}: {error}\n{block.text}")
        self.printed = out.getvalue()

    def _console(self, block: Block) -> None:
        expected_status = int(block.options.get("exit", "0"))
        shown = []
        for command in re.findall(r"^\$ (.*)$", block.text, re.MULTILINE):
            status, output = run_command(command)
            shown.append(f"$ {command}\n{output}")
            if status != expected_status:
                self.problems.append(f"`{command}` ended with {status}, not {expected_status}:\n{output}")
        if HELP_IS_OURS or "--help" not in block.text:
            self._compare(block, "".join(shown), block.text)

    def _compare(self, block: Block, real: str, shown: str) -> None:
        if not matches(real, shown):
            self.problems.append(f"the page shows\n{shown}\nbut it is\n{real}")
            self.changes.append((block, abridged(real, shown)))


def matches(real: str, shown: str) -> bool:
    """Whether a page shows the output as it is; a line ``...`` stands for any lines."""
    parts = re.split(r"^\.\.\.\n", tidy(shown), flags=re.MULTILINE)
    return re.fullmatch(".*?".join(map(re.escape, parts)), tidy(real), re.DOTALL) is not None


def abridged(real: str, shown: str) -> str:
    """The real output with the omissions that the page has: only lines that look like shown ones, whatever their
    figures, the others as ``...``."""
    if "...\n" not in shown:
        return real
    lines = real.splitlines()
    looks = [[_look(line) for line in text] for text in (lines, shown.splitlines())]
    kept: set[int] = set()
    for match in SequenceMatcher(None, *looks, autojunk=False).get_matching_blocks():
        kept.update(range(match.a, match.a + match.size))
    made: list[str] = []
    for number, line in enumerate(lines):
        if number in kept:
            made.append(line)
        elif made[-1:] != ["..."]:
            made.append("...")
    return "".join(f"{line}\n" for line in made)


def _look(line: str) -> str:
    """A line without its figures and the widths of its columns."""
    return re.sub(r"[-\s]+", " ", re.sub(r"[+-]?[0-9][0-9.,]*", "0", line))


def tidy(text: str) -> str:
    """Without blanks at line ends."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def run_command(command: str) -> tuple[int, str]:
    """Exit status and everything printed. ``chakrasim`` runs in this process, ``make`` only says what it would do."""
    words = shlex.split(command)
    if words[0] == "make":
        done = subprocess.run([*words, "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, "" if done.returncode == 0 else done.stdout + done.stderr
    if words[:2] == ["PYTHONPATH=.", "chakrasim"]:
        paths = os.pathsep.join([".", str(ROOT / "src")])
        done = subprocess.run(
            [sys.executable, "-m", *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": paths},
        )
        return done.returncode, done.stdout
    if words[0] != "chakrasim":
        return 127, f"the documentation may use chakrasim and make, not {words[0]}\n"
    from chakrasim.cli.main import main

    out = io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(out):
            status = main(words[1:])
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    return status, out.getvalue()


def demo_output() -> str:
    """What ``make demo`` prints, apart from the installation."""
    from chakrasim.cli.main import main

    out = io.StringIO()
    with redirect_stdout(out):
        main(["demo"])
    return out.getvalue()
