"""From a path to plain data: bounded reads, JSON and YAML whose oddities are refused or reported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chakrasim.errors import InputError
from chakrasim.files.inputs import open_input, take
from chakrasim.notes import Notes

MAX_FILE_BYTES = 2**20
"""A larger configuration file is refused before it is decoded: time and memory of hostile files stay bounded."""

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


def read_bytes(path: str | Path, kind: str, limit_bytes: int = MAX_FILE_BYTES) -> bytes:
    """All bytes of a file, or of a pipe that the shell made, at most ``limit_bytes``; ``kind`` names it in messages
    ("system configuration").

    Raises :class:`InputError` if it cannot be opened or is too large.
    """
    name = printable(path)
    try:
        with open_input(path, kind, pipe=True) as file:
            data = take(file, limit_bytes)
    except FileNotFoundError:
        raise InputError(f"{kind}: no such file", file=name, remedy="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"{kind}: cannot be read ({reason})", file=name) from None
    if len(data) > limit_bytes:
        expected = f"at most {limit_bytes} bytes"
        raise InputError(f"{kind}: too large", file=name, expected=expected)
    return data


def printable(path: str | Path) -> str:
    """A file's name as it can stand in a message."""
    text = str(path)
    return text if text.isprintable() else repr(text)


class _Repeated(list[tuple[str, Any]]):
    """The pairs of a JSON object, kept until its path is known."""


def decode_json(data: bytes, file: str, notes: Notes) -> object:
    """Decode JSON as the reference's library does: of a repeated key the last value wins, text behind the value is
    not read; both add a warning. Raises :class:`InputError` with line and column."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not JSON: the bytes are not UTF-8 text", file=file, place=f"byte {error.start}") from None
    decoder = json.JSONDecoder(object_pairs_hook=_Repeated, parse_constant=_refuse_constant)
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = decoder.raw_decode(text, start)
        rest = text[end:].strip(" \t\r\n\x00")
        if rest:
            notes.warn(f"{file}: {len(rest)} characters behind the JSON value are not read")
        repeated: list[str] = []
        merged = _merge_pairs(value, "$", 0, repeated)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"not JSON: {error.msg}", file=file, place=place) from None
    except RecursionError:
        raise InputError("nested too deeply", file=file, expected=f"at most {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InputError(f"not JSON: {str(error)[:_SHOWN]}", file=file) from None
    if repeated:
        more = f" (and {len(repeated) - 1} more such keys)" if len(repeated) > 1 else ""
        notes.warn(f"{file}: {repeated[0]}: the key is there more than once, the last value counts{more}")
    return merged


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _merge_pairs(value: object, path: str, depth: int, repeated: list[str]) -> object:
    """The value with its objects as mappings; the paths of repeated keys go to ``repeated``."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, _Repeated):
        merged: dict[str, object] = {}
        for key, item in value:
            here = path + step(key)
            if key in merged:
                repeated.append(here)
            merged[key] = _merge_pairs(item, here, depth + 1, repeated)
        return merged
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        return [_merge_pairs(item, f"{path}[{i}]", depth + 1, repeated) for i, item in enumerate(value)]
    return value


def decode_yaml(data: bytes, file: str) -> object:
    """Decode one YAML document into mappings, lists and :class:`Scalar` leaves.

    Raises :class:`InputError` with line and column for bad syntax, repeated keys, unknown tags and a second document.
    """
    # Imported here: a fifth of the package's import time, and runs configured by JSON or from Python need no YAML.
    from chakrasim.config.yaml_tree import decode

    return decode(data, file)


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
