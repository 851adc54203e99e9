"""A job in another maker's format, given to a command that takes none, is named for what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Cli

GOAL = "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 0\n}\nrank 1 {\nrecv 8b from 0 tag 0\n}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("draw", "FILE", "-o", "OUT.svg"),
        ("jsonize", "FILE", "-o", "OUT"),
        ("timeline", "FILE", "-o", "OUT.json"),
        ("link", "--device", "FILE", "-o", "OUT"),
        ("trace", "FILE", "-o", "OUT"),
        ("convert", "PyTorch", "FILE", "-o", "OUT"),
        ("simulate", "FILE", "--machine", "FILE"),
        ("generate", "transformer", "--spec", "FILE", "-o", "OUT"),
    ],
    ids=lambda words: words[0],
)
def test_commands_name_a_goal_file(refused: Callable[..., str], tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "schedule.txt"
    path.write_text(GOAL)
    said = refused(*(word.replace("FILE", str(path)).replace("OUT", str(tmp_path / "out")) for word in words))
    assert "a GOAL schedule" in said
    assert sorted(tmp_path.iterdir()) == [path]


def test_goal_goes_there_and_back(cli: Cli, tmp_path: Path) -> None:
    path, job, back = (tmp_path / name for name in ("schedule.txt", "job", "back.goal"))
    path.write_text(GOAL)
    assert cli("convert", path, "-o", job, "--quiet").code == 0
    said = json.loads(cli("convert", job, "--to", "goal", "-o", back, "--json", "-").out)
    assert said["nodes"] == 2 and said["output"] == str(back)
    assert cli("info", back, "--json", "-").out == cli("info", job, "--json", "-").out
    assert cli("convert", job, "--to", "goal", "-o", back).code == 2
