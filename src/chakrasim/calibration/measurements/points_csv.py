"""Single CSV files of points: columns as in a folder's points.csv and curves.csv, or as rccl-tests (-Z csv) writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from chakrasim.calibration.measurements.csv_folder import curve_of, points_of
from chakrasim.calibration.measurements.csv_rows import CsvTable, table_of
from chakrasim.calibration.measurements.curves import Curve, Measurements, with_points
from chakrasim.calibration.measurements.names import kind_of
from chakrasim.calibration.measurements.runs import stem_of, unused
from chakrasim.errors import InputError
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of

EXPECTED: Final = "a CSV file with the columns collective, nranks, bytes, time_us"
_NEEDED: Final = ("collective", "nranks", "bytes", "time_us")
_HEAD: Final = (
    *("curve", "source", "machine", "gpu", "nodes", "gpus_per_node", "nranks", "library", "version", "collective"),
    *("algo", "proto", "env", "dtype"),
)
_POINT: Final = ("place", "bytes", "time_us", "time_lo_us", "time_hi_us", "n_meas", "algbw_GBps", "busbw_GBps")
_OTHER_NAMES: Final = {
    "size": "bytes",
    "size_bytes": "bytes",
    "ranks": "nranks",
    "type": "dtype",
    "name": "collective",
    "time": "time_us",
    "inplace": "place",
    "in_place": "place",
    "rankspernode": "gpus_per_node",
}
_RCCL: Final = ("numcycle", "collective", "ranks", "rankspernode", "gpusperrank", "size", "type", "redop", "inplace")


def read_points_csv(path: str, text: str, notes: Notes) -> Measurements:
    """The curves in a file. Rows of one ``curve``, or alike in all that describes one, are a curve's.

    Raises InputError with file, line and column for what is no such value.
    """
    table = _renamed(table_of(path, _repaired(text), ()))
    if "curve" in table.header and not {"collective", "nranks"} & set(table.header):
        raise InputError(
            "this CSV file alone does not say what was measured",
            file=path,
            found=", ".join(table.header)[:160],
            expected=EXPECTED,
            remedy="name the folder with curves.csv and points.csv",
        )
    table.require(*_NEEDED)
    unused_columns = [name for name in table.header if name not in (*_HEAD, *_POINT)]
    if unused_columns:
        notes.note(f"{path}: columns that are not used: {first_of(unused_columns)}")
    texts = {name: table.texts(name) for name in _HEAD}
    curves: list[Curve] = []
    index: dict[tuple[str, ...], int] = {}
    at_row: list[int] = []
    names: set[str] = set()
    for row in range(len(table.rows)):
        key = tuple(column[row] for column in texts.values())
        if key not in index:
            index[key] = len(curves)
            curves.append(_curve(table, row, dict(zip(texts, key, strict=True)), names, notes))
        at_row.append(index[key])
    points = points_of(table, lambda row, _: at_row[row], notes, lambda *_: False)
    if not len(points):
        raise InputError("there are no points in this file", file=path, expected=EXPECTED)
    complete, again = with_points(curves, points)
    if again:
        notes.warn(f"{path}: {again:,} points were measured again: the median of each is taken")
    return Measurements(complete, {})


def _curve(table: CsvTable, row: int, texts: Mapping[str, str], names: set[str], notes: Notes) -> Curve:
    given = dict(texts)
    given["source"] = given["source"] or os.path.basename(table.file)
    curve = curve_of(table, row, given, notes)
    if kind_of(curve.collective) is None:
        table.fail(row, "collective", "no such collective is known", texts["collective"], "such as all_reduce")
    name = texts["curve"] or f"{stem_of(table.file)}-{curve.collective}-N{curve.nodes}-n{curve.nranks}"
    return replace(curve, name=unused(name, names))


def _repaired(text: str) -> str:
    """rccl-tests once wrote the nodes without their column: the header gets it."""
    lines = text.split("\n", 2)
    if len(lines) > 1 and tuple(lines[0].strip().lower().split(",")[:9]) == _RCCL:
        if lines[1].count(",") == lines[0].count(",") + 1:
            lines[0] = lines[0].replace(",ranks,", ",nodes,ranks,")
        return "\n".join(lines)
    return text


def _renamed(table: CsvTable) -> CsvTable:
    """The table with the names of points.csv, and places in words."""
    header = tuple(_OTHER_NAMES.get(name.lower(), name) if name not in _HEAD else name for name in table.header)
    rows = table.rows
    if "place" in header:
        at = header.index("place")
        words = {"0": "out", "1": "in", "false": "out", "true": "in"}
        rows = [[*row[:at], words.get(row[at].strip().lower(), row[at]), *row[at + 1 :]] for row in rows]
    else:
        header, rows = (*header, "place"), [[*row, "out"] for row in rows]
    return CsvTable(table.file, header, rows, table.lines)
