"""The traces as HTA sees them: one event table a rank, on one clock; and its tables' small rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.table.kernel_classes import Classes
from chakrasim.analysis.table.result import texts
from chakrasim.analysis.table.statistics import GroupStatistics
from chakrasim.analysis.table.traces import Traces, open_traces
from chakrasim.compat.hta.classes import hta_class_of_name, pinned_hta_class_of_name
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.table import HtaTable, Version, hta_table
from chakrasim.errors import InputError

Compat = Literal["hta", "hta-pinned"]
_VERSIONS: Final[dict[str, Version]] = {"hta": "new", "hta-pinned": "pinned"}

#: Calls that launch work, by version (1.4.2).
_PINNED_LAUNCHES: Final = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
)
MTIA_LAUNCH: Final = "runFunction - job_prep_and_submit_for_execution"
LAUNCHES: Final[dict[Version, tuple[str, ...]]] = {
    "pinned": _PINNED_LAUNCHES,
    "new": (
        *_PINNED_LAUNCHES,
        *("cuLaunchKernelEx", MTIA_LAUNCH, "hipLaunchKernel", "hipExtModuleLaunchKernel"),
        *("hipMemsetAsync", "hipMemcpyAsync", "hipMemcpyWithStream"),
    ),
}


@dataclass(frozen=True, eq=False)
class HtaRank:
    """One rank: its table, with ``ts`` counted from the earliest event of all ranks."""

    rank: int
    table: HtaTable

    @cached_property
    def device(self) -> NDArray[np.int64]:
        """int64[k]: positions of rows with a stream: what HTA takes for work of a device."""
        return np.flatnonzero(self.table.stream != -1)

    @cached_property
    def kind(self) -> Classes:
        """uint8[k]: the classes of ``device``."""
        rule = hta_class_of_name if self.table.version == "new" else pinned_hta_class_of_name
        return self.table.kineto.strings.each(self.table.name[self.device], rule, np.uint8)

    def of_kind(self, kind: int) -> NDArray[np.int64]:
        """Positions of device rows of a class."""
        chosen: NDArray[np.int64] = self.device[self.kind == kind]
        return chosen

    def spans(self, at: NDArray[np.int64]) -> tuple[Any, Any]:
        """Start and end (us) of these rows."""
        start = self.table.ts[at]
        return start, start + self.table.dur[at]

    def names(self, at: NDArray[np.int64]) -> tuple[str, ...]:
        """The names of these rows."""
        return texts(self.table.kineto.strings, self.table.name[at])

    @property
    def launching(self) -> NDArray[np.int64]:
        """Positions of launching calls with a partner."""
        table = self.table
        return np.flatnonzero(table.named(*LAUNCHES[table.version]) & (table.index_correlation > 0))


def hta_ranks(
    traces: Traces,
    compat: str = "hta",
    *,
    rank: int | None = None,
    step_filter: bool = True,
) -> list[HtaRank]:
    """The ranks' tables, without the last step (1.1.6), or with all that was recorded (``step_filter=False``: HTA's
    trace diff works on that).

    Raises InputError, and HtaFailure where HTA fails to load a trace.
    """
    if compat not in get_args(Compat):
        raise InputError(
            "there is no such tool to be compatible with", found=repr(compat), expected="hta or hta-pinned"
        )
    version = _VERSIONS[compat]
    found = [(one.rank, hta_table(one.kineto, version, step_filter=step_filter)) for one in open_traces(traces)]
    base = min((table.origin for _, table in found if len(table)), default=0)
    ranks = [
        HtaRank(number, replace(table, ts=table.ts + _same_type(table.origin - base, table))) for number, table in found
    ]
    chosen = [one for one in ranks if rank is None or one.rank == rank]
    if not chosen:
        raise InputError(f"there is no trace of rank {rank}", found=f"ranks {', '.join(str(n) for n, _ in found[:20])}")
    return chosen


def _same_type(shift: float, table: HtaTable) -> Any:
    return table.ts.dtype.type(shift)


def pandas_order(values: NDArray[Any], ascending: bool = True) -> NDArray[np.int64]:
    """The order in which pandas sorts by one column.

    Its sort is numpy's fastest one, which leaves the order of equal values to numpy's version and the processor. Some
    of HTA's figures hang on that order; these are then HTA's on the same machine, and in this mode alone.
    """
    if ascending:
        return np.argsort(values)
    return (len(values) - 1 - np.argsort(values[::-1]))[::-1]


def rounded(values: Any, digits: int) -> NDArray[np.float64]:
    """Rounded as pandas does."""
    return np.asarray(np.round(np.asarray(values, np.float64), digits), np.float64)


def describe(prefix: str, found: GroupStatistics) -> dict[str, Any]:
    """pandas' ``describe()`` of groups, as columns."""
    least, most = (np.where(found.count > 0, column.astype(np.float64), np.nan) for column in (found.least, found.most))
    figures = (
        found.count.astype(np.float64),
        found.mean,
        found.std,
        least,
        found.quartile_1,
        found.median,
        found.quartile_3,
        most,
    )
    names = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
    return {f"{prefix}{name}": column for name, column in zip(names, figures, strict=True)}


def table_of(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], text: Sequence[str] = ()) -> HtaResult:
    """A result from rows; columns in ``text`` hold texts, the others numbers."""
    lists = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    data = {
        column: tuple(values) if column in text else np.array(values) if values else np.zeros(0)
        for column, values in zip(columns, lists, strict=True)
    }
    return HtaResult(name, data)
