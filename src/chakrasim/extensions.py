"""What others add, by name: algorithms and topologies of modules and of installed packages.

``module:name`` imports the module and takes what it registers as ``name``; a name alone that is not known is looked up
among the entry points of installed packages. Nothing is looked for in the current folder: modules are those that
Python itself finds, a folder of one's own by ``PYTHONPATH``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import TypeVar

from chakrasim.errors import InputError, near

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
T = TypeVar("T")


def enter(table: dict[str, T], name: str, one: T, what: str) -> T:
    """Make something known under its name, which can be given once only; returns it. ValueError for another of that
    name, or without any."""
    known = table.setdefault(name, one)
    if not name or known is not one:
        raise ValueError(f"a {what} named {name!r} is registered already" if name else "no name")
    return one


def registered_name(text: str, table: Mapping[str, object], what: str, group: str) -> str:
    """The name in ``table`` that ``text`` stands for, once the module that registers it has been imported.

    ``what`` it is: for messages; ``group``: of entry points. Raises InputError without file and place.
    """
    module, colon, name = text.rpartition(":")
    if colon:
        return _of_module(module, name, table, what)
    if text in table:
        return text
    known = declared(group)
    if text in known:
        return _of_module(known[text].partition(":")[0].strip(), text, table, what)
    names = list(dict.fromkeys([*table, *sorted(known)]))
    expected = "one of " + ", ".join(names) + ", or module:name"
    raise InputError(f"unknown {what}", expected=expected, remedy=near(text, names) or None)


def declared(group: str) -> dict[str, str]:
    """What the entry points of installed packages declare: where each is, by name; the first of a name counts."""
    from importlib.metadata import entry_points

    return {one.name: one.value for one in reversed(entry_points(group=group))}


def _of_module(module: str, name: str, table: Mapping[str, object], what: str) -> str:
    if not _MODULE.fullmatch(module):
        raise InputError(f"unknown {what}", expected="module:name, with a module that Python can import")
    before = set(table)
    try:
        importlib.import_module(module)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        message = "is not found" if missing else f"cannot be imported: {type(error).__name__}: {error}"
        remedy = "install its package, or name its folder in PYTHONPATH" if missing else None
        raise InputError(f"the module {module} {message}", remedy=remedy) from error
    if name not in table:
        own = [known for known, one in table.items() if known not in before or module in _modules(one)]
        article = "an" if what.startswith("a") else "a"
        expected = f"{article} {what} that it registers: {', '.join(own) or 'there is none'}"
        raise InputError(f"the module {module} has no {what} of this name", expected=expected)
    return name


def _modules(registered: object) -> set[str]:
    """The modules that what is registered comes from."""
    parts = registered if isinstance(registered, tuple) else (getattr(registered, "route", None),)
    return {str(getattr(part, "__module__", "")) for part in parts}
