"""What is asked for on a command line: ``TARGET=FACTOR``, how many times as long something takes, or ``ideal``."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Final

from chakrasim.errors import InputError

IDEAL: Final = "ideal"
LARGEST: Final = 1e9


@dataclass(frozen=True)
class Asked:
    """One change: of ``target``, ``family:name`` or a word, by ``factor``; None: to what is ideal."""

    text: str
    target: str
    factor: float | None

    @property
    def family(self) -> str:
        """What stands before the colon; the whole of a word."""
        return self.target.partition(":")[0]

    @property
    def name(self) -> str:
        """What stands behind the colon."""
        return self.target.partition(":")[2]

    def names(self, name: str) -> bool:
        """Whether it means this name; ``*`` and ``?`` stand for any letters. Kinds of communication may be spelt as in
        specs, ``all_reduce``."""
        meant = self.name.replace("_", "-") if self.family == "kind" else self.name
        return fnmatch.fnmatchcase(name, meant)

    def numbers(self, limit: int) -> tuple[int, ...]:
        """The numbers that it means, such as ``0-7,16``; each is below ``limit``. Raises InputError."""
        found: set[int] = set()
        for part in self.name.split(","):
            span = re.fullmatch(r"\s*([0-9]{1,9})(?:-([0-9]{1,9}))?\s*", part, re.ASCII)
            last = int(span[2] or span[1]) if span else limit
            if span is None or not int(span[1]) <= last < limit:
                raise self.refusal("no such numbers", self.name, f"numbers below {limit:,}, such as 5 or 0-7,16")
            found |= set(range(int(span[1]), last + 1))
        return tuple(sorted(found))

    def refusal(self, message: str, found: str, expected: str, remedy: str | None = None) -> InputError:
        """An error about it."""
        return InputError(message, file="--set", place=self.text[:60], found=repr(found[:60]), expected=expected,
                          remedy=remedy)  # fmt: skip


def asked_of(text: str) -> Asked:
    """Read ``TARGET=FACTOR``. Raises InputError."""
    target, sign, value = text.rpartition("=")
    if not sign or not target.strip():
        raise InputError("no change", file="--set", found=repr(text[:60]), expected="TARGET=FACTOR")
    if value.strip() == IDEAL:
        return Asked(text, target.strip(), None)
    try:
        factor = float(value)
    except ValueError:
        factor = -1.0
    if not 0 <= factor <= LARGEST:
        raise InputError("no factor", file="--set", place=text[:60], found=repr(value[:40]),
                         expected=f"how many times as long it takes, from 0 to {LARGEST:g}, or {IDEAL}")  # fmt: skip
    return Asked(text, target.strip(), factor)
