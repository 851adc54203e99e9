"""The script by which a shell completes ``chakrasim``: commands, options, choices and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from chakrasim.errors import InputError

SHELLS: Final = ("bash", "zsh", "tcsh")
_FOLDERS: Final = ("DIR", "FOLDER")
_NO_FILES: Final = ("N", "NAME", "RANK", "SECONDS", "SIZE", "VERSION")


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of SHELLS. Raises InputError where shtab is not installed."""
    try:
        import shtab
    except ImportError:
        raise InputError("completion needs shtab", remedy="pip install 'chakrasim[completion]'") from None
    for action in _actions(parser):
        if action.nargs != 0 and not action.choices and action.metavar not in _NO_FILES:
            action.complete = shtab.DIRECTORY if action.metavar in _FOLDERS else shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Those of a parser and of all below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
        else:
            yield action
