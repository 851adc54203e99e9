"""A script's own modules come before others of their names that are loaded."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chakrasim.collect.capturing.script_modules import own_modules


def test_modules_beside_the_script_win_and_the_others_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModuleType("helper_of_script")
    monkeypatch.setitem(sys.modules, "helper_of_script", other)
    (tmp_path / "helper_of_script.py").write_text("VALUE = 7\n")
    (tmp_path / "json.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with own_modules(str(tmp_path)):
        assert importlib.import_module("helper_of_script").VALUE == 7
        assert importlib.import_module("json").dumps([]) == "[]"
    assert sys.modules["helper_of_script"] is other


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    before = dict(sys.modules)
    with own_modules(str(tmp_path / "nowhere")):
        pass
    assert sys.modules == before
