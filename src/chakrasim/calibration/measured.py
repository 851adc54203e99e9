"""Measured layer times, as files DEVICE/ORGANISATION/MODEL/tpN/layers.csv and attention.csv, plain or gzip."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from chakrasim.errors import InputError
from chakrasim.files.storage import read_unpacked
from chakrasim.machine.device.file import device_like
from chakrasim.notes import Notes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FILES: Final = ("layers.csv", "layers.csv.gz", "attention.csv", "attention.csv.gz")
_TOKENS = ("input", "tokens", "num_tokens", "m")
_LAYER = ("layer_name", "layer", "name")
_PARTS = ("tp_size", "tp", "num_tensor_parallel_workers")
_TIMES = {
    f"{name}{form}": factor
    for name in ("latency", "time", "duration")
    for unit, factor in (("ns", 1.0), ("us", 1e3), ("ms", 1e6))
    for form in (f"({unit})", f"_{unit}", f" ({unit})")
}
_PREFILL = {"time_stats.attn_prefill.median": 1e6, "p50_ns": 1.0}
_LARGEST = 2**31

PREFILL: Final = "attention.prefill"
_TP_FOLDER = re.compile(r"tp[-_]?([0-9]{1,6})", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Series:
    """Times of one layer of one model on one of ``parts`` devices, over numbers of tokens.

    ``tokens`` int64[n], ``keys`` int64[n] (of an attention; else the tokens), ``time_ns`` float64[n].
    """

    device: str
    model: str
    parts: int
    layer: str
    tokens: Ints
    keys: Ints
    time_ns: Floats
    file: str

    def __len__(self) -> int:
        return len(self.tokens)


def read_measured(folder: str | os.PathLike[str], notes: Notes) -> list[Series]:
    """All measured layers below a folder, which may be the whole tree or any folder of it, in order of their paths.

    Attention in attention.csv is the prefill (layer `PREFILL`); its decode rows are counted in a warning.
    Raises InputError for no files, and with file and line for what is no measurement.
    """
    root = Path(folder)
    if not os.fspath(folder) or not root.is_dir():
        message = "not a folder" if os.path.isfile(folder) else "no such folder"
        name = str(folder) or "''"
        raise InputError(message, file=name, expected="a folder DEVICE/ORGANISATION/MODEL/tpN/layers.csv")
    files = sorted(_files(root))
    if not files:
        raise InputError(
            "no measurements below this folder",
            file=str(folder),
            expected="files DEVICE/ORGANISATION/MODEL/tpN/layers.csv (or .csv.gz)",
        )
    found: list[Series] = []
    for path in files:
        if path.suffix == ".gz" and path.with_suffix("") in files:
            notes.warn(f"{path}: not read: it stands beside {path.with_suffix('').name}")
            continue
        found += _read_attention(path, notes) if path.name.startswith("attention") else _read_layers(path)
    return found


def _files(root: Path) -> Iterator[Path]:
    """Files of measurements below a folder, through links too; a folder that contains itself is gone into once."""
    seen: set[str] = set()
    for folder, inner, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        yield from (Path(folder, name) for name in names if name.lower() in FILES)


def _place(path: Path) -> tuple[str, str, int | None]:
    """Device, model and parts that a file's folders name: DEVICE/ORGANISATION/MODEL/tpN, of which a shipped device's
    name is found also where folders are missing."""
    folders = list(Path(os.path.abspath(path)).parts[:-1])
    parts = None
    match = _TP_FOLDER.fullmatch(folders[-1]) if folders else None
    if match:
        parts = int(match[1])
        folders.pop()
    for depth in range(len(folders) - 2, max(len(folders) - 5, -1), -1):
        if device_like(folders[depth]) is not None:
            return folders[depth], "/".join(folders[depth + 1 :]), parts
    device, organisation, model = ["", "", "", *folders][-3:]
    return device, f"{organisation}/{model}", parts


@dataclass(frozen=True)
class _Row:
    """A row of a CSV file with a header, and its line."""

    file: str
    line: int
    values: dict[str, str]

    def fail(self, message: str, found: object, expected: object, line: int = 0) -> NoReturn:
        place = f"line {line or self.line}"
        raise InputError(message, file=self.file, place=place, found=found, expected=expected)

    def column(self, names: Sequence[str], what: str) -> str:
        """The first of the names that is a column's."""
        for name in names:
            if name in self.values:
                return name
        self.fail(f"no column with {what}", ", ".join(self.values)[:120], " or ".join(names), line=1)

    def whole(self, column: str, low: int = 1) -> int:
        text = self.values[column].strip()
        if not text.isascii() or not text.isdigit() or len(text) > 12 or not low <= int(text) <= _LARGEST:
            self.fail(f"{column} is no number", repr(text[:40]), f"an integer of {low} or more")
        return int(text)

    def time_ns(self, column: str, factor: float) -> float:
        try:
            time_ns = float(self.values[column]) * factor
        except ValueError:
            time_ns = math.nan
        if not 0 < time_ns < 1e18:
            self.fail(f"{column} is no time", repr(self.values[column][:40]), "a number above 0")
        return time_ns


def _rows(path: Path) -> Iterator[_Row]:
    try:
        text = read_unpacked(str(path), expected="a CSV file", held=32).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not text", file=str(path), place=f"byte {error.start}", expected="a CSV file") from None
    reader = csv.reader(io.StringIO(text))
    try:
        header = [name.strip() for name in next(reader, [])]
        for row in filter(None, reader):
            read = _Row(str(path), reader.line_num, dict(zip(header, row, strict=False)))
            if len(row) != len(header):
                read.fail("the row has another number of fields than the header", len(row), len(header))
            yield read
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", file=str(path), place=f"line {reader.line_num}") from None


def _read_layers(path: Path) -> list[Series]:
    device, model, folder_parts = _place(path)
    collected: dict[tuple[str, int], list[tuple[int, float]]] = {}
    names: tuple[str, str, str] | None = None
    parts_column: str | None = None
    for row in _rows(path):
        if names is None:
            names = (
                row.column(_LAYER, "the layer"),
                row.column(_TOKENS, "the number of tokens"),
                row.column(tuple(_TIMES), "the time"),
            )
            parts_column = next((name for name in _PARTS if name in row.values), None)
            if parts_column is None and folder_parts is None:
                raise InputError(
                    "nothing says over how many devices the layers are split",
                    file=str(path),
                    expected="a folder tpN, or a column " + " or ".join(_PARTS),
                )
        layer, tokens = row.values[names[0]].strip(), row.whole(names[1])
        parts = row.whole(parts_column) if parts_column else int(folder_parts or 1)
        collected.setdefault((layer, parts), []).append((tokens, row.time_ns(names[2], _TIMES[names[2]])))
    if not collected:
        raise InputError("no rows", file=str(path))
    return [_series(device, model, parts, layer, rows, path) for (layer, parts), rows in collected.items()]


def _series(device: str, model: str, parts: int, layer: str, rows: Sequence[tuple[float, ...]], path: Path) -> Series:
    table = np.array(rows, np.float64)
    tokens = table[:, 0].astype(np.int64)
    keys = table[:, 1].astype(np.int64) if table.shape[1] == 3 else tokens
    return Series(device, model, parts, layer, tokens, keys, table[:, -1], str(path))


def _read_attention(path: Path, notes: Notes) -> list[Series]:
    device, model, folder_parts = _place(path)
    prefill: list[tuple[int, int, float]] = []
    others, time_column = 0, ""
    for row in _rows(path):
        time_column = time_column or row.column(tuple(_PREFILL), "the median time")
        for name in ("prefill_chunk_size", "kv_cache_size", "batch_size", "is_prefill"):
            row.column((name,), "the attention's " + name)
        keys, values = row.whole("kv_cache_size", low=0), row.values
        if values["is_prefill"].strip().lower() not in ("true", "1") or values["batch_size"].strip() != "1" or not keys:
            others += 1
            continue
        chunk = row.whole("prefill_chunk_size")
        prefill.append((chunk, keys, row.time_ns(time_column, _PREFILL[time_column])))
    if others:
        notes.warn(f"{path}: {others:,} rows are not used: decoding, several sequences, or no keys")
    return [_series(device, model, folder_parts or 1, PREFILL, prefill, path)] if prefill else []
