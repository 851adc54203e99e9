"""Modules beside a script: its own, even where this process has loaded others of the same names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

_OURS = ("chakrasim", "numpy", "torch")


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
