"""An empty name is no folder."""

from __future__ import annotations

from chakrasim.cli.main import main


def test_an_empty_folder_name_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "reference-set", "--num-npus", "1", "--output-dir", ""]) == 2
    assert "--output-dir: this is no name of a folder; found ''" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
