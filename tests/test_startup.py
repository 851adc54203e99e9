"""Processes that chakrasim starts run the same chakrasim, and nothing of the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.experiments import live


def test_a_command_of_its_own_starts_no_threads_for_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    shown = (
        "import os, sys; from chakrasim.cli.main import main; sys.argv[1:] = {}; main({}); "
        "print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )

    def threads(*argv: object) -> str:
        code = shown.format(*map(repr, argv))
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()[-1]

    assert threads(["machines"], None) == "1"
    assert threads(["collect", "--help"], None) == "None"  # a program of the user's may multiply
    assert threads([], ["machines"]) == "None"  # and so may the program that calls main
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert threads(["machines"], None) == "3"


def test_own_commands_take_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chakrasim", "argparse", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    live.run_command("machines")
    assert not (tmp_path / "mark").exists()
    with pytest.raises(InputError, match="chakrasim machines failed; found chakrasim: error: no such preset"):
        live.run_command("machines", "x")
