"""Names of a package that are loaded when they are first used, so that importing it costs little."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from chakrasim.startup import without_gc


def lazily(package: str, homes: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``: its public names by the module below it that has them. What else
    its ``__all__`` has are packages below it.

    ``dir()``, by which shells complete, is what is public and nothing else, whatever has been loaded meanwhile.
    """
    home = {name: f"{package}.{module}" for module, names in homes.items() for name in names}
    public = {*sys.modules[package].__all__}

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with without_gc():
            return getattr(import_module(home[name]), name) if name in home else import_module(f"{package}.{name}")

    def names() -> list[str]:
        return sorted({*public, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return get, names


_offered: dict[str, Callable[..., Any]] = {}


def offer(name: str, function: Callable[..., Any]) -> None:
    """Let rooms below the one that has ``function`` call it, by this name, without knowing who does the work."""
    _offered[name] = function


def offered(name: str) -> Callable[..., Any]:
    """What the package offers under this name."""
    return _offered[name]
