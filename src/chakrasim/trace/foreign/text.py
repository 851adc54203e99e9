"""Text of other makers' files, and numbers in it."""

from __future__ import annotations

import re
from typing import Final

from chakrasim.errors import InputError
from chakrasim.files.storage import read_unpacked

LARGEST: Final = (1 << 62) - 1
_WHOLE: Final = re.compile(r"[0-9]{1,20}(?:\.0{1,9})?", re.ASCII)


def read_text(source: str, max_bytes: int | None, what: str, held: int, encoding: str = "utf-8") -> str:
    """The text of a file, of each byte of which its reader holds ``held`` bytes at most. Raises InputError."""
    try:
        return read_unpacked(source, max_bytes, what, held).decode(encoding)
    except UnicodeDecodeError as fault:
        raise InputError(f"{what} is text", file=source, place=f"byte {fault.start}") from None


def whole(text: str, source: str, place: str, what: str, least: int = 0, most: int = LARGEST) -> int:
    """A whole number in text, which may end in ``.0``. Raises InputError."""
    value = int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else -1
    if not least <= value <= most:
        expected = f"a whole number from {least} to {most}"
        raise InputError(f"{what} is out of range", file=source, place=place, found=repr(text[:40]), expected=expected)
    return value
