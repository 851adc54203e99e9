"""The script by which a shell completes ``chakrasim``: commands, options, choices and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from chakrasim.errors import InputError

SHELLS: Final = ("bash", "zsh", "fish", "tcsh")
_FOLDERS: Final = ("DIR", "FOLDER")
_NO_FILES: Final = ("N", "NAME", "R", "RANK", "RANKS", "SECONDS", "SIZE", "VERSION", "X")


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one of SHELLS. Raises InputError where shtab is not installed, which knows all but fish."""
    if shell == "fish":
        return "\n".join(_fish(parser, parser.prog, ())) + "\n"
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


def _fish(parser: argparse.ArgumentParser, program: str, path: tuple[str, ...]) -> Iterator[str]:
    """A line for each option and command of a parser, which stands behind the commands of ``path``."""
    inside = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in path)
    if not path:
        yield f"complete -c {program} -f"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names = " ".join(action.choices)
            here = f"{inside}; and " if inside else ""
            for name, below in action.choices.items():
                when = f"{here}not __fish_seen_subcommand_from {names}"
                yield f"complete -c {program} -n {_quoted(when)} -a {name} -d {_quoted(below.description or '')}"
                yield from _fish(below, program, (*path, name))
        else:
            when = f" -n {_quoted(inside)}" if inside else ""
            yield f"complete -c {program}{when}{_fish_words(action)} -d {_quoted(action.help or '')}"


def _fish_words(action: argparse.Action) -> str:
    """What an option is called and takes, or what a place takes: choices, files, or anything."""
    said = "".join(f" -l {one[2:]}" if one.startswith("--") else f" -s {one[1:]}" for one in action.option_strings)
    if action.nargs == 0:
        return said
    if action.choices:
        return f"{said} -x -a {_quoted(' '.join(map(str, action.choices)))}"
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar in _NO_FILES:
        return f"{said} -x"
    return f"{said} -r -F" if action.option_strings else " -F"


def _quoted(text: str) -> str:
    """As fish reads it between single quotes."""
    plain = " ".join(text.split()).replace("%%", "%")
    return "'" + plain.replace("\\", "\\\\").replace("'", "\\'") + "'"
