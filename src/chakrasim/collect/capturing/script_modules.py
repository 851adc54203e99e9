"""Running a program as Python would have started it: with its arguments, its own modules before others."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from chakrasim.errors import InputError

_OURS = ("chakrasim", "numpy", "torch")


def check_script(script: str, is_module: bool) -> None:
    """Raise InputError for a file that is not there."""
    if not is_module and not os.path.isfile(script):
        raise InputError("there is no such script", file=script, remedy="name a Python file, or a module with -m")


@contextmanager
def as_main(script: str, arguments: Sequence[str], is_module: bool) -> Iterator[None]:
    """Within the block, a program finds its arguments, and modules in its folder first: that of the script, or the
    current one for a module that is named."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    folder = os.getcwd() if is_module else os.path.dirname(os.path.abspath(script))
    sys.path.insert(0, folder)
    try:
        with own_modules(folder):
            yield
    finally:
        sys.argv, sys.path[:] = argv, path


def run_main(script: str, is_module: bool) -> None:
    """Run a file, or a module by its name, as the main program; within `as_main`. Raises InputError for a module that
    is not there, and what the program raises."""
    if not is_module:
        runpy.run_path(script, run_name="__main__")
        return
    if not _is_there(script):
        raise InputError(
            "there is no such module",
            file=script,
            expected=f"a module in {os.getcwd()}, or an installed one",
            remedy="name it as python -m does, with dots, and start where it is found",
        )
    runpy.run_module(script, run_name="__main__", alter_sys=True)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        return False
    except ValueError:
        return False


@contextmanager
def own_modules(folder: str) -> Iterator[None]:
    """Within the block, ``import name`` finds ``folder/name.py`` although another module of that name is loaded, as it
    would in a process that has begun with the script. What was loaded before is there again afterwards."""
    beside = {path.stem if path.suffix == ".py" else path.name for path in _importable(Path(folder or "."))}
    beside -= {*sys.stdlib_module_names, *_OURS, "__main__"}
    aside = _named(beside)
    for name in aside:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in _named(beside):
            del sys.modules[name]
        sys.modules.update(aside)


def _importable(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from folder.glob("*.py")
        yield from (path.parent for path in folder.glob("*/__init__.py"))


def _named(names: set[str]) -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
