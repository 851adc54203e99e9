"""The progress bar appears only for runs that take a while."""

from __future__ import annotations

import io
import sys

from chakrasim.cli import progress


def test_short_runs_show_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_start", lambda total: 1 / 0)
    with progress.progress_bar() as show:
        show(1, 2, 3)
    assert capsys.readouterr().err == ""


def test_long_runs_show_nodes_and_simulated_time(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(progress, "PATIENCE_S", 0)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.progress_bar() as show:
        show(1, 4, 2_000_000)
    assert "1/4" in terminal.getvalue() and "2 ms simulated" in terminal.getvalue()
