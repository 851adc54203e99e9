"""Tables of measured training steps, one row a step: what ran where, apart from how long it took."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chakrasim.calibration.measurements.csv_rows import CsvTable, read_csv

MEASURED: Final = ("step_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu_pct")
"""Columns that follow from the measured time, and are no part of a description."""
_UNREAD: Final = frozenset((*MEASURED, "notes"))
NEEDED: Final = (
    "id", "gpu", "gpus", "seq_len", "global_batch", "micro_batch", "dp", "tp", "pp", "precision", "recompute",
    "hidden", "layers", "heads", "ffn", "vocab",
)  # fmt: skip
"""Columns that a table must have; what others leave open is assumed."""


@dataclass(frozen=True)
class StepRow:
    """One training step.

    Attributes
    ----------
    id: its name in the table.
    place: the line of the file that it ends on.
    columns: what describes it, by column, as the table has it; measured columns and notes are not among them.
    """

    id: str
    place: str
    columns: Mapping[str, str]

    def get(self, column: str, default: str = "") -> str:
        """A column; ``default`` where it is blank or missing."""
        return self.columns.get(column, "") or default

    def is_set(self, column: str) -> bool:
        """Whether a column says yes: ``1`` or ``true``."""
        return self.get(column).lower() in ("1", "true", "yes")


@dataclass(frozen=True)
class StepTable:
    """The rows of a table, and by their number the measured seconds (NaN: blank)."""

    source: str
    rows: tuple[StepRow, ...]
    measured_s: tuple[float, ...]


def read_steps(path: str | os.PathLike[str]) -> StepTable:
    """The steps of a CSV file, plain or gzip, with the columns of docs/reference-steps.md.

    Raises InputError for what is no such table, for two rows of one id, and for times that are none.
    """
    table = read_csv(os.fspath(path), NEEDED, "a table of training steps, with a header")
    columns = {name: table.texts(name) for name in table.header if name and name not in _UNREAD}
    rows, known = [], set()
    for at, name in enumerate(columns["id"]):
        if not name or name in known:
            table.fail(at, "id", "ids must be there, each once", name, "a name of its own for each row")
        known.add(name)
        values = {column: texts[at] for column, texts in columns.items()}
        rows.append(StepRow(name, f"line {table.lines[at]}", values))
    return StepTable(table.file, tuple(rows), _measured(table))


def _measured(table: CsvTable) -> tuple[float, ...]:
    texts = table.texts("step_time_s")
    found = (table.amount(at, "step_time_s", text) if text else math.nan for at, text in enumerate(texts))
    return tuple(found)
