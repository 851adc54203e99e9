"""Values as configurations hold them: YAML scalars, numbers, lists, and how messages name them and their places."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MAX_DEPTH = 32
"""No configuration nests deeper; the bound keeps hostile files from exhausting the stack."""

_SHOWN = 60


class Scalar(str):
    """A YAML scalar as written. Its type is up to the reader: ``1e9``, ``010`` and ``on`` mean one thing only."""

    quoted: bool

    def __new__(cls, text: str, quoted: bool) -> Scalar:
        scalar = super().__new__(cls, text)
        scalar.quoted = quoted
        return scalar

    @property
    def is_null(self) -> bool:
        return not self.quoted and self in ("", "~", "null", "Null", "NULL")


def describe(value: object) -> str:
    """Name a value in an error message: short, printable and without walking into it."""
    if value is None or (isinstance(value, Scalar) and value.is_null):
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(str(value)) if len(value) <= _SHOWN else repr(str(value[:_SHOWN])) + "..."
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items"
    return f"a Python {type(value).__name__}"


def step(key: object) -> str:
    """One step of a JSON path: ``.key`` or ``[3]``."""
    if isinstance(key, int) and not isinstance(key, bool):
        return f"[{describe(key)}]"
    text = str(key)
    shown = text[:_SHOWN]
    return f".{shown}" if shown.isprintable() and shown == text else f".{describe(text)}"


_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def parse_integer(text: str) -> int | None:
    """An integer as the reference's YAML library reads it (decimal, ``0x``, leading-zero octal), or None."""
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] != "x"
    if octal and not set(digits) <= set("01234567"):
        return None
    value = int(digits, 16 if "x" in digits else 8 if octal else 10)
    return -value if text.startswith("-") else value


def parse_decimal(text: str) -> float | None:
    """A decimal number as the reference's YAML library reads it, or None (also for ``.inf`` and ``.nan``)."""
    return float(text) if len(text) <= 400 and _DECIMAL.fullmatch(text) else None


def as_sequence(value: object) -> Sequence[object] | None:
    """The value if it is a list, else None. A NumPy array counts as the list it prints as."""
    if isinstance(value, list | tuple | range):
        return value
    if hasattr(value, "tolist") and hasattr(value, "ndim"):
        listed = value.tolist()
        return listed if isinstance(listed, list) else None
    return None


def plain(value: object) -> object:
    """A NumPy scalar as the Python number it stands for; anything else as it is."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value
