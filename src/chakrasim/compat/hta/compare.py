"""HTA's trace diff and stragglers (1.3.12, 1.3.14), figure for figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from chakrasim.analysis.compare import short_name
from chakrasim.analysis.table.statistics import group_keys
from chakrasim.compat.hta.ranks import HtaRank, table_of
from chakrasim.compat.hta.result import HtaResult
from chakrasim.compat.hta.table import HtaFailure

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_LABELS: Final = ("control", "test")


def hta_compare(
    control: Sequence[HtaRank],
    test: Sequence[HtaRank],
    *,
    iterations: tuple[int | None, int | None] = (None, None),
    side: str = "all",
    short_names: bool = False,
) -> HtaResult:
    """Counts and durations by name of the first rank and iteration of each, or of the iterations named.

    Raises HtaFailure where a trace has no such iteration.
    """
    tables = []
    for ranks, iteration in zip((control, test), iterations, strict=True):
        tables.append(_ops(ranks[0], _iteration(ranks, iteration), side, short_names))
    rows = []
    for name in dict.fromkeys([*sorted(tables[0]), *sorted(tables[1])]):
        (count_a, time_a), (count_b, time_b) = (table.get(name, (0, 0)) for table in tables)
        change = "+" if count_b > count_a else "-" if count_b < count_a else "="
        figures = (count_a, time_a, count_b, time_b, count_b - count_a, time_b - time_a)
        rows.append((name, *map(float, figures), change))
    sides = [f"{label}_{what}" for label in _LABELS for what in ("counts", "total_duration")]
    columns = ("name", *sides, "diff_counts", "diff_duration", "counts_change_categories")
    return table_of("trace_diff", columns, rows, ("name", "counts_change_categories"))


def _iteration(ranks: Sequence[HtaRank], iteration: int | None) -> int:
    known = set()
    for one in ranks:
        for symbol in one.table.symbols_with("ProfilerStep").tolist():
            text = one.table.kineto.strings[symbol]
            if text.startswith("ProfilerStep"):
                try:
                    known.add(int(text.replace("ProfilerStep#", "")))
                except ValueError:
                    raise HtaFailure("ValueError", f"{text!r} has no number") from None
    if not known or (iteration is not None and iteration not in known):
        raise HtaFailure("ValueError", f"there is no iteration {iteration if known else ''}".rstrip())
    return min(known) if iteration is None else iteration


def _ops(one: HtaRank, iteration: int, side: str, short: bool) -> dict[str, tuple[Any, Any]]:
    table = one.table
    chosen = table.iteration == iteration
    if side != "all":
        chosen = chosen & ((table.stream == -1) if side == "host" else (table.stream != -1))
    at = np.flatnonzero(chosen)
    found: dict[str, tuple[Any, Any]] = {}
    for name, length in zip(one.names(at), table.dur[at].tolist(), strict=True):
        key = short_name(name) if short else name
        count, total = found.get(key, (0, 0))
        found[key] = count + 1, total + length
    return found


def hta_profiler_steps(ranks: Sequence[HtaRank]) -> list[int]:
    """The numbers of the steps in the tables."""
    steps = set()
    for one in ranks:
        for symbol in np.unique(one.table.name).tolist():
            match = _STEP.match(one.table.kineto.strings[symbol])
            if match is not None:
                steps.add(int(match[1]))
    return sorted(steps)


def hta_stragglers(ranks: Sequence[HtaRank], num_candidates: int = 2, steps: Sequence[int] | None = None) -> list[int]:
    """The ranks that most often start late with the collective whose length differs most. Raises HtaFailure."""
    wanted = max(num_candidates, 1)
    known = hta_profiler_steps(ranks)
    chosen = known if steps is None else [step for step in steps if step in known]
    if not chosen:
        raise HtaFailure("ValueError", f"invalid value for argument: profiler_steps={steps}; available: {known}")
    rank, stream, step, name, start = _candidates(ranks, chosen)
    late: dict[int, int] = {}
    for number in np.unique(step).tolist():
        mine = np.flatnonzero(step == number)
        if len(mine) < wanted:
            raise HtaFailure("IndexError", f"iteration {number} has {len(mine)} ranks")
        limit = np.sort(start[mine])[-wanted]
        for i in mine.tolist():
            late[int(rank[i])] = late.get(int(rank[i]), 0) + int(start[i] >= limit)
    del stream, name
    return [number for number, _ in sorted(sorted(late.items()), key=lambda item: -item[1])[:wanted]]


def _candidates(ranks: Sequence[HtaRank], steps: Sequence[int]) -> tuple[NDArray[Any], ...]:
    """Rank, stream, iteration, name and start of the last long calls of the stream and name that vary most."""
    names: dict[str, int] = {}
    columns: list[tuple[NDArray[Any], ...]] = []
    for one in ranks:
        at = np.flatnonzero(np.isin(one.table.iteration, steps))
        code = np.array([names.setdefault(name, len(names)) for name in one.names(at)], np.int64)
        table = one.table
        columns.append(
            (np.full(len(at), one.rank), table.stream[at], table.iteration[at], code, table.ts[at], table.dur[at])
        )
    rank, stream, step, name, ts, dur = (np.concatenate(column) for column in zip(*columns, strict=True))
    if not len(ts):
        raise HtaFailure("ZeroDivisionError", "no events lie in the iterations")
    mean_us = ((ts + dur).max() - ts.min()) / len(np.unique(step))
    nccl = np.array([text.startswith("ncclKernel") for text in names], np.bool_)[name]
    long = np.flatnonzero((stream > 0) & (step > 0) & (dur >= mean_us * 0.01) & nccl)
    if not len(long):
        raise HtaFailure("ValueError", "attempt to get argmax of an empty sequence")
    group, _ = group_keys(*(column[long] for column in (rank, stream, step, name)))
    last = np.zeros(group.max() + 1, np.int64)
    np.maximum.at(last, group, np.arange(len(long)))
    at = long[last]
    best = _most_varied(stream[at], step[at], name[at], dur[at] / mean_us, list(names))
    at = at[(stream[at] == best[0]) & (name[at] == best[1])]
    return rank[at], stream[at], step[at], name[at], (ts[at] - ts.min()) / mean_us


def _most_varied(
    stream: NDArray[Any], step: NDArray[Any], name: NDArray[Any], length: NDArray[Any], names: list[str]
) -> tuple[int, int]:
    """Stream and name with the largest mean over iterations of the deviation over ranks."""
    deviations: dict[tuple[int, str, int], list[float]] = {}
    group, first = group_keys(stream, step, name)
    for number, row in enumerate(first.tolist()):
        values = length[group == number]
        if len(values) > 1:
            key = int(stream[row]), names[int(name[row])], int(name[row])
            deviations.setdefault(key, []).append(float(np.std(values, ddof=1)))
    if not deviations:
        raise HtaFailure("ValueError", "Encountered all NA values")
    best = max(sorted(deviations), key=lambda key: float(np.mean(deviations[key])))
    return best[0], best[2]
