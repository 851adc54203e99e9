"""From a path to plain data: bounded reads, JSON and YAML whose oddities are refused or reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chakrasim.config.values import MAX_DEPTH, step
from chakrasim.errors import InputError
from chakrasim.files.inputs import open_input, take
from chakrasim.files.job_formats import refuse_job
from chakrasim.notes import Notes

MAX_FILE_BYTES = 2**20
"""A larger configuration file is refused before it is decoded: time and memory of hostile files stay bounded."""


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
    refuse_job(data, file, "JSON")
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
        raise InputError(f"not JSON: {str(error)[:60]}", file=file) from None
    _refuse_halves(merged, text, file)
    if repeated:
        more = f" (and {len(repeated) - 1} more such keys)" if len(repeated) > 1 else ""
        notes.warn(f"{file}: {repeated[0]}: the key is there more than once, the last value counts{more}")
    return merged


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _refuse_halves(value: object, text: str, file: str) -> None:
    """Escapes such as \\ud83d that are half of a character are in no text, and YAML cannot say them."""
    try:
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        before = text[: text.lower().find(escape)]
        place = f"line {before.count(chr(10)) + 1} column {len(before) - before.rfind(chr(10))}"
        raise InputError(
            "not JSON: half of a character", file=file, place=place, found=escape, expected="both of its halves"
        ) from None


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


def decode_yaml(data: bytes, file: str, lines: dict[str, int] | None = None) -> object:
    """Decode one YAML document into mappings, lists and :class:`Scalar` leaves.

    ``lines`` is filled with the line of every value by its JSON path. Raises :class:`InputError` with line and column
    for bad syntax, repeated keys, unknown tags and a second document.
    """
    # Imported here: a fifth of the package's import time, and runs configured by JSON or from Python need no YAML.
    from chakrasim.config.yaml_tree import decode

    return decode(data, file, lines)
