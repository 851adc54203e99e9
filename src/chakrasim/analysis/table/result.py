"""What every analysis returns: a table of named columns, for programs, data frames, files and people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from chakrasim.text.amounts import number_text, plural
from chakrasim.text.layout import Section
from chakrasim.text.shown import Shown, data_frame
from chakrasim.trace.chakra.graph import StringTable

if TYPE_CHECKING:
    import pandas

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]
Texts = tuple[str, ...]
Column = Any
"""One of these; all columns of a result have the same length."""

MOST_SHOWN: Final = 10
"""Rows that a notebook shows."""
MOST_NAMED: Final = 6
"""Columns that Python's prompt names."""

_TYPES = {"Ints": np.int64, "Reals": np.float64, "Flags": np.bool_}


@dataclass(frozen=True, eq=False)
class Result(Shown):
    """Base of the results: the columns are the fields that are arrays or tuples of texts, in their order.

    ``notes`` say what was left out, guessed or is worth knowing.
    """

    TITLE: ClassVar[str] = ""
    NOT_IN_TABLES: ClassVar[tuple[str, ...]] = ()
    """Columns that the tables for people leave out: sums of others."""
    AS_IT_IS: ClassVar[bool] = False
    """Whether tables for people show names and figures as they stand: those of another tool."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @classmethod
    def of_rows(cls, notes: Iterable[str], rows: Sequence[Sequence[Any]]) -> Self:
        """A result from its rows, each with a value for every column in order."""
        kinds = {f.name: str(f.type) for f in fields(cls) if f.name != "notes"}
        values = list(zip(*rows, strict=True)) or [()] * len(kinds)
        columns: dict[str, Column] = dict(zip(kinds, values, strict=True))
        columns |= {name: np.array(columns[name], _TYPES[kind]) for name, kind in kinds.items() if kind in _TYPES}
        return cls(**columns, notes=tuple(notes))

    @classmethod
    def join(cls, notes: Iterable[str], parts: Sequence[Self]) -> Self:
        """The rows of several results, one after the other."""
        columns: dict[str, Column] = {}
        for f in fields(cls):
            pieces = [getattr(part, f.name) for part in parts]
            if f.name != "notes":
                kind = _TYPES.get(str(f.type))
                columns[f.name] = tuple(chain.from_iterable(pieces)) if kind is None else stack(pieces, kind)
        return cls(**columns, notes=tuple(notes))

    def columns(self) -> dict[str, Column]:
        """The columns by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "notes"}

    def __len__(self) -> int:
        return len(next(iter(self.columns().values()), ()))

    def _in_short(self) -> dict[str, str]:
        notes = {"notes": f"{len(self.notes):,}"} if self.notes else {}
        names = [*self.columns()]
        more = " ..." if len(names) > MOST_NAMED else ""
        return {"rows": f"{len(self):,}", "columns": " ".join(names[:MOST_NAMED]) + more} | notes

    def _tables(self) -> list[Section]:
        columns = {name: column for name, column in self.columns().items() if name not in self.NOT_IN_TABLES}
        shown = {name: _plain(column[:MOST_SHOWN]) for name, column in columns.items()}
        left = tuple(at for at, cells in enumerate(shown.values()) if any(isinstance(cell, str) for cell in cells))
        rows = tuple(tuple(map(_cell, row)) for row in zip(*shown.values(), strict=True))
        more = (f"... and {plural(len(self) - len(rows), 'row')} more",) if len(rows) < len(self) else ()
        return [Section(self.TITLE or type(self).__name__, tuple(shown), rows, left, (*more, *self.notes))]

    def records(self) -> list[dict[str, Any]]:
        """One mapping a row, of Python's types; None where a figure does not exist (0/0, nothing to count)."""
        lists = [_plain(column) for column in self.columns().values()]
        names = list(self.columns())
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]

    def to_mapping(self) -> dict[str, Any]:
        """The result as JSON has it."""
        rows = self.records()
        return {"columns": list(self.columns()), "n": len(rows), "notes": list(self.notes), "records": rows}

    def to_json(self) -> str:
        """The result as JSON text; None (null) where a figure does not exist."""
        return json.dumps(self.to_mapping(), indent=1) + "\n"

    def to_frame(self) -> pandas.DataFrame:
        """The result as a data frame. Raises InputError where pandas is not installed."""
        data = {k: list(v) if isinstance(v, tuple) else v for k, v in self.columns().items()}
        return data_frame(data, list(data))


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return number_text(value)
    return f"{value:,}" if type(value) is int else str(value)


def _plain(column: Column) -> list[Any]:
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return [value if np.isfinite(value) else None for value in column.tolist()]
    listed: list[Any] = column.tolist() if isinstance(column, np.ndarray) else list(column)
    return listed


def percentage(part: Any, whole: Any) -> Any:
    """float64: 100 * part / whole; NaN ("n/a" in tables, null in JSON) where there is no whole."""
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    result = np.full(np.broadcast(part, whole).shape, np.nan)
    np.divide(100.0 * part, whole, out=result, where=whole != 0)
    return result


def stack(parts: Sequence[Any], dtype: Any = np.int64) -> Any:
    """The parts in one array, also if there are none."""
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype, copy=False)


def texts(strings: StringTable, ids: Any) -> tuple[str, ...]:
    """The string of each index, each distinct one decoded once; "" for negative ones."""
    distinct, inverse = np.unique(np.asarray(ids), return_inverse=True)
    decoded = [strings[i] if i >= 0 else "" for i in distinct.tolist()]
    return tuple(map(decoded.__getitem__, inverse.tolist()))
