"""How often a loop comes in each iteration of the one around it where it comes as often as that, but some turns later,
and all that is left at the end: backward passes behind forward passes of a pipeline.
"""

from __future__ import annotations

import numpy as np

from chakrasim.synthesis import expressions
from chakrasim.synthesis.expressions import Expression, Ints
from chakrasim.synthesis.search.levels import Known, Table, find

_ONE: Expression = ["const", 1, 1]


def lag_law(wanted: Ints, loop: int, table: Table, known: Known) -> Expression | None:
    """The law of such counts, int64[n], in the iterations of a loop; None for others."""
    columns = table.columns(2)
    if f"count of {loop}" not in columns:
        return None
    index, count = columns[f"index of {loop}"], columns[f"count of {loop}"]
    lag = _lags(wanted, index)
    if (_later(lag, index, count) != wanted).any():
        return None
    free = np.flatnonzero(lag < count - 1)
    if not len(free):
        return None
    law = find(lag[free], table.some(free), known)
    if law is None:
        return None
    short = expressions.value(law, columns, len(wanted)) < np.minimum(lag, count - 1)
    if short.any():  # where all come at the end, any longer lag says the same: those rows do not ask
        sure = np.flatnonzero(short | (lag < count - 1))
        whole = find(short[sure].astype(np.int64), table.some(sure), known)
        if whole is None:
            return None
        law = ["max", law, ["*", whole, ["column", f"count of {loop}"]]]
    said = _said(law, loop)
    return said if (expressions.value(said, columns, len(wanted)) == wanted).all() else None


def _lags(wanted: Ints, index: Ints) -> Ints:
    """int64[n]: how many iterations of its run come before the first that has any."""
    begins = np.flatnonzero(index == 0)
    ends = np.append(begins[1:], len(index))
    found = np.zeros(len(index), np.int64)
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        some = np.flatnonzero(wanted[begin:end])
        found[begin:end] = some[0] if len(some) else end - begin
    return found


def _later(lag: Ints, index: Ints, count: Ints) -> Ints:
    plain = np.clip(index + 1 - lag, 0, 1)
    return np.where(index == count - 1, np.minimum(lag, index) + 1, plain)


def _said(lag: Expression, loop: int) -> Expression:
    """The same as an expression."""
    index: Expression = ["column", f"index of {loop}"]
    plain = ["min", _ONE, ["max", ["const", 0, 1], ["-", ["+", index, _ONE], lag]]]
    return ["if", [f"behind in {loop}", "==", "", 0], ["+", ["min", lag, index], _ONE], plain]
