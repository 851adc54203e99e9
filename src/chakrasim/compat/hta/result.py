"""A table as HTA gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chakrasim.analysis.table.result import Column, Result


@dataclass(frozen=True, eq=False)
class HtaResult(Result):
    """A table with the columns, names and units (us) of HTA. ``name`` is its subject."""

    AS_IT_IS: ClassVar[bool] = True
    name: str
    data: dict[str, Column]

    def columns(self) -> dict[str, Column]:
        """The columns by HTA's names."""
        return self.data
