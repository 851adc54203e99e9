"""Which rank the others wait for: who comes last to collectives, and how long that holds up the rest.

A collective ends at about the same time on all its ranks, so the rank that runs it for the shortest time came last.
That needs no common clock: only durations are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chakrasim.analysis.compare import short_name
from chakrasim.analysis.kernel_classes import COMMUNICATION
from chakrasim.analysis.result import Ints, Reals, Result, percentage, texts
from chakrasim.analysis.statistics import group_keys
from chakrasim.analysis.traces import RankTrace, Traces, open_traces


@dataclass(frozen=True, eq=False)
class Stragglers(Result):
    """One row for each rank, the one that held up the others longest first.

    ``collectives``: kernels matched with those of other ranks (the k-th of a group and a name with the k-th).
    ``last``: how often the rank came last; ``caused_ns``: how long the others together waited for it then;
    ``waited_ns``: how long it waited for others; ``waited_pct``: of its time in these kernels.
    """

    TITLE: ClassVar[str] = "Who holds up the others"
    rank: Ints
    collectives: Ints
    last: Ints
    caused_ns: Ints
    waited_ns: Ints
    waited_pct: Reals


def find_stragglers(traces: Traces, *, steps: list[int] | None = None) -> Stragglers:
    """Who is late to collectives, over all steps or those named. Raises InputError."""
    notes: list[str] = []
    ranks = open_traces(traces, notes=notes)
    if len(ranks) < 2:
        notes.append("one rank alone: nobody to compare it with")
    codes: dict[str, int] = {}
    calls = [_calls(one, index, steps, codes) for index, one in enumerate(ranks)]
    rank, key, place, length = (np.concatenate([call[i] for call in calls]) for i in range(4))
    group, first = group_keys(key, place)
    members = np.bincount(group, minlength=len(first))
    several = members[group] > 1
    lonely = int((~several).sum())
    if lonely and len(ranks) > 1:
        notes.append(f"{lonely:,} communication kernels have no counterpart on another rank and were left out")
    rank, length, group = rank[several], length[several], group[several]
    size = len(first)
    shortest = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(shortest, group, length)
    wait = length - shortest[group]
    order = np.lexsort((rank, length, group))
    latest = order[np.append(True, group[order][1:] != group[order][:-1])[: len(order)]]
    caused = np.zeros(size, np.int64)
    np.add.at(caused, group, wait)
    many = len(ranks)
    waited, spent = _sums(rank, wait, many), _sums(rank, length, many)
    made = _sums(rank[latest], caused[group[latest]], many)
    worst = np.argsort(-made, kind="stable")
    return Stragglers.of(
        notes,
        rank=np.array([one.rank for one in ranks], np.int64)[worst],
        collectives=np.bincount(rank, minlength=many)[worst],
        last=np.bincount(rank[latest], minlength=many)[worst],
        caused_ns=made[worst],
        waited_ns=waited[worst],
        waited_pct=percentage(waited, spent)[worst],
    )


def _sums(where: Ints, values: Ints, size: int) -> Ints:
    result = np.zeros(size, np.int64)
    np.add.at(result, where, values)
    return result


def _calls(one: RankTrace, index: int, steps: list[int] | None, codes: dict[str, int]) -> tuple[Ints, ...]:
    """Rank index, code of group and name, place among the calls of that code, and length of each collective."""
    work, kineto = one.work, one.kineto
    at = np.flatnonzero(work.kind == COMMUNICATION)
    if steps is not None:
        number = np.append(work.steps.number, -1)[work.step[at]]
        at = at[np.isin(number, steps)]
    rows = work.row[at]
    labels = [
        texts(kineto.strings, _text_column(one, name)[rows]) for name in ("Process Group Name", "Process Group Ranks")
    ]
    names = [short_name(name) for name in work.names(rows)]
    # NCCL's names carry algorithm and protocol, which may differ between ranks; what it does comes first.
    keys = [
        "|".join((group, ranks, "_".join(name.split("_")[:2])))
        for group, ranks, name in zip(*labels, names, strict=True)
    ]
    key = np.array([codes.setdefault(text, len(codes)) for text in keys], np.int64)
    order = np.argsort(key, kind="stable")
    place = np.empty(len(key), np.int64)
    ordered = key[order]
    place[order] = np.arange(len(key)) - np.searchsorted(ordered, ordered, "left")
    return np.full(len(key), index), key, place, work.end_ns[at] - work.start_ns[at]


def _text_column(one: RankTrace, name: str) -> Ints:
    return one.kineto.rare_column(name).texts(len(one.kineto)).astype(np.int64)
