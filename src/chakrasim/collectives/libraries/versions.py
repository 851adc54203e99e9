"""Which library a text means, and which of the tables we have speaks for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chakrasim.collectives.libraries.tables import nccl_versions
from chakrasim.errors import InputError, near, shown

_NAMES = ("nccl", "rccl")
_TEXT = re.compile(r"\s*([a-zA-Z]+)(?:[\s_-]+v?(.*?))?\s*")
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[+:-].*)?")
_RCCL_TABLE = "2.20.5"
"""The version of NCCL that the RCCL we have tables of was forked from."""


@dataclass(frozen=True)
class Library:
    """A library and the table that speaks for it.

    Attributes
    ----------
    name: ``nccl`` or ``rccl``.
    asked: the text.
    version: the version asked for, of three numbers; without one, that of the table.
    table: the version of NCCL whose tables are used; for RCCL the one it was forked from.
    note: what was assumed, or nothing.
    """

    name: str
    asked: str
    version: tuple[int, ...]
    table: str
    note: str | None = None

    @property
    def rules(self) -> tuple[int, ...]:
        """The version whose rules apply: that of the table."""
        return numbers(self.table)


def numbers(version: str) -> tuple[int, ...]:
    """``2.27.7`` as three numbers."""
    return tuple(int(part) for part in version.split("."))


def library_of(text: str) -> Library:
    """The library that ``text`` means, such as ``nccl-2.27.7``, ``NCCL 2.9.9+cuda11.2`` or ``rccl-2.22.3-HEAD``.

    Without a version, or with one that is ``unknown``, it is the newest that there is a table of. A version without a
    table takes the nearest of its minor version, else the next older, and says so in ``note``.

    Raises
    ------
    InputError: for another library, and for a version that is not one.
    """
    match = _TEXT.fullmatch(text)
    name = match[1].lower() if match else ""
    if match is None or name not in _NAMES:
        raise InputError(
            "this is not a library whose choices are known",
            place="library",
            found=repr(shown(text)),
            expected="nccl or rccl, with a version or without one, such as nccl-2.27.7",
            remedy=near(name, _NAMES) or None,
        )
    version = (match[2] or "").strip()
    if version.lower() in ("", "unknown"):
        return _newest(name, text)
    return _rccl(text, _version(text, version)) if name == "rccl" else _nccl(text, _version(text, version))


def _version(text: str, version: str) -> tuple[int, ...]:
    match = _NUMBERS.fullmatch(version)
    if match is None or len(version) > 100:
        raise InputError(
            "the version of the library is not one",
            place="library",
            found=repr(shown(text)),
            expected="numbers with dots such as 2.27.7, or unknown",
        )
    return tuple(int(part) for part in match.groups(default="-1"))


def _newest(name: str, text: str) -> Library:
    if name == "rccl":
        return Library(name, text, numbers(_RCCL_TABLE), _RCCL_TABLE)
    table = nccl_versions()[-1]
    return Library(name, text, numbers(table), table)


def _rccl(text: str, version: tuple[int, ...]) -> Library:
    note = f"there is one table of RCCL, forked from NCCL {_RCCL_TABLE}; it speaks for {_dotted(version)} too"
    near_enough = version[:2] == numbers(_RCCL_TABLE)[:2]
    return Library("rccl", text, version, _RCCL_TABLE, None if near_enough else note)


def _nccl(text: str, version: tuple[int, ...]) -> Library:
    tables = nccl_versions()
    dotted = _dotted(version)
    same_minor = [table for table in tables if numbers(table)[:2] == version[:2]]
    if dotted in tables or (version[2] < 0 and same_minor):
        return Library("nccl", text, version, dotted if dotted in tables else same_minor[-1])
    older = [table for table in tables if numbers(table) < version]
    if same_minor:
        table = min(same_minor, key=lambda known: abs(numbers(known)[2] - version[2]))
    else:
        table = older[-1] if older else tables[0]
    note = f"there is no table of NCCL {dotted}; that of {table} speaks for it"
    return Library("nccl", text, version, table, note)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version if part >= 0)
