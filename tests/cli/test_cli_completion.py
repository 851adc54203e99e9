"""Shells complete commands, options and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from chakrasim.cli.main import COMMANDS, main


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    pytest.importorskip("shtab")
    assert main(["--print-completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_script_has_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert [command for command in COMMANDS if command not in text] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sim"], {"simulate"}),
        (["simulate", "--rep"], {"--replay-durations"}),
        (["analyze", "cri"], {"critical-path"}),
        (["simulate", "--congestion", "a"], {"aware"}),
        (["doctor", "rec"], {"recorded"}),
        (["simulate", "--machine", "my"], {"my.yaml"}),
    ],
)
def test_bash_completes(
    words: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "complete").write_text(script("bash", capsys))
    (tmp_path / "recorded").mkdir()
    (tmp_path / "my.yaml").touch()
    line = ["chakrasim", *words]
    code = (
        "source ./complete; function=$(complete -p chakrasim | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); "
        f"COMP_WORDS=({' '.join(line)}); COMP_CWORD={len(line) - 1}; "
        f'$function chakrasim {line[-1]} {line[-2]}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert expected <= set(done.stdout.split()), (done.stdout, done.stderr)


def test_the_script_is_written_as_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(FILE={}, DIRECTORY={}, complete=lambda parser, shell: f"complete\t{shell}\n")
    monkeypatch.setitem(sys.modules, "shtab", made)
    assert main(["--print-completion", "zsh"]) == 0
    assert capsys.readouterr().out == "complete\tzsh\n"


def test_without_shtab_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert capsys.readouterr().err == "chakrasim: error: completion needs shtab; pip install 'chakrasim[completion]'\n"
