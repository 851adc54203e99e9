"""Processes that chakrasim starts run the same chakrasim, and nothing of the current folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from chakrasim import InputError
from chakrasim.demo import live


def test_the_demo_takes_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("chakrasim", "argparse", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(tmp_path)
    live._command("machines")
    assert not (tmp_path / "mark").exists()
    with pytest.raises(InputError, match="chakrasim machines failed; found chakrasim: error: no such preset"):
        live._command("machines", "x")
