"""Folders of measurements: curves.csv, points.csv and machines.csv, each plain or gzip."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from chakrasim.calibration.measurements.csv_rows import BLANKS, CsvTable, read_csv
from chakrasim.calibration.measurements.curves import (
    MOST_RANKS,
    Bools,
    Curve,
    MachineRow,
    Measurements,
    Points,
    with_points,
)
from chakrasim.calibration.measurements.names import kind_of, spelled
from chakrasim.errors import InputError, shown
from chakrasim.notes import Notes
from chakrasim.text.amounts import first_of

EXPECTED: Final = "a folder with curves.csv, points.csv and machines.csv"
CURVE_COLUMNS: Final = ("curve", "machine", "nranks", "collective")
POINT_COLUMNS: Final = ("curve", "place", "bytes")
MACHINE_COLUMNS: Final = ("machine",)
_CURVE_TEXTS: Final = ("source", "machine", "gpu", "library", "version", "algo", "proto", "env", "dtype")
_CURVE_OTHERS: Final = ("nodes", "gpus_per_node", "n_points", "bytes_min", "bytes_max", "max_repeats")
_MEASURED: Final = ("time_us", "time_lo_us", "time_hi_us", "n_meas", "algbw_GBps", "busbw_GBps")
_MOST_REPEATS: Final = 1_000_000_000
_PLACES: Final = {"out": False, "in": True, "out-of-place": False, "in-place": True}
_MACHINE_TEXTS: Final = ("gpu", "intra_node", "network", "cpu", "basis")
_MACHINE_WHOLE: Final = ("gpus_per_node", "nics_per_node")
_MACHINE_AMOUNTS: Final = ("intra_GBps_per_gpu_per_dir", "nic_Gbps", "node_GBps_per_dir")


@dataclass(frozen=True)
class Holdout:
    """Points that are held out: whole curves, and sizes of curves, which are held out at both places."""

    curves: frozenset[str]
    sizes: frozenset[tuple[str, int]]

    def hides(self, curve: str, size_bytes: int) -> bool:
        """Whether a point is held out."""
        return curve in self.curves or (curve, size_bytes) in self.sizes

    def rows(self, curve: Curve) -> Bools:
        """bool[n]: the points of a curve that are held out."""
        return np.array([self.hides(curve.name, size) for size in curve.bytes.tolist()], np.bool_)

    def hidden_in(self, measured: Measurements) -> Measurements:
        """The same without what was measured of the points held out."""
        return replace(measured, curves=tuple(curve.without_times(self.rows(curve)) for curve in measured.curves))


def read_holdout(path: str | os.PathLike[str]) -> Holdout:
    """The points that a CSV file with the columns curve, place, bytes holds out; no place: both, no bytes: all."""
    table = read_csv(os.fspath(path), ("curve",), "a CSV file with the columns curve, place, bytes")
    curves, sizes = set(), set()
    places, texts = table.texts("place"), table.texts("bytes")
    for row, curve in enumerate(table.texts("curve")):
        if places[row]:
            _place(table, row, places[row])
        if texts[row].lower() in BLANKS:
            curves.add(curve)
        else:
            sizes.add((curve, table.whole(row, "bytes", texts[row], 0)))
    return Holdout(frozenset(curves), frozenset(sizes))


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a folder as they stand: curves without points, machines by name, points in the file's order.

    ``unknown``: how many rows are of curves that curves.csv does not have, by the curve's name; they and those of size
    0 are not among the points.
    """

    curves: tuple[Curve, ...]
    machines: Mapping[str, MachineRow]
    points: Points
    points_file: str
    unknown: Mapping[str, int]


def read_folder(
    folder: str | os.PathLike[str],
    notes: Notes | None = None,
    *,
    holdout: Holdout | None = None,
    times: bool = True,
) -> Measurements:
    """All that was measured.

    Columns that are not known are noted, and those that follow from others (bandwidths, numbers of points) not read. A
    point without a time has NaN. Points that were measured again are pooled, and points of curves that are not in
    curves.csv, and of size 0, left out, each with a warning that counts them.

    ``holdout``: points of which no measured column is read; ``times=False``: none is read of any point.
    Raises InputError with file, line and column for what is no such value, and if no points are left.
    """
    notes = Notes() if notes is None else notes
    rows = read_rows(folder, notes, holdout=holdout, times=times)
    complete, again = with_points(rows.curves, rows.points)
    if again:
        notes.warn(f"{rows.points_file}: {again:,} points were measured again: the median of each is taken")
    bare = [curve.name for curve in complete if not len(curve)]
    if bare:
        notes.note(f"{rows.points_file}: no points of {len(bare):,} curves: {shown(first_of(bare, 3))}")
    return Measurements(complete, rows.machines)


def read_rows(
    folder: str | os.PathLike[str],
    notes: Notes | None = None,
    *,
    holdout: Holdout | None = None,
    times: bool = True,
) -> Rows:
    """The same, row by row: what was measured again is not pooled."""
    notes = Notes() if notes is None else notes
    root = Path(folder)
    if not os.fspath(folder) or not root.is_dir():
        message = "this is no folder" if os.path.exists(folder) else "there is no such folder"
        raise InputError(message, file=os.fspath(folder) or "''", expected=EXPECTED)
    curves = tuple(_read_curves(_file(root, "curves.csv"), notes))
    points_file = _file(root, "points.csv")
    index = {curve.name: at for at, curve in enumerate(curves)}
    points, unknown = _read_points(points_file, index, notes, holdout, times)
    if not len(points):
        raise InputError("no points of the curves", file=points_file, expected="rows of curves in curves.csv")
    return Rows(curves, _machines_of(curves, root, notes), points, points_file, unknown)


def _file(root: Path, name: str) -> str:
    for path in (root / name, root / f"{name}.gz"):
        if path.exists():
            return str(path)
    raise InputError(f"the folder has no {name}", file=str(root), expected=EXPECTED)


def _tell_unknown(table: CsvTable, known: tuple[str, ...], notes: Notes) -> None:
    unknown = [name for name in table.header if name not in known]
    if unknown:
        notes.note(f"{table.file}: columns that are not used: {first_of(unknown)}")


def _read_curves(path: str, notes: Notes) -> list[Curve]:
    table = read_csv(path, CURVE_COLUMNS, "a CSV file with a row for each curve")
    _tell_unknown(table, (*CURVE_COLUMNS, *_CURVE_TEXTS, *_CURVE_OTHERS), notes)
    texts = {name: table.texts(name) for name in (*CURVE_COLUMNS, *_CURVE_TEXTS, "nodes", "gpus_per_node")}
    curves: list[Curve] = []
    seen: dict[str, int] = {}
    for row, name in enumerate(texts["curve"]):
        if name in seen and table.rows[seen[name]] != table.rows[row]:
            table.fail(
                row, "curve", f"another curve has this name, on line {table.lines[seen[name]]}", name, "new name"
            )
        if name not in seen:
            seen[name] = row
            curves.append(curve_of(table, row, {key: column[row] for key, column in texts.items()}, notes))
    if len(seen) < len(table.rows):
        notes.warn(f"{path}: {len(table.rows) - len(seen):,} rows are there twice")
    return curves


def curve_of(table: CsvTable, row: int, texts: Mapping[str, str], notes: Notes) -> Curve:
    """The curve, without points, that the values of a row describe."""
    nranks, nodes, gpus = _ranks(table, row, texts, notes)
    collective = spelled(texts["collective"])
    if kind_of(collective) is None:
        notes.warn(f"{table.file}: no such collective is known: {collective[:40]!r}")
    given: dict[str, Any] = {name: texts[name] for name in _CURVE_TEXTS}
    given |= {name: given[name] or "auto" for name in ("algo", "proto")}
    return Curve(texts["curve"], nodes=nodes, gpus_per_node=gpus, nranks=nranks, collective=collective, **given)


def _ranks(table: CsvTable, row: int, texts: Mapping[str, str], notes: Notes) -> tuple[int, int, int]:
    """Ranks, nodes, and GPUs of a node. What is blank of the last two follows from the others."""
    names = ("nranks", "nodes", "gpus_per_node")
    nranks, nodes, gpus = (
        0 if name != "nranks" and texts[name].lower() in BLANKS else table.whole(row, name, texts[name], 1, MOST_RANKS)
        for name in names
    )
    if not nodes:
        nodes = -(-nranks // (gpus or nranks))
        if not gpus:
            notes.warn(f"{table.file}: nothing says on how many nodes some of the ranks were; one is taken")
    if nranks < nodes:
        table.fail(row, "nodes", "there are more nodes than ranks", nodes, f"at most {nranks}")
    each = -(-nranks // nodes)
    if 0 < gpus < each:
        table.fail(row, "gpus_per_node", f"too few for {nranks} ranks on {nodes} nodes", gpus, f"at least {each}")
    return nranks, nodes, gpus or each


def _place(table: CsvTable, row: int, text: str) -> bool:
    place = _PLACES.get(text) if text in _PLACES else _PLACES.get(text.lower().replace("_", "-"))
    if place is None:
        table.fail(row, "place", "this is no place", text, "out or in")
    return place


def _read_points(
    path: str, index: Mapping[str, int], notes: Notes, holdout: Holdout | None, times: bool
) -> tuple[Points, Mapping[str, int]]:
    table = read_csv(path, POINT_COLUMNS, "a CSV file with a row for each point")
    _tell_unknown(table, (*POINT_COLUMNS, *_MEASURED), notes)
    if times and "time_us" not in table.header:
        notes.warn(f"{path}: there are no times: no column time_us")
    lost = Counter(name for name in table.texts("curve") if name not in index)
    if lost:
        kinds = shown(first_of(sorted(lost), 3))
        notes.warn(f"{path}: {lost.total():,} points are of curves that curves.csv does not have: {kinds}")
    points = points_of(
        table,
        lambda row, name: index.get(name, -1),
        notes,
        lambda curve, size: holdout is not None and holdout.hides(curve, size),
        times,
    )
    return points, lost


def points_of(
    table: CsvTable,
    curve_at: Callable[[int, str], int],
    notes: Notes,
    hidden: Callable[[str, int], bool],
    times: bool = True,
) -> Points:
    """The points in the rows of a table; ``curve_at``: the index of a row's curve, below 0 where it has none."""
    names, places, sizes = (table.texts(name) for name in POINT_COLUMNS)
    measured = [table.texts(name) for name in _MEASURED[:4]]
    whole: list[tuple[int, bool, int, int]] = []
    parts: list[tuple[float, float, float]] = []
    empty = 0
    for row, name in enumerate(names):
        at = curve_at(row, name)
        if at < 0:
            continue
        place, size = _place(table, row, places[row]), table.whole(row, "bytes", sizes[row], 0)
        if not size:
            empty += 1
            continue
        time = low = high = math.nan
        repeats = 0
        if times and not hidden(name, size):
            time, low, high, repeats = _measured(table, row, [column[row] for column in measured])
        whole.append((at, place, size, repeats))
        parts.append((time, low, high))
    if empty:
        notes.warn(f"{table.file}: {empty:,} points of size 0 are left out")
    ints = np.array(whole, np.int64).reshape(-1, 4)
    floats = np.array(parts, np.float64).reshape(-1, 3)
    return Points(
        ints[:, 0], ints[:, 1].astype(np.bool_), ints[:, 2], floats[:, 0], floats[:, 1], floats[:, 2], ints[:, 3]
    )


def _measured(table: CsvTable, row: int, texts: list[str]) -> tuple[float, float, float, int]:
    """Time, low, high and repeats of a row; nothing of them is known without a time."""
    time, low, high = (table.amount(row, name, text) for name, text in zip(_MEASURED, texts[:3], strict=False))
    if high < low:
        table.fail(row, "time_hi_us", "the high time is below the low one", texts[2], f"at least {texts[1]}")
    repeats = 1 if texts[3].lower() in BLANKS else table.whole(row, "n_meas", texts[3], 1, _MOST_REPEATS)
    return (time, low, high, repeats) if time > 0 else (math.nan, math.nan, math.nan, 0)


def _machines_of(curves: tuple[Curve, ...], root: Path, notes: Notes) -> dict[str, MachineRow]:
    try:
        path = _file(root, "machines.csv")
    except InputError:
        notes.warn(f"{root}: there is no machines.csv: nothing is known of the machines")
        return {}
    machines = read_machines(path, notes)
    lost = sorted({curve.machine for curve in curves} - set(machines))
    if lost:
        notes.warn(f"{path}: no rows of {len(lost):,} machines that have curves: {shown(first_of(lost, 5))}")
    return machines


def read_machines(path: str, notes: Notes) -> dict[str, MachineRow]:
    """The machines of a CSV file by name."""
    table = read_csv(path, MACHINE_COLUMNS, "a CSV file with a row for each machine")
    _tell_unknown(table, (*MACHINE_COLUMNS, *_MACHINE_TEXTS, *_MACHINE_WHOLE, *_MACHINE_AMOUNTS), notes)
    columns = {name: table.texts(name) for name in (*_MACHINE_TEXTS, *_MACHINE_WHOLE, *_MACHINE_AMOUNTS)}
    machines: dict[str, MachineRow] = {}
    lines: dict[str, int] = {}
    for row, name in enumerate(table.texts("machine")):
        read = _machine(table, row, name, {key: column[row] for key, column in columns.items()})
        if machines.get(name, read) != read:
            table.fail(row, "machine", f"another machine has this name, on line {lines[name]}", name, "a new name")
        lines.setdefault(name, table.lines[row])
        machines[name] = read
    return machines


def _machine(table: CsvTable, row: int, name: str, texts: Mapping[str, str]) -> MachineRow:
    given: dict[str, Any] = {column: texts[column] for column in _MACHINE_TEXTS}
    for column in (*_MACHINE_WHOLE, *_MACHINE_AMOUNTS):
        text = texts[column].removeprefix("~").strip()
        if text.lower() in BLANKS:
            given[column] = None
        elif column in _MACHINE_WHOLE:
            given[column] = table.whole(row, column, text, 0, MOST_RANKS)
        else:
            given[column] = table.amount(row, column, text, positive=False)
    about = tuple(column for column in (*_MACHINE_WHOLE, *_MACHINE_AMOUNTS) if texts[column].startswith("~"))
    return MachineRow(name, approximate=about, **given)
